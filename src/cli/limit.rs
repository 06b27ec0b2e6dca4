//! A limit on how large files may become (`ulimit -f`, `LimitFSIZE=` of systemd): a write beyond it is to fail, as on a disk that is full, and
//! not to end the process.

use std::io;

use rustix::process::Signal;
use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
};

/// Has the system refuse such writes from now on, in this whole process, instead of killing it without a word.
///
/// # Errors
/// The system does not allow it.
pub fn survive() -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    // That it is listened to is what counts, and what stays when the listener goes.
    signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop)
}
