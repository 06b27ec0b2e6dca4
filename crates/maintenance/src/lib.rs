//! Work on the file as a whole: snapshot, check, repair, restore.
//!
//! Here: that work while the controller runs. [`offline`] does it on a file that no controller has
//! open; [`Schedule`] and [`Scrub`] run by themselves. Not here: the work itself (`store`). Start
//! at [`Maintenance`]. Invariants: only one check or repair at a time, and one snapshot; nothing is
//! repaired before the file was copied.

#![warn(unreachable_pub)]

mod background;
pub mod doctor;
mod file_check;
mod off_site;
pub mod offline;
pub mod restore;
mod runs;
mod schedule;
mod scrub;
pub mod snapshot_proof;
mod trials;
mod upgrade;

pub use background::Background;
pub use schedule::Schedule;
pub use scrub::Scrub;
pub use trials::{SnapshotFile, SnapshotTest, Trial, TrialError, TrialState, Trials, Tried};
pub use upgrade::{record_release, upgrade};

use std::{
    path::{Path, PathBuf, absolute},
    sync::{Arc, Mutex, MutexGuard, TryLockError},
    time::Duration,
};

use model::{
    clock::{Clock, Timestamp},
    error::{Error, Refusal, Result},
    metrics::MaintenanceMetrics,
};
use policy::change::SealedKeys;
use store::{Manifest, Progress, Reader, Report, Store, Unreadable, beside};

use self::runs::{RunState, Runs};

/// The shortest interval between snapshots by request.
const MIN_SNAPSHOT_INTERVAL: Duration = Duration::from_secs(60);

/// Maintains the file. Cheap to clone.
#[derive(Clone)]
pub struct Maintenance(Arc<Inner>);

struct Inner {
    store: Store,
    sealed_keys: SealedKeys,
    clock: Clock,
    data: PathBuf,
    /// The start of the last successful snapshot, by the steady clock. Locked while one is made.
    snapshot: Mutex<Option<Timestamp>>,
    runs: Runs<Work, Report, Error>,
    metrics: MaintenanceMetrics,
}

/// The kind of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Check only.
    Check,
    /// Check; if there is a fault, make a snapshot and repair the faults that have exactly one
    /// correct repair.
    Repair,
}

/// The state of the last or current run.
pub type State = RunState<Work, Report, Error>;

impl Maintenance {
    /// The metrics of snapshots and scrubs.
    pub fn metrics(&self) -> &MaintenanceMetrics {
        &self.0.metrics
    }

    /// For the store whose file is at `data` and whose keys are sealed by `sealed_keys`. Snapshots
    /// are made beside the file.
    pub fn new(store: Store, sealed_keys: SealedKeys, clock: Clock, data: &Path) -> Self {
        Self(Arc::new(Inner {
            store,
            sealed_keys,
            runs: Runs::new(
                "maintenance",
                Error::Internal("the run panicked".into()),
                clock.clone(),
            ),
            clock,
            data: data.into(),
            snapshot: Mutex::default(),
            metrics: MaintenanceMetrics::default(),
        }))
    }

    /// Copies the file to one with `.snapshot` appended to its name, replaces the previous one, and
    /// returns its path. Blocks.
    ///
    /// # Errors
    /// [`Refusal::RateLimited`] while another one is made and for a minute after the last one
    /// began; [`Error::Storage`].
    pub fn snapshot(&self) -> Result<PathBuf> {
        let mut last = self.0.lock_snapshots()?;
        let now = self.0.clock.steady();
        if last.is_some_and(|last| now.since(last) < MIN_SNAPSHOT_INTERVAL) {
            return Err(Error::Refused(Refusal::RateLimited));
        }
        let to = beside(&self.0.data, ".snapshot");
        self.0.store.snapshot(&to, &Progress::default())?;
        *last = Some(now);
        Ok(absolute(&to).unwrap_or(to))
    }

    /// Copies the file to a new one. Blocks.
    ///
    /// # Errors
    /// [`Refusal::RateLimited`] while another copy is made; [`Error::Storage`], also if the name is
    /// taken.
    pub fn snapshot_to(&self, to: &Path, progress: &Progress) -> Result<Manifest> {
        let _guard = self.0.lock_snapshots()?;
        new_snapshot(&self.0.store, to, progress)
    }

    /// Starts a run on a thread of its own.
    ///
    /// # Errors
    /// [`Refusal::RateLimited`] while another run is in progress.
    pub fn begin(&self, work: Work) -> Result<()> {
        let inner = self.0.clone();
        self.0
            .runs
            .begin(work, move |progress| inner.report(work, progress))
    }

    /// Does a run on this thread. The caller may read its progress.
    ///
    /// # Errors
    /// As [`Maintenance::begin`], and the error of the run.
    pub fn run(&self, work: Work, progress: &Arc<Progress>) -> Result<Report> {
        self.0
            .runs
            .run(work, progress, |progress| self.0.report(work, progress))
    }

    /// The state of the last or current run; `None` before the first.
    pub fn state(&self) -> Option<State> {
        self.0.runs.state()
    }

    /// Whether a run is in progress.
    pub fn is_running(&self) -> bool {
        self.0.runs.is_running()
    }

    /// Cancels the current run and waits for its end.
    pub fn stop(&self) {
        self.0.runs.stop();
    }
}

impl Inner {
    /// The start of the last snapshot; locked while one is made.
    fn lock_snapshots(&self) -> Result<MutexGuard<'_, Option<Timestamp>>> {
        match self.snapshot.try_lock() {
            Ok(last) => Ok(last),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Error::Refused(Refusal::RateLimited)),
        }
    }

    fn report(&self, work: Work, progress: &Progress) -> Result<Report> {
        match work {
            Work::Check => file_check::check(&self.store, Some(&self.sealed_keys), progress),
            Work::Repair => {
                // A sound file needs no copy.
                let checked = file_check::check(&self.store, Some(&self.sealed_keys), progress);
                if checked
                    .as_ref()
                    .is_ok_and(|report| report.findings.is_empty())
                {
                    return checked;
                }
                self.store
                    .snapshot(&beside(&self.data, ".before-repair"), progress)?;
                file_check::repair(
                    &self.store,
                    Some(&self.sealed_keys),
                    Unreadable::Stays,
                    progress,
                )
            }
        }
    }
}

/// Copies a store to a file that must not exist.
fn new_snapshot(store: &Reader, to: &Path, progress: &Progress) -> Result<Manifest> {
    match to.try_exists() {
        Ok(false) => store.snapshot(to, progress),
        Ok(true) => Err(Error::Storage(format!(
            "{}: the name is taken; choose a file that does not exist",
            to.display()
        ))),
        Err(reason) => Err(Error::Storage(format!("{}: {reason}", to.display()))),
    }
}
