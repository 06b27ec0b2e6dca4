//! Check, snapshot, repair and restore of a data file that no controller has open. [`check`], [`snapshot`] and
//! [`verify`] leave the file unchanged.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use super::{new_snapshot, soundness, upgrade};
use crate::{
    change::{KINDS, SealedKeys},
    clock::Timestamp,
    config::Broken,
    error::Error,
    pki::Passphrase,
    store::{
        Anchor, Finding, Manifest, NEWEST, OpenError, OpenStore, Options, Progress, Report, Store, Unreadable, Verified, beside, clear,
        create_private, hold, is_one, reserve, sync_directory, unnamed,
    },
};

/// Why the work failed, as one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    /// The file can be read, but its content is damaged.
    #[error("{0}")]
    Damaged(String),
    /// Pages are damaged, so that nothing in the file can be relied on.
    #[error("{0}")]
    Pages(String),
    #[error("{0}")]
    Other(String),
}

impl From<OpenError> for Failed {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Damaged { .. } => Self::Pages(error.to_string()),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<Broken> for Failed {
    fn from(error: Broken) -> Self {
        Self::Other(error.to_string())
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        match error {
            Error::Damaged { .. } => Self::Damaged(error.to_string()),
            other => Self::Other(other.to_string()),
        }
    }
}

/// The remedy for a data file that is damaged as a whole.
pub(crate) fn remedy(file: &Path) -> String {
    format!("overkeep restore SNAPSHOT --data {} replaces it by a snapshot", file.display())
}

/// The result of a check of a closed file: its manifest, if it is a snapshot, and the findings.
#[derive(Debug)]
pub struct Found {
    pub manifest: Option<Manifest>,
    pub report: Report,
}

/// Checks the file. Sealed keys are checked if there is a passphrase.
///
/// # Errors
/// The file is damaged as a whole, or cannot be read; the passphrase is wrong.
pub fn check(file: &Path, passphrase: Option<&Passphrase>, progress: &Progress) -> Result<Found, Failed> {
    inspect(file, passphrase, progress).map(|(_, found)| found)
}

/// Checks the file. Also returns it, opened read-only and converted to the current format in memory.
fn inspect(file: &Path, passphrase: Option<&Passphrase>, progress: &Progress) -> Result<(Store, Found), Failed> {
    let damaged = |error: Error| Failed::Damaged(format!("{} is damaged: {error}", file.display()));
    let opened = open_read_only(file)?;
    let manifest = opened.manifest(progress).map_err(damaged)?;
    opened.upgrade(None)?;
    let store = opened.start()?;
    let sealed_keys = SealedKeys::unlock(&store, passphrase)?;
    let mut report = soundness::check(&store, sealed_keys.as_ref(), progress)?;
    let is_plain = sealed_keys.is_some_and(|sealed_keys| !sealed_keys.is_sealed());
    report.notes.extend((is_plain && passphrase.is_some()).then(|| "a passphrase is given, but the keys are not sealed".into()));
    Ok((store, Found { manifest, report }))
}

/// Checks the chain of the file's history.
///
/// # Errors
/// As [`check`].
pub fn verify_history(file: &Path, noted: Option<&Anchor>) -> Result<Verified, Failed> {
    Ok(open_read_only(file)?.start()?.verify_history(noted)?)
}

/// Copies the file to a new snapshot.
///
/// # Errors
/// As [`check`], or the copy cannot be made.
pub fn snapshot(file: &Path, to: &Path, progress: &Progress) -> Result<Manifest, Failed> {
    let store = open_read_only(file)?;
    Ok(new_snapshot(&store, to, progress)?)
}

/// Copies the file byte for byte to one with `.before-repair` appended to its name, then repairs what has one right
/// value.
///
/// # Errors
/// The file is damaged beyond repair, or cannot be read or written; the passphrase is wrong.
pub fn repair(file: &Path, passphrase: Option<&Passphrase>, unreadable: Unreadable, progress: &Progress) -> Result<Report, Failed> {
    if let Some(report) = report_if_sound(file, passphrase, progress) {
        return Ok(report);
    }
    let held = hold(file)?;
    let before = beside(file, ".before-repair");
    copy(file, &before).map_err(|e| Failed::Other(format!("copying {} first: {e}", file.display())))?;
    drop(held);
    let (opened, was_torn) = Store::open_verified(file, KINDS, Options::default())?;
    if !upgrade::is_of_this_release(&opened)? {
        // The next repair overwrites `.before-repair`, so that the copy for a downgrade gets a name of its own.
        let downgrade_copy = upgrade::downgrade_copy(file);
        copy(&before, &downgrade_copy).map_err(|e| failed(&downgrade_copy, e))?;
        upgrade::convert(&opened)?;
    }
    let store = opened.start()?;
    let repaired = SealedKeys::unlock(&store, passphrase)
        .and_then(|sealed_keys| soundness::repair(&store, sealed_keys.as_ref(), unreadable, progress));
    store.close();
    let mut report = repaired?;
    let pages =
        was_torn.then(|| Finding { description: "pages were damaged; the file was reset to its last complete state".into(), fixed: true });
    report.findings.splice(..0, pages);
    Ok(report)
}

/// The report on a sound file of this release. `None` if it is not sound, or if the check fails; the repair then
/// reports why.
fn report_if_sound(file: &Path, passphrase: Option<&Passphrase>, progress: &Progress) -> Option<Report> {
    let opened = open_read_only(file).ok()?;
    if !upgrade::is_of_this_release(&opened).ok()? {
        return None;
    }
    let store = opened.start().ok()?;
    let sealed_keys = SealedKeys::unlock(&store, passphrase).ok()?;
    soundness::check(&store, sealed_keys.as_ref(), progress).ok().filter(|report| report.findings.is_empty())
}

/// Releases the unused space of the file. Returns its length before and after, in bytes.
///
/// # Errors
/// It is damaged, or cannot be read or written.
pub fn compact(file: &Path) -> Result<(u64, u64), Failed> {
    let length = || fs::metadata(file).map(|found| found.len()).map_err(|e| failed(file, e));
    let before = length()?;
    Store::compact(file, KINDS)?;
    Ok((before, length()?))
}

/// Checks that a snapshot is complete and sound.
///
/// # Errors
/// It is damaged or not a snapshot, or cannot be read; the passphrase is wrong.
pub fn verify(snapshot: &Path, passphrase: Option<&Passphrase>, progress: &Progress) -> Result<Found, Failed> {
    let found = check(snapshot, passphrase, progress)?;
    manifest_of(&found, snapshot)?;
    Ok(found)
}

fn manifest_of<'f>(found: &'f Found, snapshot: &Path) -> Result<&'f Manifest, Failed> {
    let missing = || Failed::Other(format!("{} is a data file, not a snapshot: it has no manifest", snapshot.display()));
    found.manifest.as_ref().ok_or_else(missing)
}

/// Replaces a data file by the content of a snapshot that is complete and sound. If it is not sound, the report says
/// why and nothing is changed. Returns the path of the previous data file, if there was one.
///
/// # Errors
/// As [`verify`]; also if a controller has the file open, or it cannot be replaced. Then it is unchanged.
pub fn restore(
    snapshot: &Path,
    file: &Path,
    passphrase: Option<&Passphrase>,
    now: Timestamp,
    progress: &Progress,
) -> Result<(Found, Option<PathBuf>), Failed> {
    let is_there = file.try_exists().map_err(|e| failed(file, e))?;
    let file = &if is_there { resolved(file)? } else { file.to_owned() };
    if is_there && same(snapshot, file) {
        return Err(Failed::Other(format!("{} is the data file itself; name a snapshot", snapshot.display())));
    }
    // The lock is held until the name belongs to the new file, so that nobody writes to the old file or creates one
    // meanwhile.
    let held = if is_there { hold(file)? } else { reserve(file)? };
    let restored = replace(snapshot, file, is_there.then_some(&held), passphrase, now, progress);
    if !is_there {
        drop(fs::remove_file(unnamed(file)));
    }
    restored
}

fn replace(
    snapshot: &Path,
    file: &Path,
    held: Option<&File>,
    passphrase: Option<&Passphrase>,
    now: Timestamp,
    progress: &Progress,
) -> Result<(Found, Option<PathBuf>), Failed> {
    let (converted, found) = inspect(snapshot, passphrase, progress)?;
    let manifest = manifest_of(&found, snapshot)?;
    if !found.report.findings.is_empty() {
        return Ok((found, None));
    }
    let store = if manifest.format == NEWEST { converted } else { open_read_only(snapshot)?.start()? };
    let backup = held.map(|_| back_up(file, now)).transpose()?;
    let restored = store.restore(manifest, file, progress);
    if let (Err(_), Some(held), Some(backup)) = (&restored, held, &backup) {
        remove_backup(backup, held, file);
    }
    restored?;
    Ok((found, backup))
}

/// Whether two paths lead to the same file.
fn same(one: &Path, other: &Path) -> bool {
    fs::metadata(one).is_ok_and(|one| fs::metadata(other).is_ok_and(|other| is_one(&one, &other)))
}

/// The target of a path with links: the new file must replace the target, not the link.
fn resolved(file: &Path) -> Result<PathBuf, Failed> {
    fs::canonicalize(file).map_err(|e| failed(file, e))
}

/// Replaces a file by one whose keys are sealed with the next passphrase, or stored in plain without one. The new file
/// is a copy without unused pages, so that nothing of the previous form remains in it. A crash leaves one or the other.
/// If another release wrote the file, returns the path of a copy in which that release left it; the keys in that copy
/// keep their previous form.
///
/// # Errors
/// The file is damaged or in use, its passphrase is missing or wrong, or the new file cannot be made. Then it is
/// unchanged.
pub fn reseal(
    file: &Path,
    passphrase: Option<&Passphrase>,
    next: Option<&Passphrase>,
    progress: &Progress,
) -> Result<Option<PathBuf>, Failed> {
    let file = &resolved(file)?;
    let opened = Store::open_read_only_exclusively(file, KINDS, Options::default())?;
    let (from, to) = (SealedKeys::of(&opened, passphrase)?, SealedKeys::new(next)?);
    let copy = upgrade::upgrade(&opened, file)?;
    let store = opened.start()?;
    store.write_blocking(move |tx| from.reseal(tx, &to))?;
    store.supersede(file, progress)?;
    Ok(copy)
}

/// Removes the second name of a file, if it still has its first one.
fn remove_backup(backup: &Path, held: &File, file: &Path) {
    if let (Ok(held), Ok(there)) = (held.metadata(), fs::metadata(file))
        && is_one(&held, &there)
    {
        drop(fs::remove_file(backup));
    }
}

fn open_read_only(file: &Path) -> Result<OpenStore, Failed> {
    Ok(Store::open_read_only(file, KINDS, Options::default())?)
}

fn failed(file: &Path, reason: io::Error) -> Failed {
    Failed::Other(format!("{}: {reason}", file.display()))
}

/// Gives a file a second name, which stays when the first name is given to another file.
fn back_up(file: &Path, now: Timestamp) -> Result<PathBuf, Failed> {
    let backup = beside(file, &format!(".before-restore-{}", now.to_string().replace([':', '-'], "")));
    // Some file systems have no hard links.
    let linked = fs::hard_link(file, &backup);
    let made = linked.or_else(|e| if e.kind() == io::ErrorKind::AlreadyExists { Err(e) } else { copy(file, &backup) });
    made.map_err(|e| failed(&backup, e)).map(|()| backup)
}

/// Copies bytes to a file that only its owner may read, and replaces a file of that name.
fn copy(file: &Path, to: &Path) -> io::Result<()> {
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
