//! Questions about the store that something kept in memory rests on, and a recorder of the questions that a computation asks.

use std::{
    cell::{Cell, RefCell},
    hash::{DefaultHasher, Hash, Hasher},
};

use super::index;
use crate::{
    clock::Timestamp,
    entity::{AnyRecord, Epoch, Facts, Kind, RouterLink},
    error::Result,
};

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
    pub(super) fn of_connection(identity: &str) -> Self {
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
