//! `overkeep drill`: proves that a snapshot can be restored, without touching the controller.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::Args;

use super::{CommandError, CommandResult, admin::ControllerFlags, progress::watched};
use crate::{
    admin_socket::Outcome,
    clock::Clock,
    config::Snapshots,
    controller,
    maintenance::{self, Trial},
};

/// Test the restore of a snapshot: restore a copy, start a controller on it, log in, and check its records. Exit status: 0 the test passed, 3 it
/// failed, 1 it could not be carried out.
#[derive(Args, Clone, Debug)]
pub(crate) struct Drill {
    /// The snapshot [default: the newest in snapshots.directory]
    snapshot: Option<PathBuf>,
    /// Make the copy in this directory [default: the directory of the snapshot]
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    which: ControllerFlags,
}

impl Drill {
    /// Carries out the drill.
    ///
    /// # Errors
    /// The reason, as one line.
    pub(crate) fn act(self, environment: &[(OsString, OsString)]) -> CommandResult {
        let config = self.which.config(environment)?;
        let snapshot = self.snapshot.map_or_else(|| newest(&config.snapshots), Ok)?;
        let parent = self.directory.unwrap_or_else(|| snapshot.parent().map(Path::to_owned).unwrap_or_default());
        let drilled = watched(|watch| controller::drill(&config, &snapshot, &parent, watch));
        let Trial { passed, lines } = drilled.map_err(CommandError::of)?;
        Ok(if passed { Outcome::Done(lines) } else { Outcome::Problems(lines) })
    }
}

fn newest(settings: &Snapshots) -> Result<PathBuf, CommandError> {
    let directory = settings.directory.as_ref();
    let directory = directory.ok_or_else(|| CommandError::of("snapshots.directory is not set: name a snapshot"))?;
    let newest = maintenance::newest(directory, Clock::system().now())
        .map_err(|error| CommandError::of(format!("{}: {error}", directory.display())))?;
    newest.map(|(_, path)| path).ok_or_else(|| CommandError::of(format!("there is no snapshot in {}", directory.display())))
}
