//! `overkeep history`: whether the history is unmodified. A running controller performs the check; if none runs, this process opens the
//! data file.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Subcommand};

use super::{
    admin::ControllerFlags,
    failure::CommandResult,
    file::{judged, running},
};
use crate::{
    admin_socket::{Command, verified_lines},
    maintenance::offline,
    store::HistoryAnchor,
};

/// Verify the history of changes.
#[derive(Args, Clone, Debug)]
pub(crate) struct History {
    #[command(subcommand)]
    what: HistoryCommand,
    #[command(flatten)]
    which: ControllerFlags,
}

#[derive(Subcommand, Clone, Debug)]
enum HistoryCommand {
    /// Check whether the history was tampered with. Exit status: 0 no, 3 yes, 1 the check failed
    Verify {
        /// Check this file, such as a snapshot, instead of the data file. No controller may have it open
        #[arg(value_name = "FILE", conflicts_with = "data")]
        file: Option<PathBuf>,
        /// A row that was noted earlier and must be unchanged
        #[arg(long, value_name = "SEQUENCE:HASH")]
        noted: Option<HistoryAnchor>,
    },
}

impl History {
    /// Runs the command and returns its findings.
    ///
    /// # Errors
    /// The reason, as one line.
    pub(crate) fn act(self, environment: &[(OsString, OsString)]) -> CommandResult {
        let HistoryCommand::Verify { file, noted } = self.what;
        let look = |file: &std::path::Path| offline::verify_history(file, noted.as_ref()).map(|verified| verified_lines(&verified));
        match &file {
            Some(file) => judged(look(file)),
            None => running(&self.which.config(environment)?, &Command::VerifyHistory { noted: noted.clone() }, look),
        }
    }
}
