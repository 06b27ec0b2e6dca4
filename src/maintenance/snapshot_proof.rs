//! The proof of a snapshot: the file is complete, as its manifest says, and what it holds is sound.
//!
//! Not here: the comparison of a copy with its original when it is made (`store/file/snapshot.rs`), and the start of a controller on a
//! restored copy (`cli/drill.rs`).

use std::path::Path;

use super::offline::{CheckedFile, OfflineError, check};
use crate::{
    pki::Passphrase,
    store::{Manifest, Progress},
};

/// Checks that a snapshot is complete and sound.
///
/// # Errors
/// It is damaged or not a snapshot, or cannot be read; the passphrase is wrong.
pub fn verify(snapshot: &Path, passphrase: Option<&Passphrase>, progress: &Progress) -> Result<CheckedFile, OfflineError> {
    let found = check(snapshot, passphrase, progress)?;
    manifest_of(&found, snapshot)?;
    Ok(found)
}

pub(super) fn manifest_of<'f>(found: &'f CheckedFile, snapshot: &Path) -> Result<&'f Manifest, OfflineError> {
    let missing = || OfflineError::Other(format!("{} is a data file, not a snapshot: it has no manifest", snapshot.display()));
    found.manifest.as_ref().ok_or_else(missing)
}
