//! The client certificates that prove an API session on an SDK's channel to a router.

use model::{
    entity::{ApiSession, Authenticator, Record, SessionCertificate, TypedLookup},
    error::Result,
};
use pki::Certificate;
use store::Read;

/// Whether a certificate, whose key was proven, belongs to an API session: the one of its login,
/// one issued to the session, or an authenticator of its identity.
///
/// # Errors
/// The store cannot be read.
pub fn holds(tx: &Read<'_>, session: &Record<ApiSession>, leaf: &Certificate) -> Result<bool> {
    holds_fingerprint(tx, session, &leaf.fingerprint())
}

/// [`holds`] for the SHA-1 fingerprint of a certificate, in lower-case hex. The key of the
/// certificate was proven to a router.
///
/// # Errors
/// The file cannot be read.
pub fn holds_fingerprint(
    tx: &Read<'_>,
    session: &Record<ApiSession>,
    fingerprint: &str,
) -> Result<bool> {
    let certificates = tx.linked::<SessionCertificate>("fingerprint", fingerprint)?;
    if certificates
        .iter()
        .any(|certificate| certificate.spec.api_session_id == session.id)
    {
        return Ok(true);
    }
    let authenticator = tx.find_by::<Authenticator>("certFingerprint", fingerprint)?;
    if let Some(authenticator) = authenticator {
        return Ok(authenticator.spec.identity_id == session.spec.identity_id);
    }
    let authenticators =
        tx.linked::<Authenticator>("identity", session.spec.identity_id.as_str())?;
    Ok(authenticators.iter().any(|authenticator| {
        authenticator.spec.credential.unverified_fingerprint() == Some(fingerprint)
    }))
}

/// The fingerprints of the certificates with which an SDK can open a channel in an API session:
/// those that it was opened with or that were issued to it, and those of its identity, if it was
/// opened with one of them. An API session that was opened in another way, such as with a password,
/// has none until a certificate is issued to it.
///
/// # Errors
/// The file cannot be read.
pub fn channel_fingerprints(tx: &Read<'_>, session: &Record<ApiSession>) -> Result<Vec<String>> {
    let authenticators = match session.spec.authenticator() {
        Some(_) => tx.linked::<Authenticator>("identity", session.spec.identity_id.as_str())?,
        None => Vec::new(),
    };
    let of_certificates = authenticators.iter().flat_map(|record| {
        record
            .spec
            .credential
            .fingerprints()
            .map(|fingerprint| (record.id.as_str(), fingerprint))
    });
    let of_certificates: Vec<(&str, &str)> = of_certificates.collect();
    let is_opened_with_one = of_certificates
        .iter()
        .any(|(id, _)| session.spec.authenticator() == Some(*id));
    let of_identity = of_certificates
        .into_iter()
        .filter(|_| is_opened_with_one)
        .map(|(_, fingerprint)| fingerprint.to_owned());
    let mut fingerprints: Vec<String> = of_identity.collect();
    let certificates = tx.linked::<SessionCertificate>("apiSession", session.id.as_str())?;
    fingerprints.extend(
        certificates
            .into_iter()
            .map(|certificate| certificate.spec.fingerprint),
    );
    Ok(fingerprints)
}
