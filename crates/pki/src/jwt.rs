//! JSON Web Tokens (RFC 7519) with ring: signed with a certificate's key, verified with a public
//! key. HMAC is not supported, so that a public key can never be used as a shared secret.
//!
//! Call [`install`] once before anything else in this file, or in `jsonwebtoken`, is used.

use super::{
    Certificate, Error, KeyKind, KeyedCertificate, PublicJwk, PublicKey, Result, jwt_provider,
};
use jsonwebtoken::dangerous::insecure_decode;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{
    Serialize,
    de::{DeserializeOwned, IgnoredAny},
};
use std::fmt;

/// Makes ring the crypto provider of `jsonwebtoken` in this process. Further calls have no effect.
pub fn install() {
    // An error means that a provider is installed already.
    let _ = jwt_provider::RING.install_default();
}

/// Signs tokens with the key of a certificate and names the certificate in `kid`.
#[derive(Clone)]
pub struct Signer {
    header: Header,
    key: EncodingKey,
    /// The public key under the current certificate, and under former certificates of the same key.
    public: PublicJwk,
    former: Vec<PublicJwk>,
    verifier: Verifier,
}

impl Signer {
    /// A signer with the algorithm of the key: RS256, ES256 or ES384. The key id is the
    /// certificate's fingerprint.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for Ed25519, which clients do not verify.
    pub fn new(signing: &KeyedCertificate) -> Result<Self> {
        let pkcs8 = signing.key().pkcs8();
        let (algorithm, key) = match signing.certificate().public_key().kind()? {
            KeyKind::Rsa => (Algorithm::RS256, EncodingKey::from_rsa_der(pkcs8)),
            KeyKind::P256 => (Algorithm::ES256, EncodingKey::from_ec_der(pkcs8)),
            KeyKind::P384 => (Algorithm::ES384, EncodingKey::from_ec_der(pkcs8)),
            KeyKind::Ed25519 => {
                return Err(Error::Unsupported("tokens signed with Ed25519".into()));
            }
        };
        let mut header = Header::new(algorithm);
        header.kid = Some(signing.certificate().fingerprint());
        let public = PublicJwk::of(signing.certificate(), &format!("{algorithm:?}"))?;
        let verifier = Verifier::new(signing.certificate().public_key())?;
        Ok(Self {
            header,
            key,
            public,
            former: Vec::new(),
            verifier,
        })
    }

    /// The same signer, also known by those of `others` that are certificates of the same key.
    ///
    /// # Errors
    /// [`Error::BadDer`].
    pub(crate) fn also_known_by(
        self,
        signing: &Certificate,
        others: &[Certificate],
    ) -> Result<Self> {
        let former = others
            .iter()
            .filter(|other| other.public_key() == signing.public_key() && *other != signing);
        let former = former
            .map(|other| PublicJwk::of(other, &self.public.alg))
            .collect::<Result<_>>()?;
        Ok(Self { former, ..self })
    }

    /// The public key under each of its key ids, the current one first.
    pub fn public_keys(&self) -> impl Iterator<Item = &PublicJwk> {
        std::iter::once(&self.public).chain(&self.former)
    }

    /// Whether the key has, or had, this key id.
    pub fn is_known_as(&self, kid: &str) -> bool {
        self.public_keys().any(|key| key.kid == kid)
    }

    /// Whether this key signed a token, under any of its certificates.
    pub fn has_signed(&self, token: &str) -> bool {
        self.verifier.verify::<IgnoredAny>(token).is_ok()
    }

    /// Signs bytes; base64url without padding. A caller that signs foreign input must make sure
    /// that it cannot be a token.
    ///
    /// # Errors
    /// [`Error::Internal`] if the key cannot be used.
    pub fn sign_bytes(&self, message: &[u8]) -> Result<String> {
        jsonwebtoken::crypto::sign(message, &self.key, self.header.alg)
            .map_err(|error| Error::Internal(error.to_string()))
    }

    /// The compact form of a token with these claims.
    ///
    /// # Errors
    /// [`Error::Internal`] if the claims cannot be written as JSON.
    pub fn sign(&self, claims: &impl Serialize) -> Result<String> {
        jsonwebtoken::encode(&self.header, claims, &self.key)
            .map_err(|error| Error::Internal(error.to_string()))
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({:?})", self.header.kid)
    }
}

/// A public key for verifying tokens, and the algorithms allowed with it.
#[derive(Clone)]
pub struct Verifier {
    key: DecodingKey,
    algorithms: Vec<Algorithm>,
}

impl Verifier {
    /// The verifier for tokens signed with the private half of this key.
    ///
    /// # Errors
    /// [`Error::Unsupported`], [`Error::BadDer`].
    pub fn new(key: &PublicKey) -> Result<Self> {
        let (_, bytes) = key.parts()?;
        Ok(match key.kind()? {
            KeyKind::Rsa => Self {
                key: DecodingKey::from_rsa_der(bytes),
                algorithms: jwt_provider::RSA.to_vec(),
            },
            KeyKind::P256 => Self {
                key: DecodingKey::from_ec_der(bytes),
                algorithms: vec![Algorithm::ES256],
            },
            KeyKind::P384 => Self {
                key: DecodingKey::from_ec_der(bytes),
                algorithms: vec![Algorithm::ES384],
            },
            KeyKind::Ed25519 => Self {
                key: DecodingKey::from_ed_der(bytes),
                algorithms: vec![Algorithm::EdDSA],
            },
        })
    }

    /// The verifier for tokens signed with the private half of a key in a key set. Shared secrets
    /// are rejected, because they are not public keys.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub(crate) fn of_jwk(key: &Jwk) -> Result<Self> {
        let unsupported = || Error::Unsupported("this kind of key".into());
        let algorithms: &'static [Algorithm] = match &key.algorithm {
            AlgorithmParameters::RSA(_) => jwt_provider::RSA,
            AlgorithmParameters::EllipticCurve(of) if of.curve == EllipticCurve::P256 => {
                &[Algorithm::ES256]
            }
            AlgorithmParameters::EllipticCurve(of) if of.curve == EllipticCurve::P384 => {
                &[Algorithm::ES384]
            }
            AlgorithmParameters::OctetKeyPair(of) if of.curve == EllipticCurve::Ed25519 => {
                &[Algorithm::EdDSA]
            }
            _ => return Err(unsupported()),
        };
        DecodingKey::from_jwk(key)
            .map(|key| Self {
                key,
                algorithms: algorithms.to_vec(),
            })
            .map_err(|_| unsupported())
    }

    /// The same key, for tokens with this algorithm only.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the algorithm does not fit the kind of key.
    pub fn only(self, algorithm: Algorithm) -> Result<Self> {
        let fits = self.algorithms.contains(&algorithm);
        if fits {
            Ok(Self {
                algorithms: vec![algorithm],
                ..self
            })
        } else {
            Err(Error::Unsupported("its alg with this kind of key".into()))
        }
    }

    /// Verifies the signature and reads the claims, **nothing else**: the caller must check expiry,
    /// issuer and audience with its own clock.
    ///
    /// # Errors
    /// [`Error::Token`].
    pub fn verify<C: DeserializeOwned>(&self, token: &str) -> Result<C> {
        let mut rules = Validation {
            validate_exp: false,
            validate_aud: false,
            ..Validation::default()
        };
        rules.algorithms.clone_from(&self.algorithms);
        rules.required_spec_claims.clear();
        jsonwebtoken::decode(token, &self.key, &rules)
            .map(|token| token.claims)
            .map_err(|error| Error::Token(error.to_string()))
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifier({:?})", self.algorithms)
    }
}

/// What a token claims, unverified.
///
/// # Errors
/// [`Error::Token`].
pub fn claims_of<C: DeserializeOwned>(token: &str) -> Result<C> {
    insecure_decode(token)
        .map(|read| read.claims)
        .map_err(|error| Error::Token(error.to_string()))
}

/// The id that a token claims, unverified; `None` for anything that is not a token with an id.
pub fn claimed_id(token: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Named {
        jti: String,
    }
    insecure_decode::<Named>(token)
        .ok()
        .map(|read| read.claims.jti)
}

/// The nonce that an id token claims, unverified (OpenID Connect Core 1.0, section 2).
pub fn claimed_nonce(token: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Bound {
        nonce: String,
    }
    insecure_decode::<Bound>(token)
        .ok()
        .map(|read| read.claims.nonce)
}

/// Unverified claims of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The id of the key that signed it.
    pub key: String,
    /// The issuer.
    pub issuer: String,
}

impl Claimed {
    /// Reads what is needed to find the key. A token without key id or issuer is rejected.
    ///
    /// # Errors
    /// [`Error::Token`].
    pub fn read(token: &str) -> Result<Self> {
        #[derive(serde::Deserialize)]
        struct Issuer {
            iss: String,
        }
        let read =
            insecure_decode::<Issuer>(token).map_err(|error| Error::Token(error.to_string()))?;
        // RFC 7515 section 4.1.11: no critical extension is supported.
        if read.header.crit.is_some() {
            return Err(Error::Token("a critical extension".into()));
        }
        let key = read
            .header
            .kid
            .ok_or_else(|| Error::Token("no key id".into()))?;
        Ok(Self {
            key,
            issuer: read.claims.iss,
        })
    }
}
