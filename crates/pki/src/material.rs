//! What a controller owns: its authorities and its server certificate, as texts to be stored. How
//! they are made: `renewal.rs`.

use super::{Certificate, Error, PrivateKey, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use zeroize::Zeroizing;

/// The greatest number of served leaves kept.
const MAX_SHOWN: usize = 50;

/// A certificate and its private key as stored: one PEM block each. The key is secret.
#[derive(Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct CertificateAndKey {
    /// One `CERTIFICATE` block.
    pub certificate: String,
    /// One `PRIVATE KEY` block, PKCS#8 without a password. Wiped from memory when it is dropped.
    pub key: Zeroizing<String>,
}

impl fmt::Debug for CertificateAndKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(..)")
    }
}

/// All keys and certificates of a controller. Without the intermediate's key, every client has to
/// enroll again.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct Material {
    /// Signs only intermediates; P-384, 30 years. That of an adopted authority (`adoption.rs`) has
    /// an empty key.
    pub root: CertificateAndKey,
    /// Signs leaves only; P-256, 10 years. Its signer may be the root or an adopted authority below
    /// the root.
    pub intermediate: CertificateAndKey,
    /// The certificates of retired intermediates, newest first, one PEM block each. Their keys are
    /// deleted. What they issued is valid until they expire; they are kept longer, because the
    /// clock may be wrong.
    #[serde(default)]
    pub retired: Vec<String>,
    /// Further authorities that clients and this controller trust, since another controller's
    /// authority was adopted, one PEM block each.
    #[serde(default)]
    pub adopted: Vec<String>,
    /// The leaves that listeners served, from any issuer, newest first, one PEM block each: tokens
    /// signed before a renewal name an earlier leaf.
    #[serde(default)]
    pub shown: Vec<String>,
    /// The leaf of the listeners, whose key also signs enrollment tokens; RSA with 2048 bits,
    /// because clients in use verify only RS256; one year.
    pub server: CertificateAndKey,
}

impl Material {
    /// The material with this leaf recorded as served; `None` if it is recorded already.
    pub(crate) fn noting(&self, leaf: &Certificate) -> Option<Self> {
        let leaf = leaf.pem();
        if self.shown.first() == Some(&leaf) {
            return None;
        }
        let others = self.shown.iter().filter(|other| **other != leaf).cloned();
        let shown = std::iter::once(leaf.clone())
            .chain(others)
            .take(MAX_SHOWN)
            .collect();
        Some(Self {
            shown,
            ..self.clone()
        })
    }
}

/// A certificate and its private key.
#[derive(Debug, Clone)]
pub struct KeyedCertificate {
    pub(super) certificate: Certificate,
    pub(super) key: PrivateKey,
}

impl KeyedCertificate {
    /// Joins a certificate and its key.
    ///
    /// # Errors
    /// [`Error::KeyMismatch`].
    pub fn new(certificate: Certificate, key: PrivateKey) -> Result<Self> {
        if *certificate.public_key() == key.public() {
            Ok(Self { certificate, key })
        } else {
            Err(Error::KeyMismatch)
        }
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// [`Error::KeyMismatch`], and the errors of [`Certificate::only`] and
    /// [`PrivateKey::from_pem`].
    pub fn open(stored: &CertificateAndKey) -> Result<Self> {
        Self::new(
            Certificate::only(&stored.certificate)?,
            PrivateKey::from_pem(&stored.key)?,
        )
    }

    /// The form to be stored. Contains the secret.
    pub fn store(&self) -> CertificateAndKey {
        CertificateAndKey {
            certificate: self.certificate.pem(),
            key: self.key.to_pem(),
        }
    }

    /// The certificate.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The key.
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }
}
