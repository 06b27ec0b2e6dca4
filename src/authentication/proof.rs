//! Which client certificates stand for an API session where it is used without a request: on the channel of an SDK to a router.

use crate::{
    entity::{ApiSession, Authenticator, FactsExt, Record, SessionCertificate},
    error::Result,
    pki::Certificate,
    store::Read,
};

/// Whether a certificate, whose key was proven, is one of an API session: the one that logged in, one that the session asked for, or one
/// that its identity has as an authenticator.
///
/// # Errors
/// The file cannot be read.
pub fn holds(tx: &Read<'_>, session: &Record<ApiSession>, leaf: &Certificate) -> Result<bool> {
    let fingerprint = leaf.fingerprint();
    let certificates = tx.linked::<SessionCertificate>("fingerprint", &fingerprint)?;
    if certificates.iter().any(|certificate| certificate.spec.api_session_id == session.id) {
        return Ok(true);
    }
    let authenticator = tx.find_by::<Authenticator>("certFingerprint", &fingerprint)?;
    Ok(authenticator.is_some_and(|authenticator| authenticator.spec.identity_id == session.spec.identity_id))
}
