//! Files that are made: always anew, for their owner alone. In a directory that others may write to, somebody else's file or a link may
//! have the name already: nothing of that name is opened to be written, followed or taken over, by root neither.

use std::{
    fs::{File, Metadata, OpenOptions, remove_file, symlink_metadata},
    io::{self, ErrorKind},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use rustix::fs::OFlags;

use super::open_error::OpenError;

/// Makes a file that was not there.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] for a name that is taken, also by a link that leads nowhere (`O_EXCL`).
pub fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Takes away what an earlier attempt left under a name. Of a link the link goes, whatever it leads to.
///
/// # Errors
/// [`OpenError::Locked`] for a file that somebody has locked; it cannot be taken away.
pub fn clear(path: &Path) -> Result<(), OpenError> {
    let failed = |reason| OpenError::Io { path: path.into(), reason };
    let found = match symlink_metadata(path) {
        Err(reason) if reason.kind() == ErrorKind::NotFound => return Ok(()),
        found => found.map_err(failed)?,
    };
    let _held = if found.is_file() { Some(lock(path)?) } else { None };
    remove_file(path).map_err(failed)
}

/// Locks the file of a name that is no link.
///
/// # Errors
/// [`OpenError::Locked`] if somebody else has it, or another file has its name by then; it cannot be opened.
pub fn lock(path: &Path) -> Result<File, OpenError> {
    let failed = |reason| OpenError::Io { path: path.into(), reason };
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).map_err(failed)?;
    file.try_lock().map_err(|_| OpenError::Locked(path.into()))?;
    if is_named(path, &file.metadata().map_err(failed)?) { Ok(file) } else { Err(OpenError::Locked(path.into())) }
}

/// Whether a name is that of a file itself, not of a link to it.
pub fn is_named(path: &Path, file: &Metadata) -> bool {
    symlink_metadata(path).is_ok_and(|found| is_one(&found, file))
}

/// Whether they are of one file, whatever its name.
pub fn is_one(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}
