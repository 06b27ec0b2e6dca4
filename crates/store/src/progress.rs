//! The progress and cancellation of long work on the whole file.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use model::error::{Error, Result};

/// The progress of one piece of work.
#[derive(Debug, Default)]
pub struct Progress {
    pub(super) stop: AtomicBool,
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Makes the work end with an error.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Whether the work is to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// The rows done and the total. Both restart with each round of the work.
    pub fn done_and_total(&self) -> (u64, u64) {
        (self.done.load(Relaxed), self.total.load(Relaxed))
    }

    /// Starts a round over `total` rows.
    pub(super) fn begin(&self, total: u64) {
        self.total.store(total, Relaxed);
        self.done.store(0, Relaxed);
    }

    /// Counts one row.
    ///
    /// # Errors
    /// As [`Progress::check_cancelled`].
    pub(super) fn step(&self) -> Result<()> {
        self.done.fetch_add(1, Relaxed);
        self.check_cancelled()
    }

    /// Checks for cancellation.
    ///
    /// # Errors
    /// [`Error::Internal`] if the work was cancelled.
    pub fn check_cancelled(&self) -> Result<()> {
        if self.stop.load(Relaxed) {
            Err(Error::Internal("the run was cancelled".into()))
        } else {
            Ok(())
        }
    }
}
