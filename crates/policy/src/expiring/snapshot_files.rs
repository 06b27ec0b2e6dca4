//! The files of scheduled snapshots: their names, the newest, and whether one is overdue. What
//! makes and removes them (`maintenance/src/schedule.rs`) is not here.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use model::{clock::Timestamp, config::Snapshots};

const PREFIX: &str = "overkeep-";
const SUFFIX: &str = ".snapshot";
/// The pause after a failed attempt, unless the interval of the schedule is shorter. Frequent
/// attempts would fill a nearly full disk again and again, and other programs need the remaining
/// space.
pub const RETRY_PAUSE: Duration = Duration::from_secs(600);

/// The name of a scheduled snapshot that is made at this time.
pub fn name(at: Timestamp) -> String {
    format!("{PREFIX}{}{SUFFIX}", at.to_string().replace([':', '-'], ""))
}

/// The newest scheduled snapshot in a directory, and its time. Without those from the future, as
/// [`last`].
///
/// # Errors
/// The directory cannot be read.
pub fn newest(directory: &Path, now: Timestamp) -> io::Result<Option<(Timestamp, PathBuf)>> {
    Ok(last(all(directory)?, now))
}

/// The scheduled snapshots in a directory, and their times.
///
/// # Errors
/// The directory cannot be read.
pub fn all(directory: &Path) -> io::Result<Vec<(Timestamp, PathBuf)>> {
    files(directory).map(snapshots)
}

/// What interrupted attempts left in a directory.
///
/// # Errors
/// The directory cannot be read.
pub fn unfinished(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let ours = |path: &PathBuf| {
        [".unfinished", ".unfinished.new"]
            .iter()
            .any(|end| time_in_name(path, &format!("{SUFFIX}{end}")).is_some())
    };
    Ok(files(directory)?.into_iter().filter(ours).collect())
}

/// The newest of the snapshots, without those from the future: the clock was wrong then or is wrong
/// now.
pub fn last(snapshots: Vec<(Timestamp, PathBuf)>, now: Timestamp) -> Option<(Timestamp, PathBuf)> {
    snapshots.into_iter().filter(|(at, _)| *at <= now).max()
}

/// A scheduled snapshot that was not made.
pub struct OverdueSnapshot {
    /// When it should have been made.
    pub due: Timestamp,
    /// The newest one, if there is any.
    pub newest: Option<PathBuf>,
}

/// The scheduled snapshot that is overdue by more than one interval. Without any snapshot, the
/// first was due at the start of the controller, `started`. A directory that cannot be read has
/// none. Shortly after a start nothing is overdue: the schedule catches up first.
pub fn overdue(
    settings: &Snapshots,
    started: Timestamp,
    now: Timestamp,
) -> Option<OverdueSnapshot> {
    let (directory, interval) = (settings.directory.as_ref()?, settings.interval.duration());
    let newest = files(directory)
        .ok()
        .and_then(|files| last(snapshots(files), now));
    let due = newest.as_ref().map_or(started, |(at, _)| at.plus(interval));
    let is_overdue = now > due.plus(interval) && now > started.plus(RETRY_PAUSE.min(interval));
    is_overdue.then(|| OverdueSnapshot {
        due,
        newest: newest.map(|(_, path)| path),
    })
}

fn snapshots(files: Vec<PathBuf>) -> Vec<(Timestamp, PathBuf)> {
    files
        .into_iter()
        .filter_map(|path| Some((time_in_name(&path, SUFFIX)?, path)))
        .collect()
}

fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect()
}

/// The time in the name of a scheduled file with this ending.
fn time_in_name(path: &Path, end: &str) -> Option<Timestamp> {
    let compact = path
        .file_name()?
        .to_str()?
        .strip_prefix(PREFIX)?
        .strip_suffix(end)?;
    let (date, time) = compact.split_once('T')?;
    let part = |text: &str, from: usize, to: usize| text.get(from..to).map(str::to_owned);
    let (year, month, day) = (part(date, 0, 4)?, part(date, 4, 6)?, part(date, 6, 8)?);
    let (hour, minute, rest) = (part(time, 0, 2)?, part(time, 2, 4)?, time.get(4..)?);
    let read: Timestamp = format!("{year}-{month}-{day}T{hour}:{minute}:{rest}")
        .parse()
        .ok()?;
    // The time formatted again must give the same name, otherwise the file is not one of ours.
    (read.to_string().replace([':', '-'], "") == compact).then_some(read)
}
