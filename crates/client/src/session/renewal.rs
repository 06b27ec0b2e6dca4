//! Renewal of the certificate with which an identity logs in.
//!
//! The controller issues a certificate beside the present one, which counts until the new one is
//! confirmed. The new file is complete on disk before that (`renewed_file.rs`), and takes the place
//! of the former one afterwards.

use std::path::Path;

use http::Method;
use pki::{Certificate, ClientCertificate, Csr, PrivateKey};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::{Session, error::SessionError, login::LoggedIn};
use crate::{
    IdentityFile, IdentityFileError,
    controller::or_default,
    renewed_file::{Lock, adopt, write},
};

/// A certificate is renewed when it ends within so many seconds, or within a third of its life.
const WINDOW: i64 = 30 * 86_400;

/// Why a certificate was not renewed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RenewalError {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("the controller's answer cannot be used: {0}")]
    Answer(pki::Error),
    #[error(transparent)]
    File(#[from] IdentityFileError),
    #[error("the identity has no certificate")]
    None,
}

/// Whether a certificate is to be renewed at a time in unix seconds.
pub(super) fn is_due(certificate: &Certificate, now: i64) -> bool {
    let life = certificate.not_after() - certificate.not_before();
    certificate.not_after() - now < WINDOW.min(life / 3)
}

/// Renews the certificate of an identity, and writes its file. Returns the new identity, which is
/// that in the file if another process has renewed it.
///
/// # Errors
/// [`RenewalError`]. The former file counts then, unless the controller has confirmed without an
/// answer: then the renewed file counts, which the next log-in finds out.
pub(super) async fn renew(
    session: &Session,
    login: &LoggedIn,
    identity: &IdentityFile,
    path: &Path,
) -> Result<IdentityFile, RenewalError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Extended {
        client_cert: String,
        #[serde(default, deserialize_with = "or_default")]
        ca: String,
    }
    let _lock = Lock::take(path).await?;
    let in_file = IdentityFile::read(path)?;
    if in_file.fingerprint() != identity.fingerprint() {
        return Ok(in_file);
    }
    let present = identity.certificate().ok_or(RenewalError::None)?;
    let key = if login.is_cert_key_roll_requested {
        let kind = present.key().public().kind();
        PrivateKey::generate(kind.map_err(RenewalError::Answer)?).map_err(RenewalError::Answer)?
    } else {
        present.key().clone()
    };
    let request = Csr::write(&key, &login.identity_id).map_err(RenewalError::Answer)?;
    let authenticator = format!(
        "/current-identity/authenticators/{}",
        login.authenticator_id
    );
    let body = json!({ "clientCertCsr": request });
    let extension = format!("{authenticator}/extend");
    let extended: Extended = session.ask(Method::POST, &extension, Some(body)).await?;
    let chain = Certificate::in_file(&extended.client_cert).map_err(RenewalError::Answer)?;
    let leaf = chain.first().map(Certificate::pem).unwrap_or_default();
    let renewed = ClientCertificate::new(chain, key).map_err(RenewalError::Answer)?;
    let authorities = Certificate::in_file(&extended.ca).unwrap_or_default();
    let renewed = identity.with_renewed(renewed, authorities)?;
    // What cannot be read back must not be confirmed.
    let renewed = write(path, &renewed)?;
    let body = json!({ "clientCert": leaf });
    let confirmation = format!("{authenticator}/extend-verify");
    // After an error nobody knows which certificate counts: the renewed file stays until a log-in
    // has found that out.
    session
        .ask::<Json>(Method::POST, &confirmation, Some(body))
        .await?;
    if let Err(error) = adopt(path) {
        tracing::warn!(%error, "the renewed certificate has no place");
    }
    Ok(renewed)
}
