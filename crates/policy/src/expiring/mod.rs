//! Certificates, enrollments and API tokens that expire soon or have expired, and a scheduled
//! snapshot that is overdue.
//!
//! Not here: what renews itself (`change/certificates.rs`, the clients' own renewals), the deletion
//! of what has expired (`jobs.rs`) and the schedule of snapshots (`maintenance/src/schedule.rs`),
//! which shares the names of its files ([`snapshot_files`]). Start with [`expiring`]. Invariant: it
//! only reads.

pub mod snapshot_files;

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use model::{
    clock::{Clock, Timestamp},
    config::Snapshots,
    entity::{
        ApiToken, Authenticator, Ca, Credential, EdgeRouter, Enrollment, ExternalJwtSigner, Id,
        Identity, TransitRouter,
    },
    error::Result,
    metrics::{Gauges, KindLabel},
};
use parking_lot::Mutex;
use pki::{Certificate, Keystore};
use schemars::JsonSchema;
use serde::Serialize;
use store::{Progress, Read, Store};

use self::snapshot_files::OverdueSnapshot;
pub use self::snapshot_files::overdue;

/// The kind of an expiring thing.
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
    ApiToken,
    /// A scheduled snapshot that is overdue by more than one interval.
    Snapshot,
}

impl ExpiringKind {
    /// All of them.
    pub(crate) const ALL: [Self; 9] = [
        Self::ControllerCertificate,
        Self::IdentityCertificate,
        Self::EdgeRouterCertificate,
        Self::TransitRouterCertificate,
        Self::Enrollment,
        Self::Ca,
        Self::ExternalJwtSigner,
        Self::ApiToken,
        Self::Snapshot,
    ];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ControllerCertificate => "controller-certificate",
            Self::IdentityCertificate => "identity-certificate",
            Self::EdgeRouterCertificate => "edge-router-certificate",
            Self::TransitRouterCertificate => "transit-router-certificate",
            Self::Enrollment => "enrollment",
            Self::Ca => "ca",
            Self::ExternalJwtSigner => "external-jwt-signer",
            Self::ApiToken => "api-token",
            Self::Snapshot => "snapshot",
        }
    }
}

/// A certificate, an enrollment or an API token that expires, or a snapshot that is overdue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Expiring {
    /// What expires.
    pub kind: ExpiringKind,
    /// The id of the record, or of the identity that has the credential. The role of a certificate
    /// of this controller. The path of the newest snapshot, empty if there is none.
    pub(crate) id: String,
    /// The name of the record or the identity. Of an enrollment: the name of the identity or router
    /// that it is for. The directory of snapshots.
    pub name: String,
    /// The time when it expires or expired, or when the next snapshot was due.
    pub(crate) ends_at: Timestamp,
}

/// What expires before a time, earliest first, with the overdue snapshot if there is one. A
/// certificate that cannot be read is omitted.
///
/// # Errors
/// The store cannot be read, or `progress` stops it.
pub fn expiring(
    read: &Read<'_>,
    keystore: &Keystore,
    snapshot: Option<Expiring>,
    before: Timestamp,
    progress: &Progress,
) -> Result<Vec<Expiring>> {
    let mut found = Found {
        before,
        progress,
        list: snapshot.into_iter().collect(),
    };
    for (role, certificate) in keystore.certificates() {
        let ends_at = Timestamp::from_seconds(certificate.not_after());
        found.add(
            ExpiringKind::ControllerCertificate,
            || Ok((role.to_string(), certificate.subject().to_string())),
            ends_at,
        )?;
    }
    read.each_readable::<Authenticator>(|record| {
        let Credential::Cert { pem, .. } = &record.spec.credential else {
            return Ok(());
        };
        let name = || named_identity(read, &record.spec.identity_id);
        found.pem(ExpiringKind::IdentityCertificate, name, pem)
    })?;
    read.each_readable::<EdgeRouter>(|record| {
        let pem = record.state.cert_pem.clone().unwrap_or_default();
        found.pem(
            ExpiringKind::EdgeRouterCertificate,
            || Ok((record.id.to_string(), record.spec.name.clone())),
            &pem,
        )
    })?;
    read.each_readable::<TransitRouter>(|record| {
        let pem = record.state.cert_pem.clone().unwrap_or_default();
        found.pem(
            ExpiringKind::TransitRouterCertificate,
            || Ok((record.id.to_string(), record.spec.name.clone())),
            &pem,
        )
    })?;
    read.each_readable::<Enrollment>(|record| {
        let name = || Ok((record.id.to_string(), record.spec.subject_name(read)?));
        found.add(ExpiringKind::Enrollment, name, record.spec.expires_at)
    })?;
    read.each_readable::<Ca>(|record| {
        found.pem(
            ExpiringKind::Ca,
            || Ok((record.id.to_string(), record.spec.name.clone())),
            &record.spec.cert_pem,
        )
    })?;
    read.each_readable::<ExternalJwtSigner>(|record| {
        let pem = record.spec.cert_pem.clone().unwrap_or_default();
        found.pem(
            ExpiringKind::ExternalJwtSigner,
            || Ok((record.id.to_string(), record.spec.name.clone())),
            &pem,
        )
    })?;
    read.each_readable::<ApiToken>(|record| match record.spec.expires_at {
        Some(ends_at) => found.add(
            ExpiringKind::ApiToken,
            || Ok((record.id.to_string(), record.spec.name.clone())),
            ends_at,
        ),
        None => Ok(()),
    })?;
    found.list.sort_by(|one, other| {
        (one.ends_at, one.kind, &one.name).cmp(&(other.ends_at, other.kind, &other.name))
    });
    Ok(found.list)
}

/// The overdue snapshot of a schedule, if there is one. Reads the directory. `started` is the start
/// of the controller.
pub fn overdue_snapshot(
    settings: &Snapshots,
    started: Timestamp,
    now: Timestamp,
) -> Option<Expiring> {
    let OverdueSnapshot { due, newest } = overdue(settings, started, now)?;
    let text = |path: Option<&Path>| {
        path.map(|path| path.display().to_string())
            .unwrap_or_default()
    };
    let (id, name) = (text(newest.as_deref()), text(settings.directory.as_deref()));
    Some(Expiring {
        kind: ExpiringKind::Snapshot,
        id,
        name,
        ends_at: due,
    })
}

fn named_identity(read: &Read<'_>, id: &Id<Identity>) -> Result<(String, String)> {
    let name = read
        .find_readable(id)?
        .map(|identity| identity.spec.name)
        .unwrap_or_default();
    Ok((id.to_string(), name))
}

/// The results so far.
struct Found<'p> {
    before: Timestamp,
    progress: &'p Progress,
    list: Vec<Expiring>,
}

impl Found<'_> {
    /// Adds the first certificate of a PEM text.
    fn pem(
        &mut self,
        kind: ExpiringKind,
        name: impl FnOnce() -> Result<(String, String)>,
        pem: &str,
    ) -> Result<()> {
        self.progress.check_cancelled()?;
        match Certificate::first(pem) {
            Ok(certificate) => {
                self.add(kind, name, Timestamp::from_seconds(certificate.not_after()))
            }
            Err(_) => Ok(()),
        }
    }

    fn add(
        &mut self,
        kind: ExpiringKind,
        name: impl FnOnce() -> Result<(String, String)>,
        ends_at: Timestamp,
    ) -> Result<()> {
        if ends_at < self.before {
            let (id, name) = name()?;
            self.list.push(Expiring {
                kind,
                id,
                name,
                ends_at,
            });
        }
        Ok(())
    }
}

/// What expires within this time is logged, counted by the metrics and found by the doctor.
pub const HORIZON: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The interval between two reads, and between two log lines.
const READ_INTERVAL: Duration = Duration::from_secs(60 * 60);
const LOG_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// The maximum number of names in a log line.
const MAX_NAMES: usize = 10;

/// Reads what expires soon, sets the gauges, and logs it once a day. Cheap to clone.
#[derive(Clone)]
pub struct ExpiryNotice {
    store: Store,
    keystore: Arc<Keystore>,
    clock: Clock,
    gauges: Gauges,
    snapshots: Snapshots,
    started: Timestamp,
    logged_at: Arc<Mutex<Option<Instant>>>,
}

impl ExpiryNotice {
    /// Sets these gauges.
    pub fn new(
        store: Store,
        keystore: Arc<Keystore>,
        clock: Clock,
        gauges: Gauges,
        snapshots: Snapshots,
    ) -> Self {
        let started = clock.now();
        Self {
            store,
            keystore,
            clock,
            gauges,
            snapshots,
            started,
            logged_at: Arc::default(),
        }
    }

    /// Reads once; a failure is logged. Returns the time until the next reading.
    pub fn run_once(&self, progress: &Progress) -> Duration {
        if let Err(error) = self.update(progress)
            && !progress.is_stopped()
        {
            tracing::warn!(%error, "the search for certificates, enrollments and API tokens that expire soon failed");
        }
        READ_INTERVAL
    }

    /// Enrollments are counted and not logged: most of them expire within hours.
    fn update(&self, progress: &Progress) -> Result<()> {
        let now = self.clock.now();
        let snapshot = overdue_snapshot(&self.snapshots, self.started, now);
        let found = self
            .store
            .read(|read| expiring(read, &self.keystore, snapshot, now.plus(HORIZON), progress))?;
        for kind in ExpiringKind::ALL {
            let count = found.iter().filter(|one| one.kind == kind).count();
            self.gauges
                .expiring
                .get_or_create(&KindLabel {
                    kind: kind.as_str(),
                })
                .set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        let mut logged_at = self.logged_at.lock();
        if logged_at.is_some_and(|at| at.elapsed() < LOG_INTERVAL) {
            return Ok(());
        }
        *logged_at = Some(Instant::now());
        let logged: Vec<&Expiring> = found
            .iter()
            .filter(|one| one.kind != ExpiringKind::Enrollment)
            .collect();
        if !logged.is_empty() {
            let named = logged
                .iter()
                .take(MAX_NAMES)
                .map(|one| format!("{} {} ({})", one.kind.as_str(), one.name, one.ends_at));
            let first = named.collect::<Vec<_>>().join(", ");
            tracing::warn!(
                count = logged.len(),
                first,
                "certificates or API tokens expire within 30 days or have expired, or a snapshot is overdue: overkeep expiring lists them"
            );
        }
        Ok(())
    }
}
