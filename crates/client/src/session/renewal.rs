//! Renewal of the certificate with which an identity logs in.
//!
//! The controller issues a certificate beside the present one, which counts until the new one is
//! confirmed. The new file is complete on disk before that (`renewed_file.rs`), and takes the place
//! of the former one afterwards.

use std::{fs, path::Path};

use http::Method;
use pki::{Certificate, ClientCertificate, Csr, PrivateKey};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::{Session, error::SessionError, login::LoggedIn};
use crate::{
    IdentityFile, IdentityFileError, RequestError,
    renewed_file::{adopt, pending, write},
};

/// A certificate is renewed when it ends within so many seconds, or within a third of its life.
const WINDOW: i64 = 30 * 86_400;

/// Why a certificate was not renewed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RenewalError {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("the controller's answer cannot be used: {0}")]
    Answer(pki::Error),
    #[error(transparent)]
    File(#[from] IdentityFileError),
}

/// Whether a certificate is to be renewed at a time in unix seconds.
pub(crate) fn is_due(certificate: &Certificate, now: i64) -> bool {
    let life = certificate.not_after() - certificate.not_before();
    certificate.not_after() - now < WINDOW.min(life / 3)
}

/// Renews the certificate of an identity, and writes its file. Returns the new identity.
///
/// # Errors
/// [`RenewalError`]. The former file counts then, unless the controller did not answer at the end.
pub(crate) async fn renew(
    session: &Session,
    login: &LoggedIn,
    identity: &IdentityFile,
    path: &Path,
) -> Result<Option<IdentityFile>, RenewalError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Extended {
        client_cert: String,
    }
    let Some(present) = identity.certificate() else {
        return Ok(None);
    };
    let key = if login.is_cert_key_roll_requested {
        let kind = present
            .key()
            .public()
            .kind()
            .map_err(RenewalError::Answer)?;
        PrivateKey::generate(kind).map_err(RenewalError::Answer)?
    } else {
        present.key().clone()
    };
    let request = Csr::write(&key, &login.identity_id).map_err(RenewalError::Answer)?;
    let path_of = |action: &str| {
        let id = &login.authenticator_id;
        format!("/current-identity/authenticators/{id}/{action}")
    };
    let body = json!({ "clientCertCsr": request });
    let extended: Extended = session
        .ask(Method::POST, &path_of("extend"), Some(body))
        .await?;
    let chain = Certificate::in_file(&extended.client_cert).map_err(RenewalError::Answer)?;
    let leaf = chain.first().map(Certificate::pem).unwrap_or_default();
    let renewed = ClientCertificate::new(chain, key).map_err(RenewalError::Answer)?;
    let renewed = identity.with_renewed(renewed)?;
    let place = pending(path);
    write(&place, path, &renewed).map_err(|error| IdentityFileError::File {
        path: place.clone(),
        error,
    })?;
    let body = json!({ "clientCert": leaf });
    let path_of_confirmation = path_of("extend-verify");
    let confirmed = session.ask::<Json>(Method::POST, &path_of_confirmation, Some(body));
    if let Err(error) = confirmed.await {
        // Without an answer nobody knows which one counts: the next start asks.
        if !matches!(error, SessionError::Request(RequestError::NoAnswer { .. })) {
            drop(fs::remove_file(&place));
        }
        return Err(error.into());
    }
    adopt(path)?;
    Ok(Some(renewed))
}
