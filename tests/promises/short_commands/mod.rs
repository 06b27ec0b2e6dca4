//! The short commands of the program, after a log-in as on the host: explain, history, roles one at
//! a time, columns, help.

mod people;
mod tables;

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::symlink,
    path::Path,
    process::{Child, Stdio},
    thread,
    time::{Duration, SystemTime},
};

use overkeep::testing::cli::api::output;

use serde_json::{Value as Json, json};

use tempfile::TempDir;

use crate::{
    command_line::{Ran, on_host, program},
    harness::{TestServer, fresh},
};

/// A directory with a log-in to a controller, and without a data file.
pub struct LoggedIn {
    home: TempDir,
}

impl LoggedIn {
    pub fn to(server: &TestServer) -> Self {
        let home = TempDir::new().unwrap();
        fs::write(home.path().join("password"), &server.password).unwrap();
        let one = Self { home };
        // The scheme of an address has no case.
        one.run(&[
            "login",
            &format!("HTTPS://{}/", server.bound()),
            "--password-file",
            "password",
            "--yes",
        ])
        .good();
        one
    }

    pub fn run(&self, words: &[&str]) -> Ran {
        Ran::of(
            words.join(" "),
            program(self.home.path())
                .args(words)
                .stdin(Stdio::null())
                .output()
                .unwrap(),
        )
    }

    /// Runs a command as a shell reads it.
    pub fn typed(&self, line: &str) -> Ran {
        let mut shell =
            crate::command_line::isolated(std::process::Command::new("sh"), self.home.path());
        let directory = Path::new(env!("CARGO_BIN_EXE_overkeep"))
            .parent()
            .unwrap()
            .to_owned();
        let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
        Ran::of(
            line.to_owned(),
            shell
                .env("PATH", path)
                .args(["-c", line])
                .stdin(Stdio::null())
                .output()
                .unwrap(),
        )
    }
}
