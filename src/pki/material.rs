//! What a controller owns: its authorities and its server certificate, as texts to be stored, and how they come into being.

use super::authority::{date, serial};
use super::name::hex;
use super::{AlternativeNames, Authority, Certificate, Error, KeyKind, PrivateKey, Result, Validity};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyUsagePurpose};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use std::fmt;

const ROOT_YEARS: u16 = 30;
const INTERMEDIATE_YEARS: u16 = 10;
const SERVER_YEARS: u16 = 1;

/// A certificate and its private key as they are stored: one PEM block each. The key is a secret.
#[derive(Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct Credential {
    /// One `CERTIFICATE` block.
    pub certificate: String,
    /// One `PRIVATE KEY` block, PKCS#8 without a password.
    pub key: String,
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
    /// The leaf of the listeners, which also signs enrollment tokens; RSA of 2048 bits, because clients in use verify these with RS256 only; one year.
    pub server: Credential,
}

impl Material {
    /// Everything new, for the first start. `hosts` are the names and addresses under which clients will reach the server.
    ///
    /// # Errors
    /// [`Error::BadName`] without any host, or for a host name that is not ASCII.
    pub fn generate(hosts: &AlternativeNames, now: i64) -> Result<Self> {
        // two controllers in one trust store must not be told apart by their keys alone
        let mark = mark()?;
        let root = params(&format!("Overkeep Root {mark}"), BasicConstraints::Unconstrained, Validity::years(ROOT_YEARS, now))?;
        let root = CertifiedIssuer::self_signed(root, PrivateKey::generate(KeyKind::P384)?)?;
        let intermediate = Validity::years(INTERMEDIATE_YEARS, now);
        let mut intermediate = params(&format!("Overkeep Intermediate {mark}"), BasicConstraints::Constrained(0), intermediate)?;
        intermediate.use_authority_key_identifier_extension = true;
        let intermediate = CertifiedIssuer::signed_by(intermediate, PrivateKey::generate(KeyKind::P256)?, &root)?;
        let nothing = Credential { certificate: String::new(), key: String::new() };
        let mut made = Self { root: stored(&root), intermediate: stored(&intermediate), server: nothing };
        let key = PrivateKey::generate(KeyKind::Rsa)?;
        made.server = Authority::open(&made)?.issue_own(&key, hosts, Validity::years(SERVER_YEARS, now))?.store();
        Ok(made)
    }

    /// The server's leaf anew, for other names or the next year, **with the same key**: enrollment tokens that are already
    /// on their way stay valid.
    ///
    /// # Errors
    /// As [`Authority::open`] and [`Authority::issue_own`].
    pub fn renew_server(&self, hosts: &AlternativeNames, now: i64) -> Result<Credential> {
        let key = PrivateKey::from_pem(&self.server.key)?;
        Ok(Authority::open(self)?.issue_own(&key, hosts, Validity::years(SERVER_YEARS, now))?.store())
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

fn stored(made: &CertifiedIssuer<'_, PrivateKey>) -> Credential {
    Credential { certificate: made.pem(), key: made.key().to_pem() }
}

fn params(name: &str, constraints: BasicConstraints, validity: Validity) -> Result<CertificateParams> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(constraints);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.serial_number = Some(serial()?);
    params.not_before = date(validity.not_before)?;
    params.not_after = date(validity.not_after)?;
    Ok(params)
}

fn mark() -> Result<String> {
    let mut bytes = [0; 4];
    SystemRandom::new().fill(&mut bytes).map_err(|_| Error::Internal("no randomness".into()))?;
    Ok(hex(&bytes))
}
