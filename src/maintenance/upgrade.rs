//! What another release left: first a copy of the file as it is, for the way back, then it is brought to the format of this one.

use std::path::Path;

use crate::{
    error::Result,
    store::{Read, Store, Watch, beside},
};

/// The setting that names the release which was the last to use the file, once it holds a controller.
const SETTING: &str = "release";
const OURS: &str = env!("CARGO_PKG_VERSION");

/// Brings the file to this release; if another was the last to use it, after copying it to one beside it. To be called before anything is
/// looked up or written.
///
/// # Errors
/// The copy cannot be made, or the file not be written; then it is still as the other release left it.
pub fn upgrade(store: &Store, data: &Path) -> Result<()> {
    let last = store.read(|read| read.setting(SETTING))?;
    if last.is_none_or(|last| last == OURS.as_bytes()) {
        return store.upgrade();
    }
    copy(store, data)?;
    store.upgrade()?;
    // Before anything else is: nothing but what the other release left may be in that copy.
    note(store)
}

fn copy(store: &Store, data: &Path) -> Result<()> {
    let copy = beside(data, &format!(".before-{OURS}"));
    // Of a large file it takes many seconds, in which nobody is answered.
    tracing::info!(file = %copy.display(), "another release was the last to use the file; copying it first");
    store.snapshot(&copy, &Watch::default())?;
    tracing::info!(file = %copy.display(), "copied");
    Ok(())
}

/// Notes that the file holds a controller, if that is not known yet.
///
/// # Errors
/// The file cannot be written.
pub fn completed(store: &Store) -> Result<()> {
    if store.read(holds_a_controller)? { Ok(()) } else { note(store) }
}

fn note(store: &Store) -> Result<()> {
    store.write_blocking(|tx| tx.set_setting(SETTING, Some(OURS.as_bytes())))
}

/// Whether a controller has ever been complete in the file.
///
/// # Errors
/// The file cannot be read.
pub fn holds_a_controller(read: &Read<'_>) -> Result<bool> {
    Ok(read.setting(SETTING)?.is_some())
}
