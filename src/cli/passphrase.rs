//! `overkeep passphrase`: sets or removes the passphrase that seals the keys in a data file. The
//! controller must be stopped.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Subcommand};
use maintenance::offline;
use model::config;

use super::{
    admin::ControllerFlags, failure::CommandResult, file::judged_of, progress::with_progress,
};
use crate::admin_socket::Outcome;

/// Set, change or remove the passphrase that seals the keys in the data file; the controller must
/// be stopped.
#[derive(Args, Clone, Debug)]
pub(crate) struct Passphrase {
    #[command(subcommand)]
    what: PassphraseCommand,
    #[command(flatten)]
    which: ControllerFlags,
}

#[derive(Subcommand, Clone, Debug)]
enum PassphraseCommand {
    /// Seal the keys with the passphrase in FILE; --passphrase-file names the file of the current
    /// one, if there is one
    Set {
        /// File with the new passphrase
        #[arg(value_name = "FILE")]
        next: PathBuf,
    },
    /// Store the keys unsealed in the data file
    Remove,
}

impl Passphrase {
    /// Runs the command and returns its output.
    ///
    /// # Errors
    /// The reason, as one line.
    pub(crate) fn act(self, environment: &[(OsString, OsString)]) -> CommandResult {
        let config = self.which.config(environment)?;
        let file = match self.what {
            PassphraseCommand::Set { next } => Some(next),
            PassphraseCommand::Remove => None,
        };
        let now = config.passphrase().map_err(|e| e.to_string())?;
        let next = config::passphrase("FILE", file.as_deref()).map_err(|e| e.to_string())?;
        let done = match file {
            Some(file) => format!(
                "the keys in {} are sealed with the passphrase in {}",
                config.data.display(),
                file.display()
            ),
            None => format!(
                "the keys in {} are not sealed any more",
                config.data.display()
            ),
        };
        let hint = "copies that were made before, such as snapshots, are unchanged".to_owned();
        let resealed = with_progress(|watch| {
            offline::reseal(&config.data, now.as_ref(), next.as_ref(), watch)
        });
        let left = |copy: PathBuf| {
            format!(
                "{} is unchanged too; the previous release can use it: delete it once you no longer need it",
                copy.display()
            )
        };
        judged_of(
            &config.data,
            resealed.map(|copy| {
                Outcome::Done([done, hint].into_iter().chain(copy.map(left)).collect())
            }),
        )
    }
}
