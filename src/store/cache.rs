//! A cache of values that the rooms above derive from records. Each value lists its dependencies: the queries whose
//! answers it was derived from. A commit that changes one of these answers invalidates the value.
//!
//! Invariant: a value that is found equals what would be derived from the store now, or from the store just before the
//! last commit whose caller has not been answered yet.
//! nobody has been answered yet.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use super::{dependency::Dependency, event::Phase, opening::OpenStore};
use crate::entity::Kind;

/// The number of changed dependencies that are remembered. When there are more, the whole cache is cleared.
const CHANGES: usize = 1 << 16;

/// A point in the sequence of commits; a value is derived at one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommitNumber(u64);

/// The cache. Cheap to clone.
pub struct Cache<T>(Arc<Mutex<Entries<T>>>);

impl<T> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

struct Entries<T> {
    things: HashMap<String, Entry<T>>,
    /// The greatest number of values. When it is reached, the cache is cleared.
    most: usize,
    now: CommitNumber,
    /// The last commit that changed the answer of each query.
    changed: HashMap<Dependency, CommitNumber>,
    /// Values derived before this are not trusted.
    since: CommitNumber,
}

struct Entry<T> {
    value: Arc<T>,
    marks: Vec<Dependency>,
    /// The last commit at which the value is known to be valid.
    at: CommitNumber,
}

impl<T: Send + Sync + 'static> Cache<T> {
    /// An empty cache that is told of every change to these kinds from now on. Its values may depend on no other kind.
    /// It holds at most `most` values.
    pub fn following(store: &OpenStore, kinds: impl Fn(Kind) -> bool + Send + Sync + 'static, most: usize) -> Self {
        let shelf = Entries { things: HashMap::new(), most, now: CommitNumber(1), changed: HashMap::new(), since: CommitNumber(0) };
        let kept = Self(Arc::new(Mutex::new(shelf)));
        let told = kept.clone();
        store.subscribe(Phase::Update, move |events| {
            let of_them = events.iter().filter(|event| kinds(event.kind));
            let marks: Vec<Dependency> = of_them.flat_map(|event| event.marks.iter().copied()).collect();
            if !marks.is_empty() {
                told.with(|shelf| shelf.hear(marks));
            }
        });
        let told = kept.clone();
        store.online().subscribe(move |identity| told.with(|shelf| shelf.hear(vec![Dependency::of_connection(identity)])));
        kept
    }

    /// The current commit number. Take it before the transaction begins that a value is derived in.
    pub fn now(&self) -> CommitNumber {
        self.with(|shelf| shelf.now)
    }

    /// The valid value under a key.
    pub fn find(&self, key: &str) -> Option<Arc<T>> {
        self.with(|shelf| shelf.find(key))
    }

    /// The valid value under each of these keys, in the same order.
    pub fn find_all<'k>(&self, keys: impl Iterator<Item = &'k str>) -> Vec<Option<Arc<T>>> {
        self.with(|shelf| keys.map(|key| shelf.find(key)).collect())
    }

    /// Stores a value that was derived after commit `at` and depends on these queries.
    pub fn keep(&self, key: &str, value: Arc<T>, marks: Vec<Dependency>, at: CommitNumber) {
        self.with(|shelf| {
            if shelf.things.len() >= shelf.most && !shelf.things.contains_key(key) {
                shelf.things.clear();
            }
            shelf.things.insert(key.to_owned(), Entry { value, marks, at });
        });
    }

    fn with<R>(&self, work: impl FnOnce(&mut Entries<T>) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> Entries<T> {
    fn find(&mut self, key: &str) -> Option<Arc<T>> {
        let thing = self.things.get_mut(key)?;
        if thing.at < self.now {
            let stands = |mark| self.changed.get(mark).is_none_or(|changed| *changed <= thing.at);
            if thing.at < self.since || !thing.marks.iter().all(stands) {
                self.things.remove(key);
                return None;
            }
            thing.at = self.now;
        }
        Some(thing.value.clone())
    }

    fn hear(&mut self, marks: Vec<Dependency>) {
        self.now.0 += 1;
        if self.changed.len() > CHANGES {
            self.changed.clear();
            self.things.clear();
            self.since = self.now;
        }
        self.changed.extend(marks.into_iter().map(|mark| (mark, self.now)));
    }
}
