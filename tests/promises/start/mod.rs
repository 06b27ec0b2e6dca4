//! Starting and stopping the program: what a person or a service manager sees of `overkeep run`.

mod files;
mod passwords;
mod running;

use std::{
    fs::{self, Permissions},
    io::{BufRead, BufReader, Read},
    os::unix::{
        fs::{PermissionsExt, symlink},
        process::CommandExt,
    },
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use model::{clock::Clock, config::Config};
use overkeep::testing::controller;

use serde_json::{Value, json};

use tempfile::TempDir;

use ureq::{Agent, tls::TlsConfig};

/// A running controller and its output so far.
struct Running {
    process: Child,
    output: Vec<String>,
    url: String,
}

impl Running {
    /// Starts a controller on the file `data` of a directory and waits until it prints its address.
    fn start(directory: &Path, more: &[&str]) -> Self {
        let mut process = overkeep(directory, more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let first = lines.next().expect("it says where it listens").unwrap();
        let url = first
            .split_whitespace()
            .find(|word| word.starts_with("https://"))
            .expect("a URL")
            .to_owned();
        // The other lines follow at once. The last one that is waited for is the fingerprint.
        let mut output = vec![first];
        while !output.last().unwrap().starts_with("certificate: ") {
            output.push(lines.next().expect("a line with the fingerprint").unwrap());
        }
        Self {
            process,
            output,
            url,
        }
    }

    fn login(&self, password: &str) -> u16 {
        login(&self.url, password)
    }

    /// Stops it with the signal of service managers. Returns the exit status and stderr.
    fn stop(mut self) -> (Option<i32>, String) {
        signal(self.process.id());
        let status = self.process.wait().unwrap().code();
        let mut log = String::new();
        self.process
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut log)
            .unwrap();
        (status, log)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn overkeep(directory: &Path, more: &[&str]) -> Command {
    as_program(Path::new(env!("CARGO_BIN_EXE_overkeep")), directory, more)
}

fn as_program(program: &Path, directory: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(program);
    // As environment variables, which flags override.
    command
        .arg("run")
        .args(more)
        .env_clear()
        .current_dir(directory)
        .envs([
            ("OVERKEEP_DATA", "data"),
            ("OVERKEEP_LISTEN", "127.0.0.1:0"),
        ]);
    command.env("OVERKEEP_PASSWORDS_COST", "10");
    command
}

fn signal(process: u32) {
    assert!(
        Command::new("kill")
            .args(["-TERM", &process.to_string()])
            .status()
            .unwrap()
            .success()
    );
}

fn agent() -> Agent {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = TlsConfig::builder()
        .disable_verification(true)
        .unversioned_rustls_crypto_provider(provider)
        .build();
    Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .proxy(None)
        .build()
        .new_agent()
}

fn login(url: &str, password: &str) -> u16 {
    let body = json!({ "username": "admin", "password": password });
    let asked = agent()
        .post(format!(
            "{url}/edge/management/v1/authenticate?method=password"
        ))
        .send_json(body);
    asked.unwrap().status().as_u16()
}

fn get(url: &str, path: &str) -> (u16, Value) {
    let mut answer = agent().get(format!("{url}{path}")).call().unwrap();
    (
        answer.status().as_u16(),
        answer.body_mut().read_json().unwrap(),
    )
}

fn mode(file: &Path) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}

/// Asserts that stderr is one line that begins with the program's name and contains all of these
/// words.
fn assert_refused(output: &Output, words: &[&str]) {
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert!(
        line.starts_with("overkeep: ") && line.lines().count() == 1,
        "{line:?}"
    );
    assert!(
        words.iter().all(|word| line.contains(word)),
        "{line:?} has not all of {words:?}"
    );
    assert!(
        output.stdout.is_empty(),
        "{:?}",
        String::from_utf8_lossy(&output.stdout)
    );
}
