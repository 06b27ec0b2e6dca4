//! Process limits: file sizes, and access to this process's memory.

use std::io;

use rustix::process::{DumpableBehavior, Signal, set_dumpable_behavior};
use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
};

/// Keeps the memory of this process, which holds keys and passwords, out of core dumps and away
/// from debuggers of the same user (`PR_SET_DUMPABLE`, prctl(2)).
///
/// # Errors
/// The system does not allow it.
pub(crate) fn keep_out_of_dumps() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Makes a write beyond the file size limit (`ulimit -f`, `LimitFSIZE=` of systemd) fail like on a
/// full disk, for the whole process, instead of killing the process by SIGXFSZ.
///
/// # Errors
/// The system does not allow it.
pub(crate) fn ignore_file_size_signal() -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    // Registering the handler is enough; it stays when the listener is dropped.
    signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop)
}
