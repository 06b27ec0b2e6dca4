//! The disk space of the data file: its size, and the free space of its file system.

use std::{fs, io, path::Path};

use super::reader::Reader;

/// Sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Of the data file.
    pub file: u64,
    /// The free space of its file system, without what is reserved for root.
    pub free: u64,
}

impl Reader {
    /// The disk space of the data file; `None` if the store is not in a file or the sizes cannot be
    /// read.
    pub fn space(&self) -> Option<Space> {
        let core = self.core();
        core.opened.as_ref()?;
        let file = fs::metadata(&core.path).ok()?.len();
        Some(Space {
            file,
            free: free_bytes(&core.path).ok()?,
        })
    }
}

/// The free bytes of the file system of a file or directory, without what is reserved for root. An
/// empty path is the current directory.
///
/// # Errors
/// The path does not exist, or the size cannot be read.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    let system = rustix::fs::statvfs(path)?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}
