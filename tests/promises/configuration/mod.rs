//! The configuration: `controller.toml` is correct, a mistake is rejected with a line that names
//! it, a flag takes precedence over a variable and a variable over the file, and the exit status
//! tells the kind of failure.

mod documented;
mod program;
mod sources;
mod values;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use figment::Figment;
use figment::providers::{Format as _, Toml};
use figment::value::Value;
use model::config::{Address, Config, Format, Log, Span};
use overkeep::testing::cli::{self, CommandError, run};
use overkeep::testing::logging;
use tempfile::TempDir;

const DOCUMENTED: &str = include_str!("../../../controller.toml");

/// A directory with a configuration file.
struct WorkingDirectory(TempDir);

impl WorkingDirectory {
    fn with(text: &str) -> WorkingDirectory {
        let place = WorkingDirectory(tempfile::tempdir().unwrap());
        std::fs::write(place.file(), text).unwrap();
        place
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("controller.toml")
    }
}

/// The configuration of a command line and variables, or the failure.
fn configured(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Config, CommandError> {
    warned(arguments, variables).map(|(config, _)| config)
}

/// Like [`configured`], with the warnings.
fn warned(
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Result<(Config, Vec<String>), CommandError> {
    let environment: Vec<(OsString, OsString)> = variables
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    let arguments = ["overkeep", "run"]
        .iter()
        .chain(arguments)
        .map(OsString::from);
    let mut seen = None;
    cli::act(arguments, &environment, |start| {
        seen = Some((start.config, start.warnings));
        Ok::<(), Infallible>(())
    })?;
    Ok(seen.unwrap())
}

fn from_file(text: &str) -> Result<Config, CommandError> {
    let place = WorkingDirectory::with(text);
    configured(&["--config", place.file().to_str().unwrap()], &[])
}

/// The line of a rejected start.
fn refusal(outcome: Result<Config, CommandError>) -> String {
    match outcome {
        Err(CommandError::Start(line) | CommandError::Flag(line)) => {
            assert!(!line.contains('\n'), "{line:?}");
            line
        }
        other => panic!("expected a rejected start, got {other:?}"),
    }
}

fn assert_names(line: &str, words: &[&str]) {
    for word in words {
        assert!(line.contains(word), "{line:?} does not name {word:?}");
    }
}
