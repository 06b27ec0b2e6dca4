//! How the writer recovers from a failure: it reopens the file, so that reads work, and tries at
//! intervals whether writes work again.
//!
//! Not here: how the file is brought back to a known state (`file/backend.rs`).

use std::time::Duration;

use crate::store_core::StoreCore;
use model::{clock::Timestamp, error::Error};

/// The progress of the recovery from a failure, if there is one.
pub(crate) struct Recovery<'c> {
    core: &'c StoreCore,
    retry: Duration,
    /// Whether the open database has failed.
    stale: bool,
    tried: Timestamp,
}

impl<'c> Recovery<'c> {
    pub(crate) fn new(core: &'c StoreCore, retry: Duration) -> Self {
        Self {
            core,
            retry,
            stale: false,
            tried: Timestamp::MIN,
        }
    }

    /// Starts recovery after a failed commit. When this returns, no reader sees any part of that
    /// commit.
    pub(crate) fn begin(&mut self, error: &Error) {
        self.stale = true;
        self.core.fail(error.to_string());
        self.attempt();
    }

    /// Called at intervals: notices a failure that a reader met, and retries while writes are
    /// rejected.
    pub(crate) fn check(&mut self) {
        if let Some(reason) = self.core.backend.failure() {
            self.stale = true;
            self.core.fail(reason);
        }
        let now = self.core.clock.now();
        if self.core.refusal().is_some() && now.apart(self.tried) >= self.retry {
            self.attempt();
        }
    }

    fn attempt(&mut self) {
        self.tried = self.core.clock.now();
        if self.stale {
            match self.core.reopen() {
                Ok(()) => self.stale = false,
                Err(error) => {
                    return tracing::warn!(%error, "the data file cannot be reopened after a failure");
                }
            }
        }
        match self.core.backend.rejoin() {
            Ok(()) => self.core.accept_writes(),
            Err(error) => tracing::debug!(%error, "the data file cannot be written yet"),
        }
    }
}
