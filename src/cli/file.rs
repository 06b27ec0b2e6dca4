//! `overkeep snapshot`, `check`, `repair`, `restore` and `compact`: the data file as a whole. Done by the controller if it runs, and to its
//! file if not; only `restore` and `compact` need it stopped.

use std::{
    ffi::OsString,
    fs, io,
    path::{self, Path, PathBuf},
};

use clap::Args;

use super::{
    Acted,
    host::{Which, asked},
    progress::watched,
};
use crate::{
    admin_socket::{Command, Outcome, copied, described, found, socket},
    clock::Clock,
    config::Config,
    controller,
    maintenance::closed::{self, Failed, Found},
    store::Unreadable,
};

/// Copy everything, as it is at one moment, to a new file.
#[derive(Args, Clone, Debug)]
pub struct Snapshot {
    /// The new file; nothing is overwritten
    #[arg(value_name = "OUT")]
    to: PathBuf,
    #[command(flatten)]
    which: Which,
}

/// Look for damage: exit status 0 if there is none, 3 if there is, 1 if that could not be found out.
#[derive(Args, Clone, Debug)]
pub struct Check {
    /// Look at this file, which no controller has open, such as a snapshot
    #[arg(value_name = "FILE", conflicts_with = "data")]
    file: Option<PathBuf>,
    #[command(flatten)]
    which: Which,
}

/// Copy the file, then mend what has one right answer: exit status 0 if all is well then, 3 if not, 1 if it could not be done.
#[derive(Args, Clone, Debug)]
pub struct Repair {
    /// Delete what cannot be read, and what goes with it, where otherwise it would only be named; the controller must not run
    #[arg(long)]
    drop_unreadable: bool,
    #[command(flatten)]
    which: Which,
}

/// Put a snapshot in the place of the data file, once it was found whole; the file that was there is kept beside it.
#[derive(Args, Clone, Debug)]
pub struct Restore {
    /// The snapshot
    snapshot: PathBuf,
    /// Find out whether it could be done, and change nothing
    #[arg(long)]
    verify_only: bool,
    #[command(flatten)]
    which: Which,
}

/// Give back the space in the data file that its data does not need; the controller must not run.
#[derive(Args, Clone, Debug)]
pub struct Compact {
    #[command(flatten)]
    which: Which,
}

impl Snapshot {
    /// Does it, and says so.
    ///
    /// # Errors
    /// One line.
    pub fn act(self, environment: &[(OsString, OsString)]) -> Acted {
        let config = self.which.config(environment)?;
        let to = path::absolute(&self.to).map_err(|e| format!("{}: {e}", self.to.display()))?;
        let command = Command::Snapshot { to: to.clone() };
        running(&config, &command, |data| {
            let manifest = watched(|watch| closed::snapshot(data, &to, watch))?;
            Ok(Outcome::Done(copied(&manifest, &to)))
        })
    }
}

impl Check {
    /// Does it, and says what it found.
    ///
    /// # Errors
    /// One line.
    pub fn act(self, environment: &[(OsString, OsString)]) -> Acted {
        let config = self.which.config(environment)?;
        let look = |file: &Path| {
            let passphrase = config.passphrase()?;
            watched(|watch| closed::check(file, passphrase.as_ref(), watch)).map(|seen| told(&seen))
        };
        match &self.file {
            Some(file) => judged(look(file)),
            None => running(&config, &Command::Check, look),
        }
    }
}

impl Repair {
    /// Does it, and says what it did.
    ///
    /// # Errors
    /// One line.
    pub fn act(self, environment: &[(OsString, OsString)]) -> Acted {
        let config = self.which.config(environment)?;
        let repair = |unreadable| {
            let passphrase = config.passphrase()?;
            Ok(found(&watched(|watch| closed::repair(&config.data, passphrase.as_ref(), unreadable, watch))?))
        };
        if self.drop_unreadable {
            return judged_of(&config.data, repair(Unreadable::Goes));
        }
        running(&config, &Command::Repair, |_| repair(Unreadable::Stays))
    }
}

impl Restore {
    /// Does it, and says so.
    ///
    /// # Errors
    /// One line.
    pub fn act(self, environment: &[(OsString, OsString)]) -> Acted {
        let config = self.which.config(environment)?;
        let passphrase = config.passphrase().map_err(|e| e.to_string())?;
        if self.verify_only {
            return judged(watched(|watch| closed::verify(&self.snapshot, passphrase.as_ref(), watch)).map(|seen| told(&seen)));
        }
        let (data, now) = (config.data, Clock::system().now());
        // Also where its file was taken away from under it: it writes on to that one.
        let beside = socket::beside(&data);
        if socket::answers(&beside) {
            return Err(format!("{} is in use by another process, which answers at {}", data.display(), beside.display()).into());
        }
        judged(watched(|watch| closed::restore(&self.snapshot, &data, passphrase.as_ref(), now, watch)).map(|(seen, aside)| {
            let mut lines = match told(&seen) {
                Outcome::Done(lines) => lines,
                problems @ Outcome::Problems(_) => return problems,
            };
            lines.push(format!("{} is what the snapshot holds", data.display()));
            lines.extend(aside.map(|aside| format!("what was there before is {}", aside.display())));
            lines.extend(forget_password(&data));
            Outcome::Done(lines)
        }))
    }
}

impl Compact {
    /// Does it, and says so.
    ///
    /// # Errors
    /// One line.
    pub fn act(self, environment: &[(OsString, OsString)]) -> Acted {
        let data = self.which.config(environment)?.data;
        judged_of(
            &data,
            closed::compact(&data).map(|(before, after)| Outcome::Done(vec![format!("{before} bytes before, {after} bytes now")])),
        )
    }
}

/// Removes the file with the first password of the data that was there: it may not be that of the data which is there now.
fn forget_password(data: &Path) -> Option<String> {
    let left = controller::password_file(data);
    let gone = match fs::remove_file(&left) {
        Ok(()) => format!("removed {}, which held the first password of what was there before", left.display()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => format!("note: {} holds the first password of what was there before, and cannot be removed: {error}", left.display()),
    };
    Some(gone + "; overkeep admin reset-password sets another")
}

/// Has a command done by the controller if it runs, or else does the same to its file.
pub fn running(config: &Config, command: &Command, closed: impl FnOnce(&Path) -> Result<Outcome, Failed>) -> Acted {
    match asked(config, command) {
        Some(told) => Ok(told?),
        None => judged_of(&config.data, closed(&config.data)),
    }
}

/// A damaged file is a finding, not a failure.
pub fn judged(acted: Result<Outcome, Failed>) -> Acted {
    match acted {
        Err(Failed::Damaged(reason) | Failed::Pages(reason)) => Ok(Outcome::Problems(vec![reason])),
        other => Ok(other.map_err(|e| e.to_string())?),
    }
}

/// The same of the data file itself: what to do about it is said, too.
pub fn judged_of(data: &Path, acted: Result<Outcome, Failed>) -> Acted {
    match acted {
        Err(Failed::Pages(reason)) => Ok(Outcome::Problems(vec![reason, closed::remedy(data)])),
        other => judged(other),
    }
}

/// What a look at a closed file found.
fn told(seen: &Found) -> Outcome {
    let of = seen.manifest.as_ref().map(described).into_iter().flatten();
    match found(&seen.report) {
        Outcome::Done(lines) => Outcome::Done(of.chain(lines).collect()),
        Outcome::Problems(lines) => Outcome::Problems(of.chain(lines).collect()),
    }
}
