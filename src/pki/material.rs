//! What a controller owns: its authorities and its server certificate, as texts to be stored, and how they come into being.

use super::name::hex;
use super::validity::{date, serial};
use super::{AlternativeNames, Authority, Certificate, Error, KeyKind, PrivateKey, Result, Validity};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, Issuer, KeyUsagePurpose};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use std::fmt;
use zeroize::Zeroizing;

const ROOT_YEARS: u16 = 30;
const INTERMEDIATE_YEARS: u16 = 10;
const SERVER_YEARS: u16 = 1;
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
    /// Everything new, for the first start. `hosts` are the names and addresses under which clients will reach the server.
    ///
    /// # Errors
    /// [`Error::BadName`] without any host, or for a host name that is not ASCII.
    pub fn generate(hosts: &AlternativeNames, now: i64) -> Result<Self> {
        let root = params("Root", BasicConstraints::Unconstrained, Validity::years(ROOT_YEARS, now))?;
        let root = CertifiedIssuer::self_signed(root, PrivateKey::generate(KeyKind::P384)?)?;
        let root = Credential { certificate: root.pem(), key: root.key().to_pem() };
        let intermediate = intermediate(&root, now)?;
        let server = Credential { certificate: String::new(), key: PrivateKey::generate(KeyKind::Rsa)?.to_pem() };
        let made = Self { root, intermediate, retired: Vec::new(), shown: Vec::new(), server };
        made.with_leaf(hosts, Validity::years(SERVER_YEARS, now))
    }

    /// What is to take the place of this, because a certificate has lived two thirds of its life, or because the server's does not name
    /// all of `hosts`; nothing if all is well. Whatever is issued after a new intermediate hangs under it, the server's leaf first.
    /// The server keeps its key: clients verify enrollment tokens with whatever leaf is shown.
    ///
    /// # Errors
    /// As [`Authority::open`] and [`Authority::issue_own`].
    pub fn due(&self, hosts: &AlternativeNames, now: i64) -> Result<Option<Self>> {
        let root = Certificate::only(&self.root.certificate)?;
        if now < root.not_before() {
            // then the clock is wrong, and what would be issued by it nobody else could use
            return Ok(None);
        }
        let signing = Certificate::only(&self.intermediate.certificate)?;
        let rolled = is_due(&signing, Validity::years(INTERMEDIATE_YEARS, now).within(&root), now);
        let next = if rolled { self.with_intermediate(now)? } else { self.clone() };
        let leaf = Certificate::only(&self.server.certificate)?;
        let mut life = Validity::years(SERVER_YEARS, now);
        if leaf.not_before() > now {
            // the clock was put back: if that was wrong, the next leaf has to be as good as this one was
            life.not_after = life.not_after.max(leaf.not_after());
        }
        let signing = Certificate::only(&next.intermediate.certificate)?;
        let due = rolled || is_due(&leaf, life.within(&signing), now) || !leaf.names().cover(hosts);
        if due { next.with_leaf(hosts, life).map(Some) } else { Ok(None) }
    }

    /// The same with another key for the server, whose names stay. Enrollment tokens that were signed with the one before are worth nothing.
    ///
    /// # Errors
    /// As [`Authority::open`] and [`Authority::issue_own`].
    pub fn with_server_key(&self, now: i64) -> Result<Self> {
        let names = Certificate::only(&self.server.certificate)?.names().clone();
        let key = PrivateKey::generate(KeyKind::Rsa)?.to_pem();
        let next = Self { server: Credential { key, ..self.server.clone() }, ..self.clone() };
        next.with_leaf(&names, Validity::years(SERVER_YEARS, now))
    }

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

    fn with_intermediate(&self, now: i64) -> Result<Self> {
        let before = std::iter::once(&self.intermediate.certificate);
        let retired = before.chain(&self.retired).cloned().collect();
        Ok(Self { intermediate: intermediate(&self.root, now)?, retired, ..self.clone() })
    }

    /// The same with a new leaf for the server's key.
    fn with_leaf(self, hosts: &AlternativeNames, validity: Validity) -> Result<Self> {
        let key = PrivateKey::from_pem(&self.server.key)?;
        let server = Authority::open(&self)?.issue_own(&key, hosts, validity)?.store();
        Ok(Self { server, ..self })
    }
}

/// Whether `next` is to take the place of a certificate, which has lived two thirds of its life, or does not live yet by this clock.
/// Close to the end of what signs it, no other could end later: then it stays.
fn is_due(certificate: &Certificate, next: Validity, now: i64) -> bool {
    let (life, lived) = (certificate.not_after() - certificate.not_before(), now - certificate.not_before());
    lived < 0 || (lived >= life / 3 * 2 && next.not_after > certificate.not_after())
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

/// A new intermediate under a root.
fn intermediate(root: &Credential, now: i64) -> Result<Credential> {
    let root = KeyedCertificate::open(root)?;
    let validity = Validity::years(INTERMEDIATE_YEARS, now).within(&root.certificate);
    let mut params = params("Intermediate", BasicConstraints::Constrained(0), validity)?;
    params.use_authority_key_identifier_extension = true;
    let issuer = Issuer::from_ca_cert_der(root.certificate.der(), root.key)?;
    let made = CertifiedIssuer::signed_by(params, PrivateKey::generate(KeyKind::P256)?, &issuer)?;
    Ok(Credential { certificate: made.pem(), key: made.key().to_pem() })
}

/// What an authority says of itself. The mark behind its name tells it from others, of this controller and of all others: where
/// several are trusted, they are found by name.
fn params(role: &str, constraints: BasicConstraints, validity: Validity) -> Result<CertificateParams> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, format!("Overkeep {role} {}", mark()?));
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
