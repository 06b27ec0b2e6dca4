//! Scheduled snapshots and their retention. Their names are in the crate `policy`
//! (`expiring/snapshot_files.rs`).
//!
//! Invariant: only files with such names are ever removed, and none before a newer one is complete.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::PathBuf,
    time::Duration,
};

use model::{
    clock::{Clock, Timestamp},
    config::Snapshots,
    error::{Error, Refusal, Result},
};
use policy::expiring::snapshot_files;
use store::Progress;

use super::{Background, Maintenance, off_site};

/// The interval at which the schedule is checked.
const TICK: Duration = Duration::from_secs(20);

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
            snapshot_files::RETRY_PAUSE.min(self.interval)
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
        let last = snapshot_files::last(snapshots, now).map(|(at, _)| at);
        self.maintenance
            .metrics()
            .snapshot_at
            .set(last.map(Timestamp::seconds).unwrap_or_default());
        if last.is_some_and(|last| now.since(last) < self.interval) {
            return Ok(None);
        }
        // Interrupted attempts may have left files that take the space this one needs.
        self.remove(self.unfinished()?)?;
        let to = self.directory.join(snapshot_files::name(now));
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
        snapshot_files::all(&self.directory).map_err(|e| self.failed(&e))
    }

    fn unfinished(&self) -> Result<Vec<PathBuf>> {
        snapshot_files::unfinished(&self.directory).map_err(|e| self.failed(&e))
    }

    fn failed(&self, reason: &io::Error) -> Error {
        Error::Storage(format!("{}: {reason}", self.directory.display()))
    }
}
