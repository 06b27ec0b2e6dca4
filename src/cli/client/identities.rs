//! The identities that a command uses: files and directories, given or found.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use client::{IdentityFile, Right, Service, Session, SessionError};
use tokio::{task::JoinSet, time::timeout};

use crate::cli::{config_directory::config_directory, failure::CommandError};

/// How long the end of a command waits for controllers.
const PATIENCE: Duration = Duration::from_secs(2);
/// Where the identities of a system service are.
const OF_SYSTEM: &str = "/etc/overkeep/identities";

/// The flags about identities.
#[derive(Args, Clone, Debug)]
pub(super) struct IdentityFlags {
    /// File of an identity, or a directory with such files; may be repeated [default: those in
    /// overkeep/identities in XDG_CONFIG_HOME or ~/.config, else in /etc/overkeep/identities]
    #[arg(short, long = "identity-file", value_name = "FILE")]
    identity_files: Vec<PathBuf>,
}

impl IdentityFlags {
    /// Logs in with each identity. One that cannot is left out if another can.
    ///
    /// # Errors
    /// There is no identity, a file cannot be read, or nobody can log in.
    pub(super) async fn log_in(&self) -> Result<Vec<Session>, CommandError> {
        let mut sessions = Vec::new();
        let mut failure = None;
        for path in self.files()? {
            let shown = path.display();
            let of = |error: &dyn std::fmt::Display| CommandError::of(format!("{shown}: {error}"));
            let identity = IdentityFile::read(&path).map_err(|error| match error {
                // It names its file itself.
                error @ client::IdentityFileError::File { .. } => CommandError::of(error),
                error => of(&error),
            })?;
            match Session::log_in(&identity).await {
                Ok(session) => sessions.push(session),
                Err(error) => failure = Some(of(&error)),
            }
        }
        match failure {
            Some(failure) if sessions.is_empty() => Err(failure),
            Some(failure) => {
                tracing::warn!(error = failure.message(), "an identity is left out");
                Ok(sessions)
            }
            None => Ok(sessions),
        }
    }

    fn files(&self) -> Result<Vec<PathBuf>, CommandError> {
        let given = if self.identity_files.is_empty() {
            vec![default_directory().ok_or_else(|| {
                CommandError::of("there is no identity: enroll one, or name its file with -i")
            })?]
        } else {
            self.identity_files.clone()
        };
        let mut files = Vec::new();
        for path in given {
            if path.is_dir() {
                files.extend(json_files(&path)?);
            } else {
                files.push(path);
            }
        }
        if files.is_empty() {
            return Err(CommandError::of(
                "the directory holds no identity: files of identities end with .json",
            ));
        }
        Ok(files)
    }
}

/// The first session whose identity has a right on a service, and the service.
///
/// # Errors
/// Nobody sees it, or a controller does not answer.
pub(super) async fn find(
    sessions: &[Session],
    name: &str,
    right: Right,
) -> Result<(Session, Service), SessionError> {
    let (mut failure, mut seen) = (SessionError::NoService(name.to_owned()), None);
    for session in sessions {
        match session.service(name).await {
            Ok(service) if service.grants(right) => return Ok((session.clone(), service)),
            // The answer to a dial or a binding says more.
            Ok(service) => seen = Some((session.clone(), service)),
            Err(SessionError::NoService(_)) => {}
            Err(error) => failure = error,
        }
    }
    seen.ok_or(failure)
}

/// Ends the sessions, as far as the controllers answer soon.
pub(super) async fn log_out(sessions: &[Session]) {
    let mut ending = JoinSet::new();
    for session in sessions {
        let session = session.clone();
        ending.spawn(async move { session.log_out().await });
    }
    drop(timeout(PATIENCE, ending.join_all()).await);
}

/// The first of the usual directories that exists.
fn default_directory() -> Option<PathBuf> {
    let own = config_directory().map(|directory| directory.join("identities"));
    own.into_iter()
        .chain([PathBuf::from(OF_SYSTEM)])
        .find(|directory| directory.is_dir())
}

fn json_files(directory: &Path) -> Result<Vec<PathBuf>, CommandError> {
    let failed = |error| CommandError::of(format!("{}: {error}", directory.display()));
    let mut files = Vec::new();
    for entry in directory.read_dir().map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension() == Some(OsStr::new("json")) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
