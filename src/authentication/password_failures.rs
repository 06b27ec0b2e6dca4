//! Who failed how often of late, by identity and in bounded memory; and how often with wrong passwords.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use crate::clock::Timestamp;

/// Something about each identity that failed, bounded.
pub struct FailureTable<V> {
    entries: HashMap<String, (Timestamp, V)>,
    /// At most this many; then the one that has been quiet longest is forgotten.
    most: usize,
}

impl<V: Default> FailureTable<V> {
    /// Of nobody yet, and of so many at most.
    pub fn new(most: usize) -> Self {
        Self { entries: HashMap::new(), most }
    }

    /// What is noted of an identity, to be added to.
    pub fn note(&mut self, identity: &str, now: Timestamp) -> &mut V {
        if self.entries.len() >= self.most && !self.entries.contains_key(identity) {
            let quiet = self.entries.iter().min_by_key(|(_, (at, _))| *at).map(|(identity, _)| identity.clone());
            quiet.and_then(|quiet| self.entries.remove(&quiet));
        }
        let entry = self.entries.entry(identity.to_owned()).or_insert_with(|| (now, V::default()));
        entry.0 = now;
        &mut entry.1
    }

    /// What is noted of an identity, if anything is.
    pub fn find(&self, identity: &str) -> Option<&V> {
        self.entries.get(identity).map(|(_, noted)| noted)
    }

    /// Forgets an identity.
    pub fn forget(&mut self, identity: &str) {
        self.entries.remove(identity);
    }
}

/// What a password turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureCount {
    Right,
    Wrong,
    /// The last one that is tolerated was wrong, or one before it and nobody has forgiven that since.
    TooMany,
}

/// Wrong passwords in a row, and whether they were too many.
pub struct WrongPasswords(Mutex<FailureTable<(i64, bool)>>);

impl WrongPasswords {
    /// None so far, of so many identities at most.
    pub fn new(remembered: usize) -> Self {
        Self(Mutex::new(FailureTable::new(remembered)))
    }

    /// Notes one. `most`: so many in a row are too many; 0 for any number. After too many nothing is right until they are forgotten,
    /// so that nobody gets in with a password that was tried at the same time.
    pub fn count(&self, identity: &str, right: bool, most: i64, now: Timestamp) -> FailureCount {
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, too_many) = book.find(identity).copied().unwrap_or((0, false));
        if right && !too_many {
            book.forget(identity);
            return FailureCount::Right;
        }
        let count = count.saturating_add(i64::from(!right));
        let too_many = too_many || (most > 0 && count >= most);
        *book.note(identity, now) = (count, too_many);
        if too_many { FailureCount::TooMany } else { FailureCount::Wrong }
    }

    /// Forgets an identity.
    pub fn forget(&self, identity: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).forget(identity);
    }
}
