//! What the rooms above make of records and keep in memory. Each thing knows which questions it rests on, and is as good as gone
//! once a commit gave one of them another answer.
//!
//! Invariant: a thing that is found is what would be made of the store as it is, or as it was a moment before the last commit that
//! nobody has been answered yet.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use super::{dependency::Dependency, event::Phase, opening::OpenStore};
use crate::entity::Kind;

/// Changes that are told apart. Past that many, everything that was kept is made anew.
const CHANGES: usize = 1 << 16;

/// A moment that things can be made at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommitNumber(u64);

/// The things kept. Cheap to clone.
pub struct Cache<T>(Arc<Mutex<Entries<T>>>);

impl<T> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

struct Entries<T> {
    things: HashMap<String, Entry<T>>,
    /// More than this many are not kept.
    most: usize,
    now: CommitNumber,
    /// When each question last got another answer.
    changed: HashMap<Dependency, CommitNumber>,
    /// What was made earlier is not trusted.
    since: CommitNumber,
}

struct Entry<T> {
    value: Arc<T>,
    marks: Vec<Dependency>,
    /// It was good then.
    at: CommitNumber,
}

impl<T: Send + Sync + 'static> Cache<T> {
    /// Nothing yet, and told of every change to some kinds from now on: things may rest on no other.
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

    /// The present; to be taken before the transaction begins that a thing is made in.
    pub fn now(&self) -> CommitNumber {
        self.with(|shelf| shelf.now)
    }

    /// What is kept under a key.
    pub fn find(&self, key: &str) -> Option<Arc<T>> {
        self.with(|shelf| shelf.find(key))
    }

    /// What is kept under each of these keys.
    pub fn find_all<'k>(&self, keys: impl Iterator<Item = &'k str>) -> Vec<Option<Arc<T>>> {
        self.with(|shelf| keys.map(|key| shelf.find(key)).collect())
    }

    /// Keeps a thing that was made after a moment and rests on these questions.
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
