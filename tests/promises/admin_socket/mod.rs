//! The owner of the host regains access, with the controller running or stopped.

mod commands;
mod owners;

use std::{os::unix::fs::PermissionsExt, path::Path, sync::Arc};

use model::{clock::Clock, config::Config};
use overkeep::testing::{
    admin_socket::{Command, Outcome, socket},
    controller,
};
use store::Progress;

use tempfile::TempDir;

fn configuration(directory: &TempDir) -> Config {
    let mut config = Config {
        data: directory.path().join("data"),
        ..Config::default()
    };
    config.listen = "127.0.0.1:0".parse().unwrap();
    config.passwords.cost = 10;
    config
}

/// Runs a command that finds no problem.
pub fn ask(path: &Path, command: &Command) -> Option<Result<Vec<String>, String>> {
    let told = socket::ask(path, command, &mut |_, _| ())?;
    Some(
        told.map(|outcome| match outcome {
            Outcome::Done(lines) => lines,
            Outcome::Problems(lines) => panic!("{lines:?}"),
        })
        .map_err(|failure| failure.to_string()),
    )
}

/// The lines of a command that may find problems.
pub fn asked(path: &Path, command: &Command) -> Vec<String> {
    let (Outcome::Done(lines) | Outcome::Problems(lines)) =
        socket::ask(path, command, &mut |_, _| ()).unwrap().unwrap();
    lines
}

fn reset(password: &str) -> Command {
    Command::ResetPassword {
        username: "admin".into(),
        password: password.into(),
        allow_passwords: false,
    }
}
