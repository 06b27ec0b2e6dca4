//! Session certificates: written down when they are issued or logged in with, cleared away when they are over.

use super::{Change, Lifecycle};
use crate::{
    clock::Timestamp,
    entity::{ApiSession, FactsExt, Id, Record, SessionCertificate},
    error::Result,
    pki::Certificate,
};

impl Lifecycle for SessionCertificate {}

/// Makes a certificate good for edge routers as long as an API session lasts. Those of the session that have ended go.
///
/// # Errors
/// There is no such session.
pub fn add(change: &Change<'_, '_>, session: &Id<ApiSession>, certificate: &Certificate) -> Result<Record<SessionCertificate>> {
    for old in change.linked::<SessionCertificate>("apiSession", session.as_str())? {
        if old.spec.valid_to < change.now() {
            change.delete(&old.id)?;
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
    change.insert(Record::new(Id::from_text(SessionCertificate::new_id()), change.now(), spec))
}

/// Makes a certificate of no use in any session.
///
/// # Errors
/// A record cannot be read.
pub fn withdraw(change: &Change<'_, '_>, fingerprint: &str) -> Result<()> {
    change.delete_linked::<SessionCertificate>("fingerprint", fingerprint)
}
