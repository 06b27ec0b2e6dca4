//! Thread priority: lets background threads yield when the cores are busy.

use rustix::{process::setpriority_process, thread::gettid};

/// Lowers the priority of this thread by a `nice` value from 0 to 19: at 5 it gets a third of
/// another thread's share, at 10 a tenth. An idle core is used fully. It cannot be raised again.
/// Failure is only logged: not every system supports it.
pub fn lower_priority(nice: i32) {
    if let Err(error) = setpriority_process(Some(gettid()), nice) {
        tracing::debug!(%error, "the priority of a thread cannot be lowered");
    }
}
