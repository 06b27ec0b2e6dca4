//! `overkeep history`: whether the history is what was written. Done by the controller if it runs, and on its file if not.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Subcommand};

use super::{
    Acted,
    file::{judged, running},
    host::Which,
};
use crate::{
    admin_socket::{Command, followed},
    maintenance::closed,
    store::Anchor,
};

/// Look after the history of changes.
#[derive(Args, Clone, Debug)]
pub struct History {
    #[command(subcommand)]
    what: HistoryCommand,
    #[command(flatten)]
    which: Which,
}

#[derive(Subcommand, Clone, Debug)]
enum HistoryCommand {
    /// Find out whether somebody tampered with it: exit status 0 if not, 3 if so, 1 if that could not be found out
    Verify {
        /// Look at this file, which no controller has open, such as a snapshot
        #[arg(value_name = "FILE", conflicts_with = "data")]
        file: Option<PathBuf>,
        /// A row as it was shown or read earlier, which must still be the same
        #[arg(long, value_name = "SEQUENCE:HASH")]
        noted: Option<Anchor>,
    },
}

impl History {
    /// Does it, and says what it found.
    ///
    /// # Errors
    /// One line.
    pub fn act(self, environment: &[(OsString, OsString)]) -> Acted {
        let HistoryCommand::Verify { file, noted } = self.what;
        let look = |file: &std::path::Path| closed::verify_history(file, noted.as_ref()).map(|verified| followed(&verified));
        match &file {
            Some(file) => judged(look(file)),
            None => running(&self.which.config(environment)?, &Command::VerifyHistory { noted: noted.clone() }, look),
        }
    }
}
