//! The room that the data file takes and has.

use std::fs;

use super::reader::Reader;

/// Sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Space {
    /// Of the data file.
    pub file: u64,
    /// What is free on its file system for the owner of this process.
    pub free: u64,
}

impl Reader {
    /// The room of the data file. None if the store is on no file.
    pub(crate) fn space(&self) -> Option<Space> {
        let core = self.core();
        core.opened.as_ref()?;
        let file = fs::metadata(&core.path).ok()?.len();
        let system = rustix::fs::statvfs(&core.path).ok()?;
        Some(Space { file, free: system.f_bavail.saturating_mul(system.f_frsize) })
    }
}
