//! Signs the tokens of service sessions with ES256 (RFC 7518 section 3.4), which costs a fraction
//! of a signature with RSA.
//!
//! The key is derived from the key of the server (HKDF, RFC 5869), so that nothing more is stored:
//! it survives restarts, is in every snapshot, and changes with the server's key. Routers receive
//! its public half over their control channels.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, Header};
use p256::ecdsa::SigningKey;
use ring::{
    hkdf::{HKDF_SHA256, Salt},
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use serde::Serialize;
use zeroize::Zeroizing;

use super::{Error, PrivateKey, PublicKey, Result, certificate::hash};

const PURPOSE: &[u8] = b"overkeep tokens of sessions ES256";
/// A number of 32 bytes is a key unless it is 0 or greater than the order of the curve, about one
/// of 2^32.
const ATTEMPTS: u8 = 8;

/// The key that signs the tokens of service sessions.
pub struct SessionSigner {
    pair: EcdsaKeyPair,
    public: PublicKey,
    kid: String,
    /// The header of every token, encoded.
    header: String,
}

impl SessionSigner {
    /// The signer of the controller with this server key.
    ///
    /// # Errors
    /// [`Error::Internal`].
    pub(super) fn of(server: &PrivateKey) -> Result<Self> {
        let secret = Salt::new(HKDF_SHA256, PURPOSE).extract(server.pkcs8());
        let attempt = |number: u8| {
            let mut bytes = Zeroizing::new([0; 32]);
            secret
                .expand(&[PURPOSE, &[number]], HKDF_SHA256)
                .and_then(|made| made.fill(bytes.as_mut_slice()))
                .ok()?;
            let key = SigningKey::from_slice(bytes.as_slice()).ok()?;
            Some((bytes, key.verifying_key().to_sec1_point(false)))
        };
        let failed = || Error::Internal("no key for the tokens of sessions can be derived".into());
        let (bytes, point) = (0..ATTEMPTS).find_map(attempt).ok_or_else(failed)?;
        let (how, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let pair = EcdsaKeyPair::from_private_key_and_public_key(
            how,
            bytes.as_slice(),
            point.as_bytes(),
            &random,
        )
        .map_err(|_| failed())?;
        let public = PublicKey::of_p256(point.as_bytes());
        let kid = hash(public.der());
        let header = encoded(&Header {
            kid: Some(kid.clone()),
            ..Header::new(Algorithm::ES256)
        })?;
        Ok(Self {
            pair,
            public,
            kid,
            header,
        })
    }

    /// The public half.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The key id: SHA-1 of the public half, as key ids of certificates are SHA-1 of them.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The compact form of a token with these claims.
    ///
    /// # Errors
    /// [`Error::Internal`] if the claims cannot be written as JSON, or if there is no randomness.
    pub fn sign(&self, claims: &impl Serialize) -> Result<String> {
        let mut token = format!("{}.{}", self.header, encoded(claims)?);
        let made = self
            .pair
            .sign(&SystemRandom::new(), token.as_bytes())
            .map_err(|_| Error::Internal("no randomness".into()))?;
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(made.as_ref(), &mut token);
        Ok(token)
    }
}

fn encoded(part: &impl Serialize) -> Result<String> {
    let json = serde_json::to_vec(part).map_err(|error| Error::Internal(error.to_string()))?;
    Ok(URL_SAFE_NO_PAD.encode(json))
}

impl fmt::Debug for SessionSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionSigner({})", self.kid)
    }
}
