//! Counters of failures by identity, in bounded memory; and the counter of wrong passwords.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use model::clock::Timestamp;

/// A value per identity that failed, for a bounded number of identities.
pub(crate) struct FailureTable<V> {
    entries: HashMap<String, (Timestamp, V)>,
    /// At most this many; then the identity without a failure for the longest time is forgotten.
    limit: usize,
}

impl<V: Default> FailureTable<V> {
    /// An empty table for at most `limit` identities.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            entries: HashMap::new(),
            limit,
        }
    }

    /// The value of an identity, created if missing; `now` is its last use.
    pub(crate) fn note(&mut self, identity: &str, now: Timestamp) -> &mut V {
        if self.entries.len() >= self.limit && !self.entries.contains_key(identity) {
            let quiet = self
                .entries
                .iter()
                .min_by_key(|(_, (at, _))| *at)
                .map(|(identity, _)| identity.clone());
            quiet.and_then(|quiet| self.entries.remove(&quiet));
        }
        let entry = self
            .entries
            .entry(identity.to_owned())
            .or_insert_with(|| (now, V::default()));
        entry.0 = now;
        &mut entry.1
    }

    /// The value of an identity, if it has one.
    pub(crate) fn find(&self, identity: &str) -> Option<&V> {
        self.entries.get(identity).map(|(_, noted)| noted)
    }

    /// Forgets an identity.
    pub(crate) fn forget(&mut self, identity: &str) {
        self.entries.remove(identity);
    }
}

/// The result of counting a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureCount {
    Right,
    Wrong,
    /// The attempt limit is reached, or was before and has not been reset.
    TooMany,
}

/// The consecutive wrong passwords of an identity.
#[derive(Debug, Clone, Copy, Default)]
struct Failures {
    wrong: i64,
    /// Whether they were too many.
    too_many: bool,
    /// How often they were too many since the last right one.
    lockouts: u32,
}

/// Counts consecutive wrong passwords.
pub(crate) struct WrongPasswords(Mutex<FailureTable<Failures>>);

impl WrongPasswords {
    /// Counts for at most `remembered` identities.
    pub(crate) fn new(remembered: usize) -> Self {
        Self(Mutex::new(FailureTable::new(remembered)))
    }

    /// Counts a password. `limit` consecutive wrong ones are too many; 0 means no limit. After too
    /// many every password counts as wrong until the identity is forgotten, so that a correct guess
    /// made in parallel is not accepted.
    pub(crate) fn count(
        &self,
        identity: &str,
        right: bool,
        limit: i64,
        now: Timestamp,
    ) -> FailureCount {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = failures.find(identity).copied().unwrap_or_default();
        if right && !known.too_many {
            failures.forget(identity);
            return FailureCount::Right;
        }
        known.wrong = known.wrong.saturating_add(i64::from(!right));
        known.too_many |= limit > 0 && known.wrong >= limit;
        *failures.note(identity, now) = known;
        if known.too_many {
            FailureCount::TooMany
        } else {
            FailureCount::Wrong
        }
    }

    /// The number of lockouts of an identity since its last right password.
    pub(crate) fn lockouts(&self, identity: &str) -> u32 {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .find(identity)
            .map_or(0, |known| known.lockouts)
    }

    /// Counts from zero again after too many wrong passwords. `is_locked`: they have locked the
    /// identity out.
    pub(crate) fn begin_again(&self, identity: &str, is_locked: bool, now: Timestamp) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = failures.note(identity, now);
        *known = Failures {
            lockouts: known.lockouts.saturating_add(u32::from(is_locked)),
            ..Failures::default()
        };
    }

    /// Forgets the wrong passwords of an identity.
    pub(crate) fn forget(&self, identity: &str) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .forget(identity);
    }
}
