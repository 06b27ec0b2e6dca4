//! What an operator asks of a controller beside its records: health, doctor, drills, snapshots off
//! site, the service manager.

mod findings;
mod snapshots;

use std::{
    fs,
    os::unix::net::UnixDatagram,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use maintenance::{Maintenance, Schedule};
use model::{
    clock::{Clock, Timestamp},
    config::{Config, Snapshots, Span},
};
use overkeep::testing::{admin_socket::socket, controller};
use policy::{
    change::{KINDS, SealedKeys},
    expiring::overdue,
};
use store::Progress;

use rustix::process::{Pid, Signal, kill_process};

use serde_json::{Value as Json, json};

use tempfile::TempDir;

use crate::{
    command_line::{on_host, on_host_with},
    harness::{TestServer, command, fresh, stores},
};

/// The finding of a check.
fn of<'f>(findings: &'f [Json], check: &str) -> &'f Json {
    findings
        .iter()
        .find(|finding| finding["check"] == check)
        .unwrap_or_else(|| panic!("no {check} in {findings:#?}"))
}

/// The next message of the controller to the service manager that contains these words.
fn told(socket: &UnixDatagram, words: &str) -> String {
    let mut buffer = [0; 4096];
    loop {
        let length = socket
            .recv(&mut buffer)
            .unwrap_or_else(|error| panic!("{words}: {error}"));
        let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
        if message.contains(words) {
            return message;
        }
    }
}
