//! `overkeep status`: what the endpoints on this machine do.
//!
//! Each endpoint answers at a socket of its own in a directory that only its user may read, with
//! one document of JSON for each connection.

use std::{
    env, fs,
    io::Read,
    os::unix::{
        fs::{DirBuilderExt, PermissionsExt},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use client::{ServiceRole, ServiceStatus, SessionStatus};
use model::{clock::Timestamp, hidden_text::shown};
use serde::{Deserialize, Serialize};
use tokio::{
    io::AsyncWriteExt,
    net::UnixListener,
    time::{sleep, timeout},
};

use super::sessions::Sessions;
use crate::{
    admin_socket::Outcome,
    cli::{
        api::output,
        failure::{CommandError, CommandResult},
    },
};

/// The directory of the unit.
const OF_UNIT: &str = "/run/overkeep-client";
/// How long an endpoint may take for its answer, and somebody who asks to take it.
const MOST: Duration = Duration::from_secs(5);
/// The pause after a connection that could not be accepted.
const PAUSE: Duration = Duration::from_secs(1);
/// The most bytes of an answer.
const MAX_LENGTH: u64 = 16 << 20;

/// Show what the endpoints of this user do: their sessions, edge routers, services and connections.
/// Exit status: 0 there is one, 3 there is none.
#[derive(Args, Clone, Debug)]
pub(crate) struct Status {
    /// text or json
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json"])]
    output: String,
}

/// What one process does.
#[derive(Debug, Serialize, Deserialize)]
struct EndpointStatus {
    /// `forward` or `host`.
    command: String,
    process: u32,
    sessions: Vec<SessionStatus>,
}

/// A socket that is removed at the end.
struct Socket(PathBuf);

impl Drop for Socket {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

/// Answers those who ask for the status of this process, for as long as this is awaited.
pub(super) async fn answer_status(command: &'static str, sessions: Sessions) {
    let answered = answer(command, &sessions).await;
    if let Err(error) = answered {
        tracing::debug!(%error, "the status of this process cannot be asked for");
    }
    // Whoever waits for this waits for more.
    std::future::pending().await
}

async fn answer(command: &str, sessions: &Sessions) -> std::io::Result<()> {
    let Some(directory) = own_directory() else {
        return Ok(());
    };
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)?;
    let process = std::process::id();
    let path = directory.join(format!("{process}.sock"));
    // One of a former process with this number.
    drop(fs::remove_file(&path));
    let listener = UnixListener::bind(&path)?;
    let _socket = Socket(path.clone());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            // Files are missing, for example: others have to end first.
            sleep(PAUSE).await;
            continue;
        };
        let status = EndpointStatus {
            command: command.to_owned(),
            process,
            sessions: sessions.status(),
        };
        let text = serde_json::to_vec(&status)?;
        // One after the other: whoever does not read delays those who ask, and nobody else.
        drop(timeout(MOST, stream.write_all(&text)).await);
    }
}

/// The directory that this process may make a socket in.
fn own_directory() -> Option<PathBuf> {
    let set = |name| env::var_os(name).map(PathBuf::from);
    let absolute = |path: &PathBuf| path.is_absolute();
    set("RUNTIME_DIRECTORY")
        .filter(absolute)
        .or_else(|| Some(set("XDG_RUNTIME_DIR").filter(absolute)?.join("overkeep")))
}

impl Status {
    /// Asks every endpoint.
    ///
    /// # Errors
    /// The answers cannot be shown.
    pub(crate) fn act(self) -> CommandResult {
        let mut directories: Vec<PathBuf> = own_directory().into_iter().collect();
        directories.push(PathBuf::from(OF_UNIT));
        directories.dedup();
        let mut all: Vec<EndpointStatus> = Vec::new();
        for directory in directories {
            all.extend(answers_in(&directory));
        }
        all.sort_by_key(|one| one.process);
        let is_any = !all.is_empty();
        let lines = match self.output.as_str() {
            "json" => vec![output::json(&all)?],
            _ if is_any => all.iter().flat_map(lines_of).collect(),
            _ => vec!["no endpoint runs that you may ask".to_owned()],
        };
        Ok(if is_any {
            Outcome::Done(lines)
        } else {
            Outcome::Problems(lines)
        })
    }
}

/// The answers of the endpoints whose sockets are in a directory. One that has ended gives none.
fn answers_in(directory: &Path) -> Vec<EndpointStatus> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let sockets = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "sock"));
    sockets.filter_map(|socket| asked(&socket).ok()).collect()
}

fn asked(socket: &Path) -> Result<EndpointStatus, CommandError> {
    let stream = UnixStream::connect(socket).map_err(CommandError::of)?;
    let limited = stream.set_read_timeout(Some(MOST));
    limited.map_err(CommandError::of)?;
    let mut text = Vec::new();
    let read = stream.take(MAX_LENGTH).read_to_end(&mut text);
    read.map_err(CommandError::of)?;
    serde_json::from_slice(&text).map_err(CommandError::of)
}

fn lines_of(endpoint: &EndpointStatus) -> Vec<String> {
    let EndpointStatus {
        command, process, ..
    } = endpoint;
    let mut lines = vec![format!("overkeep {command}, process {process}")];
    for session in &endpoint.sessions {
        let end = session.certificate_end.map(|end| {
            let end = Timestamp::from_seconds(end);
            format!(", certificate until {end}")
        });
        let (identity, controller) = (&session.identity, &session.controller);
        let end = end.unwrap_or_default();
        lines.push(format!("  {identity} at {controller}{end}"));
        for router in &session.routers {
            lines.push(format!(
                "    edge router {}, uses {}",
                router.address, router.uses
            ));
        }
        lines.extend(session.services.iter().map(line_of_service));
    }
    lines.iter().map(|line| shown(line)).collect()
}

fn line_of_service(service: &ServiceStatus) -> String {
    let role = match service.role {
        ServiceRole::Hosted => "hosts",
        ServiceRole::Forwarded => "forwards",
    };
    let at = match service.at.join(", ") {
        empty if empty.is_empty() => "at no edge router now".to_owned(),
        at => format!("at {at}"),
    };
    let health = match service.has_failed {
        true => ", a health check fails",
        false => "",
    };
    let (name, connections) = (&service.service, service.connections);
    format!("    {role} {name} {at}, connections {connections}{health}")
}
