//! The client certificates that prove an API session on an SDK's channel to a router.

use crate::{
    entity::{ApiSession, Authenticator, FactsExt, Record, SessionCertificate},
    error::Result,
    pki::Certificate,
    store::Read,
};

/// Whether a certificate, whose key was proven, belongs to an API session: the one of its login, one issued to the session, or an
/// authenticator of its identity.
///
/// # Errors
/// The store cannot be read.
pub fn holds(tx: &Read<'_>, session: &Record<ApiSession>, leaf: &Certificate) -> Result<bool> {
    let fingerprint = leaf.fingerprint();
    let certificates = tx.linked::<SessionCertificate>("fingerprint", &fingerprint)?;
    if certificates.iter().any(|certificate| certificate.spec.api_session_id == session.id) {
        return Ok(true);
    }
    let authenticator = tx.find_by::<Authenticator>("certFingerprint", &fingerprint)?;
    Ok(authenticator.is_some_and(|authenticator| authenticator.spec.identity_id == session.spec.identity_id))
}
