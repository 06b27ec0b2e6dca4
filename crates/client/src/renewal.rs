//! Renewal of the certificate with which an identity logs in.
//!
//! The controller issues a certificate beside the present one, which counts until the new one is
//! confirmed. The new file is complete on disk before that, under a name of its own
//! ([`pending`]), and takes the place of the former one afterwards. A program that ends between the
//! two finds both at its next start, and asks the controller which one counts.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use http::Method;
use pki::{Certificate, ClientCertificate, Csr, PrivateKey};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::{
    IdentityFile, IdentityFileError, RequestError, Session, SessionError,
    new_identity_file::sync_directory, session::LoggedIn,
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

/// Where the renewed file of an identity is until it takes the place of the former one.
pub fn pending(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".renewed");
    path.with_file_name(name)
}

/// Puts the renewed file of an identity in the place of the former one.
///
/// # Errors
/// The directory cannot be written.
pub fn adopt(path: &Path) -> Result<(), IdentityFileError> {
    let adopted = fs::rename(pending(path), path).and_then(|()| sync_directory(path));
    adopted.map_err(|error| IdentityFileError::File {
        path: path.to_owned(),
        error,
    })
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

/// Writes the file, which the same people may read as `former`.
fn write(path: &Path, former: &Path, identity: &IdentityFile) -> io::Result<()> {
    let text = identity.text()?;
    let mode = fs::metadata(former)?.permissions().mode() & 0o777;
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    File::sync_all(&file)?;
    sync_directory(path)
}
