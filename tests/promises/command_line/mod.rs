//! The commands made from the route tables.

mod callers;
mod output;
mod records;

use std::{
    collections::BTreeMap,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output, Stdio},
};

use overkeep::testing::{
    admin_socket::{request, socket},
    cli::api,
};
use rest::{Interfaces, LocalPart, LocalRequest};

use serde_json::{Value as Json, json};

use crate::harness::{TestServer, fresh};

/// The result of a command.
pub struct Ran {
    line: String,
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn of(line: String, output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self {
            line,
            status: output.status.code().unwrap(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    pub fn good(self) -> String {
        assert_eq!(self.status, 0, "{}: {} {}", self.line, self.out, self.err);
        self.out.trim_end().to_owned()
    }

    pub fn json(self) -> Json {
        serde_json::from_str(&self.good()).unwrap()
    }

    /// Asserts a status, one line on stderr with these words, and no output.
    pub fn bad(self, status: i32, words: &[&str]) {
        assert_eq!(
            self.status, status,
            "{}: {} {}",
            self.line, self.out, self.err
        );
        assert!(
            words.iter().all(|word| self.err.contains(word)),
            "{}: {}",
            self.line,
            self.err
        );
        assert_eq!(self.out, "", "{}", self.line);
    }
}

/// The program with a home directory of its own and no variables.
pub fn program(home: &Path) -> Command {
    isolated(Command::new(env!("CARGO_BIN_EXE_overkeep")), home)
}

/// A command with an environment without variables of the program.
pub fn isolated(mut command: Command, home: &Path) -> Command {
    std::env::vars()
        .filter(|(name, _)| name.starts_with("OVERKEEP_"))
        .for_each(|(name, _)| {
            command.env_remove(name);
        });
    command
        .env("XDG_CONFIG_HOME", home)
        .env_remove("COLUMNS")
        .current_dir(home);
    command
}

/// Runs a command against a controller over its admin socket, with further variables.
pub fn on_host_with(server: &TestServer, variables: &[(&str, &str)], words: &[&str]) -> Ran {
    let data = server.data();
    let mut program = program(data.parent().unwrap());
    let output = program
        .env("OVERKEEP_DATA", &data)
        .envs(variables.iter().copied())
        .args(words)
        .output()
        .unwrap();
    Ran::of(words.join(" "), output)
}

/// Runs a command against a controller over its admin socket.
pub fn on_host(server: &TestServer, words: &[&str]) -> Ran {
    let data = server.data();
    let output = program(data.parent().unwrap())
        .env("OVERKEEP_DATA", &data)
        .args(words)
        .output()
        .unwrap();
    Ran::of(words.join(" "), output)
}
