//! The names of files beside a data file, and of a data file that does not exist yet.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use super::{
    open_error::OpenError,
    private_file::{clear, create_private, is_named, lock_open},
};

/// The path of a file with a suffix appended to its name.
pub fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// The directory of a file.
pub(super) fn directory(file: &Path) -> &Path {
    file.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Makes the name of a file durable, by a flush of its directory.
pub fn sync_directory(file: &Path) -> io::Result<()> {
    File::open(directory(file))?.sync_all()
}

/// The path under which a new file is prepared.
pub(super) fn unnamed(path: &Path) -> PathBuf {
    beside(path, ".new")
}

/// Creates the file in which a new data file is prepared, and locks it as long as the result lives.
/// A file that another start left incomplete is removed; a file that another process is preparing
/// is not.
pub(super) fn reserve(path: &Path) -> Result<File, OpenError> {
    let refused = |reason| OpenError::Directory {
        directory: directory(path).into(),
        reason,
    };
    clear(&unnamed(path)).map_err(|error| {
        if let OpenError::Locked(_) = error {
            OpenError::Locked(path.into())
        } else {
            error
        }
    })?;
    let file = create_private(&unnamed(path)).map_err(refused)?;
    lock_open(&file, path)?;
    if !is_named(&unnamed(path), &file.metadata().map_err(refused)?) {
        return Err(OpenError::Locked(path.into()));
    }
    if path.exists() {
        // Another process was faster: its file is complete, this one is still empty.
        drop(std::fs::remove_file(unnamed(path)));
        return Err(OpenError::Locked(path.into()));
    }
    Ok(file)
}

/// The name of a data file that does not exist. As long as this lives, no other process of this
/// program creates the file.
pub struct ReservedName {
    path: PathBuf,
    /// Holds the lock.
    _unnamed: File,
}

impl ReservedName {
    /// Reserves a name, as [`reserve`].
    ///
    /// # Errors
    /// The file exists, or another process prepares it.
    pub fn take(path: &Path) -> Result<Self, OpenError> {
        Ok(Self {
            path: path.into(),
            _unnamed: reserve(path)?,
        })
    }

    /// Gives the name to a complete file in the same directory.
    ///
    /// # Errors
    /// Another program has created a file with this name, or the file cannot be renamed.
    pub fn give_to(self, complete: &Path) -> io::Result<()> {
        // A hard link, unlike a rename, never replaces a file.
        std::fs::hard_link(complete, &self.path)?;
        std::fs::remove_file(complete)?;
        sync_directory(&self.path)
    }
}

impl Drop for ReservedName {
    fn drop(&mut self) {
        drop(std::fs::remove_file(unnamed(&self.path)));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn reserved_names_replace_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let [path, complete] = ["data", "complete"].map(|name| directory.path().join(name));
        let reserved = ReservedName::take(&path).unwrap();
        fs::write(&complete, "imported").unwrap();
        fs::write(&path, "of another program").unwrap();
        assert!(reserved.give_to(&complete).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "of another program");
        fs::remove_file(&path).unwrap();
        ReservedName::take(&path)
            .unwrap()
            .give_to(&complete)
            .unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "imported");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
