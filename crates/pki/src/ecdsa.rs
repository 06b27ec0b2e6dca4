//! ECDSA with SHA-512 on P-256 and P-384 (FIPS 186-5): the combinations that certificates and
//! requests in use have and ring does not verify. The curves come from RustCrypto.

use ring::digest;
use rustls::pki_types::{
    AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm, alg_id,
};

/// The first byte of an uncompressed point (SEC 1 section 2.3.3). Other forms are not accepted, as
/// elsewhere.
const UNCOMPRESSED: u8 = 0x04;

/// Verifies a signature: the point of the key, the hash, and the signature.
type Verify = fn(&[u8], &[u8], &[u8]) -> Option<()>;

/// Verifies signatures (the DER sequence of r and s) over the SHA-512 hash of a message.
#[derive(Debug)]
pub(super) struct EcdsaSha512 {
    curve: AlgorithmIdentifier,
    verifies: Verify,
}

pub(super) static P256: EcdsaSha512 = EcdsaSha512 {
    curve: alg_id::ECDSA_P256,
    verifies: p256_verifies,
};
pub(super) static P384: EcdsaSha512 = EcdsaSha512 {
    curve: alg_id::ECDSA_P384,
    verifies: p384_verifies,
};

impl SignatureVerificationAlgorithm for EcdsaSha512 {
    fn verify_signature(
        &self,
        point: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let hash = digest::digest(&digest::SHA512, message);
        let verified = (self.verifies)(point, hash.as_ref(), signature);
        verified
            .filter(|()| point.first() == Some(&UNCOMPRESSED))
            .ok_or(InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.curve
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ECDSA_SHA512
    }
}

fn p256_verifies(point: &[u8], hash: &[u8], signature: &[u8]) -> Option<()> {
    use p256::ecdsa::{Signature, VerifyingKey, signature::hazmat::PrehashVerifier};
    let (key, signature) = (
        VerifyingKey::from_sec1_bytes(point).ok()?,
        Signature::from_der(signature).ok()?,
    );
    key.verify_prehash(hash, &signature).ok()
}

fn p384_verifies(point: &[u8], hash: &[u8], signature: &[u8]) -> Option<()> {
    use p384::ecdsa::{Signature, VerifyingKey, signature::hazmat::PrehashVerifier};
    let (key, signature) = (
        VerifyingKey::from_sec1_bytes(point).ok()?,
        Signature::from_der(signature).ok()?,
    );
    key.verify_prehash(hash, &signature).ok()
}
