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

use crate::identity_file::{IdentityFile, IdentityFileError};

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
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn identity() -> IdentityFile {
        IdentityFile::new("ctrl:1280", None, Vec::new()).unwrap()
    }

    #[test]
    fn only_the_owner_may_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("alice.json");
        let place = NewIdentityFile::reserve(&path).unwrap();
        assert!(!path.exists());
        place.write(&identity()).unwrap();
        assert_eq!(
            path.metadata().unwrap().permissions().mode() & 0o7777,
            0o600
        );
        assert_eq!(IdentityFile::read(&path).unwrap().controllers().len(), 1);
        assert_eq!(directory.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn existing_names_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let (taken, late, dangling) = (
            directory.path().join("taken"),
            directory.path().join("late"),
            directory.path().join("dangling"),
        );
        fs::write(&taken, "mine").unwrap();
        std::os::unix::fs::symlink("nowhere", &dangling).unwrap();
        for path in [&taken, &dangling] {
            assert!(NewIdentityFile::reserve(path).is_err());
        }
        let place = NewIdentityFile::reserve(&late).unwrap();
        fs::write(&late, "mine").unwrap();
        let refused = place.write(&identity()).unwrap_err().to_string();
        // Its token is spent: the identity is not thrown away.
        let kept = refused.rsplit("the identity is in ").next().unwrap();
        assert_eq!(
            IdentityFile::read(Path::new(kept))
                .unwrap()
                .controllers()
                .len(),
            1
        );
        for path in [&taken, &late] {
            assert_eq!(fs::read_to_string(path).unwrap(), "mine");
        }
    }

    #[test]
    fn places_that_are_not_used_are_freed() {
        let directory = tempfile::tempdir().unwrap();
        drop(NewIdentityFile::reserve(&directory.path().join("alice.json")).unwrap());
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
        assert!(NewIdentityFile::reserve(&directory.path().join("nowhere/alice.json")).is_err());
    }
}
