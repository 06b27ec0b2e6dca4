//! Who failed how often of late: wrong codes and wrong passwords, by identity, in bounded memory.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::{
    clock::Timestamp,
    config,
    error::{Error, Result},
};

/// Something about each identity that failed, bounded.
struct Book<V> {
    entries: HashMap<String, (Timestamp, V)>,
    /// At most this many; then the one that has been quiet longest is forgotten.
    most: usize,
}

impl<V: Default> Book<V> {
    fn new(most: usize) -> Self {
        Self { entries: HashMap::new(), most }
    }

    /// What is noted of an identity, to be added to.
    fn note(&mut self, identity: &str, now: Timestamp) -> &mut V {
        if self.entries.len() >= self.most && !self.entries.contains_key(identity) {
            let quiet = self.entries.iter().min_by_key(|(_, (at, _))| *at).map(|(identity, _)| identity.clone());
            quiet.and_then(|quiet| self.entries.remove(&quiet));
        }
        let entry = self.entries.entry(identity.to_owned()).or_insert_with(|| (now, V::default()));
        entry.0 = now;
        &mut entry.1
    }
}

/// Wrong codes.
pub struct WrongCodes {
    book: Mutex<Book<Vec<Timestamp>>>,
    /// So many within so long a time, and the next one is not even looked at.
    limits: [(usize, Duration); 2],
}

impl WrongCodes {
    /// None so far.
    pub fn new(limits: &config::Codes) -> Self {
        let config::Codes { wrong_per_5_minutes, wrong_per_day, remembered } = *limits;
        let limits = [(wrong_per_5_minutes, Duration::from_secs(5 * 60)), (wrong_per_day, Duration::from_secs(24 * 60 * 60))];
        Self { book: Mutex::new(Book::new(remembered)), limits }
    }

    /// Judges a code of an identity, unless too many were wrong; a right one makes up for all before. One at a time, so that nobody
    /// gets more tries by making them at once.
    ///
    /// # Errors
    /// [`Error::Busy`] if it was not even looked at, and what `judge` says.
    pub fn judge<T>(&self, identity: &str, now: Timestamp, judge: impl FnOnce() -> Result<Option<T>>) -> Result<Option<T>> {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wait) = book.entries.get(identity).and_then(|(_, wrong)| self.wait(wrong, now)) {
            return Err(Error::Busy { retry_after: u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).max(1) });
        }
        let judged = judge()?;
        if judged.is_some() {
            book.entries.remove(identity);
        } else {
            let wrong = book.note(identity, now);
            wrong.push(now);
            let most = self.limits.iter().map(|(most, _)| *most).max().unwrap_or_default();
            let surplus = wrong.len().saturating_sub(most);
            wrong.drain(..surplus);
        }
        Ok(judged)
    }

    /// Forgets an identity.
    pub fn forget(&self, identity: &str) {
        self.book.lock().unwrap_or_else(PoisonError::into_inner).entries.remove(identity);
    }

    /// How long it takes until another code is looked at, if that is not now. `wrong`: oldest first.
    fn wait(&self, wrong: &[Timestamp], now: Timestamp) -> Option<Duration> {
        let over = |(most, within): (usize, Duration)| {
            let first = wrong.len().checked_sub(most).and_then(|at| wrong.get(at))?;
            within.checked_sub(now.apart(*first)).filter(|left| !left.is_zero())
        };
        self.limits.into_iter().filter_map(over).max()
    }
}

/// What a password turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tally {
    Right,
    Wrong,
    /// The last one that is tolerated was wrong, or one before it and nobody has forgiven that since.
    TooMany,
}

/// Wrong passwords in a row, and whether they were too many.
pub struct WrongPasswords(Mutex<Book<(i64, bool)>>);

impl WrongPasswords {
    /// None so far, of so many identities at most.
    pub fn new(remembered: usize) -> Self {
        Self(Mutex::new(Book::new(remembered)))
    }

    /// Notes one. `most`: so many in a row are too many; 0 for any number. After too many nothing is right until they are forgotten,
    /// so that nobody gets in with a password that was tried at the same time.
    pub fn tally(&self, identity: &str, right: bool, most: i64, now: Timestamp) -> Tally {
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, too_many) = book.entries.get(identity).map_or((0, false), |(_, noted)| *noted);
        if right && !too_many {
            book.entries.remove(identity);
            return Tally::Right;
        }
        let count = count.saturating_add(i64::from(!right));
        let too_many = too_many || (most > 0 && count >= most);
        *book.note(identity, now) = (count, too_many);
        if too_many { Tally::TooMany } else { Tally::Wrong }
    }

    /// Forgets an identity.
    pub fn forget(&self, identity: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entries.remove(identity);
    }
}
