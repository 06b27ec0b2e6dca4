//! Proofs and restore drills of snapshots, by request, while the controller runs.
//!
//! Here: the list of snapshots, and one trial at a time on a thread of its own. Not here: the proof (`snapshot_proof.rs`), and the drill,
//! which starts a controller; [`Trials`] gets it as a function. Invariant: a snapshot is named by its file name, so that no request reads
//! another file.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
};

use super::{lock, offline::OfflineError, schedule, snapshot_proof};
use crate::{
    clock::{Clock, Timestamp},
    config::Config,
    error::{Error, Refusal, Result},
    priority::lower_priority,
    store::{Progress, beside},
};

/// The `nice` value of a trial.
const NICE: i32 = 10;
/// Free bytes that must remain beside a copy.
const SPARE: u64 = 64 << 20;

/// How a snapshot is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// Reads the snapshot and checks that it is complete and sound.
    Proof,
    /// Restores a copy and starts a controller on it.
    Drill,
}

/// The result of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trial {
    pub passed: bool,
    /// What was found, for people.
    pub lines: Vec<String>,
}

/// A drill of a snapshot: its copy is made in a directory and removed again. The error is one line.
pub(crate) type Drill = fn(&Config, &Path, &Path, &Progress) -> Result<Trial, String>;

/// A snapshot that can be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    pub path: PathBuf,
    pub name: String,
    pub written_at: Timestamp,
    pub bytes: u64,
}

/// The last or current trial.
#[derive(Debug, Clone)]
pub(crate) struct TrialState {
    pub method: Method,
    /// The name of the snapshot.
    pub snapshot: String,
    pub started_at: Timestamp,
    /// `None` while it is running.
    pub ended_at: Option<Timestamp>,
    /// The result, or why the trial could not be carried out. `None` while it is running.
    pub result: Option<Result<Trial, String>>,
    /// The rows read and the total.
    pub progress: (u64, u64),
}

/// Tries snapshots, one at a time. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Trials(Arc<Inner>);

struct Inner {
    config: Arc<Config>,
    clock: Clock,
    drill: Drill,
    run: Mutex<Option<Run>>,
}

struct Run {
    state: TrialState,
    progress: Arc<Progress>,
    thread: Option<JoinHandle<()>>,
}

impl Trials {
    /// Trials of the snapshots of a controller with this configuration.
    pub(crate) fn new(config: Arc<Config>, clock: Clock, drill: Drill) -> Self {
        Self(Arc::new(Inner { config, clock, drill, run: Mutex::default() }))
    }

    /// The snapshots of the schedule and the one beside the data file, the newest first.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub(crate) fn known(&self) -> Result<Vec<Known>> {
        let mut paths = vec![beside(&self.0.config.data, ".snapshot")];
        if let Some(directory) = &self.0.config.snapshots.directory {
            match schedule::all(directory) {
                Ok(found) => paths.extend(found.into_iter().map(|(_, path)| path)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::Storage(format!("{}: {error}", directory.display()))),
            }
        }
        let mut known: Vec<Known> = paths.into_iter().filter_map(known).collect();
        known.sort_by(|one, other| (other.written_at, &other.name).cmp(&(one.written_at, &one.name)));
        known.dedup_by(|one, other| one.name == other.name);
        Ok(known)
    }

    /// Starts a trial of a known snapshot on a thread of its own.
    ///
    /// # Errors
    /// There is no such snapshot; [`Refusal::RateLimited`] while another trial is in progress.
    pub(crate) fn begin(&self, method: Method, name: &str) -> Result<()> {
        let unknown =
            || Error::invalid("snapshot", "is not one of the controller's snapshots; GET /overkeep/v1/snapshots lists them", name);
        let snapshot = self.known()?.into_iter().find(|known| known.name == name).ok_or_else(unknown)?;
        let mut run = lock(&self.0.run);
        if run.as_ref().is_some_and(|run| run.state.ended_at.is_none()) {
            return Err(Error::Refused(Refusal::RateLimited));
        }
        let progress = Arc::new(Progress::default());
        let (inner, watched) = (self.0.clone(), progress.clone());
        let work = move || {
            lower_priority(NICE);
            inner.carry_out(method, &snapshot, &watched);
        };
        let started_at = self.0.clock.now();
        let state = TrialState { method, snapshot: name.into(), started_at, ended_at: None, result: None, progress: (0, 0) };
        // No result is lost: the new thread needs the lock that is held here before it stores its result.
        let thread = thread::Builder::new().name("trial".into()).spawn(work);
        let thread = thread.map_err(|error| Error::Internal(format!("a trial: {error}")))?;
        *run = Some(Run { state, progress, thread: Some(thread) });
        Ok(())
    }

    /// The last or current trial.
    pub(crate) fn state(&self) -> Option<TrialState> {
        let run = lock(&self.0.run);
        run.as_ref().map(|run| TrialState { progress: run.progress.done_and_total(), ..run.state.clone() })
    }

    /// Cancels the current trial and waits for its end.
    pub(crate) fn stop(&self) {
        let thread = lock(&self.0.run).as_mut().and_then(|run| {
            run.progress.stop();
            run.thread.take()
        });
        if let Some(thread) = thread {
            drop(thread.join());
        }
    }
}

impl Inner {
    fn carry_out(&self, method: Method, snapshot: &Known, progress: &Progress) {
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.tried(method, snapshot, progress)));
        let tried = tried.unwrap_or_else(|_| Err("the trial panicked".into()));
        match &tried {
            Ok(Trial { passed: true, .. }) => tracing::info!(?method, snapshot = snapshot.name, "a snapshot was proven"),
            Ok(Trial { lines, .. }) => tracing::error!(?method, snapshot = snapshot.name, ?lines, "a snapshot failed its trial"),
            Err(reason) => tracing::error!(?method, snapshot = snapshot.name, reason, "the trial of a snapshot could not be carried out"),
        }
        if let Some(run) = lock(&self.run).as_mut() {
            (run.state.ended_at, run.state.result) = (Some(self.clock.now()), Some(tried));
        }
    }

    fn tried(&self, method: Method, snapshot: &Known, progress: &Progress) -> Result<Trial, String> {
        if method == Method::Drill {
            let parent = snapshot.path.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
            return (self.drill)(&self.config, &snapshot.path, parent, progress);
        }
        let passphrase = self.config.passphrase().map_err(|error| error.to_string())?;
        match snapshot_proof::verify(&snapshot.path, passphrase.as_ref(), progress) {
            Ok(found) if found.report.findings.is_empty() => {
                let rows = found.manifest.map_or(0, |manifest| manifest.records().map(|(_, count)| count).sum::<u64>());
                let complete = format!("complete and sound: {rows} records");
                Ok(Trial { passed: true, lines: std::iter::once(complete).chain(found.report.notes).collect() })
            }
            Ok(found) => Ok(Trial { passed: false, lines: found.report.findings.into_iter().map(|finding| finding.description).collect() }),
            Err(_) if progress.is_stopped() => Err("the controller stops".into()),
            Err(OfflineError::Other(reason)) => Err(reason),
            Err(damaged) => Ok(Trial { passed: false, lines: vec![damaged.to_string()] }),
        }
    }
}

fn known(path: PathBuf) -> Option<Known> {
    let found = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
    let name = path.file_name()?.to_str()?.to_owned();
    Some(Known { name, written_at: found.modified().ok()?.into(), bytes: found.len(), path })
}

/// Checks that a directory has room for a copy of a file.
///
/// # Errors
/// It has none, or cannot be read.
pub(crate) fn room_for_copy(file: &Path, directory: &Path) -> Result<(), String> {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let size = fs::metadata(file).map_err(|error| format!("{}: {error}", file.display()))?.len();
    let system = rustix::fs::statvfs(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let (free, needed) = (system.f_bavail.saturating_mul(system.f_frsize), size.saturating_add(SPARE));
    if free < needed {
        return Err(format!("{} MiB are free in {}; the copy needs {} MiB", free >> 20, directory.display(), needed >> 20));
    }
    Ok(())
}
