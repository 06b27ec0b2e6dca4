//! The signatures of `jsonwebtoken`, computed by ring: RFC 7518 section 3 without HMAC and P-521,
//! and RFC 8037.
//!
//! Both factories compare the family of the key with that of the algorithm; otherwise a token could
//! choose how a key is used.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind, Result};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::rand::SystemRandom;
use ring::signature::{
    self as ring_signature, EcdsaKeyPair, Ed25519KeyPair, RsaKeyPair, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use ring_signature::{RsaEncoding, RsaParameters, VerificationAlgorithm};

/// All algorithms for RSA keys.
pub(super) const RSA: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

pub(super) static RING: CryptoProvider = CryptoProvider {
    signer_factory: signer,
    verifier_factory: verifier,
    // For making key sets from private keys, which is not used here; the placeholders of the crate
    // would panic.
    key_utils: KeyUtils {
        rsa_pub_components_from_private_key: |_| Err(unsupported()),
        rsa_pub_components_from_public_key: |_| Err(unsupported()),
        ec_pub_components_from_private_key: |_, _| Err(unsupported()),
        ed_pub_components_from_private_key: |_, _| Err(unsupported()),
        compute_digest: |_, _| Err(unsupported()),
    },
};

fn unsupported() -> Error {
    ErrorKind::InvalidAlgorithm.into()
}

enum Key {
    Ecdsa(EcdsaKeyPair),
    Rsa(RsaKeyPair, &'static dyn RsaEncoding),
    Ed25519(Ed25519KeyPair),
}

struct RingSigner(Algorithm, Key);

fn signer(algorithm: &Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    if key.family() != algorithm.family() {
        return Err(unsupported());
    }
    let bytes = key.as_bytes();
    let ecdsa = |how| {
        EcdsaKeyPair::from_pkcs8(how, bytes, &SystemRandom::new())
            .map(Key::Ecdsa)
            .map_err(|_| ErrorKind::InvalidEcdsaKey)
    };
    // Our keys are PKCS#8; the crate converts PEM texts to PKCS#1.
    let rsa = |how| match RsaKeyPair::from_pkcs8(bytes).or_else(|_| RsaKeyPair::from_der(bytes)) {
        Ok(key) => Ok(Key::Rsa(key, how)),
        Err(rejected) => Err(ErrorKind::InvalidRsaKey(rejected.to_string())),
    };
    let key = match algorithm {
        Algorithm::ES256 => ecdsa(&ring_signature::ECDSA_P256_SHA256_FIXED_SIGNING)?,
        Algorithm::ES384 => ecdsa(&ring_signature::ECDSA_P384_SHA384_FIXED_SIGNING)?,
        Algorithm::RS256 => rsa(&ring_signature::RSA_PKCS1_SHA256)?,
        Algorithm::RS384 => rsa(&ring_signature::RSA_PKCS1_SHA384)?,
        Algorithm::RS512 => rsa(&ring_signature::RSA_PKCS1_SHA512)?,
        Algorithm::PS256 => rsa(&ring_signature::RSA_PSS_SHA256)?,
        Algorithm::PS384 => rsa(&ring_signature::RSA_PSS_SHA384)?,
        Algorithm::PS512 => rsa(&ring_signature::RSA_PSS_SHA512)?,
        Algorithm::EdDSA => Key::Ed25519(
            Ed25519KeyPair::from_pkcs8_maybe_unchecked(bytes)
                .map_err(|_| ErrorKind::InvalidEddsaKey)?,
        ),
        _ => return Err(unsupported()),
    };
    Ok(Box::new(RingSigner(*algorithm, key)))
}

impl JwtSigner for RingSigner {
    fn algorithm(&self) -> Algorithm {
        self.0
    }
}

impl signature::Signer<Vec<u8>> for RingSigner {
    fn try_sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, signature::Error> {
        let random = SystemRandom::new();
        match &self.1 {
            Key::Ed25519(key) => Ok(key.sign(message).as_ref().to_vec()),
            Key::Ecdsa(key) => key
                .sign(&random, message)
                .map(|made| made.as_ref().to_vec())
                .map_err(|_| signature::Error::new()),
            Key::Rsa(key, how) => {
                let mut made = vec![0; key.public().modulus_len()];
                key.sign(*how, &random, message, &mut made)
                    .map_err(|_| signature::Error::new())?;
                Ok(made)
            }
        }
    }
}

struct RingVerifier(Algorithm, DecodingKey);

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    if key.family() != algorithm.family() || parameters(*algorithm).is_none() {
        return Err(unsupported());
    }
    Ok(Box::new(RingVerifier(*algorithm, key.clone())))
}

/// ring's algorithm, and for RSA the same in the type that takes modulus and exponent.
type Parameters = (
    &'static dyn VerificationAlgorithm,
    Option<&'static RsaParameters>,
);

fn parameters(algorithm: Algorithm) -> Option<Parameters> {
    let rsa = |how: &'static RsaParameters| -> Option<Parameters> { Some((how, Some(how))) };
    match algorithm {
        Algorithm::ES256 => Some((&ring_signature::ECDSA_P256_SHA256_FIXED, None)),
        Algorithm::ES384 => Some((&ring_signature::ECDSA_P384_SHA384_FIXED, None)),
        Algorithm::EdDSA => Some((&ring_signature::ED25519, None)),
        Algorithm::RS256 => rsa(&ring_signature::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => rsa(&ring_signature::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => rsa(&ring_signature::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => rsa(&ring_signature::RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => rsa(&ring_signature::RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => rsa(&ring_signature::RSA_PSS_2048_8192_SHA512),
        _ => None,
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.0
    }
}

impl signature::Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], made: &Vec<u8>) -> std::result::Result<(), signature::Error> {
        let verified = match (self.1.kind(), parameters(self.0)) {
            (DecodingKeyKind::SecretOrDer(key), Some((how, _))) => {
                UnparsedPublicKey::new(how, key).verify(message, made)
            }
            (DecodingKeyKind::RsaModulusExponent { n, e }, Some((_, Some(how)))) => {
                RsaPublicKeyComponents { n, e }.verify(how, message, made)
            }
            _ => return Err(signature::Error::new()),
        };
        verified.map_err(|_| signature::Error::new())
    }
}
