//! The command that takes a scheduled snapshot to another place.

use std::{
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use model::error::{Error, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use store::Progress;

/// The interval at which a running command is checked.
const TICK: Duration = Duration::from_millis(200);

/// Runs the command with the path of a snapshot as its last argument and waits for its end. The
/// command writes to the stderr of this process. The command is killed, with the processes that it
/// started, after the time `most` or when the work is cancelled through `watch`.
///
/// # Errors
/// The command cannot be started, fails, or is killed.
pub(crate) fn run(
    command: &[String],
    snapshot: &Path,
    most: Duration,
    watch: &Progress,
) -> Result<()> {
    let Some((program, arguments)) = command.split_first() else {
        return Ok(());
    };
    let failed = |reason: String| Error::Storage(format!("snapshots.after: {program}: {reason}"));
    let mut starting = Command::new(program);
    starting
        .args(arguments)
        .arg(snapshot)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0);
    let mut child = starting.spawn().map_err(|e| failed(e.to_string()))?;
    let status = wait(&mut child, most, watch).inspect_err(|_| {
        // The command leads its own process group, whose id is that of the command.
        if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            kill_process_group(group, Signal::KILL).ok();
        }
        drop(child.kill());
        drop(child.wait());
    });
    match status.map_err(failed)? {
        status if status.success() => Ok(()),
        status => Err(failed(status.to_string())),
    }
}

fn wait(child: &mut Child, most: Duration, watch: &Progress) -> Result<ExitStatus, String> {
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if watch.is_stopped() => {
                return Err("killed because the controller stops".into());
            }
            Ok(None) if begun.elapsed() > most => {
                return Err(format!("killed after {} s", most.as_secs()));
            }
            Ok(None) => thread::sleep(TICK),
            Err(error) => return Err(error.to_string()),
        }
    }
}
