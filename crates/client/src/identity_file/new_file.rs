//! Writing the file of a new identity. The place is taken before the identity exists, because a
//! token that was spent for a file that cannot be written is lost.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};

use super::{IdentityFile, error::IdentityFileError};

/// A place for a file that only its owner can read. A file of its name is never replaced, and no
/// part of one is ever seen under it. Dropping the place frees it.
pub struct NewIdentityFile {
    path: PathBuf,
    /// Beside it, until it is complete.
    part: PathBuf,
    file: File,
    /// Whether the part stays, because it holds what cannot be had again.
    is_kept: bool,
}

impl NewIdentityFile {
    /// Takes the place.
    ///
    /// # Errors
    /// The file exists, or its directory cannot be written.
    pub fn reserve(path: &Path) -> Result<Self, IdentityFileError> {
        if path.symlink_metadata().is_ok() {
            return Err(failed(path, io::ErrorKind::AlreadyExists.into()));
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let part = path.with_file_name(name);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&part)
            .map_err(|error| failed(&part, error))?;
        Ok(Self {
            path: path.to_owned(),
            part,
            file,
            is_kept: false,
        })
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The error names the file that holds the identity, if one does.
    pub fn write(mut self, identity: &IdentityFile) -> Result<(), IdentityFileError> {
        let written = identity
            .text()
            .and_then(|text| self.file.write_all(text.as_bytes()))
            .and_then(|()| self.file.sync_all());
        written.map_err(|error| failed(&self.part, error))?;
        self.is_kept = true;
        let named = match renameat_with(CWD, &self.part, CWD, &self.path, RenameFlags::NOREPLACE) {
            // Some file systems do not know the flag.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                fs::hard_link(&self.part, &self.path).and_then(|()| fs::remove_file(&self.part))
            }
            other => other.map_err(io::Error::from),
        };
        named
            .and_then(|()| sync_directory(&self.path))
            .map_err(|error| {
                let kept = self.part.display();
                failed(
                    &self.path,
                    io::Error::other(format!("{error}; the identity is in {kept}")),
                )
            })
    }
}

impl Drop for NewIdentityFile {
    fn drop(&mut self) {
        if !self.is_kept {
            drop(fs::remove_file(&self.part));
        }
    }
}

fn failed(path: &Path, error: io::Error) -> IdentityFileError {
    IdentityFileError::File {
        path: path.to_owned(),
        error,
    }
}

/// Waits until the name of a file is on disk.
fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}
