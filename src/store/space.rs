//! The disk space of the data file: its size, and the free space of its file system.

use std::fs;

use super::reader::Reader;

/// Sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Space {
    /// Of the data file.
    pub file: u64,
    /// The free space of its file system, without what is reserved for root.
    pub free: u64,
}

impl Reader {
    /// The disk space of the data file; `None` if the store is not in a file or the sizes cannot be read.
    pub(crate) fn space(&self) -> Option<Space> {
        let core = self.core();
        core.opened.as_ref()?;
        let file = fs::metadata(&core.path).ok()?.len();
        let system = rustix::fs::statvfs(&core.path).ok()?;
        Some(Space { file, free: system.f_bavail.saturating_mul(system.f_frsize) })
    }
}
