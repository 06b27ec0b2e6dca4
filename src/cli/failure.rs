//! Why a command failed, and how the failure is reported.

use std::{
    fmt::Display,
    io::{self, Write},
    process::ExitCode,
};

use model::{
    config::ConfigError,
    hidden_text::{shown, shown_lines},
};

use super::{api::output::OutputError, run::one_line};
use crate::admin_socket::{Outcome, socket::CommandFailure};

/// The result of a command.
pub(crate) type CommandResult = Result<Outcome, CommandError>;

/// Why a command failed.
#[derive(Debug)]
pub enum CommandError {
    /// clap's message: what is wrong with the command line, or the requested help or version.
    Usage(clap::Error),
    /// The reason, as one line.
    Start(String),
    /// The value of a flag is wrong; one line.
    Flag(String),
    /// A check found problems; lines that describe them.
    Problems(Vec<String>),
}

impl CommandError {
    pub(super) fn of(error: impl Display) -> CommandError {
        CommandError::Start(one_line(&error.to_string()))
    }

    /// The exit status: 0 for help and version, 2 for wrong usage, 3 for a file with problems, 1
    /// otherwise.
    pub fn status(&self) -> u8 {
        match self {
            CommandError::Usage(answer) => u8::try_from(answer.exit_code()).unwrap_or(2),
            CommandError::Start(_) => 1,
            CommandError::Flag(_) => 2,
            CommandError::Problems(_) => 3,
        }
    }

    /// The message of the failure, as one line.
    pub(super) fn message(&self) -> String {
        match self {
            CommandError::Usage(answer) => one_line(&answer.to_string()),
            CommandError::Start(line) | CommandError::Flag(line) => line.clone(),
            CommandError::Problems(lines) => lines.join("; "),
        }
    }

    /// Prints the failure. A closed stderr is ignored (`eprintln!` would panic).
    pub(super) fn report(self) -> ExitCode {
        match &self {
            CommandError::Usage(answer) => drop(answer.print()),
            CommandError::Start(line) | CommandError::Flag(line) => print_error(line),
            CommandError::Problems(lines) => {
                print(lines).unwrap_or_else(|error| print_error(&format!("stdout: {error}")))
            }
        }
        ExitCode::from(self.status())
    }
}

impl From<ConfigError> for CommandError {
    fn from(refused: ConfigError) -> CommandError {
        let line = one_line(&refused.to_string());
        if refused.is_of_a_flag() {
            CommandError::Flag(line)
        } else {
            CommandError::Start(line)
        }
    }
}

impl From<CommandFailure> for CommandError {
    fn from(failure: CommandFailure) -> CommandError {
        CommandError::of(failure)
    }
}

impl From<OutputError> for CommandError {
    fn from(error: OutputError) -> CommandError {
        CommandError::of(error)
    }
}

/// The text must be one line.
impl From<String> for CommandError {
    fn from(line: String) -> CommandError {
        CommandError::of(line)
    }
}

pub(super) fn warn(warning: &str) {
    print_error(&format!("warning: {warning}"));
}

/// Prints an error, which may quote text of others.
pub(super) fn print_error(line: &str) {
    drop(writeln!(io::stderr(), "overkeep: {}", shown(line)));
}

/// Prints lines to stdout, which may quote text of others and hold line breaks of their own. A
/// closed stdout is not an error; a full disk is.
pub(super) fn print(lines: &[String]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match lines
        .iter()
        .try_for_each(|line| writeln!(out, "{}", shown_lines(line)))
    {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
