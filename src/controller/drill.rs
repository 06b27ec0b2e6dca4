//! A restore drill: proves that a snapshot can be restored, without touching the running
//! controller. The snapshot is restored into a new directory, a controller is started on it at a
//! port of this host, and the directory is removed.

use std::{
    fs::{self, DirBuilder, File},
    io,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use maintenance::{Trial, TrialError, Work, offline::CheckedFile, restore};
use model::{clock::Clock, config::Config, entity::plural, outbound::HttpClient};
use rest::{LocalPart, LocalRequest};
use serde_json::{Value as Json, json};
use store::{Manifest, Progress, free_bytes};
use uuid::Uuid;

use super::running::{ADMINISTRATOR, Controller, NotStarted};
use crate::admin_socket::{Command, Outcome, found, problems_if_damaged, request, socket};

/// Kinds whose records a start may delete, because they have ended.
const PASSING: [&str; 5] = [
    "apiSession",
    "session",
    "apiSessionCertificate",
    "endpointReport",
    "enrollment",
];
/// How long the log-in may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The maximum bytes of an answer of the restored controller.
const MAX_LENGTH: u64 = 1 << 20;
/// Free bytes that must remain beside the copy.
const SPARE: u64 = 64 << 20;

/// The function that starts a controller.
type Start = fn(&Config, Clock) -> Result<Controller, NotStarted>;

/// Restores the snapshot into a new directory in `parent`, starts a controller on it, logs in,
/// counts and checks. Removes the directory afterwards. `progress` cancels it within a stage that
/// reads rows, otherwise before the next stage.
///
/// # Errors
/// The drill could not be carried out, or was cancelled.
pub(super) fn drill(
    start: Start,
    config: &Config,
    snapshot: &Path,
    parent: &Path,
    progress: &Arc<Progress>,
) -> Result<Trial, TrialError> {
    let begun = Instant::now();
    let directory = DrillDirectory::new(parent)?;
    room_for_copy(snapshot, parent)?;
    let data = directory.0.join("overkeep.redb");
    let passphrase = config.passphrase().map_err(TrialError::of)?;
    let restored = restore::restore(
        snapshot,
        &data,
        passphrase.as_ref(),
        Clock::system().now(),
        progress,
    );
    let manifest = match restored.map_err(TrialError::of)?.0 {
        CheckedFile {
            manifest: Some(manifest),
            report,
        } if report.findings.is_empty() => manifest,
        CheckedFile { report, .. } => return Ok(trial(found(&report))),
    };
    unless_cancelled(progress)?;
    let config = alone(config.clone(), data);
    let running = start(&config, Clock::system()).map_err(TrialError::of)?;
    let tried = try_controller(&config, &running, &manifest, progress);
    running.stop();
    let mut lines = vec![format!(
        "{}: restored, and a controller started on it",
        snapshot.display()
    )];
    let Trial {
        passed,
        lines: told,
    } = tried?;
    lines.extend(told);
    lines.push(format!(
        "the drill took {} s; nothing of it is left",
        begun.elapsed().as_secs()
    ));
    Ok(Trial { passed, lines })
}

fn trial(outcome: Outcome) -> Trial {
    match outcome {
        Outcome::Done(lines) => Trial {
            passed: true,
            lines,
        },
        Outcome::Problems(lines) => Trial {
            passed: false,
            lines,
        },
    }
}

/// The configuration of the drill's controller. Only this host reaches it. Of the configured
/// controller's addresses, files and directories it uses only the passphrase file.
fn alone(config: Config, data: PathBuf) -> Config {
    let mut alone = Config {
        data,
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into(),
        advertise: Vec::new(),
        ..config
    };
    (alone.admin_password_file, alone.tls) = (None, Default::default());
    (
        alone.router.listen,
        alone.router.advertise,
        alone.routers.listen,
        alone.metrics.listen,
    ) = (None, None, None, None);
    (alone.snapshots.directory, alone.snapshots.after) = (None, Vec::new());
    // A file without the built-in router gets none, so that counts can be compared.
    alone.router.enabled = false;
    alone
}

/// Logs in, counts and checks.
fn try_controller(
    config: &Config,
    running: &Controller,
    manifest: &Manifest,
    progress: &Arc<Progress>,
) -> Result<Trial, TrialError> {
    unless_cancelled(progress)?;
    let socket = socket::beside(&config.data);
    let password = format!("Ok1-{}", Uuid::new_v4().simple());
    let reset = Command::ResetPassword {
        username: ADMINISTRATOR.into(),
        password: password.clone(),
        allow_passwords: true,
    };
    let (mut lines, mut passed) = (Vec::new(), true);
    match command(&socket, &reset) {
        Ok(_) => {
            unless_cancelled(progress)?;
            let status = login(running, &password)?;
            passed &= status == 200;
            lines.push(if status == 200 {
                "log-in: done".into()
            } else {
                format!("log-in: FAILED with status {status}")
            });
        }
        Err(reason) => lines.push(format!("log-in: left out, {reason}")),
    }
    unless_cancelled(progress)?;
    let (same, other) = counted(&summary(&socket)?, manifest);
    passed &= other.is_empty();
    lines.push(if other.is_empty() {
        format!("counts: {same} records, as in the snapshot")
    } else {
        format!("counts: {}", other.join("; "))
    });
    // Not through the socket, which cannot cancel a check.
    let checked = running
        .maintenance
        .run(Work::Check, progress)
        .map(|report| found(&report));
    match problems_if_damaged(checked).map_err(TrialError::of)? {
        Outcome::Done(found) => lines.extend(found.first().map(|line| format!("check: {line}"))),
        Outcome::Problems(found) => {
            passed = false;
            lines.extend(found.into_iter().map(|line| format!("check: {line}")));
        }
    }
    Ok(Trial { passed, lines })
}

fn unless_cancelled(progress: &Progress) -> Result<(), TrialError> {
    progress.check_cancelled().map_err(TrialError::of)
}

/// Checks that a directory has room for a copy of a file.
///
/// # Errors
/// It has none, or cannot be read.
fn room_for_copy(file: &Path, directory: &Path) -> Result<(), TrialError> {
    let named =
        |path: &Path, error: io::Error| TrialError::of(format!("{}: {error}", path.display()));
    let size = fs::metadata(file)
        .map_err(|error| named(file, error))?
        .len();
    let free = free_bytes(directory).map_err(|error| named(directory, error))?;
    let needed = size.saturating_add(SPARE);
    if free < needed {
        return Err(TrialError::of(format!(
            "{} MiB are free in {}; the copy needs {} MiB",
            free >> 20,
            directory.display(),
            needed >> 20
        )));
    }
    Ok(())
}

/// The number of records of all kinds whose count is that of the snapshot, and a line about each
/// kind with another count.
fn counted(summary: &Json, manifest: &Manifest) -> (u64, Vec<String>) {
    let (mut same, mut other) = (0_u64, Vec::new());
    for (kind, count) in manifest
        .records()
        .filter(|(kind, _)| !PASSING.contains(kind))
    {
        let now = if kind == "edgeRouter" {
            summary.get("routers.edge")
        } else {
            summary.get(plural(kind))
        };
        match now.and_then(Json::as_u64) {
            Some(now) if now == count => same += count,
            Some(now) => other.push(format!("{kind}: {count} in the snapshot, {now} restored")),
            None => {}
        }
    }
    (same, other)
}

fn command(socket: &Path, command: &Command) -> Result<Outcome, TrialError> {
    socket::ask(socket, command, &mut |_, _| ())
        .ok_or_else(without_socket)?
        .map_err(TrialError::of)
}

/// The numbers of records by kind.
fn summary(socket: &Path) -> Result<Json, TrialError> {
    let path = "/edge/management/v1/summary".into();
    let asked = LocalRequest {
        method: "GET".into(),
        path,
        query: String::new(),
        headers: Vec::new(),
        body: String::new(),
    };
    let mut body = Vec::new();
    let mut take = |part| {
        if let LocalPart::Piece(piece) = part {
            body.extend(piece);
        }
        Ok(())
    };
    request::ask(socket, asked, &mut take)
        .ok_or_else(without_socket)?
        .map_err(TrialError::of)?;
    let mut whole: Json = serde_json::from_slice(&body).map_err(TrialError::of)?;
    whole
        .get_mut("data")
        .map(Json::take)
        .ok_or_else(|| TrialError::of("the restored controller does not count its records"))
}

fn without_socket() -> TrialError {
    TrialError::of("the restored controller has no socket")
}

/// The status of a log-in with a password, over TLS.
fn login(running: &Controller, password: &str) -> Result<u16, TrialError> {
    let client = HttpClient::trusting(&running.authorities(), PATIENCE).map_err(TrialError::of)?;
    let url = format!(
        "https://{}/edge/management/v1/authenticate?method=password",
        running.bound()
    );
    let body = json!({ "username": ADMINISTRATOR, "password": password }).to_string();
    client
        .post(&url, "application/json", body.as_bytes(), MAX_LENGTH)
        .map(|answer| answer.status)
        .map_err(TrialError::of)
}

/// The beginning of the names of drill directories; the id of the process follows.
const PREFIX: &str = "overkeep-drill-";

/// A directory that only its owner can use, until it is dropped. The directory is locked, so that
/// other drills know that this one still runs.
struct DrillDirectory(
    PathBuf,
    #[expect(dead_code, reason = "holds the lock")] File,
);

impl DrillDirectory {
    fn new(parent: &Path) -> Result<Self, TrialError> {
        remove_abandoned(parent);
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        let made = DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .and_then(|()| locked(&path));
        let lock = made.map_err(|error| {
            TrialError::of(format!(
                "{}: {error}; the copy needs another directory",
                path.display()
            ))
        })?;
        Ok(Self(path, lock))
    }
}

/// Removes the directories of drills that were interrupted. One that cannot be removed stays.
fn remove_abandoned(parent: &Path) {
    for path in fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
    {
        let is_drill = path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with(PREFIX));
        if is_drill && let Ok(lock) = locked(&path) {
            drop(fs::remove_dir_all(&path));
            drop(lock);
        }
    }
}

/// A directory, locked until the file is dropped or the process ends.
fn locked(path: &Path) -> io::Result<File> {
    let directory = File::open(path)?;
    directory.try_lock()?;
    Ok(directory)
}

impl Drop for DrillDirectory {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}
