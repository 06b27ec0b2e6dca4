//! What another release left: first a copy of the file as it is, for the way back, then it is brought to the format of this one.

use std::path::{Path, PathBuf};

use crate::{
    error::Result,
    store::{OpenStore, Progress, Read, Reader, Store, beside},
};

/// The setting that names the release which was the last to use the file, once it holds a controller.
const SETTING: &str = "release";
const OURS: &str = env!("CARGO_PKG_VERSION");

/// Brings the file to this release. If another was the last to use it, or it has an earlier format, it is copied to one beside it before;
/// answers which. To be called before anything is looked up or written.
///
/// # Errors
/// The copy cannot be made, or the file not be written; then it is still as the other release left it.
pub fn upgrade(store: &OpenStore, data: &Path) -> Result<Option<PathBuf>> {
    if is_ours(store)? {
        return Ok(None);
    }
    let copy = way_back(data);
    // Of a large file it takes many seconds, in which nobody is answered.
    tracing::info!(file = %copy.display(), "another release was the last to use the file; copying it first");
    store.snapshot(&copy, &Progress::default())?;
    tracing::info!(file = %copy.display(), "copied");
    adopt(store).map(|()| Some(copy))
}

/// The copy of a file as another release left it.
pub fn way_back(data: &Path) -> PathBuf {
    beside(data, &format!(".before-{OURS}"))
}

/// Brings the file to this release, where it was copied already. That is on disk together with the note that it is ours: the copy is never
/// made again, of what this release has made of the file.
///
/// # Errors
/// The file cannot be read or written; then it is as it was.
pub fn adopt(store: &OpenStore) -> Result<()> {
    let is_complete = store.read(holds_a_controller)?;
    store.upgrade(is_complete.then_some((SETTING, OURS.as_bytes())))
}

/// Whether no other release was the last to use the file.
///
/// # Errors
/// The file cannot be read.
pub fn is_ours(store: &Reader) -> Result<bool> {
    let last = store.read(|read| read.setting(SETTING))?;
    Ok(store.is_current()? && last.is_none_or(|last| last == OURS.as_bytes()))
}

/// Notes that the file holds a controller, if that is not known yet.
///
/// # Errors
/// The file cannot be written.
pub fn completed(store: &Store) -> Result<()> {
    if store.read(holds_a_controller)? { Ok(()) } else { store.write_blocking(|tx| tx.set_setting(SETTING, Some(OURS.as_bytes()))) }
}

/// Whether a controller has ever been complete in the file.
///
/// # Errors
/// The file cannot be read.
pub fn holds_a_controller(read: &Read<'_>) -> Result<bool> {
    Ok(read.setting(SETTING)?.is_some())
}
