//! The proof of a snapshot: the file is complete, as its manifest says, and what it holds is sound.
//!
//! The proof consists of the sum over all rows (`crates/store/src/file/manifest.rs`) and the checks
//! of every record and index (`crates/store/src/integrity/`) and of keys and certificates
//! (`file_check.rs`). A restore begins with the proof. Not here: the comparison of a copy with its
//! original when it is made (`crates/store/src/file/snapshot.rs`), and the start of a controller on
//! a restored copy (`controller/drill.rs`).

use std::path::Path;

use pki::Passphrase;
use store::{Manifest, Progress, Store};

use super::offline::{CheckedFile, OfflineError, inspect};

/// A snapshot that is complete.
pub(super) struct Proven {
    /// The snapshot, opened read-only and converted to the current format in memory.
    pub store: Store,
    pub manifest: Manifest,
    pub checked: CheckedFile,
}

/// Reads a snapshot and compares it with its manifest. Faults of the content are in the findings;
/// without findings the snapshot is sound.
///
/// # Errors
/// It is damaged, not a snapshot, or cannot be read; the passphrase is wrong.
pub fn verify(
    snapshot: &Path,
    passphrase: Option<&Passphrase>,
    progress: &Progress,
) -> Result<CheckedFile, OfflineError> {
    prove(snapshot, passphrase, progress).map(|proven| proven.checked)
}

/// As [`verify`], with the opened file.
///
/// # Errors
/// As [`verify`].
pub(super) fn prove(
    snapshot: &Path,
    passphrase: Option<&Passphrase>,
    progress: &Progress,
) -> Result<Proven, OfflineError> {
    let (store, checked) = inspect(snapshot, passphrase, progress)?;
    let missing = || {
        OfflineError::Other(format!(
            "{} is a data file, not a snapshot: it has no manifest",
            snapshot.display()
        ))
    };
    let manifest = checked.manifest.clone().ok_or_else(missing)?;
    Ok(Proven {
        store,
        manifest,
        checked,
    })
}
