//! The command line: the commands of the program, and how failures are reported.
//!
//! Not here: what a command does. Each command has its own file with its arguments and a function
//! that runs it. To add one: the file, a variant of `Command`, an arm in `act`. Start with
//! `Command`, then `act`.
//!
//! Invariant: exit status 2 for a wrong command line, with clap's message, or one line for the
//! invalid value of a flag; 3 for a check that found problems, with the findings on stdout; 1 for
//! every other failure. Each of these lines is on stderr and begins with `overkeep:`.

use std::ffi::OsString;
use std::fmt::Display;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use model::config::{Config, Reread};

use crate::admin_socket::Outcome;
use crate::logging;

use failure::{print, print_error};
use run::ResolvedConfig;

mod admin;
pub mod api;
mod authority_files;
mod client;
mod config_directory;
mod doctor;
mod drill;
mod expiring;
mod explain;
mod failure;
mod file;
mod help;
mod history;
mod history_lines;
mod import;
mod invite;
mod limit;
mod login;
mod network_document;
mod openziti;
mod passphrase;
mod progress;
mod publishing;
mod qr;
mod read_document;
mod remote_check;
pub mod run;
mod shell;
mod starting;
mod trust;

pub use failure::CommandError;
pub(crate) use failure::CommandResult;

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
    Admin(admin::Admin),
    Explain(explain::Explain),
    Pki(admin::Pki),
    Snapshot(file::Snapshot),
    Check(file::Check),
    Repair(file::Repair),
    Restore(file::Restore),
    History(history::History),
    Compact(file::Compact),
    Export(network_document::Export),
    Import(import::Import),
    Plan(network_document::Plan),
    Apply(network_document::Apply),
    Expiring(expiring::ExpiringArguments),
    Doctor(doctor::Doctor),
    Drill(drill::Drill),
    Login(login::Login),
    Logout(login::Logout),
    Context(login::ContextCommand),
    Completions(shell::Completions),
    Man(shell::Man),
    Passphrase(passphrase::Passphrase),
    Enroll(client::Enroll),
    Forward(client::Forward),
    Host(client::Host),
    Publish(publishing::Publish),
    Unpublish(publishing::Unpublish),
    Invite(invite::Invite),
    Test(client::Test),
    Status(client::Status),
}

/// The whole command line.
///
/// # Errors
/// A row of the tables is invalid, which is a defect.
fn whole() -> Result<clap::Command, CommandError> {
    let grammar = api::grammar()?;
    Ok(help::grouped(
        api::command(CommandLine::command(), &grammar, None),
        &grammar,
    ))
}

/// Runs the command of this process. `start` runs a controller until it is stopped; the log is
/// started before.
pub(crate) fn main<E: Display>(start: impl FnOnce(Config, Reread) -> Result<(), E>) -> ExitCode {
    let environment: Vec<_> = std::env::vars_os().collect();
    // Before any secret is read.
    if let Err(error) = limit::keep_out_of_dumps() {
        print_error(&format!(
            "warning: core dumps of this process may hold keys: {error}"
        ));
    }
    // Before any file is opened.
    let surviving = limit::ignore_file_size_signal()
        .map_err(|error| CommandError::of(format!("signals: {error}")));
    let outcome = surviving.and_then(|()| {
        if let Some(shell) = shell::asking(&environment) {
            return shell::complete(&shell, whole()?);
        }
        act(
            std::env::args_os(),
            &environment,
            |Start {
                 config,
                 warnings,
                 again,
             }| {
                logging::start(&config.log).map_err(|error| error.to_string())?;
                for warning in &warnings {
                    tracing::warn!("{warning}");
                }
                start(config, again).map_err(|error| error.to_string())
            },
        )
    });
    outcome.map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS)
}

/// What `overkeep run` starts with.
pub struct Start {
    pub config: Config,
    /// Warnings about the configuration; one line each.
    pub warnings: Vec<String>,
    /// Reads flags, variables and the file again.
    pub again: Reread,
}

/// Like `main`, for any arguments (the program's name first) and any environment.
pub fn act<E: Display>(
    arguments: impl IntoIterator<Item = OsString>,
    environment: &[(OsString, OsString)],
    start: impl FnOnce(Start) -> Result<(), E>,
) -> Result<(), CommandError> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let line = if is_of_program(&arguments) {
        CommandLine::try_parse_from(arguments).map_err(CommandError::Usage)?
    } else {
        let grammar = api::grammar()?;
        let first = arguments.get(1).and_then(|word| word.to_str());
        let command = help::grouped(
            api::command(CommandLine::command(), &grammar, first),
            &grammar,
        );
        let matches = command
            .try_get_matches_from(arguments)
            .map_err(CommandError::Usage)?;
        if let Some((operation, matches)) = api::chosen_operation(&grammar, &matches) {
            return api::act(&grammar, operation, matches, environment);
        }
        CommandLine::from_arg_matches(&matches).map_err(CommandError::Usage)?
    };
    match line.command {
        Command::Run(arguments) => {
            let ResolvedConfig { config, warnings } = arguments.config(environment)?;
            start(Start {
                config,
                warnings,
                again: again(arguments, environment),
            })
            .map_err(CommandError::of)
        }
        Command::Admin(arguments) => print_result(arguments.act(environment)),
        Command::Explain(arguments) => print_result(arguments.act(environment)),
        Command::Pki(arguments) => print_result(arguments.act(environment)),
        Command::Snapshot(arguments) => print_result(arguments.act(environment)),
        Command::Check(arguments) => print_result(arguments.act(environment)),
        Command::Repair(arguments) => print_result(arguments.act(environment)),
        Command::Restore(arguments) => print_result(arguments.act(environment)),
        Command::History(arguments) => print_result(arguments.act(environment)),
        Command::Compact(arguments) => print_result(arguments.act(environment)),
        Command::Export(arguments) => print_result(arguments.act(environment)),
        Command::Import(arguments) => print_result(arguments.act(environment)),
        Command::Plan(arguments) => print_result(arguments.act(environment)),
        Command::Apply(arguments) => print_result(arguments.act(environment)),
        Command::Expiring(arguments) => print_result(arguments.act(environment)),
        Command::Doctor(arguments) => print_result(arguments.act(environment)),
        Command::Drill(arguments) => print_result(arguments.act(environment)),
        Command::Login(arguments) => print_result(arguments.act()),
        Command::Logout(arguments) => print_result(arguments.act()),
        Command::Context(arguments) => print_result(arguments.act()),
        Command::Completions(arguments) => arguments.act(),
        Command::Man(arguments) => print_result(arguments.act(whole()?)),
        Command::Passphrase(arguments) => print_result(arguments.act(environment)),
        Command::Enroll(arguments) => print_result(arguments.act()),
        Command::Forward(arguments) => print_result(arguments.act()),
        Command::Host(arguments) => print_result(arguments.act()),
        Command::Publish(arguments) => print_result(arguments.act(environment)),
        Command::Unpublish(arguments) => print_result(arguments.act(environment)),
        Command::Invite(arguments) => print_result(arguments.act(environment)),
        Command::Test(arguments) => print_result(arguments.act()),
        Command::Status(arguments) => print_result(arguments.act()),
    }
}

/// Whether the first word is a command of the program itself, for which the operations need not be
/// loaded.
fn is_of_program(arguments: &[OsString]) -> bool {
    let first = arguments.get(1).and_then(|word| word.to_str());
    first.is_some_and(|first| {
        CommandLine::command()
            .get_subcommands()
            .any(|command| command.get_name() == first)
    })
}

fn again(arguments: run::Arguments, environment: &[(OsString, OsString)]) -> Reread {
    let environment = environment.to_vec();
    Box::new(move || arguments.config(&environment).map(|settled| settled.config))
}

/// Prints the result of a command.
fn print_result(result: CommandResult) -> Result<(), CommandError> {
    match result? {
        Outcome::Done(lines) => {
            print(&lines).map_err(|error| CommandError::of(format!("stdout: {error}")))
        }
        Outcome::Problems(lines) => Err(CommandError::Problems(lines)),
    }
}
