//! What ends soon, or has ended: certificates and enrollments.
//!
//! Not here: what renews itself (`change/certificates.rs`, the clients' own renewals) and what is deleted when it has ended (`jobs.rs`). Start
//! with [`expiring`]. Invariant: it reads, and changes nothing.

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    clock::Timestamp,
    entity::{Authenticator, Ca, Credential, EdgeRouter, Enrollment, ExternalJwtSigner, Id, Identity, TransitRouter},
    error::Result,
    metrics::{Gauges, KindLabel},
    pki::{Certificate, Keystore},
    store::{Read, Store},
};

/// What ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExpiringKind {
    /// A certificate of this controller.
    ControllerCertificate,
    IdentityCertificate,
    EdgeRouterCertificate,
    TransitRouterCertificate,
    Enrollment,
    Ca,
    ExternalJwtSigner,
}

impl ExpiringKind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::ControllerCertificate,
        Self::IdentityCertificate,
        Self::EdgeRouterCertificate,
        Self::TransitRouterCertificate,
        Self::Enrollment,
        Self::Ca,
        Self::ExternalJwtSigner,
    ];

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ControllerCertificate => "controller-certificate",
            Self::IdentityCertificate => "identity-certificate",
            Self::EdgeRouterCertificate => "edge-router-certificate",
            Self::TransitRouterCertificate => "transit-router-certificate",
            Self::Enrollment => "enrollment",
            Self::Ca => "ca",
            Self::ExternalJwtSigner => "external-jwt-signer",
        }
    }
}

/// Something that ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Expiring {
    /// What it is.
    pub kind: ExpiringKind,
    /// Of the record, or of the identity that has the credential. The role of a certificate of this controller.
    pub id: String,
    /// The name of the record or the identity. Of an enrollment: the id of the identity or router that it is for.
    pub name: String,
    /// When it ends or ended.
    pub ends_at: Timestamp,
}

/// What ends before a time, the first first. A certificate that cannot be read is left out.
///
/// # Errors
/// The store cannot be read.
pub fn expiring(read: &Read<'_>, keystore: &Keystore, before: Timestamp) -> Result<Vec<Expiring>> {
    let mut found = Found { before, list: Vec::new() };
    for (role, certificate) in keystore.certificates() {
        let ends_at = Timestamp::from_seconds(certificate.not_after());
        found.add(ExpiringKind::ControllerCertificate, || Ok((role.to_string(), certificate.subject().to_string())), ends_at)?;
    }
    read.each_readable::<Authenticator>(|record| {
        let Credential::Cert { pem, .. } = &record.spec.credential else { return Ok(()) };
        let name = || named_identity(read, &record.spec.identity_id);
        found.pem(ExpiringKind::IdentityCertificate, name, pem)
    })?;
    read.each_readable::<EdgeRouter>(|record| {
        let pem = record.state.cert_pem.clone().unwrap_or_default();
        found.pem(ExpiringKind::EdgeRouterCertificate, || Ok((record.id.to_string(), record.spec.name.clone())), &pem)
    })?;
    read.each_readable::<TransitRouter>(|record| {
        let pem = record.state.cert_pem.clone().unwrap_or_default();
        found.pem(ExpiringKind::TransitRouterCertificate, || Ok((record.id.to_string(), record.spec.name.clone())), &pem)
    })?;
    read.each_readable::<Enrollment>(|record| {
        let name = || Ok((record.id.to_string(), record.spec.subject().to_string()));
        found.add(ExpiringKind::Enrollment, name, record.spec.expires_at)
    })?;
    read.each_readable::<Ca>(|record| {
        found.pem(ExpiringKind::Ca, || Ok((record.id.to_string(), record.spec.name.clone())), &record.spec.cert_pem)
    })?;
    read.each_readable::<ExternalJwtSigner>(|record| {
        let pem = record.spec.cert_pem.clone().unwrap_or_default();
        found.pem(ExpiringKind::ExternalJwtSigner, || Ok((record.id.to_string(), record.spec.name.clone())), &pem)
    })?;
    found.list.sort_by(|one, other| (one.ends_at, one.kind, &one.name).cmp(&(other.ends_at, other.kind, &other.name)));
    Ok(found.list)
}

fn named_identity(read: &Read<'_>, id: &Id<Identity>) -> Result<(String, String)> {
    let name = read.find_readable(id)?.map(|identity| identity.spec.name).unwrap_or_default();
    Ok((id.to_string(), name))
}

/// What was found so far.
struct Found {
    before: Timestamp,
    list: Vec<Expiring>,
}

impl Found {
    /// The first certificate in a text.
    fn pem(&mut self, kind: ExpiringKind, name: impl FnOnce() -> Result<(String, String)>, pem: &str) -> Result<()> {
        match Certificate::first(pem) {
            Ok(certificate) => self.add(kind, name, Timestamp::from_seconds(certificate.not_after())),
            Err(_) => Ok(()),
        }
    }

    fn add(&mut self, kind: ExpiringKind, name: impl FnOnce() -> Result<(String, String)>, ends_at: Timestamp) -> Result<()> {
        if ends_at < self.before {
            let (id, name) = name()?;
            self.list.push(Expiring { kind, id, name, ends_at });
        }
        Ok(())
    }
}

/// How far ahead the log and the metrics look.
const AHEAD: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The time between two looks, and between two lines of the log.
const LOOK: Duration = Duration::from_secs(60 * 60);
const TELL: Duration = Duration::from_secs(24 * 60 * 60);
/// The maximum number of names in a line of the log.
const NAMED: usize = 10;

/// Looks once an hour at what ends soon: sets the gauges, and logs it once a day.
pub struct ExpiryNotice {
    gauges: Gauges,
    looked: Option<Instant>,
    told: Option<Instant>,
}

impl ExpiryNotice {
    /// Sets these gauges.
    pub fn new(gauges: Gauges) -> Self {
        Self { gauges, looked: None, told: None }
    }

    /// Looks if it is time, or `asked`. Enrollments are counted and not logged: most of them end within hours.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn look(&mut self, store: &Store, keystore: &Keystore, now: Timestamp, asked: bool) -> Result<()> {
        let is_due = |last: Option<Instant>, interval| last.is_none_or(|last| last.elapsed() >= interval);
        if !asked && !is_due(self.looked, LOOK) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let found = store.read(|read| expiring(read, keystore, now.plus(AHEAD)))?;
        for kind in ExpiringKind::ALL {
            let count = found.iter().filter(|one| one.kind == kind).count();
            self.gauges.expiring.get_or_create(&KindLabel { kind: kind.as_str() }).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        if !asked && !is_due(self.told, TELL) {
            return Ok(());
        }
        self.told = Some(Instant::now());
        let told: Vec<&Expiring> = found.iter().filter(|one| one.kind != ExpiringKind::Enrollment).collect();
        if !told.is_empty() {
            let named = told.iter().take(NAMED).map(|one| format!("{} {} ({})", one.kind.as_str(), one.name, one.ends_at));
            let first = named.collect::<Vec<_>>().join(", ");
            tracing::warn!(count = told.len(), first, "certificates end within 30 days or have ended: overkeep expiring lists them");
        }
        Ok(())
    }
}
