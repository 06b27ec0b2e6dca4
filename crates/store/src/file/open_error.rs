//! Why the data file could not be opened.

use std::{io, path::PathBuf};

/// Why the store could not be opened. The message is one line that names the file or directory
/// concerned.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{} is in use by another process", .0.display())]
    Locked(PathBuf),
    #[error("cannot create a file in {}: {reason}", .directory.display())]
    Directory {
        directory: PathBuf,
        reason: io::Error,
    },
    #[error("{} is not a data file of Overkeep", .0.display())]
    NotOurs(PathBuf),
    #[error("{} was written by a newer release: it has format {found}, this release reads up to {known}", .path.display())]
    Newer {
        path: PathBuf,
        found: u32,
        known: u32,
    },
    #[error("{} is damaged: {reason}", .path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("{}: {reason}", .path.display())]
    Io { path: PathBuf, reason: io::Error },
}
