//! The command line: what can be asked of the program, and how a start that fails says so.
//!
//! Not here: what a command does. Each command is a file with its `Arguments` and a function from them to what the rest
//! of the program understands. To add one: the file, a variant of `Command`, an arm in `act`.
//! Start with `Command`, then `act`.
//!
//! Invariant: a wrong command line ends with status 2 and clap's explanation, or one line where the value of a flag is wrong; a look at
//! a file that found something wrong with status 3 and what it found on stdout; every other failure with status 1. Every such line is on
//! stderr and begins with `overkeep:`.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::admin_socket::Outcome;
use crate::config::{Config, Reread};
use crate::logging;

use run::{Refused, Settled};

pub mod api;
mod file;
mod history;
mod host;
mod limit;
mod login;
mod passphrase;
mod progress;
pub mod run;

/// The controller of a private overlay network in one binary and one file.
#[derive(Parser)]
#[command(name = "overkeep", version, arg_required_else_help = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Arguments),
    Admin(host::Admin),
    Explain(host::Explain),
    Pki(host::Pki),
    Snapshot(file::Snapshot),
    Check(file::Check),
    Repair(file::Repair),
    Restore(file::Restore),
    History(history::History),
    Compact(file::Compact),
    Login(login::Login),
    Logout(login::Logout),
    Completions(Completions),
    Passphrase(passphrase::Passphrase),
}

/// Print what a shell needs to complete commands, flags and their values: save it where the shell looks for it.
#[derive(clap::Args)]
struct Completions {
    shell: clap_complete::Shell,
}

impl Completions {
    fn act(self) -> Result<(), Failure> {
        let mut command = api::command(CommandLine::command(), &api::grammar()?);
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "overkeep", &mut script);
        match io::stdout().lock().write_all(&script) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::of(format!("stdout: {error}"))),
            _ => Ok(()),
        }
    }
}

/// What came of a command, or why nothing did.
pub type Acted = Result<Outcome, Failure>;

/// Does what this process was asked for. `start` runs a controller until it is told to stop; the log works by then.
pub fn main<E: Display>(start: impl FnOnce(Config, Reread) -> Result<(), E>) -> ExitCode {
    let environment: Vec<_> = std::env::vars_os().collect();
    // Before any secret is read.
    if let Err(error) = limit::keep_out_of_dumps() {
        complain(&format!("warning: core dumps of this process may hold keys: {error}"));
    }
    // Before any file is opened.
    let surviving = limit::survive().map_err(|error| Failure::of(format!("signals: {error}")));
    let outcome = surviving.and_then(|()| {
        act(std::env::args_os(), &environment, |Start { config, warnings, again }| {
            logging::start(&config.log)?;
            warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
            start(config, again).map_err(|error| error.to_string())
        })
    });
    outcome.map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS)
}

/// What `overkeep run` leads to.
pub struct Start {
    pub config: Config,
    /// What is to be said of it; one line each.
    pub warnings: Vec<String>,
    /// Reads flags, variables and the file anew.
    pub again: Reread,
}

/// As `main`, for any arguments (the program's name first) and any environment.
pub fn act<E: Display>(
    arguments: impl IntoIterator<Item = OsString>,
    environment: &[(OsString, OsString)],
    start: impl FnOnce(Start) -> Result<(), E>,
) -> Result<(), Failure> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let line = if is_of_program(&arguments) {
        CommandLine::try_parse_from(arguments).map_err(Failure::Usage)?
    } else {
        let grammar = api::grammar()?;
        let matches = api::command(CommandLine::command(), &grammar).try_get_matches_from(arguments).map_err(Failure::Usage)?;
        if let Some((operation, matches)) = api::meant(&grammar, &matches) {
            return api::act(&grammar, operation, matches, environment);
        }
        CommandLine::from_arg_matches(&matches).map_err(Failure::Usage)?
    };
    match line.command {
        Command::Run(arguments) => {
            let Settled { config, warnings } = arguments.config(environment)?;
            start(Start { config, warnings, again: again(arguments, environment) }).map_err(Failure::of)
        }
        Command::Admin(arguments) => tell(arguments.act(environment)),
        Command::Explain(arguments) => tell(arguments.act(environment)),
        Command::Pki(arguments) => tell(arguments.act(environment)),
        Command::Snapshot(arguments) => tell(arguments.act(environment)),
        Command::Check(arguments) => tell(arguments.act(environment)),
        Command::Repair(arguments) => tell(arguments.act(environment)),
        Command::Restore(arguments) => tell(arguments.act(environment)),
        Command::History(arguments) => tell(arguments.act(environment)),
        Command::Compact(arguments) => tell(arguments.act(environment)),
        Command::Login(arguments) => tell(arguments.act()),
        Command::Logout(arguments) => tell(arguments.act()),
        Command::Completions(arguments) => arguments.act(),
        Command::Passphrase(arguments) => tell(arguments.act(environment)),
    }
}

/// Whether the first word is a command of the program itself, which needs no look at the operations.
fn is_of_program(arguments: &[OsString]) -> bool {
    let first = arguments.get(1).and_then(|word| word.to_str());
    first.is_some_and(|first| CommandLine::command().get_subcommands().any(|command| command.get_name() == first))
}

fn again(arguments: run::Arguments, environment: &[(OsString, OsString)]) -> Reread {
    let environment = environment.to_vec();
    Box::new(move || arguments.config(&environment).map(|settled| settled.config).map_err(|refused| refused.to_string()))
}

/// What came of a command, for whoever asked.
fn tell(acted: Acted) -> Result<(), Failure> {
    match acted? {
        Outcome::Done(lines) => print(&lines).map_err(|error| Failure::of(format!("stdout: {error}"))),
        Outcome::Problems(lines) => Err(Failure::Problems(lines)),
    }
}

/// Nobody may be listening, which is no reason to fail; a disk that does not take it is.
fn print(lines: &[String]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match lines.iter().try_for_each(|line| writeln!(out, "{line}")) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        told => told,
    }
}

/// Why a command did not do what it was asked for.
#[derive(Debug)]
pub enum Failure {
    /// clap's answer instead of a command: what is wrong with the line, or the help or version that was asked for.
    Usage(clap::Error),
    /// One line.
    Start(String),
    /// The value of a flag is wrong; one line.
    Flag(String),
    /// The file is not as it should be; lines that say how.
    Problems(Vec<String>),
}

impl Failure {
    fn of(error: impl Display) -> Failure {
        Failure::Start(run::one_line(&error.to_string()))
    }

    /// The exit status: 0 for help and version, 2 for wrong usage, 3 for a file with something wrong in it, 1 for the rest.
    pub fn status(&self) -> u8 {
        match self {
            Failure::Usage(answer) => u8::try_from(answer.exit_code()).unwrap_or(2),
            Failure::Start(_) => 1,
            Failure::Flag(_) => 2,
            Failure::Problems(_) => 3,
        }
    }

    /// Prints itself. Nobody may be listening, which is no reason to fail in another way (`eprintln!` would panic).
    fn report(self) -> ExitCode {
        match &self {
            Failure::Usage(answer) => drop(answer.print()),
            Failure::Start(line) | Failure::Flag(line) => complain(line),
            Failure::Problems(lines) => print(lines).unwrap_or_else(|error| complain(&format!("stdout: {error}"))),
        }
        ExitCode::from(self.status())
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        let line = run::one_line(&refused.to_string());
        if refused.is_of_a_flag() { Failure::Flag(line) } else { Failure::Start(line) }
    }
}

/// One line.
impl From<String> for Failure {
    fn from(line: String) -> Failure {
        Failure::of(line)
    }
}

fn warn(warning: &str) {
    complain(&format!("warning: {warning}"));
}

fn complain(line: &str) {
    drop(writeln!(io::stderr(), "overkeep: {line}"));
}
