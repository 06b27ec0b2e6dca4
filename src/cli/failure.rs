//! Why a command failed, and how the failure is reported.

use std::{
    fmt::Display,
    io::{self, Write},
    process::ExitCode,
};

use super::run::{ConfigError, one_line};
use crate::admin_socket::Outcome;

/// The result of a command.
pub(crate) type CommandResult = Result<Outcome, Failure>;

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// clap's message: what is wrong with the command line, or the requested help or version.
    Usage(clap::Error),
    /// The reason, as one line.
    Start(String),
    /// The value of a flag is wrong; one line.
    Flag(String),
    /// A check found problems; lines that describe them.
    Problems(Vec<String>),
}

impl Failure {
    pub(super) fn of(error: impl Display) -> Failure {
        Failure::Start(one_line(&error.to_string()))
    }

    /// The exit status: 0 for help and version, 2 for wrong usage, 3 for a file with problems, 1 otherwise.
    pub fn status(&self) -> u8 {
        match self {
            Failure::Usage(answer) => u8::try_from(answer.exit_code()).unwrap_or(2),
            Failure::Start(_) => 1,
            Failure::Flag(_) => 2,
            Failure::Problems(_) => 3,
        }
    }

    /// The message of the failure, as one line.
    pub(super) fn message(&self) -> String {
        match self {
            Failure::Usage(answer) => one_line(&answer.to_string()),
            Failure::Start(line) | Failure::Flag(line) => line.clone(),
            Failure::Problems(lines) => lines.join("; "),
        }
    }

    /// Prints the failure. A closed stderr is ignored (`eprintln!` would panic).
    pub(super) fn report(self) -> ExitCode {
        match &self {
            Failure::Usage(answer) => drop(answer.print()),
            Failure::Start(line) | Failure::Flag(line) => print_error(line),
            Failure::Problems(lines) => print(lines).unwrap_or_else(|error| print_error(&format!("stdout: {error}"))),
        }
        ExitCode::from(self.status())
    }
}

impl From<ConfigError> for Failure {
    fn from(refused: ConfigError) -> Failure {
        let line = one_line(&refused.to_string());
        if refused.is_of_a_flag() { Failure::Flag(line) } else { Failure::Start(line) }
    }
}

/// The text must be one line.
impl From<String> for Failure {
    fn from(line: String) -> Failure {
        Failure::of(line)
    }
}

pub(super) fn warn(warning: &str) {
    print_error(&format!("warning: {warning}"));
}

pub(super) fn print_error(line: &str) {
    drop(writeln!(io::stderr(), "overkeep: {line}"));
}

/// Prints lines to stdout. A closed stdout is not an error; a full disk is.
pub(super) fn print(lines: &[String]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match lines.iter().try_for_each(|line| writeln!(out, "{line}")) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
