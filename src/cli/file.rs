//! `overkeep snapshot`, `check`, `repair`, `restore` and `compact`: the data file as a whole. A
//! running controller performs the command itself; if none runs, this process opens the data file.
//! After `overkeep login`, `check` and `repair` are those of the controller of the login, where
//! there is no data file. Only `restore` and `compact` require a stopped controller.

use std::{
    ffi::OsString,
    fs, io,
    path::{self, Path, PathBuf},
};

use clap::Args;
use maintenance::{
    offline::{self, CheckedFile, OfflineError},
    restore, snapshot_proof,
};
use model::{clock::Clock, config::Config};
use store::Unreadable;

use super::{
    admin::{ControllerFlags, ask_controller, login_hint},
    api::login_without_file,
    failure::CommandResult,
    progress::with_progress,
    remote_check,
};
use crate::{
    admin_socket::{Command, Outcome, copied, describe, found, socket},
    controller,
};

/// Copy the data file, as it is at one moment, to a new file.
#[derive(Args, Clone, Debug)]
pub(crate) struct Snapshot {
    /// The new file; an existing file is not overwritten
    #[arg(value_name = "OUT")]
    to: PathBuf,
    #[command(flatten)]
    which: ControllerFlags,
}

/// Check the data file for damage. Exit status: 0 no damage, 3 damage, 1 the check failed.
#[derive(Args, Clone, Debug)]
pub(crate) struct Check {
    /// Check this file, such as a snapshot, instead of the data file. No controller may have it
    /// open
    #[arg(value_name = "FILE", conflicts_with = "data")]
    file: Option<PathBuf>,
    #[command(flatten)]
    which: ControllerFlags,
}

/// Copy the data file, then repair what can be repaired without loss. Exit status: 0 no damage is
/// left, 3 some is left, 1 the repair failed.
#[derive(Args, Clone, Debug)]
pub(crate) struct Repair {
    /// Also delete unreadable records and what depends on them, instead of only reporting them; the
    /// controller must be stopped
    #[arg(long)]
    drop_unreadable: bool,
    #[command(flatten)]
    which: ControllerFlags,
}

/// Replace the data file by a snapshot after checking it; the previous file is kept beside it.
#[derive(Args, Clone, Debug)]
pub(crate) struct Restore {
    /// The snapshot
    snapshot: PathBuf,
    /// Only check whether it could be restored; change nothing
    #[arg(long)]
    verify_only: bool,
    #[command(flatten)]
    which: ControllerFlags,
}

/// Shrink the data file by its unused space; the controller must be stopped.
#[derive(Args, Clone, Debug)]
pub(crate) struct Compact {
    #[command(flatten)]
    which: ControllerFlags,
}

impl Snapshot {
    /// Runs the command and returns its output.
    ///
    /// # Errors
    /// The reason, as one line.
    pub(crate) fn act(self, environment: &[(OsString, OsString)]) -> CommandResult {
        let config = self.which.config(environment)?;
        let to = path::absolute(&self.to).map_err(|e| format!("{}: {e}", self.to.display()))?;
        let command = Command::Snapshot { to: to.clone() };
        running(&config, &command, |data| {
            let manifest = with_progress(|watch| offline::snapshot(data, &to, watch))?;
            Ok(Outcome::Done(copied(&manifest, &to)))
        })
    }
}

impl Check {
    /// Runs the command and returns its findings.
    ///
    /// # Errors
    /// The reason, as one line.
    pub(crate) fn act(self, environment: &[(OsString, OsString)]) -> CommandResult {
        let config = self.which.config(environment)?;
        let look = |file: &Path| {
            let passphrase = config.passphrase()?;
            with_progress(|watch| offline::check(file, passphrase.as_ref(), watch))
                .map(|seen| outcome(&seen))
        };
        if let Some(file) = &self.file {
            return command_result(look(file));
        }
        match login_without_file(&self.which, &config, environment)? {
            Some(context) => remote_check::run(context, "check-data-integrity"),
            None => running(&config, &Command::Check, look),
        }
    }
}

impl Repair {
    /// Runs the command and returns its findings.
    ///
    /// # Errors
    /// The reason, as one line.
    pub(crate) fn act(self, environment: &[(OsString, OsString)]) -> CommandResult {
        let config = self.which.config(environment)?;
        let repair = |unreadable| {
            let passphrase = config.passphrase()?;
            Ok(found(&with_progress(|watch| {
                offline::repair(&config.data, passphrase.as_ref(), unreadable, watch)
            })?))
        };
        if self.drop_unreadable {
            return judged_of(&config.data, repair(Unreadable::Goes));
        }
        match login_without_file(&self.which, &config, environment)? {
            Some(context) => remote_check::run(context, "fix-data-integrity"),
            None => running(&config, &Command::Repair, |_| repair(Unreadable::Stays)),
        }
    }
}

impl Restore {
    /// Runs the command and returns its output.
    ///
    /// # Errors
    /// The reason, as one line.
    pub(crate) fn act(self, environment: &[(OsString, OsString)]) -> CommandResult {
        let config = self.which.config(environment)?;
        let passphrase = config.passphrase().map_err(|e| e.to_string())?;
        if self.verify_only {
            return command_result(
                with_progress(|watch| {
                    snapshot_proof::verify(&self.snapshot, passphrase.as_ref(), watch)
                })
                .map(|seen| outcome(&seen)),
            );
        }
        let (data, now) = (config.data, Clock::system().now());
        // Checked even if the data file was moved away, because a running controller still writes
        // to the moved file.
        let beside = socket::beside(&data);
        if socket::answers(&beside) {
            return Err(format!(
                "{} is in use by another process, which answers at {}",
                data.display(),
                beside.display()
            )
            .into());
        }
        command_result(
            with_progress(|watch| {
                restore::restore(&self.snapshot, &data, passphrase.as_ref(), now, watch)
            })
            .map(|(seen, backup)| {
                let mut lines = match outcome(&seen) {
                    Outcome::Done(lines) => lines,
                    problems @ Outcome::Problems(_) => return problems,
                };
                lines.push(format!(
                    "{} now has the content of the snapshot",
                    data.display()
                ));
                lines.extend(backup.map(|backup| {
                    format!("the previous data file is kept as {}", backup.display())
                }));
                lines.extend(forget_password(&data));
                Outcome::Done(lines)
            }),
        )
    }
}

impl Compact {
    /// Runs the command and returns its output.
    ///
    /// # Errors
    /// The reason, as one line.
    pub(crate) fn act(self, environment: &[(OsString, OsString)]) -> CommandResult {
        let data = self.which.config(environment)?.data;
        judged_of(
            &data,
            offline::compact(&data).map(|(before, after)| {
                Outcome::Done(vec![format!("{before} bytes before, {after} bytes now")])
            }),
        )
    }
}

/// Removes the file with the first password of the previous data: it may not be the password of the
/// restored data.
fn forget_password(data: &Path) -> Option<String> {
    let left = controller::password_file(data);
    let gone = match fs::remove_file(&left) {
        Ok(()) => format!(
            "removed {}, which held the first password of the previous data",
            left.display()
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => format!(
            "note: {} holds the first password of the previous data, and cannot be removed: {error}",
            left.display()
        ),
    };
    Some(gone + "; overkeep admin reset-password sets a new one")
}

/// Runs a command in the running controller, or else the same work on its file.
pub(crate) fn running(
    config: &Config,
    command: &Command,
    closed: impl FnOnce(&Path) -> Result<Outcome, OfflineError>,
) -> CommandResult {
    match ask_controller(config, command) {
        Some(outcome) => Ok(outcome?),
        None => match config.data.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(format!("{}: {error}{}", config.data.display(), login_hint()).into())
            }
            _ => judged_of(&config.data, closed(&config.data)),
        },
    }
}

/// Damage of the file is a finding, not a failure.
pub(crate) fn command_result(acted: Result<Outcome, OfflineError>) -> CommandResult {
    match acted {
        Err(OfflineError::Damaged(reason) | OfflineError::Pages(reason)) => {
            Ok(Outcome::Problems(vec![reason]))
        }
        other => Ok(other.map_err(|e| e.to_string())?),
    }
}

/// Like [`command_result`], for the data file itself: adds what to do about the damage.
pub(crate) fn judged_of(data: &Path, acted: Result<Outcome, OfflineError>) -> CommandResult {
    match acted {
        Err(OfflineError::Pages(reason)) => {
            Ok(Outcome::Problems(vec![reason, offline::remedy(data)]))
        }
        other => command_result(other),
    }
}

/// The findings of a check of a closed file.
fn outcome(seen: &CheckedFile) -> Outcome {
    let of = seen.manifest.as_ref().map(describe).into_iter().flatten();
    match found(&seen.report) {
        Outcome::Done(lines) => Outcome::Done(of.chain(lines).collect()),
        Outcome::Problems(lines) => Outcome::Problems(of.chain(lines).collect()),
    }
}
