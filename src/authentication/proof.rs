//! The client certificates that prove an API session on an SDK's channel to a router.

use crate::{
    entity::{ApiSession, Authenticator, Record, SessionCertificate, TypedLookup},
    error::Result,
    pki::Certificate,
    store::Read,
};

/// Whether a certificate, whose key was proven, belongs to an API session: the one of its login, one issued to the session, or an
/// authenticator of its identity.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn holds(tx: &Read<'_>, session: &Record<ApiSession>, leaf: &Certificate) -> Result<bool> {
    holds_fingerprint(tx, session, &leaf.fingerprint())
}

/// [`holds`] for the SHA-1 fingerprint of a certificate, in lower-case hex. The key of the certificate was proven to a router.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn holds_fingerprint(tx: &Read<'_>, session: &Record<ApiSession>, fingerprint: &str) -> Result<bool> {
    let certificates = tx.linked::<SessionCertificate>("fingerprint", fingerprint)?;
    if certificates.iter().any(|certificate| certificate.spec.api_session_id == session.id) {
        return Ok(true);
    }
    let authenticator = tx.find_by::<Authenticator>("certFingerprint", fingerprint)?;
    Ok(authenticator.is_some_and(|authenticator| authenticator.spec.identity_id == session.spec.identity_id))
}

/// The fingerprints of all certificates of an API session.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn fingerprints_of(tx: &Read<'_>, session: &Record<ApiSession>) -> Result<Vec<String>> {
    let authenticators = tx.linked::<Authenticator>("identity", session.spec.identity_id.as_str())?;
    let mut fingerprints: Vec<String> =
        authenticators.iter().filter_map(|authenticator| authenticator.spec.credential.fingerprint().map(Into::into)).collect();
    let certificates = tx.linked::<SessionCertificate>("apiSession", session.id.as_str())?;
    fingerprints.extend(certificates.into_iter().map(|certificate| certificate.spec.fingerprint));
    Ok(fingerprints)
}
