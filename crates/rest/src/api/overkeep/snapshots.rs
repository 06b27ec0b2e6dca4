//! The snapshots of the controller, and trials of them: proofs and restore drills.

use maintenance::{SnapshotFile, SnapshotTest, Trial, TrialState, Tried};
use model::{
    clock::Timestamp,
    error::{Error, Result},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use crate::{
    answer::{Accepted, Data},
    call::Call,
    extractor::Body,
};

/// A snapshot on the host of the controller.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Snapshot {
    /// Its file name.
    name: String,
    /// The directory of the file, as an absolute path.
    directory: String,
    /// When it was written.
    written_at: Timestamp,
    /// Its size.
    bytes: u64,
}

/// How a snapshot is tried.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SnapshotTrialMethod")]
pub(crate) enum TrialMethod {
    /// The file is complete and its content is sound.
    Proof,
    /// A copy is restored, a controller starts on it, and a log-in and a check of its records
    /// succeed.
    Drill,
}

/// A trial to start.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SnapshotTrialCreate {
    /// How the snapshot is tried.
    method: TrialMethod,
    /// The file name of one of the snapshots.
    #[schemars(length(min = 1, max = 255))]
    snapshot: String,
}

/// The last trial since the start of the controller, or the current one.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SnapshotTrial {
    /// How the snapshot is tried.
    method: TrialMethod,
    /// The file name of the snapshot.
    snapshot: String,
    /// Whether the trial is in progress.
    in_progress: bool,
    /// When the trial began.
    started_at: Timestamp,
    /// Null while it is in progress.
    ended_at: Option<Timestamp>,
    /// Whether the snapshot is good. Null while the trial is in progress, and if it could not be
    /// carried out.
    passed: Option<bool>,
    /// What was found.
    results: Vec<String>,
    /// Why the trial could not be carried out.
    error: Option<String>,
    /// The number of rows read. It starts again where a trial reads them several times.
    rows_checked: u64,
    /// The total number of rows.
    rows_total: u64,
}

/// GET /snapshots
pub(crate) async fn list(call: Call) -> Result<Data<Vec<Snapshot>>> {
    let trials = call.state.upkeep.trials.clone();
    let known = spawn_blocking(move || trials.known())
        .await
        .map_err(|error| Error::Internal(format!("cannot list the snapshots: {error}")))?;
    Ok(Data(known?.into_iter().map(Snapshot::of).collect()))
}

/// POST /snapshot-trials
pub(crate) async fn begin(
    call: Call,
    Body(SnapshotTrialCreate { method, snapshot }): Body<SnapshotTrialCreate>,
) -> Result<Accepted> {
    let trials = call.state.upkeep.trials.clone();
    let begun = spawn_blocking(move || trials.begin(method.into(), &snapshot)).await;
    begun
        .map_err(|error| Error::Internal(format!("cannot start a trial of a snapshot: {error}")))?
        .map(|()| Accepted)
}

/// GET /snapshot-trials
pub(crate) async fn state(call: Call) -> Result<Data<Option<SnapshotTrial>>> {
    Ok(Data(
        call.state.upkeep.trials.state().map(SnapshotTrial::of),
    ))
}

impl Snapshot {
    fn of(file: SnapshotFile) -> Self {
        // The path may be relative to the working directory of the controller, which its callers do
        // not know.
        let path = std::path::absolute(&file.path).unwrap_or(file.path);
        let directory = path
            .parent()
            .map(|path| path.display().to_string())
            .unwrap_or_default();
        Self {
            name: file.name,
            directory,
            written_at: file.written_at,
            bytes: file.bytes,
        }
    }
}

impl SnapshotTrial {
    fn of(state: TrialState) -> Self {
        let TrialState {
            work: Tried { method, snapshot },
            started_at,
            end,
            progress: (rows_checked, rows_total),
        } = state;
        let in_progress = end.is_none();
        let (ended_at, result) = end.unzip();
        let (passed, results, error) = match result {
            None => (None, Vec::new(), None),
            Some(Ok(Trial { passed, lines })) => (Some(passed), lines, None),
            Some(Err(error)) => (None, Vec::new(), Some(error.to_string())),
        };
        let method = method.into();
        Self {
            method,
            snapshot,
            in_progress,
            started_at,
            ended_at,
            passed,
            results,
            error,
            rows_checked,
            rows_total,
        }
    }
}

impl From<TrialMethod> for SnapshotTest {
    fn from(method: TrialMethod) -> Self {
        match method {
            TrialMethod::Proof => Self::Proof,
            TrialMethod::Drill => Self::Drill,
        }
    }
}

impl From<SnapshotTest> for TrialMethod {
    fn from(method: SnapshotTest) -> Self {
        match method {
            SnapshotTest::Proof => Self::Proof,
            SnapshotTest::Drill => Self::Drill,
        }
    }
}
