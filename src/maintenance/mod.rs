//! Work on the file as a whole: snapshot, check, repair, restore.
//!
//! Here: that work while the controller runs. [`offline`] does it on a file that no controller has open; [`Schedule`]
//! and [`Scrub`] run by themselves. Not here: the work itself (`store/`). Start at [`Maintenance`]. Invariants: only
//! one check or repair at a time, and one snapshot; nothing is repaired before the file was copied.

mod background;

pub(crate) mod doctor;
mod file_check;
mod off_site;
pub mod offline;
pub mod restore;
mod schedule;
mod scrub;
pub mod snapshot_proof;
mod trials;
mod upgrade;

pub(crate) use background::Background;
pub(crate) use schedule::{OverdueSnapshot, newest};
pub use schedule::{Schedule, overdue};
pub use scrub::Scrub;
pub(crate) use trials::{Known, Method, Trial, TrialState, Trials, room_for_copy};
pub(crate) use upgrade::{record_release, upgrade};

use std::{
    path::{Path, PathBuf, absolute},
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{
    change::SealedKeys,
    clock::{Clock, Timestamp},
    error::{Error, Refusal, Result},
    metrics::MaintenanceMetrics,
    store::{Finding, Manifest, Progress, Reader, Report, Store, Unreadable, beside},
};

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
    run: Mutex<Run>,
    metrics: MaintenanceMetrics,
}

/// The kind of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Check only.
    Check,
    /// Check; if there is a fault, make a snapshot and repair what has one right answer.
    Repair,
}

/// The last or current run.
#[derive(Default)]
struct Run {
    state: State,
    progress: Arc<Progress>,
    thread: Option<JoinHandle<()>>,
}

/// The state of the last or current run.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub work: Option<Work>,
    pub started_at: Option<Timestamp>,
    /// `None` while it is running.
    pub ended_at: Option<Timestamp>,
    /// Why it failed, if it did.
    pub error: Option<String>,
    pub findings: Vec<Finding>,
    /// Whether there are more findings than these.
    pub more: bool,
    /// The rows checked and the total.
    pub progress: (u64, u64),
}

impl State {
    /// Whether a run is in progress.
    pub fn is_running(&self) -> bool {
        self.started_at.is_some() && self.ended_at.is_none()
    }
}

impl Maintenance {
    /// The metrics of snapshots and scrubs.
    pub fn metrics(&self) -> &MaintenanceMetrics {
        &self.0.metrics
    }

    /// For the store whose file is at `data` and whose keys are sealed by `sealed_keys`. Snapshots are made beside the
    /// file.
    pub fn new(store: Store, sealed_keys: SealedKeys, clock: Clock, data: &Path) -> Self {
        Self(Arc::new(Inner {
            store,
            sealed_keys,
            clock,
            data: data.into(),
            snapshot: Mutex::default(),
            run: Mutex::default(),
            metrics: MaintenanceMetrics::default(),
        }))
    }

    /// Copies the file to one with `.snapshot` appended to its name, replaces the previous one, and returns its path.
    /// Blocks.
    ///
    /// # Errors
    /// [`Refusal::RateLimited`] while another one is made and for a minute after the last one began;
    /// [`Error::Storage`].
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
    /// [`Refusal::RateLimited`] while another copy is made; [`Error::Storage`], also if the name is taken.
    pub(crate) fn snapshot_to(&self, to: &Path, progress: &Progress) -> Result<Manifest> {
        let _guard = self.0.lock_snapshots()?;
        new_snapshot(&self.0.store, to, progress)
    }

    /// Starts a run on a thread of its own.
    ///
    /// # Errors
    /// [`Refusal::RateLimited`] while another run is in progress.
    pub fn begin(&self, work: Work) -> Result<()> {
        let progress = Arc::new(Progress::default());
        let mut run = self.0.claim(work, progress.clone())?;
        let inner = self.0.clone();
        let thread = thread::Builder::new().name("maintenance".into()).spawn(move || drop(inner.work(work, &progress)));
        match thread {
            Ok(thread) => run.thread = Some(thread),
            Err(reason) => {
                *run = Run::default();
                return Err(Error::Internal(format!("maintenance: {reason}")));
            }
        }
        Ok(())
    }

    /// Does a run on this thread. The caller may read its progress.
    ///
    /// # Errors
    /// As [`Maintenance::begin`], and the error of the run.
    pub fn run(&self, work: Work, progress: &Arc<Progress>) -> Result<Report> {
        drop(self.0.claim(work, progress.clone())?);
        self.0.work(work, progress)
    }

    /// The state of the last or current run.
    pub fn state(&self) -> State {
        let run = lock(&self.0.run);
        State { progress: run.progress.done_and_total(), ..run.state.clone() }
    }

    /// Whether a run is in progress.
    pub fn is_running(&self) -> bool {
        lock(&self.0.run).state.is_running()
    }

    /// Cancels the current run and waits for its end.
    pub fn stop(&self) {
        let thread = {
            let mut run = lock(&self.0.run);
            run.progress.stop();
            run.thread.take()
        };
        if let Some(thread) = thread {
            drop(thread.join());
        }
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

    /// Registers a run, if none is in progress.
    fn claim(&self, work: Work, progress: Arc<Progress>) -> Result<MutexGuard<'_, Run>> {
        let mut run = lock(&self.run);
        if run.state.is_running() {
            return Err(Error::Refused(Refusal::RateLimited));
        }
        let state = State { work: Some(work), started_at: Some(self.clock.now()), ..State::default() };
        *run = Run { state, progress, thread: None };
        Ok(run)
    }

    fn work(&self, work: Work, progress: &Progress) -> Result<Report> {
        let report = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.report(work, progress)));
        let report = report.unwrap_or_else(|_| Err(Error::Internal("the run panicked".into())));
        if let Err(error) = &report {
            tracing::error!(%error, ?work, "maintenance failed");
        }
        let mut run = lock(&self.run);
        run.state.ended_at = Some(self.clock.now());
        match &report {
            Ok(Report { findings, more, .. }) => (run.state.findings, run.state.more) = (findings.clone(), *more),
            Err(error) => run.state.error = Some(error.to_string()),
        }
        report
    }

    fn report(&self, work: Work, progress: &Progress) -> Result<Report> {
        match work {
            Work::Check => file_check::check(&self.store, Some(&self.sealed_keys), progress),
            Work::Repair => {
                // A sound file needs no copy.
                let checked = file_check::check(&self.store, Some(&self.sealed_keys), progress);
                if checked.as_ref().is_ok_and(|report| report.findings.is_empty()) {
                    return checked;
                }
                self.store.snapshot(&beside(&self.data, ".before-repair"), progress)?;
                file_check::repair(&self.store, Some(&self.sealed_keys), Unreadable::Stays, progress)
            }
        }
    }
}

/// Copies a store to a file that must not exist.
fn new_snapshot(store: &Reader, to: &Path, progress: &Progress) -> Result<Manifest> {
    match to.try_exists() {
        Ok(false) => store.snapshot(to, progress),
        Ok(true) => Err(Error::Storage(format!("{}: the name is taken; choose a file that does not exist", to.display()))),
        Err(reason) => Err(Error::Storage(format!("{}: {reason}", to.display()))),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
