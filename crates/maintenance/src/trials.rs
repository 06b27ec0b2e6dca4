//! Proofs and restore drills of snapshots, by request, while the controller runs.
//!
//! Here: the list of snapshots, and one trial at a time. Not here: the proof (`snapshot_proof.rs`),
//! and the drill, which starts a controller; [`Trials`] gets it as a function. Invariant: a
//! snapshot is named by its file name, so that no request reads another file.

use std::{
    fmt::Display,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use model::{
    clock::{Clock, Timestamp},
    config::Config,
    error::{Error, Result},
};
use policy::{expiring::snapshot_files, priority::lower_priority};
use store::{Progress, beside};

use super::{
    offline::OfflineError,
    runs::{RunState, Runs},
    snapshot_proof,
};

/// The `nice` value of a trial.
const NICE: i32 = 10;

/// How a snapshot is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotTest {
    /// Reads the snapshot and checks that it is complete and sound.
    Proof,
    /// Restores a copy and starts a controller on it.
    Drill,
}

/// The result of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    pub passed: bool,
    /// What was found, for people.
    pub lines: Vec<String>,
}

/// Why a trial could not be carried out, or was cancelled; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TrialError(String);

impl TrialError {
    pub fn of(reason: impl Display) -> Self {
        Self(reason.to_string())
    }
}

/// A drill of a snapshot: its copy is made in a directory and removed again.
pub(crate) type DrillFunction =
    fn(&Config, &Path, &Path, &Arc<Progress>) -> Result<Trial, TrialError>;

/// A snapshot that can be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotFile {
    pub path: PathBuf,
    pub name: String,
    pub written_at: Timestamp,
    pub bytes: u64,
}

/// What a trial does: its method, and the name of the snapshot.
#[derive(Debug, Clone)]
pub struct Tried {
    pub method: SnapshotTest,
    pub snapshot: String,
}

/// The state of the last or current trial.
pub type TrialState = RunState<Tried, Trial, TrialError>;

/// Tries snapshots, one at a time. Cheap to clone.
#[derive(Clone)]
pub struct Trials {
    config: Arc<Config>,
    drill: DrillFunction,
    runs: Runs<Tried, Trial, TrialError>,
}

impl Trials {
    /// Trials of the snapshots of a controller with this configuration.
    pub fn new(config: Arc<Config>, clock: Clock, drill: DrillFunction) -> Self {
        Self {
            config,
            drill,
            runs: Runs::new("trial", TrialError::of("the trial panicked"), clock),
        }
    }

    /// The snapshots of the schedule and the one beside the data file, the newest first.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn known(&self) -> Result<Vec<SnapshotFile>> {
        let mut paths = vec![beside(&self.config.data, ".snapshot")];
        if let Some(directory) = &self.config.snapshots.directory {
            match snapshot_files::all(directory) {
                Ok(found) => paths.extend(found.into_iter().map(|(_, path)| path)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(Error::Storage(format!("{}: {error}", directory.display())));
                }
            }
        }
        let mut known: Vec<SnapshotFile> = paths.into_iter().filter_map(snapshot_file).collect();
        known.sort_by(|one, other| {
            (other.written_at, &other.name).cmp(&(one.written_at, &one.name))
        });
        known.dedup_by(|one, other| one.name == other.name);
        Ok(known)
    }

    /// Starts a trial of a known snapshot on a thread of its own.
    ///
    /// # Errors
    /// There is no such snapshot; [`model::error::Refusal::RateLimited`] while another trial is in
    /// progress.
    pub fn begin(&self, method: SnapshotTest, name: &str) -> Result<()> {
        let unknown = || {
            Error::invalid(
                "snapshot",
                "is not one of the controller's snapshots; GET /overkeep/v1/snapshots lists them",
                name,
            )
        };
        let snapshot = self
            .known()?
            .into_iter()
            .find(|known| known.name == name)
            .ok_or_else(unknown)?;
        let trials = self.clone();
        self.runs.begin(
            Tried {
                method,
                snapshot: name.into(),
            },
            move |progress| {
                lower_priority(NICE);
                let tried = trials.carry_out(method, &snapshot, progress);
                match &tried {
                    Ok(Trial { passed: true, .. }) => tracing::info!(
                        ?method,
                        snapshot = snapshot.name,
                        "the snapshot passed verification"
                    ),
                    Ok(Trial { lines, .. }) => tracing::error!(
                        ?method,
                        snapshot = snapshot.name,
                        ?lines,
                        "the snapshot failed verification"
                    ),
                    Err(_) => {}
                }
                tried
            },
        )
    }

    /// The last or current trial.
    pub fn state(&self) -> Option<TrialState> {
        self.runs.state()
    }

    /// Cancels the current trial and waits for its end.
    pub fn stop(&self) {
        self.runs.stop();
    }

    fn carry_out(
        &self,
        method: SnapshotTest,
        snapshot: &SnapshotFile,
        progress: &Arc<Progress>,
    ) -> Result<Trial, TrialError> {
        if method == SnapshotTest::Drill {
            let parent = snapshot
                .path
                .parent()
                .filter(|path| !path.as_os_str().is_empty())
                .unwrap_or(Path::new("."));
            return (self.drill)(&self.config, &snapshot.path, parent, progress);
        }
        let passphrase = self.config.passphrase().map_err(TrialError::of)?;
        match snapshot_proof::verify(&snapshot.path, passphrase.as_ref(), progress) {
            Ok(found) if found.report.findings.is_empty() => {
                let rows = found.manifest.map_or(0, |manifest| {
                    manifest.records().map(|(_, count)| count).sum::<u64>()
                });
                let complete = format!("complete and sound: {rows} records");
                Ok(Trial {
                    passed: true,
                    lines: std::iter::once(complete)
                        .chain(found.report.notes)
                        .collect(),
                })
            }
            Ok(found) => Ok(Trial {
                passed: false,
                lines: found
                    .report
                    .findings
                    .into_iter()
                    .map(|finding| finding.description)
                    .collect(),
            }),
            Err(_) if progress.is_stopped() => Err(TrialError::of("the controller stops")),
            Err(OfflineError::Other(reason)) => Err(TrialError(reason)),
            Err(damaged) => Ok(Trial {
                passed: false,
                lines: vec![damaged.to_string()],
            }),
        }
    }
}

fn snapshot_file(path: PathBuf) -> Option<SnapshotFile> {
    let found = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
    let name = path.file_name()?.to_str()?.to_owned();
    Some(SnapshotFile {
        name,
        written_at: found.modified().ok()?.into(),
        bytes: found.len(),
        path,
    })
}
