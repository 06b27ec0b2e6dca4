//! What the rooms above make of records and keep in memory. Each thing knows which questions it rests on, and is as good as gone
//! once a commit gave one of them another answer.
//!
//! Invariant: a thing that is found is what would be made of the store as it is, or as it was a moment before the last commit that
//! nobody has been answered yet.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, PoisonError},
};

use super::{Store, index};
use crate::{
    clock::Timestamp,
    entity::{AnyRecord, Epoch, Facts, Kind, RouterLink},
    error::Result,
};

/// Changes that are told apart. Past that many, everything that was kept is made anew.
const CHANGES: usize = 1 << 16;

/// A question about the store, as a number: the record with an id, or which records have a value. Two questions may share one, which
/// only makes things go that could have stayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dependency(u64);

impl Dependency {
    fn of(what: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        what.hash(&mut hasher);
        Self(hasher.finish())
    }

    /// What the record with an id is.
    pub fn of_record(kind: Kind, id: &str) -> Self {
        Self::of((kind.name, id))
    }

    /// Whether an identity is connected.
    fn of_connection(identity: &str) -> Self {
        Self::of(("online", identity))
    }

    /// Whether the records with a value were ended.
    pub(super) fn of_ending(kind: Kind, field: &str, value: &str) -> Self {
        Self::of((kind.name, field, value, "ended"))
    }

    /// Whether any records were ended and are not cleared away yet.
    pub(super) fn of_any_ending() -> Self {
        Self::of("ended")
    }

    /// By what the keys of the index begin with.
    pub(super) fn of_value(prefix: &[u8]) -> Self {
        Self::of(prefix)
    }
}

/// A transaction that notes what it is asked.
pub struct DependencyRecorder<'f> {
    facts: &'f dyn Facts,
    marks: RefCell<Vec<Dependency>>,
    fleeting: Cell<bool>,
}

impl<'f> DependencyRecorder<'f> {
    /// Nothing asked yet.
    pub fn new(facts: &'f dyn Facts) -> Self {
        Self { facts, marks: RefCell::default(), fleeting: Cell::new(false) }
    }

    /// What was asked. Nothing if it was something that changes without a commit, such as the time.
    pub fn marks(self) -> Option<Vec<Dependency>> {
        (!self.fleeting.get()).then(|| self.marks.into_inner())
    }

    fn note_value(&self, kind: Kind, field: &str, value: &str) {
        self.marks.borrow_mut().push(Dependency::of_value(&index::prefix(kind, field, value.as_bytes())));
    }
}

impl Facts for DependencyRecorder<'_> {
    fn record(&self, kind: Kind, id: &str) -> Result<Option<AnyRecord>> {
        self.marks.borrow_mut().push(Dependency::of_record(kind, id));
        self.facts.record(kind, id)
    }
    fn ids(&self, kind: Kind, field: &'static str, value: &str) -> Result<Vec<String>> {
        self.note_value(kind, field, value);
        self.facts.ids(kind, field, value)
    }
    fn any(&self, kind: Kind, field: &'static str, value: &str) -> Result<bool> {
        self.note_value(kind, field, value);
        self.facts.any(kind, field, value)
    }
    fn ended(&self, kind: Kind, field: &'static str, value: &str) -> Result<Epoch> {
        self.marks.borrow_mut().push(Dependency::of_ending(kind, field, value));
        self.facts.ended(kind, field, value)
    }
    fn any_ended(&self) -> Result<bool> {
        self.marks.borrow_mut().push(Dependency::of_any_ending());
        self.facts.any_ended()
    }
    fn link(&self, router: &str) -> Option<RouterLink> {
        self.fleeting.set(true);
        self.facts.link(router)
    }
    fn is_connected(&self, identity: &str) -> bool {
        self.marks.borrow_mut().push(Dependency::of_connection(identity));
        self.facts.is_connected(identity)
    }
    fn dynamic_cost(&self, terminator: &str) -> u16 {
        self.fleeting.set(true);
        self.facts.dynamic_cost(terminator)
    }
    fn now(&self) -> Timestamp {
        self.fleeting.set(true);
        self.facts.now()
    }
}

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
    pub fn following(store: &Store, kinds: impl Fn(Kind) -> bool + Send + Sync + 'static, most: usize) -> Self {
        let shelf = Entries { things: HashMap::new(), most, now: CommitNumber(1), changed: HashMap::new(), since: CommitNumber(0) };
        let kept = Self(Arc::new(Mutex::new(shelf)));
        let told = kept.clone();
        store.subscribe(move |events| {
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
