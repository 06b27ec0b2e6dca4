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
    if is_of_another(store)? {
        copy(store, data)?;
    }
    adopt(store)
}

/// Brings the file to this release, where it was copied already. Nothing that is written from now on gets into that copy: it will not be made
/// again.
///
/// # Errors
/// The file cannot be read or written.
pub fn adopt(store: &Store) -> Result<()> {
    let is_of_another = is_of_another(store)?;
    store.upgrade()?;
    if is_of_another { note(store) } else { Ok(()) }
}

fn is_of_another(store: &Store) -> Result<bool> {
    Ok(store.read(|read| read.setting(SETTING))?.is_some_and(|last| last != OURS.as_bytes()))
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
