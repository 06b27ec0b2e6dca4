//! What a controller owns: its authorities and its server certificate, as texts to be stored. How they are made: `renewal.rs`.

use super::{Certificate, Error, PrivateKey, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use zeroize::Zeroizing;

/// More leaves that were shown are not kept.
const MOST_SHOWN: usize = 50;

/// A certificate and its private key as they are stored: one PEM block each. The key is a secret.
#[derive(Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct Credential {
    /// One `CERTIFICATE` block.
    pub certificate: String,
    /// One `PRIVATE KEY` block, PKCS#8 without a password. Wiped from memory when it is dropped.
    pub key: Zeroizing<String>,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(..)")
    }
}

/// Everything a controller has to keep to stay itself. Losing the intermediate's key orphans every client.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct Material {
    /// Signs intermediates only; P-384, 30 years.
    pub root: Credential,
    /// Signs everything else, no authorities; P-256, 10 years.
    pub intermediate: Credential,
    /// The certificates of intermediates that signed before, newest first, one PEM block each. Their keys are gone. What they issued is
    /// good until they end; they stay here for longer, because the clock that says so may be wrong.
    #[serde(default)]
    pub retired: Vec<String>,
    /// The leaves that listeners showed, whoever issued them, newest first, one PEM block each: tokens that were signed before a renewal
    /// name the leaf of then.
    #[serde(default)]
    pub shown: Vec<String>,
    /// The leaf of the listeners, which also signs enrollment tokens; RSA of 2048 bits, because clients in use verify these with RS256 only; one year.
    pub server: Credential,
}

impl Material {
    /// The same with a leaf noted as the one that is shown; nothing if it is noted.
    pub fn noting(&self, leaf: &Certificate) -> Option<Self> {
        let leaf = leaf.pem();
        if self.shown.first() == Some(&leaf) {
            return None;
        }
        let others = self.shown.iter().filter(|other| **other != leaf).cloned();
        let shown = std::iter::once(leaf.clone()).chain(others).take(MOST_SHOWN).collect();
        Some(Self { shown, ..self.clone() })
    }
}

/// A certificate together with the private key that fits it.
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
        if *certificate.public_key() == key.public() { Ok(Self { certificate, key }) } else { Err(Error::KeyMismatch) }
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// [`Error::KeyMismatch`], and what [`Certificate::only`] and [`PrivateKey::from_pem`] find.
    pub fn open(stored: &Credential) -> Result<Self> {
        Self::new(Certificate::only(&stored.certificate)?, PrivateKey::from_pem(&stored.key)?)
    }

    /// The form to be stored. Contains the secret.
    pub fn store(&self) -> Credential {
        Credential { certificate: self.certificate.pem(), key: self.key.to_pem() }
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
