//! `overkeep passphrase`: whether the keys in a data file are sealed, and with what. The controller must not run.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Subcommand};

use super::{Acted, file::judged_of, host::Which, progress::watched};
use crate::{admin_socket::Outcome, config, maintenance::closed};

/// Seal the keys in the data file with a passphrase, or with another one; the controller must not run.
#[derive(Args, Clone, Debug)]
pub struct Passphrase {
    #[command(subcommand)]
    what: PassphraseCommand,
    #[command(flatten)]
    which: Which,
}

#[derive(Subcommand, Clone, Debug)]
enum PassphraseCommand {
    /// Seal them with the passphrase in a file; the one so far, if there is one, is in that of --passphrase-file
    Set {
        /// The passphrase that seals them from now on
        #[arg(value_name = "FILE")]
        next: PathBuf,
    },
    /// Have them lie in the data file as they are
    Remove,
}

impl Passphrase {
    /// Does it, and says so.
    ///
    /// # Errors
    /// One line.
    pub fn act(self, environment: &[(OsString, OsString)]) -> Acted {
        let config = self.which.config(environment)?;
        let file = match self.what {
            PassphraseCommand::Set { next } => Some(next),
            PassphraseCommand::Remove => None,
        };
        let now = config.passphrase().map_err(|e| e.to_string())?;
        let next = config::passphrase("FILE", file.as_deref()).map_err(|e| e.to_string())?;
        let done = match file {
            Some(file) => format!("the keys in {} are sealed with the passphrase in {}", config.data.display(), file.display()),
            None => format!("the keys in {} are not sealed any more", config.data.display()),
        };
        let hint = "in copies that were made before, such as snapshots, they lie as they did then".to_owned();
        let resealed = watched(|watch| closed::reseal(&config.data, now.as_ref(), next.as_ref(), watch));
        let left = |copy: PathBuf| {
            format!("so they do in {}, which is the way back to the release before: delete it once you need none", copy.display())
        };
        judged_of(&config.data, resealed.map(|copy| Outcome::Done([done, hint].into_iter().chain(copy.map(left)).collect())))
    }
}
