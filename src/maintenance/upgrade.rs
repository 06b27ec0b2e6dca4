//! The first start of another release: a copy of the file as the one before left it, for the way back.

use std::path::Path;

use crate::{
    error::Result,
    store::{Read, Store, Watch, beside},
};

/// The setting that names the release which last started on the file.
const SETTING: &str = "release";
const OURS: &str = env!("CARGO_PKG_VERSION");

/// Copies the file to one beside it, if another release was the last to start on it. To be called before anything is written.
///
/// # Errors
/// The copy cannot be made; then the file is still as the other release left it.
pub fn before_upgrade(store: &Store, data: &Path) -> Result<()> {
    if store.is_new() || is_ours(store)? {
        return Ok(());
    }
    let copy = beside(data, &format!(".before-{OURS}"));
    // Of a large file it takes many seconds, in which nobody is answered.
    tracing::info!(file = %copy.display(), "another release was the last to start on the file; copying it first");
    store.snapshot(&copy, &Watch::default())?;
    tracing::info!(file = %copy.display(), "copied");
    Ok(())
}

/// From now on the file is one of this release. To be called once it holds a controller.
///
/// # Errors
/// The file cannot be written.
pub fn upgraded(store: &Store) -> Result<()> {
    if is_ours(store)? { Ok(()) } else { store.write_blocking(|tx| tx.set_setting(SETTING, Some(OURS.as_bytes()))) }
}

/// Whether a controller has ever been complete in the file.
///
/// # Errors
/// The file cannot be read.
pub fn holds_a_controller(read: &Read<'_>) -> Result<bool> {
    Ok(read.setting(SETTING)?.is_some())
}

fn is_ours(store: &Store) -> Result<bool> {
    Ok(store.read(|tx| tx.setting(SETTING))?.as_deref() == Some(OURS.as_bytes()))
}
