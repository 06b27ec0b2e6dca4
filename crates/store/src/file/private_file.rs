//! Files that only their owner may read, always created new. In a directory that others may write
//! to, another user's file or a link may already have the name: it is never opened for writing,
//! followed or taken over, even by root.

use std::{
    fs::{File, Metadata, OpenOptions, TryLockError, remove_file, symlink_metadata},
    io::{self, ErrorKind},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
    thread,
    time::Duration,
};

use rustix::fs::OFlags;

use super::open_error::OpenError;

/// Creates a file with mode 0600 that did not exist.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] if the name is taken, also by a dangling link (`O_EXCL`).
pub fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// Removes what an earlier attempt left under a name. Of a link, the link itself is removed.
///
/// # Errors
/// [`OpenError::Locked`] if another process has locked the file; [`OpenError::Io`] if it cannot be
/// removed.
pub fn clear(path: &Path) -> Result<(), OpenError> {
    let failed = |reason| OpenError::Io {
        path: path.into(),
        reason,
    };
    let found = match symlink_metadata(path) {
        Err(reason) if reason.kind() == ErrorKind::NotFound => return Ok(()),
        found => found.map_err(failed)?,
    };
    let _held = if found.is_file() {
        Some(lock(path)?)
    } else {
        None
    };
    remove_file(path).map_err(failed)
}

/// Locks the file at a path, which must not be a link.
///
/// # Errors
/// [`OpenError::Locked`] if another process has locked it, or another file has the name by then;
/// [`OpenError::Io`] if it cannot be opened.
pub(crate) fn lock(path: &Path) -> Result<File, OpenError> {
    let failed = |reason| OpenError::Io {
        path: path.into(),
        reason,
    };
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open(path)
        .map_err(failed)?;
    lock_open(&file, path)?;
    if is_named(path, &file.metadata().map_err(failed)?) {
        Ok(file)
    } else {
        Err(OpenError::Locked(path.into()))
    }
}

/// How often an exclusive lock is tried, and the pause between: a command that looks whether the
/// file is held has it locked for microseconds.
const LOCK_TRIES: usize = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Locks an open file exclusively as long as it is open; `path` names it in errors.
///
/// # Errors
/// [`OpenError::Locked`] if another process has locked it, [`OpenError::Io`] if it cannot be
/// locked.
pub(crate) fn lock_open(file: &File, path: &Path) -> Result<(), OpenError> {
    for attempt in 1..=LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if attempt < LOCK_TRIES => thread::sleep(LOCK_PAUSE),
            Err(TryLockError::WouldBlock) => break,
            Err(TryLockError::Error(reason)) => {
                return Err(OpenError::Io {
                    path: path.into(),
                    reason,
                });
            }
        }
    }
    Err(OpenError::Locked(path.into()))
}

/// Whether a path names this file directly, not by a link.
pub(crate) fn is_named(path: &Path, file: &Metadata) -> bool {
    symlink_metadata(path).is_ok_and(|found| is_one(&found, file))
}

/// Whether both describe the same file (device and inode), whatever its name.
pub fn is_one(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}
