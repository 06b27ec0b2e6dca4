//! A queue of API sessions, ordered by the time at which their access may next end by time alone.
//!
//! An API session is in the queue at most once, with the first of its times that is in the future.
//! Invariant: while [`MfaTimeouts`] agree with the posture checks, the queue contains the next time
//! of every API session.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use model::clock::Timestamp;

use super::{SessionMfaState, evaluation::GRACE};

/// The times that the posture checks for one-time codes demand.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct MfaTimeouts {
    /// How long a code is valid, in seconds: the distinct values of all checks.
    pub(crate) timeouts: BTreeSet<u64>,
    /// Whether any check demands a code after an endpoint woke up, and after it was unlocked.
    pub(crate) on_wake: bool,
    pub(crate) on_unlock: bool,
}

impl MfaTimeouts {
    /// The first time later than `after` at which time alone may make a check fail; by the steady
    /// clock.
    fn next(&self, mfa_state: SessionMfaState, after: Timestamp) -> Option<Timestamp> {
        let code = mfa_state.passed_at.and_then(|at| {
            // A code is valid up to and including the last millisecond of its time.
            let end = |seconds: u64| {
                at.steady()
                    .plus(Duration::from_secs(seconds))
                    .plus(Duration::from_millis(1))
            };
            let passed = after.since(at.steady()).as_secs().saturating_sub(1);
            self.timeouts
                .range(passed..)
                .map(|seconds| end(*seconds))
                .find(|end| *end > after)
        });
        let woken = mfa_state.woken_at.filter(|_| self.on_wake);
        let unlocked = mfa_state.unlocked_at.filter(|_| self.on_unlock);
        let events = woken
            .into_iter()
            .chain(unlocked)
            .map(|at| at.steady().plus(Duration::from_secs(GRACE.unsigned_abs())));
        code.into_iter()
            .chain(events.filter(|end| *end > after))
            .min()
    }
}

/// The queue; see the module.
#[derive(Default)]
pub(crate) struct TimeoutQueue {
    terms: MfaTimeouts,
    queue: BTreeSet<(Timestamp, Arc<str>)>,
    /// By API session: its time in the queue, and its identity.
    places: HashMap<Arc<str>, (Timestamp, Arc<str>)>,
}

impl TimeoutQueue {
    /// Sets the terms of the posture checks, and fills the queue again.
    pub(crate) fn follow<'p>(
        &mut self,
        terms: MfaTimeouts,
        present: impl Iterator<Item = (&'p str, &'p str, SessionMfaState)>,
        now: Timestamp,
    ) {
        *self = Self {
            terms,
            ..Self::default()
        };
        present
            .for_each(|(identity, session, mfa_state)| self.set(identity, session, mfa_state, now));
    }

    /// Puts an API session of an identity into the queue, at its next time, if there is one.
    pub(crate) fn set(
        &mut self,
        identity: &str,
        session: &str,
        mfa_state: SessionMfaState,
        now: Timestamp,
    ) {
        self.forget(session);
        if let Some(end) = self.terms.next(mfa_state, now) {
            let session: Arc<str> = session.into();
            self.queue.insert((end, session.clone()));
            self.places.insert(session, (end, identity.into()));
        }
    }

    /// Removes an API session.
    pub(crate) fn forget(&mut self, session: &str) {
        if let Some((session, (end, _))) = self.places.remove_entry(session) {
            self.queue.remove(&(end, session));
        }
    }

    /// The earliest time in the queue.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.queue.first().map(|(end, _)| *end)
    }

    /// Removes the API sessions whose time has passed and returns their identities. Each session
    /// returns to the queue at its next time. `presence` is called only for these sessions.
    pub(crate) fn take(
        &mut self,
        now: Timestamp,
        mfa_state: impl Fn(&str, &str) -> Option<SessionMfaState>,
    ) -> BTreeSet<Arc<str>> {
        let mut due = BTreeSet::new();
        while self.next().is_some_and(|end| end <= now) {
            let Some((_, session)) = self.queue.pop_first() else {
                break;
            };
            let Some((_, identity)) = self.places.remove(&session) else {
                continue;
            };
            if let Some(mfa_state) = mfa_state(&identity, &session) {
                self.set(&identity, &session, mfa_state, now);
            }
            due.insert(identity);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use model::clock::CalendarTime;
    use proptest::prelude::*;

    use super::*;

    const BEGIN: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    fn at(seconds: u64) -> Timestamp {
        BEGIN.plus(Duration::from_secs(seconds))
    }

    fn passed(seconds: u64) -> SessionMfaState {
        SessionMfaState {
            passed_at: Some(CalendarTime::at(at(seconds))),
            ..SessionMfaState::default()
        }
    }

    #[test]
    fn only_due_sessions_are_examined() {
        let mut timeout_queue = TimeoutQueue {
            terms: MfaTimeouts {
                timeouts: [60, 600].into(),
                ..MfaTimeouts::default()
            },
            ..TimeoutQueue::default()
        };
        for number in 0..10_000 {
            timeout_queue.set(
                &format!("identity {number}"),
                &format!("session {number}"),
                passed(number),
                BEGIN,
            );
        }
        let asked = Cell::new(0);
        let mfa_state = |_: &str, session: &str| {
            asked.set(asked.get() + 1);
            session
                .strip_prefix("session ")
                .map(|number| passed(number.parse().unwrap()))
        };
        assert_eq!(
            timeout_queue.next(),
            Some(at(60).plus(Duration::from_millis(1)))
        );
        assert!(timeout_queue.take(at(60), mfa_state).is_empty() && asked.get() == 0);
        assert_eq!(timeout_queue.take(at(62), mfa_state).len(), 2);
        assert_eq!(asked.get(), 2);
        // The two are in the queue again, for the longer timeout.
        assert_eq!(timeout_queue.queue.len(), 10_000);
        timeout_queue.forget("session 3");
        assert_eq!(
            (timeout_queue.queue.len(), timeout_queue.places.len()),
            (9_999, 9_999)
        );
    }

    proptest! {
        #[test]
        fn every_moment_is_found_in_time(
            timeouts in prop::collection::btree_set(1_u64..400, 0..4),
            presences in prop::collection::vec((prop::option::of(0_u64..300), prop::option::of(0_u64..300)), 1..8),
            steps in prop::collection::vec(1_u64..100, 1..12),
        ) {
            let time = |seconds: u64| CalendarTime::at(at(seconds));
            let presences: Vec<SessionMfaState> = presences
                .into_iter()
                .map(|(passed, woken)| SessionMfaState { passed_at: passed.map(time), woken_at: woken.map(time), unlocked_at: None })
                .collect();
            let ends = |mfa_state: &SessionMfaState| {
                let codes = mfa_state.passed_at.into_iter().flat_map(|passed| {
                    timeouts.iter().map(move |seconds| passed.steady().plus(Duration::from_millis(seconds * 1000 + 1)))
                });
                codes.chain(mfa_state.woken_at.map(|woken| woken.steady().plus(Duration::from_secs(300)))).collect::<Vec<_>>()
            };
            let mut timeout_queue = TimeoutQueue::default();
            let named: Vec<_> = (0..presences.len()).map(|number| number.to_string()).collect();
            let terms = MfaTimeouts { timeouts: timeouts.clone(), on_wake: true, on_unlock: true };
            timeout_queue.follow(terms, named.iter().zip(&presences).map(|(name, mfa_state)| (name.as_str(), name.as_str(), *mfa_state)), BEGIN);
            let (mut before, mut now) = (BEGIN, 0);
            for step in steps {
                now += step;
                let is_due = |mfa_state: &&SessionMfaState| ends(mfa_state).iter().any(|end| *end > before && *end <= at(now));
                let expected = named.iter().zip(&presences).filter(|(_, mfa_state)| is_due(mfa_state)).count();
                let due = timeout_queue.take(at(now), |_, session| presences.get(session.parse::<usize>().unwrap()).copied());
                prop_assert_eq!(due.len(), expected);
                let next = presences.iter().flat_map(ends).filter(|end| *end > at(now)).min();
                prop_assert_eq!(timeout_queue.next(), next);
                before = at(now);
            }
        }
    }
}
