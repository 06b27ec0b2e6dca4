//! Access that is lost by the passing of time: one-time codes that become too old for a posture
//! check, and grace periods after waking up or unlocking.
//!
//! Any other loss of access follows from a committed change or an endpoint's report. The times of
//! expiry are in a queue (`timeouts.rs`), which reports and committed changes keep up to date: a
//! call is cheap as long as nothing has expired. Posture checks are read again only after one of
//! them changed.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use model::{
    clock::Clock,
    entity::{PostureCheck, PostureRequirement},
    error::Result,
};
use store::Store;

use super::{Posture, Trigger, timeouts::MfaTimeouts, with};

/// The delay until the next call after posture checks could not be read.
const RETRY: Duration = Duration::from_secs(1);

fn terms(store: &Store) -> Result<MfaTimeouts> {
    let mut terms = MfaTimeouts::default();
    store.read(|tx| {
        tx.each::<PostureCheck>(|check| {
            if let PostureRequirement::Mfa {
                timeout_seconds,
                prompt_on_wake,
                prompt_on_unlock,
                ..
            } = check.spec.demand
            {
                terms.timeouts.extend(
                    u64::try_from(timeout_seconds)
                        .ok()
                        .filter(|seconds| *seconds > 0),
                );
                terms.on_wake |= prompt_on_wake;
                terms.on_unlock |= prompt_on_unlock;
            }
            Ok(())
        })
    })?;
    Ok(terms)
}

/// Finds access that has expired.
pub struct Expiry {
    store: Store,
    posture: Posture,
    clock: Clock,
    next: Option<Instant>,
}

impl Expiry {
    pub fn new(store: Store, posture: Posture, clock: Clock) -> Self {
        Self {
            store,
            posture,
            clock,
            next: None,
        }
    }

    /// The time until [`Expiry::take_expired`] is to be called again; `None` if no time is known.
    pub fn time_left(&self) -> Option<Duration> {
        self.next
            .map(|next| next.saturating_duration_since(Instant::now()))
    }

    /// The identities with an API session whose access may have expired since the last call.
    ///
    /// # Errors
    /// A posture check cannot be read; the next call, a second later, repeats it.
    pub fn take_expired(&mut self) -> Result<BTreeSet<Trigger>> {
        let now = Instant::now();
        self.next = Some(now + RETRY);
        // The flag is cleared before the checks are read: a check that changes meanwhile sets it
        // again.
        let is_changed = with(&self.posture.memory, |memory| {
            std::mem::take(&mut memory.has_new_checks)
        });
        let read = || {
            terms(&self.store)
                .inspect_err(|_| with(&self.posture.memory, |memory| memory.has_new_checks = true))
        };
        let terms = is_changed.then(read).transpose()?;
        let steady = self.clock.steady();
        let (due, next) = with(&self.posture.memory, |memory| memory.due(terms, steady));
        self.next = next.map(|end| now + end.since(steady));
        Ok(due
            .into_iter()
            .map(|identity| Trigger::Identity(identity.to_string()))
            .collect())
    }
}
