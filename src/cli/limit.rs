//! What the system does to this process: how large its files may become, and who may see its memory.

use std::io;

use rustix::process::{DumpableBehavior, Signal, set_dumpable_behavior};
use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
};

/// Keeps the memory of this process, which holds keys and passwords, out of core dumps, and from debuggers of the same user
/// (`PR_SET_DUMPABLE`, prctl(2)).
///
/// # Errors
/// The system does not allow it.
pub fn keep_out_of_dumps() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Has a write beyond the limit on the size of files (`ulimit -f`, `LimitFSIZE=` of systemd) fail as on a disk that is full, from now on, in
/// this whole process, instead of ending the process without a word.
///
/// # Errors
/// The system does not allow it.
pub fn survive() -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    // That it is listened to is what counts, and what stays when the listener goes.
    signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop)
}
