//! A snapshot replaces a data file that no controller has open.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use model::clock::Timestamp;
use pki::Passphrase;
use store::{NEWEST, Progress, ReservedName, beside, hold, is_one};

use super::{
    offline::{CheckedFile, OfflineError, copy, failed, open_read_only, resolved},
    snapshot_proof::{Proven, prove},
};

/// Replaces a data file by the content of a snapshot that is complete and sound. If it is not
/// sound, the report says why and nothing is changed. Returns the path of the previous data file,
/// if there was one.
///
/// # Errors
/// As [`super::snapshot_proof::verify`]; also if a controller has the file open, or it cannot be
/// replaced. Then it is unchanged.
pub fn restore(
    snapshot: &Path,
    file: &Path,
    passphrase: Option<&Passphrase>,
    now: Timestamp,
    progress: &Progress,
) -> Result<(CheckedFile, Option<PathBuf>), OfflineError> {
    let is_there = file.try_exists().map_err(|e| failed(file, e))?;
    let file = &if is_there {
        resolved(file)?
    } else {
        file.to_owned()
    };
    if is_there && same(snapshot, file) {
        return Err(OfflineError::Other(format!(
            "{} is the data file itself; name a snapshot",
            snapshot.display()
        )));
    }
    // The lock is held until the name belongs to the new file, so that nobody writes to the old
    // file or creates one meanwhile.
    let held = is_there.then(|| hold(file)).transpose()?;
    let _reserved = if is_there {
        None
    } else {
        Some(ReservedName::take(file)?)
    };
    replace(snapshot, file, held.as_ref(), passphrase, now, progress)
}

fn replace(
    snapshot: &Path,
    file: &Path,
    held: Option<&File>,
    passphrase: Option<&Passphrase>,
    now: Timestamp,
    progress: &Progress,
) -> Result<(CheckedFile, Option<PathBuf>), OfflineError> {
    let Proven {
        store: converted,
        manifest,
        checked,
    } = prove(snapshot, passphrase, progress)?;
    if !checked.report.findings.is_empty() {
        return Ok((checked, None));
    }
    let store = if manifest.format == NEWEST {
        converted
    } else {
        open_read_only(snapshot)?.start()?
    };
    let backup = held.map(|_| back_up(file, now)).transpose()?;
    let restored = store.restore(&manifest, file, progress);
    if let (Err(_), Some(held), Some(backup)) = (&restored, held, &backup) {
        remove_backup(backup, held, file);
    }
    restored?;
    Ok((checked, backup))
}

/// Removes the second name of a file, if it still has its first one.
fn remove_backup(backup: &Path, held: &File, file: &Path) {
    if let (Ok(held), Ok(there)) = (held.metadata(), fs::metadata(file))
        && is_one(&held, &there)
    {
        drop(fs::remove_file(backup));
    }
}

/// Gives a file a second name, which stays when the first name is given to another file.
fn back_up(file: &Path, now: Timestamp) -> Result<PathBuf, OfflineError> {
    let backup = beside(
        file,
        &format!(
            ".before-restore-{}",
            now.to_string().replace([':', '-'], "")
        ),
    );
    // Some file systems have no hard links.
    let linked = fs::hard_link(file, &backup);
    let made = linked.or_else(|e| {
        if e.kind() == io::ErrorKind::AlreadyExists {
            Err(e)
        } else {
            copy(file, &backup)
        }
    });
    made.map_err(|e| failed(&backup, e)).map(|()| backup)
}

/// Whether two paths lead to the same file.
fn same(one: &Path, other: &Path) -> bool {
    fs::metadata(one).is_ok_and(|one| fs::metadata(other).is_ok_and(|other| is_one(&one, &other)))
}
