//! Somebody who watches long work on the whole file, and may stop it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::error::{Error, Result};

/// How far a piece of work is.
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

    /// How many of how many rows have been looked at. Starts again where the work has several rounds.
    pub fn progress(&self) -> (u64, u64) {
        (self.done.load(Relaxed), self.total.load(Relaxed))
    }

    /// Begins a round over so many rows.
    pub(super) fn begin(&self, total: u64) {
        self.total.store(total, Relaxed);
        self.done.store(0, Relaxed);
    }

    /// One more row is done.
    ///
    /// # Errors
    /// As [`Progress::go_on`].
    pub(super) fn step(&self) -> Result<()> {
        self.done.fetch_add(1, Relaxed);
        self.go_on()
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// It was stopped.
    pub(super) fn go_on(&self) -> Result<()> {
        if self.stop.load(Relaxed) { Err(Error::Internal("the run was stopped".into())) } else { Ok(()) }
    }
}
