//! How far a thread gives way where more want the processor than there are cores.

use rustix::{process::setpriority_process, thread::gettid};

/// This thread gives way from now on, from 0 to 19: at 5 it gets a third of what others do, at 10 a tenth. Where others want nothing, it gets
/// all. It cannot be taken back. A system that does not do it is no error.
pub fn give_way(how_far: i32) {
    if let Err(error) = setpriority_process(Some(gettid()), how_far) {
        tracing::debug!(%error, "a thread does not give way");
    }
}
