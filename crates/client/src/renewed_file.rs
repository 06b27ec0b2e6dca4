//! The file of an identity whose certificate was renewed, until it takes the place of the former
//! one. A program that ends between the two leaves both; the next log-in finds out which one
//! counts.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::fs::{FlockOperation, flock};
use tokio::time::sleep;

use crate::{IdentityFile, IdentityFileError, new_identity_file::sync_directory};

/// How often a file is tried that another process has locked, and the pause between.
const ATTEMPTS: usize = 60;
const PAUSE: Duration = Duration::from_secs(1);

/// The right to renew the certificate in a file, which one process has at a time. Whoever gets it
/// reads the file again: it may be another one now.
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock, if no other process has it.
    pub(crate) fn try_take(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(Self { _file: file })
    }

    /// Takes the lock once it is free.
    ///
    /// # Errors
    /// The file is not there, or it is locked for long.
    pub(crate) async fn take(path: &Path) -> Result<Self, IdentityFileError> {
        for _ in 0..ATTEMPTS {
            if let Some(lock) = Self::try_take(path) {
                return Ok(lock);
            }
            sleep(PAUSE).await;
        }
        Err(failed(path, io::ErrorKind::WouldBlock.into()))
    }
}

/// Where the renewed file of an identity is until it takes the place of the former one.
pub fn pending(path: &Path) -> PathBuf {
    let path = followed(path);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".renewed");
    path.with_file_name(name)
}

/// Puts the renewed file of an identity in the place of the former one.
///
/// # Errors
/// The directory cannot be written.
pub(crate) fn adopt(path: &Path) -> Result<(), IdentityFileError> {
    let place = followed(path);
    let adopted = fs::rename(pending(path), &place).and_then(|()| sync_directory(&place));
    adopted.map_err(|error| failed(path, error))
}

/// Writes the renewed file beside the former one, which the same people may read. Returns the
/// identity as it is read back.
///
/// # Errors
/// It cannot be written or read back. It is not there then.
pub(crate) fn write(
    former: &Path,
    identity: &IdentityFile,
) -> Result<IdentityFile, IdentityFileError> {
    let path = pending(former);
    let written = write_text(&path, former, identity)
        .map_err(|error| failed(&path, error))
        .and_then(|()| IdentityFile::read(&path));
    if written.is_err() {
        drop(fs::remove_file(&path));
    }
    written
}

fn write_text(path: &Path, former: &Path, identity: &IdentityFile) -> io::Result<()> {
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
    file.sync_all()?;
    sync_directory(path)
}

/// The file that a link leads to.
fn followed(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn failed(path: &Path, error: io::Error) -> IdentityFileError {
    IdentityFileError::File {
        path: path.to_owned(),
        error,
    }
}
