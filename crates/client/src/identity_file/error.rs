//! Why the file of an identity cannot be used.

use std::{io, path::PathBuf};

/// Why the file of an identity cannot be used or written.
#[derive(Debug, thiserror::Error)]
pub enum IdentityFileError {
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error("it is not JSON: {0}")]
    NoJson(serde_json::Error),
    #[error("{member}: {reason}")]
    Member {
        member: &'static str,
        reason: String,
    },
}

impl IdentityFileError {
    pub(super) fn of(member: &'static str, reason: impl ToString) -> Self {
        let reason = reason.to_string();
        Self::Member { member, reason }
    }
}
