//! Verification of a signature under a public key, for requests, certificates and the TLS
//! handshake.
//!
//! The algorithms are those of webpki on ring (RSA of 2048 to 8192 bits with SHA-256 or longer,
//! ECDSA on P-256 and P-384 with SHA-256 and SHA-384, Ed25519) and ECDSA with SHA-512. SHA-1, short
//! RSA keys and other curves are rejected because that list lacks them. x509-parser is not used,
//! because it accepts RSA of 1024 bits with SHA-1.

use super::der::{self, SEQUENCE};
use super::{Error, PublicKey, Result, ecdsa, unsupported};
use rustls::pki_types::SignatureVerificationAlgorithm;
use std::sync::LazyLock;

/// The common prefix of the identifiers of ECDSA with SHA-256, SHA-384 and SHA-512 (RFC 5758).
const ECDSA_WITH_SHA2: &[u8] = &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
const NULL: &[u8] = &[0x05, 0x00];

/// The algorithms of signatures in certificates and requests.
pub(super) static ALGORITHMS: LazyLock<Vec<&dyn SignatureVerificationAlgorithm>> =
    LazyLock::new(|| {
        webpki::ALL_VERIFICATION_ALGS
            .iter()
            .copied()
            .chain([&ecdsa::P256 as _, &ecdsa::P384 as _])
            .collect()
    });

impl PublicKey {
    /// Verifies a signature with the first of `candidates` for this kind of key.
    pub(super) fn verify_with<'a>(
        &self,
        candidates: impl IntoIterator<Item = &'a dyn SignatureVerificationAlgorithm>,
        message: &[u8],
        signature: &[u8],
    ) -> Result<()> {
        let (kind, key) = self.parts()?;
        let fitting = candidates
            .into_iter()
            .find(|known| known.public_key_alg_id().as_ref() == kind);
        let unfit = || {
            self.kind().err().unwrap_or(Error::Unsupported(
                "this signature algorithm with this kind of key".into(),
            ))
        };
        let algorithm = fitting.ok_or_else(unfit)?;
        algorithm
            .verify_signature(key, message, signature)
            .map_err(|_| Error::BadSignature)
    }
}

/// The identifier of an ECDSA algorithm without a trailing NULL: RFC 5758 forbids it, but the C
/// library of clients in use writes one.
fn without_null(identifier: &[u8]) -> &[u8] {
    match identifier.strip_suffix(NULL) {
        Some(bare) if bare.starts_with(ECDSA_WITH_SHA2) => bare,
        _ => identifier,
    }
}

/// The three parts of certificates (RFC 5280) and requests (RFC 2986).
pub(super) struct Signed<'a> {
    pub(super) message: &'a [u8],
    pub(super) algorithm: &'a [u8],
    pub(super) signature: &'a [u8],
}

impl<'a> Signed<'a> {
    pub(super) fn read(der: &'a [u8]) -> Result<Self> {
        match der::inside(SEQUENCE, der)?.as_slice() {
            [message, algorithm, bits] => Ok(Self {
                message,
                algorithm,
                signature: der::bits(bits)?,
            }),
            _ => Err(Error::BadDer),
        }
    }

    /// Verifies the signature.
    ///
    /// # Errors
    /// [`Error::Unsupported`] names an unsupported kind of key or algorithm;
    /// [`Error::BadSignature`], [`Error::BadDer`].
    pub(super) fn verify(&self, key: &PublicKey) -> Result<()> {
        key.verify_with(self.candidates()?, self.message, self.signature)
    }

    /// Checks that the algorithm is one that verifies here, or one with which old roots have signed
    /// themselves.
    ///
    /// # Errors
    /// [`Error::Unsupported`], which names it; [`Error::BadDer`].
    pub(super) fn check_algorithm(&self) -> Result<()> {
        if unsupported::is_old_signature(self.algorithm()?) {
            Ok(())
        } else {
            self.candidates().map(drop)
        }
    }

    /// The algorithms with the identifier of the signature, at least one.
    fn candidates(&self) -> Result<Vec<&'static dyn SignatureVerificationAlgorithm>> {
        let wanted = self.algorithm()?;
        let found: Vec<_> = ALGORITHMS
            .iter()
            .copied()
            .filter(|known| known.signature_alg_id().as_ref() == wanted)
            .collect();
        if found.is_empty() {
            Err(unsupported::signature(wanted))
        } else {
            Ok(found)
        }
    }

    /// The content of the algorithm identifier.
    fn algorithm(&self) -> Result<&'a [u8]> {
        Ok(without_null(der::content_of(SEQUENCE, self.algorithm)?))
    }
}
