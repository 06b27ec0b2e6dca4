//! Session certificates: stored when they are issued or used to log in, deleted when they have
//! expired.

use model::{
    clock::Timestamp,
    entity::{ApiSession, Id, Record, SessionCertificate, TypedLookup},
    error::{Error, Result},
};
use pki::Certificate;

use super::{Change, Lifecycle};

/// Makes a certificate valid at edge routers for the lifetime of an API session. Expired ones of
/// the session are deleted.
///
/// # Errors
/// There is no such session.
pub(crate) fn add(
    change: &Change<'_, '_>,
    session: &Id<ApiSession>,
    certificate: &Certificate,
) -> Result<Record<SessionCertificate>> {
    for old in change.linked::<SessionCertificate>("apiSession", session.as_str())? {
        if old.spec.valid_to < change.now() {
            change.delete_record(old)?;
        }
    }
    let spec = SessionCertificate {
        api_session_id: session.clone(),
        subject: certificate.subject().to_string(),
        fingerprint: certificate.fingerprint(),
        certificate: certificate.pem(),
        valid_from: Timestamp::from_seconds(certificate.not_before()),
        valid_to: Timestamp::from_seconds(certificate.not_after()),
    };
    change.insert(Record::new(
        Id::from_text(SessionCertificate::new_id()),
        change.now(),
        spec,
    ))
}

/// Like [`add`], for a certificate that a session requests; it may have `limit` valid ones at the
/// same time.
///
/// # Errors
/// [`Error::Busy`] until the first of them expires.
pub fn add_asked(
    change: &Change<'_, '_>,
    session: &Id<ApiSession>,
    certificate: &Certificate,
    limit: usize,
) -> Result<Record<SessionCertificate>> {
    let held = change.linked::<SessionCertificate>("apiSession", session.as_str())?;
    let ends: Vec<Timestamp> = held
        .iter()
        .map(|one| one.spec.valid_to)
        .filter(|end| *end >= change.now())
        .collect();
    match ends.iter().min() {
        Some(first) if ends.len() >= limit => {
            let wait = first.apart(change.now()).as_secs().saturating_add(1);
            Err(Error::Busy {
                retry_after: u32::try_from(wait).unwrap_or(u32::MAX),
            })
        }
        _ => add(change, session, certificate),
    }
}

/// Makes a certificate invalid in all sessions.
///
/// # Errors
/// A record cannot be read.
pub(crate) fn withdraw(change: &Change<'_, '_>, fingerprint: &str) -> Result<()> {
    change.delete_linked::<SessionCertificate>("fingerprint", fingerprint)
}
