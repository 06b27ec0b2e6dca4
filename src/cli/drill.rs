//! `overkeep drill`: proves that a snapshot can be restored, without touching the controller.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::Args;

use maintenance::Trial;
use model::{clock::Clock, config::Config};
use policy::expiring::snapshot_files;
use serde_json::Value as Json;

use super::{
    CommandError, CommandResult,
    admin::ControllerFlags,
    api::{
        request::{ApiAnswer, ApiRequest},
        transport::Transport,
    },
    progress::with_progress,
};
use crate::{admin_socket::Outcome, controller};

/// Test the restore of a snapshot: restore a copy, start a controller on it, log in, and check its
/// records. Exit status: 0 the test passed, 3 it failed, 1 it could not be carried out.
#[derive(Args, Clone, Debug)]
pub(crate) struct Drill {
    /// The snapshot [default: the newest in snapshots.directory, or, if that is not set here, the
    /// newest that the running controller knows]
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
        let snapshot = self.snapshot.map_or_else(|| newest(&config), Ok)?;
        let parent = self
            .directory
            .unwrap_or_else(|| snapshot.parent().map(Path::to_owned).unwrap_or_default());
        let drilled = with_progress(|watch| controller::drill(&config, &snapshot, &parent, watch));
        let Trial { passed, lines } = drilled.map_err(CommandError::of)?;
        Ok(if passed {
            Outcome::Done(lines)
        } else {
            Outcome::Problems(lines)
        })
    }
}

fn newest(config: &Config) -> Result<PathBuf, CommandError> {
    let Some(directory) = &config.snapshots.directory else {
        return newest_known(config);
    };
    let newest = snapshot_files::newest(directory, Clock::system().now())
        .map_err(|error| CommandError::of(format!("{}: {error}", directory.display())))?;
    newest
        .map(|(_, path)| path)
        .ok_or_else(|| CommandError::of(format!("there is no snapshot in {}", directory.display())))
}

/// The newest snapshot that the running controller of the data file knows.
fn newest_known(config: &Config) -> Result<PathBuf, CommandError> {
    let request = ApiRequest {
        method: "GET".into(),
        path: "/overkeep/v1/snapshots".into(),
        ..ApiRequest::default()
    };
    let answer = Transport::Host(config.data.clone())
        .ask(request, None)
        .and_then(ApiAnswer::good);
    let unset = |error: CommandError| {
        CommandError::of(format!(
            "snapshots.directory is not set: name a snapshot; {}",
            error.message()
        ))
    };
    let known = answer.map_err(unset)?.data();
    let text = |name: &str| known.pointer(&format!("/0/{name}")).and_then(Json::as_str);
    let newest = text("directory")
        .zip(text("name"))
        .map(|(directory, name)| Path::new(directory).join(name));
    newest.ok_or_else(|| {
        CommandError::of(
            "the running controller has no snapshot: name one, or set its snapshots.directory",
        )
    })
}
