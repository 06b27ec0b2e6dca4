//! Opening a file of another release: it is copied first, for the way back, then converted.

use std::path::{Path, PathBuf};

use crate::{
    error::Result,
    store::{OpenStore, Progress, Read, Reader, Store, beside},
};

/// The setting with the release that last used the file, once the file holds a controller.
const SETTING: &str = "release";
const OURS: &str = env!("CARGO_PKG_VERSION");

/// Converts the file to this release. If another release last used it, or it has an earlier format, it is first copied
/// beside itself; returns the path of the copy. Must be called before anything is read or written.
///
/// # Errors
/// The copy cannot be made, or the file cannot be written; then it is unchanged.
pub fn upgrade(store: &OpenStore, data: &Path) -> Result<Option<PathBuf>> {
    if is_ours(store)? {
        return Ok(None);
    }
    let copy = way_back(data);
    // A large file takes many seconds, in which the controller does not answer.
    tracing::info!(file = %copy.display(), "another release last used the file; copying it before the upgrade");
    store.snapshot(&copy, &Progress::default())?;
    tracing::info!(file = %copy.display(), "copied");
    adopt(store).map(|()| Some(copy))
}

/// The copy of a file as another release left it.
pub fn way_back(data: &Path) -> PathBuf {
    beside(data, &format!(".before-{OURS}"))
}

/// Converts a file that was copied already. The note of the release is written in the same transaction, so that the
/// copy is never overwritten by one of the converted file.
///
/// # Errors
/// The file cannot be read or written; then it is unchanged.
pub fn adopt(store: &OpenStore) -> Result<()> {
    let is_complete = store.read(holds_a_controller)?;
    store.upgrade(is_complete.then_some((SETTING, OURS.as_bytes())))
}

/// Whether this release, or none, was the last to use the file.
///
/// # Errors
/// The file cannot be read.
pub fn is_ours(store: &Reader) -> Result<bool> {
    let last = store.read(|read| read.setting(SETTING))?;
    Ok(store.is_current()? && last.is_none_or(|last| last == OURS.as_bytes()))
}

/// Records that the file holds a controller, if that is not recorded yet.
///
/// # Errors
/// The file cannot be written.
pub fn completed(store: &Store) -> Result<()> {
    if store.read(holds_a_controller)? { Ok(()) } else { store.write_blocking(|tx| tx.set_setting(SETTING, Some(OURS.as_bytes()))) }
}

/// Whether a controller was ever complete in the file.
///
/// # Errors
/// The file cannot be read.
pub fn holds_a_controller(read: &Read<'_>) -> Result<bool> {
    Ok(read.setting(SETTING)?.is_some())
}
