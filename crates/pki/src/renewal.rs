//! Making the controller's certificates, and renewing those that are due.

use super::validity::{date, serial};
use super::{
    AlternativeNames, Authority, Certificate, CertificateAndKey, Error, KeyKind, KeyedCertificate,
    Material, PrivateKey, Result, Validity,
};
use data_encoding::HEXLOWER;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, Issuer, KeyUsagePurpose,
};
use ring::rand::{SecureRandom, SystemRandom};

const ROOT_YEARS: u16 = 30;
const INTERMEDIATE_YEARS: u16 = 10;
const SERVER_YEARS: u16 = 1;

impl Material {
    /// New material for the first start. `hosts` are the names and addresses under which clients
    /// reach the server.
    ///
    /// # Errors
    /// [`Error::BadName`] without any host, or for a host name that is not ASCII.
    pub fn generate(hosts: &AlternativeNames, now: i64) -> Result<Self> {
        let root = params(
            "Root",
            BasicConstraints::Unconstrained,
            Validity::years(ROOT_YEARS, now),
        )?;
        let root = CertifiedIssuer::self_signed(root, PrivateKey::generate(KeyKind::P384)?)?;
        let root = CertificateAndKey {
            certificate: root.pem(),
            key: root.key().to_pem(),
        };
        let intermediate = intermediate(&root, now)?;
        let server = CertificateAndKey {
            certificate: String::new(),
            key: PrivateKey::generate(KeyKind::Rsa)?.to_pem(),
        };
        let made = Self {
            root,
            intermediate,
            retired: Vec::new(),
            adopted: Vec::new(),
            shown: Vec::new(),
            server,
        };
        made.with_leaf(hosts, Validity::years(SERVER_YEARS, now))
    }

    /// The material with renewed certificates, if a certificate has reached two thirds of its
    /// lifetime, or the server's does not name all of `hosts`; otherwise `None`. After a new
    /// intermediate it issues everything, first the server's leaf. The server keeps its key,
    /// because clients verify enrollment tokens with the leaf that is served.
    ///
    /// # Errors
    /// As [`Authority::open`] and [`Authority::issue_own`].
    pub fn due(&self, hosts: &AlternativeNames, now: i64) -> Result<Option<Self>> {
        let root = Certificate::only(&self.root.certificate)?;
        if now < root.not_before() {
            // The clock is wrong, and certificates issued with it would not be valid for others.
            return Ok(None);
        }
        let signing = Certificate::only(&self.intermediate.certificate)?;
        let rolled = !self.is_adopted()
            && is_due(
                &signing,
                Validity::years(INTERMEDIATE_YEARS, now).within(&root),
                now,
            );
        let next = if rolled {
            self.with_intermediate(now)?
        } else {
            self.clone()
        };
        let leaf = Certificate::only(&self.server.certificate)?;
        let mut life = Validity::years(SERVER_YEARS, now);
        if leaf.not_before() > now {
            // The clock was set back. In case that was wrong, the next leaf must be valid at least
            // as long as this one.
            life.not_after = life.not_after.max(leaf.not_after());
        }
        let signing = Certificate::only(&next.intermediate.certificate)?;
        let due = rolled || is_due(&leaf, life.within(&signing), now) || !leaf.names().cover(hosts);
        if due {
            next.with_leaf(hosts, life).map(Some)
        } else {
            Ok(None)
        }
    }

    /// The material with a new key for the server, under the same names. Enrollment tokens signed
    /// with the previous key become invalid.
    ///
    /// # Errors
    /// As [`Authority::open`] and [`Authority::issue_own`].
    pub fn with_server_key(&self, now: i64) -> Result<Self> {
        let key = PrivateKey::generate(KeyKind::Rsa)?.to_pem();
        Self {
            server: CertificateAndKey {
                key,
                ..self.server.clone()
            },
            ..self.clone()
        }
        .with_new_leaf(now)
    }

    /// The material with a new leaf for the server's key, under the same names.
    pub(super) fn with_new_leaf(self, now: i64) -> Result<Self> {
        let names = Certificate::only(&self.server.certificate)?.names().clone();
        self.with_leaf(&names, Validity::years(SERVER_YEARS, now))
    }

    fn with_intermediate(&self, now: i64) -> Result<Self> {
        let before = std::iter::once(&self.intermediate.certificate);
        let retired = before.chain(&self.retired).cloned().collect();
        Ok(Self {
            intermediate: intermediate(&self.root, now)?,
            retired,
            ..self.clone()
        })
    }

    /// The material with a new leaf for the server's key.
    fn with_leaf(self, hosts: &AlternativeNames, validity: Validity) -> Result<Self> {
        let key = PrivateKey::from_pem(&self.server.key)?;
        let server = Authority::open(&self)?
            .issue_own(&key, hosts, validity)?
            .store();
        Ok(Self { server, ..self })
    }
}

/// Whether a certificate has to be replaced by one with validity `next`: it has reached two thirds
/// of its lifetime, or is not valid yet. If the new one would not expire later, because its signer
/// expires, the old one stays.
fn is_due(certificate: &Certificate, next: Validity, now: i64) -> bool {
    let (life, lived) = (
        certificate.not_after() - certificate.not_before(),
        now - certificate.not_before(),
    );
    lived < 0 || (lived >= life / 3 * 2 && next.not_after > certificate.not_after())
}

/// A new intermediate under a root.
fn intermediate(root: &CertificateAndKey, now: i64) -> Result<CertificateAndKey> {
    let root = KeyedCertificate::open(root)?;
    let validity = Validity::years(INTERMEDIATE_YEARS, now).within(&root.certificate);
    let mut params = params("Intermediate", BasicConstraints::Constrained(0), validity)?;
    params.use_authority_key_identifier_extension = true;
    let issuer = Issuer::from_ca_cert_der(root.certificate.der(), root.key)?;
    let made = CertifiedIssuer::signed_by(params, PrivateKey::generate(KeyKind::P256)?, &issuer)?;
    Ok(CertificateAndKey {
        certificate: made.pem(),
        key: made.key().to_pem(),
    })
}

/// The parameters of an authority. A random suffix makes its name unique among all controllers,
/// because trusted authorities are found by name.
fn params(
    role: &str,
    constraints: BasicConstraints,
    validity: Validity,
) -> Result<CertificateParams> {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, format!("Overkeep {role} {}", mark()?));
    params.is_ca = IsCa::Ca(constraints);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.serial_number = Some(serial()?);
    params.not_before = date(validity.not_before)?;
    params.not_after = date(validity.not_after)?;
    Ok(params)
}

fn mark() -> Result<String> {
    let mut bytes = [0; 4];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Error::Internal("no randomness".into()))?;
    Ok(HEXLOWER.encode(&bytes))
}
