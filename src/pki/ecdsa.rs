//! ECDSA with SHA-512 on P-256 and P-384 (FIPS 186-5): the one combination that clients use in requests and ring does
//! not verify. The curves come from RustCrypto.

use ring::digest;

use super::{Error, KeyKind, PublicKey, Result};

/// The first byte of an uncompressed point (SEC 1 section 2.3.3). Other forms are not accepted, as elsewhere.
const UNCOMPRESSED: u8 = 0x04;

/// Verifies `signature` (the DER sequence of r and s) over the SHA-512 hash of `message`.
///
/// # Errors
/// [`Error::Unsupported`] for other kinds of keys, [`Error::BadSignature`].
pub(super) fn verify_sha512(key: &PublicKey, message: &[u8], signature: &[u8]) -> Result<()> {
    let (kind, point) = (key.kind()?, key.parts()?.1);
    let hash = digest::digest(&digest::SHA512, message);
    let verified = match kind {
        KeyKind::P256 => p256_verifies(point, hash.as_ref(), signature),
        KeyKind::P384 => p384_verifies(point, hash.as_ref(), signature),
        KeyKind::Rsa | KeyKind::Ed25519 => return Err(Error::Unsupported("signature algorithm")),
    };
    verified.filter(|()| point.first() == Some(&UNCOMPRESSED)).ok_or(Error::BadSignature)
}

fn p256_verifies(point: &[u8], hash: &[u8], signature: &[u8]) -> Option<()> {
    use p256::ecdsa::{Signature, VerifyingKey, signature::hazmat::PrehashVerifier};
    let (key, signature) = (VerifyingKey::from_sec1_bytes(point).ok()?, Signature::from_der(signature).ok()?);
    key.verify_prehash(hash, &signature).ok()
}

fn p384_verifies(point: &[u8], hash: &[u8], signature: &[u8]) -> Option<()> {
    use p384::ecdsa::{Signature, VerifyingKey, signature::hazmat::PrehashVerifier};
    let (key, signature) = (VerifyingKey::from_sec1_bytes(point).ok()?, Signature::from_der(signature).ok()?);
    key.verify_prehash(hash, &signature).ok()
}
