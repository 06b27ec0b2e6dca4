//! Access that is lost by the passing of time: one-time codes that become too old for a posture check, and grace periods after waking up or
//! unlocking.
//!
//! Any other loss of access follows from a committed change or an endpoint's report. This module computes when the next code expires, and
//! whose codes have expired since the last look, so that only their sessions are reviewed, and at that moment.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use super::{Posture, Presence, Trigger, evaluation::GRACE, with};
use crate::{
    clock::{Clock, Timestamp},
    entity::{Demand, PostureCheck},
    error::Result,
    store::Store,
};

/// The minimum interval between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// The time conditions of all checks of one-time codes.
#[derive(Default)]
struct Terms {
    /// The distinct validity periods of codes, in seconds.
    timeouts: BTreeSet<u64>,
    /// Whether a code is required after an endpoint woke up, and after it was unlocked.
    on_wake: bool,
    on_unlock: bool,
}

impl Terms {
    fn of(store: &Store) -> Result<Self> {
        let mut terms = Self::default();
        store.read(|tx| {
            tx.each::<PostureCheck>(|check| {
                if let Demand::Mfa { timeout_seconds, prompt_on_wake, prompt_on_unlock, .. } = check.spec.demand {
                    terms.timeouts.extend(u64::try_from(timeout_seconds).ok().filter(|seconds| *seconds > 0));
                    terms.on_wake |= prompt_on_wake;
                    terms.on_unlock |= prompt_on_unlock;
                }
                Ok(())
            })
        })?;
        Ok(terms)
    }

    fn is_empty(&self) -> bool {
        self.timeouts.is_empty() && !self.on_wake && !self.on_unlock
    }

    /// The moments at which a check may start to fail, by the steady clock.
    fn ends(&self, presence: Presence) -> impl Iterator<Item = Timestamp> {
        // A code is valid up to and including the last millisecond.
        let codes = presence.passed_at.into_iter().flat_map(|at| {
            self.timeouts.iter().map(move |seconds| at.steady().plus(Duration::from_secs(*seconds)).plus(Duration::from_millis(1)))
        });
        let woken = presence.woken_at.filter(|_| self.on_wake);
        let unlocked = presence.unlocked_at.filter(|_| self.on_unlock);
        codes.chain(woken.into_iter().chain(unlocked).map(|at| at.steady().plus(Duration::from_secs(GRACE.unsigned_abs()))))
    }
}

/// Finds codes that have expired.
pub struct Expiry {
    store: Store,
    posture: Posture,
    clock: Clock,
    /// Everything that expired up to here was returned, by the steady clock.
    until: Timestamp,
    looked_at: Option<Instant>,
    next: Option<Instant>,
}

impl Expiry {
    /// Starts at the present moment.
    pub fn from_now(store: Store, posture: Posture, clock: Clock) -> Self {
        Self { until: clock.steady(), store, posture, clock, looked_at: None, next: None }
    }

    /// The time until the next look, if one is due.
    pub fn left(&self) -> Option<Duration> {
        self.next.map(|next| next.saturating_duration_since(Instant::now()))
    }

    /// The identities whose codes have expired since the last look. Looks at most every tenth of a second, unless `is_asked`; a skipped
    /// look is made up for by the next, which [`Expiry::left`] announces.
    ///
    /// # Errors
    /// A check cannot be read; the next look finds the same identities.
    pub fn look(&mut self, is_asked: bool) -> Result<BTreeSet<Trigger>> {
        let now = Instant::now();
        if let Some(early) = self.looked_at.map(|at| at + PAUSE).filter(|end| !is_asked && now < *end) {
            self.next = Some(self.next.map_or(early, |next| next.min(early)));
            return Ok(BTreeSet::new());
        }
        (self.looked_at, self.next) = (Some(now), Some(now + Duration::from_secs(1)));
        let terms = Terms::of(&self.store)?;
        let (steady, mut next, mut expired) = (self.clock.steady(), None::<Timestamp>, BTreeSet::new());
        if !terms.is_empty() {
            with(&self.posture.memory, |memory| {
                for (identity, endpoint) in &memory.endpoints {
                    for end in endpoint.sessions.values().flat_map(|presence| terms.ends(*presence)).filter(|end| *end > self.until) {
                        if end <= steady {
                            expired.insert(Trigger::Identity(identity.clone()));
                        } else {
                            next = Some(next.map_or(end, |next| next.min(end)));
                        }
                    }
                }
            });
        }
        self.until = self.until.max(steady);
        self.next = next.map(|end| now + end.since(steady));
        Ok(expired)
    }
}
