//! The identities that a command uses: files and directories, given or found.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use clap::Args;
use client::{
    IdentityFile, IdentityFileError, LogInOptions, Right, Service, Session, SessionError,
};

use super::code::ask_code;
use crate::cli::{config_directory::config_directory, failure::CommandError};

/// Where the identities of a system service are.
const OF_SYSTEM: &str = "/etc/overkeep/identities";

/// The flags about identities.
#[derive(Args, Clone, Debug)]
pub(super) struct IdentityFlags {
    /// File of an identity, or a directory with such files; may be repeated [default: those in
    /// overkeep/identities in XDG_CONFIG_HOME or ~/.config, else in /etc/overkeep/identities]
    #[arg(short, long = "identity-file", value_name = "FILE")]
    identity_files: Vec<PathBuf>,
    /// A command of the shell that prints the code of a second factor [default: ask at the
    /// terminal]
    #[arg(long, value_name = "COMMAND")]
    code_command: Option<String>,
}

impl IdentityFlags {
    /// Logs in with each identity. One whose file cannot be read, or that cannot log in, is left
    /// out if another can.
    ///
    /// # Errors
    /// There is no identity, or nobody can log in.
    pub(super) async fn log_in(&self) -> Result<Vec<Session>, CommandError> {
        let mut sessions = Vec::new();
        let mut failure = None;
        for path in at_least_one(self.files()?)? {
            match self.log_in_from(&path).await {
                Ok(session) => sessions.push(session),
                Err(error) => failure = Some(error),
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

    /// The only identity, and how it logs in.
    ///
    /// # Errors
    /// There is none or more than one, or its file cannot be read.
    pub(super) fn only(&self) -> Result<(IdentityFile, LogInOptions), CommandError> {
        let files = self.files()?;
        let [path] = files.as_slice() else {
            return Err(CommandError::of("name the file of one identity with -i"));
        };
        Ok((identity_in(path)?, self.options(path)))
    }

    fn options(&self, path: &Path) -> LogInOptions {
        LogInOptions {
            file: Some(path.to_owned()),
            ask_code: Some(ask_code(path, self.code_command.clone())),
        }
    }

    /// Logs in with the identity in a file.
    ///
    /// # Errors
    /// The file cannot be read, or the identity cannot log in.
    pub(super) async fn log_in_from(&self, path: &Path) -> Result<Session, CommandError> {
        let session = Session::log_in_with(&identity_in(path)?, self.options(path)).await;
        session.map_err(|error| CommandError::of(format!("{}: {error}", path.display())))
    }

    /// The files of identities.
    ///
    /// # Errors
    /// None is named and none is at the usual places, or a directory cannot be read.
    pub(super) fn files(&self) -> Result<Vec<PathBuf>, CommandError> {
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
        Ok(files)
    }
}

/// The files, if there is one.
///
/// # Errors
/// There is none.
pub(super) fn at_least_one(files: Vec<PathBuf>) -> Result<Vec<PathBuf>, CommandError> {
    if files.is_empty() {
        return Err(CommandError::of(
            "the directory holds no identity: files of identities end with .json",
        ));
    }
    Ok(files)
}

fn identity_in(path: &Path) -> Result<IdentityFile, CommandError> {
    IdentityFile::read(path).map_err(|error| match error {
        // It names its file itself.
        error @ IdentityFileError::File { .. } => CommandError::of(error),
        error => CommandError::of(format!("{}: {error}", path.display())),
    })
}

/// The place of the first session whose identity has a right on a service, and the service.
///
/// # Errors
/// Nobody sees it, or a controller does not answer.
pub(super) async fn find(
    sessions: &[Session],
    name: &str,
    right: Right,
) -> Result<(usize, Service), SessionError> {
    let (mut failure, mut seen) = (SessionError::NoService(name.to_owned()), None);
    for (place, session) in sessions.iter().enumerate() {
        match session.service(name).await {
            Ok(service) if service.grants(right) => return Ok((place, service)),
            // The answer to a dial or a binding says more.
            Ok(service) => seen = Some((place, service)),
            Err(SessionError::NoService(_)) => {}
            Err(error) => failure = error,
        }
    }
    seen.ok_or(failure)
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
