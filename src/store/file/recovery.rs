//! What the writer does about a failure: it has the file opened anew, so that there is something to read, and tries whether it can be
//! written again.
//!
//! Not here: how the file is brought back to a state that is known (`file/backend.rs`).

use std::time::Duration;

use crate::store::core::Core;
use crate::{clock::Timestamp, error::Error};

/// How far the writer is with a failure, if there is one.
pub struct Recovery<'c> {
    core: &'c Core,
    retry: Duration,
    /// The open database has failed.
    stale: bool,
    tried: Timestamp,
}

impl<'c> Recovery<'c> {
    pub fn new(core: &'c Core, retry: Duration) -> Self {
        Self { core, retry, stale: false, tried: Timestamp::MIN }
    }

    /// After a commit that failed. When this returns, nobody sees any of it.
    pub fn begin(&mut self, error: &Error) {
        self.stale = true;
        self.core.fail(error.to_string());
        self.attempt();
    }

    /// Now and then: whether a reader has met a failure, and whether one is over.
    pub fn look(&mut self) {
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
                Err(error) => return tracing::warn!(%error, "after a failure, the data file cannot be opened"),
            }
        }
        match self.core.backend.rejoin() {
            Ok(()) => self.core.recovered(),
            Err(error) => tracing::debug!(%error, "the data file cannot be written yet"),
        }
    }
}
