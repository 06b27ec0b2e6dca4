//! Opens a file of another release: copies it first, for a downgrade, then converts it.

use std::path::{Path, PathBuf};

use model::error::Result;
use store::{OpenStore, Progress, Read, Reader, Store, beside};

/// The setting with the release that last used the file; written once the file holds a complete
/// controller.
const SETTING: &str = "release";
const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// Converts the file to this release. If another release last used it, or it has an earlier format,
/// it is first copied beside itself; returns the path of the copy. Must be called before anything
/// is read or written.
///
/// # Errors
/// The copy cannot be made, or the file cannot be written; then it is unchanged.
pub fn upgrade(store: &OpenStore, data: &Path) -> Result<Option<PathBuf>> {
    if is_of_this_release(store)? {
        return Ok(None);
    }
    let copy = downgrade_copy(data);
    // Copying a large file takes many seconds, in which the controller does not answer.
    tracing::info!(file = %copy.display(), "another release last used the file; copying it before the upgrade");
    store.snapshot(&copy, &Progress::default())?;
    tracing::info!(file = %copy.display(), "the data file was copied");
    convert(store).map(|()| Some(copy))
}

/// The copy of a file as another release left it.
pub(crate) fn downgrade_copy(data: &Path) -> PathBuf {
    beside(data, &format!(".before-{RELEASE}"))
}

/// Converts a file that was copied already. The note of the release is written in the same
/// transaction, so that the copy is never overwritten by one of the converted file.
///
/// # Errors
/// The file cannot be read or written; then it is unchanged.
pub(crate) fn convert(store: &OpenStore) -> Result<()> {
    let is_complete = store.read(has_controller)?;
    store.upgrade(is_complete.then_some((SETTING, RELEASE.as_bytes())))
}

/// Whether this release, or none, was the last to use the file.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn is_of_this_release(store: &Reader) -> Result<bool> {
    let last = store.read(|read| read.setting(SETTING))?;
    Ok(store.is_current()? && last.is_none_or(|last| last == RELEASE.as_bytes()))
}

/// Records that the file holds a controller, if that is not recorded yet.
///
/// # Errors
/// The file cannot be written.
pub fn record_release(store: &Store) -> Result<()> {
    if store.read(has_controller)? {
        Ok(())
    } else {
        store.write_blocking(|tx| tx.set_setting(SETTING, Some(RELEASE.as_bytes())))
    }
}

/// Whether a controller was ever complete in the file.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn has_controller(read: &Read<'_>) -> Result<bool> {
    Ok(read.setting(SETTING)?.is_some())
}
