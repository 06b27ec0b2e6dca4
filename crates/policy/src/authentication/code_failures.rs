//! Counts wrong codes per identity and limits the rate of attempts, in bounded memory.
//!
//! A caller who enters codes already has another credential, such as the password. Guessing must
//! therefore be slow, but must not lock the owner out. Wrong codes are counted per credential that
//! opened the sessions, so that the thief of one uses up no attempts of another; and for each
//! credential per session, per source network and in total. The limit of a session is lower than
//! that of its network, so that another session from the same network still gets attempts. A
//! network that has shown a correct code, or a certificate of the identity, is known: it is left
//! out of the total, and sessions that have sent few wrong codes have an allowance of their own
//! there, which sessions that guess do not use up. Where an allowance is used up all the same,
//! `SERIES` (`code_counts.rs`) correct codes in succession in one session are accepted: guesses practically never
//! form such a series. Except per session, recovery codes are counted apart from one-time codes.
//! There are about 10^9 possible recovery codes, so their total may be ten times as high.

use std::{
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use model::{
    clock::Timestamp,
    config,
    error::{Error, Result},
};

use super::{
    code_attempt::Attempt, code_counts::IdentityFailures, fair_queue::network,
    password_failures::FailureTable,
};

/// A correct code.
pub(crate) struct CorrectCode<T> {
    pub(crate) proof: T,
    /// Whether it was not used before; a reused code counts as wrong.
    pub(crate) is_first: bool,
    /// The step of a one-time code.
    pub(crate) step: Option<u64>,
}

/// The wrong codes of all identities.
pub(crate) struct WrongCodes {
    failures: Mutex<FailureTable<IdentityFailures>>,
    limits: config::CodeConfig,
}

impl WrongCodes {
    /// Starts with no wrong codes.
    pub(crate) fn new(limits: &config::CodeConfig) -> Self {
        Self {
            failures: Mutex::new(FailureTable::new(limits.remembered)),
            limits: limits.clone(),
        }
    }

    /// Checks a code, unless too many were wrong. `check` returns what the code proves. A code that
    /// is correct for the first time resets the counts of its session and network. The lock allows
    /// one attempt at a time, so that parallel attempts do not exceed the limit.
    ///
    /// # Errors
    /// [`Error::Busy`] if the limit is reached, whether or not the code is correct; the errors of
    /// `check`.
    pub(crate) fn check<T>(
        &self,
        identity: &str,
        attempt: &Attempt,
        now: Timestamp,
        check: impl FnOnce() -> Result<Option<CorrectCode<T>>>,
    ) -> Result<Option<T>> {
        let mut failures = self.lock();
        self.refuse(&failures, identity, attempt, now)?;
        let wait = failures
            .find(identity)
            .and_then(|shown| shown.wait(attempt, &self.limits, now));
        let judged = check()?;
        let counts = failures.note(identity, now);
        let first = judged.as_ref().filter(|judged| judged.is_first);
        let is_accepted = match (&wait, first) {
            (None, first) => first.is_some(),
            (Some(_), first) => {
                counts.completes_series(attempt, first.and_then(|first| first.step), now)
            }
        };
        match (is_accepted, wait) {
            (true, _) => counts.reset(attempt, now),
            (false, None) => counts.count(attempt, now),
            (false, Some(wait)) => {
                if first.is_none() {
                    counts.count(attempt, now);
                }
                return Err(busy(wait));
            }
        }
        Ok(judged.map(|judged| judged.proof))
    }

    /// Rejects an attempt beyond the limit of its session before any work is done for it, and a
    /// recovery code beyond any limit. A one-time code beyond another limit may be part of a
    /// series.
    ///
    /// # Errors
    /// [`Error::Busy`].
    pub(crate) fn admit(&self, identity: &str, attempt: &Attempt, now: Timestamp) -> Result<()> {
        self.refuse(&self.lock(), identity, attempt, now)
    }

    /// Notes that an identity has shown a certificate from an address.
    pub(crate) fn know(&self, identity: &str, address: Option<IpAddr>, now: Timestamp) {
        self.lock()
            .note(identity, now)
            .know(address.map(network), now);
    }

    /// Forgets the wrong codes of an identity.
    pub(crate) fn forget(&self, identity: &str) {
        self.lock().forget(identity);
    }

    fn refuse(
        &self,
        failures: &FailureTable<IdentityFailures>,
        identity: &str,
        attempt: &Attempt,
        now: Timestamp,
    ) -> Result<()> {
        let Some(shown) = failures.find(identity) else {
            return Ok(());
        };
        let of_session = shown.wait_of_session(attempt, &self.limits, now);
        let wait = if attempt.is_one_time() {
            of_session
        } else {
            of_session.max(shown.wait(attempt, &self.limits, now))
        };
        wait.map_or(Ok(()), |wait| Err(busy(wait)))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FailureTable<IdentityFailures>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn busy(wait: Duration) -> Error {
    Error::Busy {
        retry_after: u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).max(1),
    }
}
