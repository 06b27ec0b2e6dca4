//! `overkeep completions` and `overkeep man`: what shells and `man` read about the command line.
//!
//! A completion script runs this program with the variable [`VARIABLE`] for each word that is
//! completed, so that kinds, flags, allowed values and the names of records are those of this
//! release and of the running controller.

use std::{
    ffi::OsString,
    fs,
    io::{self, Write},
    path::PathBuf,
};

use clap::Args;
use clap_complete::env::Shells;

use super::{api::grammar::INTERFACES, failure::CommandError, failure::CommandResult};
use crate::admin_socket::Outcome;

/// The variable that a completion script sets to the name of its shell; the words to complete
/// follow `--`. It begins with `_`, so that it is not taken for a configuration key.
const VARIABLE: &str = "_OVERKEEP_COMPLETE";
const NAME: &str = "overkeep";

/// Print a completion script for a shell; save it where the shell looks for completions.
#[derive(Args)]
pub(crate) struct Completions {
    shell: clap_complete::Shell,
}

/// Write a man page for each command to a directory.
#[derive(Args)]
pub(crate) struct Man {
    /// The directory; it is created if it does not exist
    directory: PathBuf,
}

impl Completions {
    /// Prints the script.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn act(self) -> Result<(), CommandError> {
        let (name, shells) = (self.shell.to_string(), Shells::builtins());
        let shell = shells.completer(&name).ok_or_else(|| {
            CommandError::of(format!("{name}: there are no completions for this shell"))
        })?;
        let mut script = Vec::new();
        shell
            .write_registration(VARIABLE, NAME, NAME, NAME, &mut script)
            .map_err(CommandError::of)?;
        if matches!(self.shell, clap_complete::Shell::Bash) {
            script = quoting(&String::from_utf8_lossy(&script)).into_bytes();
        }
        write_out(&script)
    }
}

impl Man {
    /// Writes the pages. Those of an interface, which repeat the others, are left out.
    ///
    /// # Errors
    /// One line: a file cannot be written.
    pub(crate) fn act(self, command: clap::Command) -> CommandResult {
        let refused =
            |error: io::Error| CommandError::of(format!("{}: {error}", self.directory.display()));
        fs::create_dir_all(&self.directory).map_err(refused)?;
        let command = command.mut_subcommands(|command| {
            if INTERFACES.contains(&command.get_name()) {
                command.hide(true)
            } else {
                command
            }
        });
        clap_mangen::generate_to(command.disable_help_subcommand(true), &self.directory)
            .map_err(refused)?;
        Ok(Outcome::Done(Vec::new()))
    }
}

/// A bash function around the function of the completion script, which reads and offers words
/// without quotes. This function removes quotes from the current word. If an offered word needs
/// quotes, it marks the words as file names, so that readline quotes them. Otherwise the words are
/// not marked, because readline would add a slash to a word that is also the name of a directory.
const QUOTING: &str = r#"_overkeep_quoting() {
    local current=${2//\\/} offered
    _clap_complete_overkeep "$1" "${current#[\"\']}" "${3-}"
    for offered in "${COMPREPLY[@]}"; do
        if [[ $offered == *[^[:alnum:]@%+=:,./_#-]* ]]; then
            compopt -o filenames 2> /dev/null
            break
        fi
    done
}
"#;

/// The script for bash, which calls the function [`QUOTING`] instead of its own function.
fn quoting(script: &str) -> String {
    QUOTING.to_owned() + &script.replace("-F _clap_complete_overkeep ", "-F _overkeep_quoting ")
}

/// The shell that asks for completions.
pub(crate) fn asking(environment: &[(OsString, OsString)]) -> Option<String> {
    let set = environment.iter().find(|(name, _)| name == VARIABLE)?;
    Some(set.1.to_string_lossy().into_owned())
}

/// Prints the completions of the words of this process after `--`.
///
/// # Errors
/// The shell is unknown, or stdout cannot be written.
pub(crate) fn complete(shell: &str, mut command: clap::Command) -> Result<(), CommandError> {
    let shells = Shells::builtins();
    let shell = shells
        .completer(shell)
        .ok_or_else(|| CommandError::of(format!("{VARIABLE}: {shell:?} is not a known shell")))?;
    let words: Vec<OsString> = std::env::args_os()
        .skip_while(|word| word != "--")
        .skip(1)
        .collect();
    let mut found = Vec::new();
    shell
        .write_complete(
            &mut command,
            words,
            std::env::current_dir().ok().as_deref(),
            &mut found,
        )
        .map_err(CommandError::of)?;
    write_out(&found)
}

fn write_out(bytes: &[u8]) -> Result<(), CommandError> {
    match io::stdout().lock().write_all(bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CommandError::of(format!("stdout: {error}")))
        }
        _ => Ok(()),
    }
}
