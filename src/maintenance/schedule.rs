//! Scheduled snapshots, named by their time, and their retention.
//!
//! Invariant: only files with such names are ever removed, and none before a newer one is complete.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{Background, Maintenance, off_site};
use crate::{
    clock::{Clock, Timestamp},
    config::Snapshots,
    error::{Error, Refusal, Result},
    store::Progress,
};

const PREFIX: &str = "overkeep-";
const SUFFIX: &str = ".snapshot";
/// The interval at which the schedule is checked.
const TICK: Duration = Duration::from_secs(20);
/// The pause after a failed attempt, unless the interval of the schedule is shorter. Frequent
/// attempts would fill a nearly full disk again and again, and other programs need the remaining
/// space.
const RETRY_PAUSE: Duration = Duration::from_secs(600);

/// The schedule of snapshots.
pub struct Schedule {
    maintenance: Maintenance,
    clock: Clock,
    directory: PathBuf,
    interval: Duration,
    keep: usize,
    keep_for: Duration,
    after: Vec<String>,
}

impl Schedule {
    /// The configured schedule; `None` without a directory.
    pub fn of(settings: &Snapshots, maintenance: Maintenance, clock: Clock) -> Option<Self> {
        let Snapshots {
            directory,
            interval,
            keep,
            keep_for,
            after,
        } = settings.clone();
        let (interval, keep_for) = (interval.duration(), keep_for.duration());
        Some(Self {
            maintenance,
            clock,
            directory: directory?,
            interval,
            keep,
            keep_for,
            after,
        })
    }

    /// Runs the schedule until the result is dropped.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(self) -> io::Result<Background> {
        Background::start("snapshots", move |progress| {
            let Err(error) = self.round(progress) else {
                return TICK;
            };
            self.maintenance.metrics().snapshot_failures.inc();
            tracing::error!(%error, directory = %self.directory.display(), "a scheduled snapshot failed; it will be tried again");
            RETRY_PAUSE.min(self.interval)
        })
    }

    /// Makes a snapshot if one is due and no other is being made, and removes the oldest ones.
    /// Returns the path of the new snapshot.
    ///
    /// # Errors
    /// The directory cannot be used, or the snapshot cannot be made.
    pub fn round(&self, progress: &Progress) -> Result<Option<PathBuf>> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)
            .map_err(|e| self.failed(&e))?;
        let now = self.clock.now();
        let snapshots = self.snapshots()?;
        let last = last(snapshots, now).map(|(at, _)| at);
        self.maintenance
            .metrics()
            .snapshot_at
            .set(last.map(Timestamp::seconds).unwrap_or_default());
        if last.is_some_and(|last| now.since(last) < self.interval) {
            return Ok(None);
        }
        // Interrupted attempts may have left files that take the space this one needs.
        self.remove(self.unfinished()?)?;
        let to = self.directory.join(format!(
            "{PREFIX}{}{SUFFIX}",
            now.to_string().replace([':', '-'], "")
        ));
        match self.maintenance.snapshot_to(&to, progress) {
            Err(Error::Refused(Refusal::RateLimited)) => return Ok(None),
            other => other?,
        };
        self.maintenance.metrics().snapshot_at.set(now.seconds());
        tracing::info!(file = %to.display(), "made a scheduled snapshot");
        self.remove_oldest(now)?;
        if let Err(error) = off_site::run(&self.after, &to, self.interval, progress) {
            self.maintenance.metrics().after_failures.inc();
            tracing::error!(%error, file = %to.display(), "the command after a scheduled snapshot failed; the snapshot stays");
        }
        Ok(Some(to))
    }

    /// Removes the oldest snapshots beyond those that are kept, and those that are too old.
    fn remove_oldest(&self, now: Timestamp) -> Result<()> {
        let mut snapshots = self.snapshots()?;
        // Those from the future are removed first: they were made with a wrong clock and must not
        // displace new ones.
        snapshots.sort_by_key(|(at, _)| (*at <= now, *at));
        let surplus = snapshots.len().saturating_sub(self.keep);
        let last = snapshots.len().saturating_sub(1);
        let is_old = |at: Timestamp, place: usize| place < last && now.since(at) > self.keep_for;
        let gone = snapshots
            .into_iter()
            .enumerate()
            .filter(|(place, (at, _))| *place < surplus || is_old(*at, *place));
        self.remove(gone.map(|(_, (_, path))| path))
    }

    fn remove(&self, files: impl IntoIterator<Item = PathBuf>) -> Result<()> {
        files
            .into_iter()
            .try_for_each(|path| fs::remove_file(path).map_err(|e| self.failed(&e)))
    }

    /// The existing snapshots and their times.
    fn snapshots(&self) -> Result<Vec<(Timestamp, PathBuf)>> {
        Ok(snapshots(self.files()?))
    }

    fn unfinished(&self) -> Result<Vec<PathBuf>> {
        let ours = |path: &PathBuf| {
            [".unfinished", ".unfinished.new"]
                .iter()
                .any(|end| time_in_name(path, &format!("{SUFFIX}{end}")).is_some())
        };
        Ok(self.files()?.into_iter().filter(ours).collect())
    }

    fn files(&self) -> Result<Vec<PathBuf>> {
        files(&self.directory).map_err(|e| self.failed(&e))
    }

    fn failed(&self, reason: &io::Error) -> Error {
        Error::Storage(format!("{}: {reason}", self.directory.display()))
    }
}

/// The newest scheduled snapshot in a directory, and its time. Without those from the future, as
/// [`last`].
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn newest(directory: &Path, now: Timestamp) -> io::Result<Option<(Timestamp, PathBuf)>> {
    Ok(last(all(directory)?, now))
}

/// The scheduled snapshots in a directory, and their times.
///
/// # Errors
/// The directory cannot be read.
pub(super) fn all(directory: &Path) -> io::Result<Vec<(Timestamp, PathBuf)>> {
    files(directory).map(snapshots)
}

/// The newest of the snapshots, without those from the future: the clock was wrong then or is wrong
/// now.
fn last(snapshots: Vec<(Timestamp, PathBuf)>, now: Timestamp) -> Option<(Timestamp, PathBuf)> {
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
