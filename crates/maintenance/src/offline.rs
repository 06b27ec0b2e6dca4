//! Check, snapshot, repair and compaction of a data file that no controller has open. [`check`] and
//! [`snapshot`] leave the file unchanged.
//!
//! Not here: the proof of a snapshot (`snapshot_proof.rs`), and its restoration (`restore.rs`).

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use model::{config::InvalidValue, error::Error};
use pki::Passphrase;
use policy::change::{KINDS, SealedKeys};
use store::{
    Finding, HistoryAnchor, Manifest, OpenError, OpenStore, Options, Progress, Report, Store,
    Unreadable, Verified, beside, clear, create_private, hold, sync_directory,
};

use super::{file_check, new_snapshot, upgrade};

/// Why the work failed, as one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OfflineError {
    /// The file can be read, but its content is damaged.
    #[error("{0}")]
    Damaged(String),
    /// Pages are damaged, so that nothing in the file can be relied on.
    #[error("{0}")]
    Pages(String),
    #[error("{0}")]
    Other(String),
}

impl From<OpenError> for OfflineError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Damaged { .. } => Self::Pages(error.to_string()),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<InvalidValue> for OfflineError {
    fn from(error: InvalidValue) -> Self {
        Self::Other(error.to_string())
    }
}

impl From<Error> for OfflineError {
    fn from(error: Error) -> Self {
        match error {
            Error::Damaged { .. } => Self::Damaged(error.to_string()),
            other => Self::Other(other.to_string()),
        }
    }
}

/// The remedy for a data file that is damaged as a whole.
pub fn remedy(file: &Path) -> String {
    format!(
        "overkeep restore SNAPSHOT --data {} replaces it by a snapshot",
        file.display()
    )
}

/// The result of a check of a closed file: its manifest, if it is a snapshot, and the findings.
#[derive(Debug)]
pub struct CheckedFile {
    pub manifest: Option<Manifest>,
    pub report: Report,
}

/// Checks the file. Sealed keys are checked if there is a passphrase.
///
/// # Errors
/// The file is damaged as a whole, or cannot be read; the passphrase is wrong.
pub fn check(
    file: &Path,
    passphrase: Option<&Passphrase>,
    progress: &Progress,
) -> Result<CheckedFile, OfflineError> {
    inspect(file, passphrase, progress).map(|(_, found)| found)
}

/// Checks the file. Also returns it, opened read-only and converted to the current format in
/// memory.
pub(super) fn inspect(
    file: &Path,
    passphrase: Option<&Passphrase>,
    progress: &Progress,
) -> Result<(Store, CheckedFile), OfflineError> {
    let damaged =
        |error: Error| OfflineError::Damaged(format!("{} is damaged: {error}", file.display()));
    let opened = open_read_only(file)?;
    let manifest = opened.manifest(progress).map_err(damaged)?;
    opened.upgrade(None)?;
    let store = opened.start()?;
    let sealed_keys = SealedKeys::unlock(&store, passphrase)?;
    let mut report = file_check::check(&store, sealed_keys.as_ref(), progress)?;
    let is_plain = sealed_keys.is_some_and(|sealed_keys| !sealed_keys.is_sealed());
    report.notes.extend(
        (is_plain && passphrase.is_some())
            .then(|| "a passphrase is given, but the keys are not sealed".into()),
    );
    Ok((store, CheckedFile { manifest, report }))
}

/// Checks the chain of the file's history.
///
/// # Errors
/// As [`check`].
pub fn verify_history(
    file: &Path,
    noted: Option<&HistoryAnchor>,
) -> Result<Verified, OfflineError> {
    Ok(open_read_only(file)?.start()?.verify_history(noted)?)
}

/// Copies the file to a new snapshot.
///
/// # Errors
/// As [`check`], or the copy cannot be made.
pub fn snapshot(file: &Path, to: &Path, progress: &Progress) -> Result<Manifest, OfflineError> {
    let store = open_read_only(file)?;
    Ok(new_snapshot(&store, to, progress)?)
}

/// Repairs what has one right value. First copies the file byte for byte to the same name with
/// `.before-repair` appended. A file that is sound is not changed and not copied.
///
/// # Errors
/// The file is damaged beyond repair, or cannot be read or written; the passphrase is wrong.
pub fn repair(
    file: &Path,
    passphrase: Option<&Passphrase>,
    unreadable: Unreadable,
    progress: &Progress,
) -> Result<Report, OfflineError> {
    if let Some(report) = report_if_sound(file, passphrase, progress) {
        return Ok(report);
    }
    let held = hold(file)?;
    let before = beside(file, ".before-repair");
    copy(file, &before)
        .map_err(|e| OfflineError::Other(format!("copying {} first: {e}", file.display())))?;
    drop(held);
    let (opened, was_torn) = Store::open_verified(file, KINDS, Options::default())?;
    if !upgrade::is_of_this_release(&opened)? {
        // The next repair overwrites `.before-repair`, so that the copy for a downgrade gets a name
        // of its own.
        let downgrade_copy = upgrade::downgrade_copy(file);
        copy(&before, &downgrade_copy).map_err(|e| failed(&downgrade_copy, e))?;
        upgrade::convert(&opened)?;
    }
    let store = opened.start()?;
    let repaired = SealedKeys::unlock(&store, passphrase).and_then(|sealed_keys| {
        file_check::repair(&store, sealed_keys.as_ref(), unreadable, progress)
    });
    store.close();
    let mut report = repaired?;
    let pages = was_torn.then(|| Finding {
        description: "pages were damaged; the file was reset to its last complete state".into(),
        fixed: true,
    });
    report.findings.splice(..0, pages);
    Ok(report)
}

/// The report on a sound file of this release. `None` if it is not sound, or if the check fails;
/// the repair then reports why.
fn report_if_sound(
    file: &Path,
    passphrase: Option<&Passphrase>,
    progress: &Progress,
) -> Option<Report> {
    let opened = open_read_only(file).ok()?;
    if !upgrade::is_of_this_release(&opened).ok()? {
        return None;
    }
    let store = opened.start().ok()?;
    let sealed_keys = SealedKeys::unlock(&store, passphrase).ok()?;
    file_check::check(&store, sealed_keys.as_ref(), progress)
        .ok()
        .filter(|report| report.findings.is_empty())
}

/// Releases the unused space of the file. Returns its length before and after, in bytes.
///
/// # Errors
/// It is damaged, or cannot be read or written.
pub fn compact(file: &Path) -> Result<(u64, u64), OfflineError> {
    let length = || {
        fs::metadata(file)
            .map(|found| found.len())
            .map_err(|e| failed(file, e))
    };
    let before = length()?;
    Store::compact(file, KINDS)?;
    Ok((before, length()?))
}

/// The target of a path with links: the new file must replace the target, not the link.
pub(super) fn resolved(file: &Path) -> Result<PathBuf, OfflineError> {
    fs::canonicalize(file).map_err(|e| failed(file, e))
}

/// Replaces a file by one whose keys are sealed with the next passphrase, or stored in plain
/// without one. The new file is a copy without unused pages, so that nothing of the previous form
/// remains in it. After a crash the path holds either the previous file or the new one, complete.
/// If another release wrote the file, returns the path of a copy in which that release left it; the
/// keys in that copy keep their previous form.
///
/// # Errors
/// The file is damaged or in use, its passphrase is missing or wrong, or the new file cannot be
/// made. Then it is unchanged.
pub fn reseal(
    file: &Path,
    passphrase: Option<&Passphrase>,
    next: Option<&Passphrase>,
    progress: &Progress,
) -> Result<Option<PathBuf>, OfflineError> {
    let file = &resolved(file)?;
    let opened = Store::open_read_only_exclusively(file, KINDS, Options::default())?;
    let (from, to) = (SealedKeys::of(&opened, passphrase)?, SealedKeys::new(next)?);
    let copy = upgrade::upgrade(&opened, file)?;
    let store = opened.start()?;
    store.write_blocking(move |tx| from.reseal(tx, &to))?;
    store.supersede(file, progress)?;
    Ok(copy)
}

pub(super) fn open_read_only(file: &Path) -> Result<OpenStore, OfflineError> {
    Ok(Store::open_read_only(file, KINDS, Options::default())?)
}

pub(super) fn failed(file: &Path, reason: io::Error) -> OfflineError {
    OfflineError::Other(format!("{}: {reason}", file.display()))
}

/// Copies bytes to a file that only its owner may read, and replaces a file of that name.
pub(super) fn copy(file: &Path, to: &Path) -> io::Result<()> {
    let unfinished = beside(to, ".unfinished");
    clear(&unfinished).map_err(|error| io::Error::other(error.to_string()))?;
    let copied = create_private(&unfinished).and_then(|mut copied| {
        io::copy(&mut File::open(file)?, &mut copied)?;
        copied.sync_all()
    });
    // An incomplete copy is removed, because it would keep a full disk full.
    copied.inspect_err(|_| drop(fs::remove_file(&unfinished)))?;
    fs::rename(&unfinished, to)?;
    sync_directory(to)
}
