//! The queries that a cached value depends on, and a recorder of the queries that a computation
//! makes.

use std::{
    cell::{Cell, RefCell},
    hash::{DefaultHasher, Hash, Hasher},
};

use super::index;
use model::{
    clock::Timestamp,
    entity::{AnyRecord, Epoch, Kind, Lookup, RouterInfo},
    error::Result,
};

/// A query against the store, as a hash: the record with an id, or the records that have a value.
/// Two queries may share a hash. The only effect is that a value may be invalidated although it is
/// still valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dependency(u64);

impl Dependency {
    fn of(what: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        what.hash(&mut hasher);
        Self(hasher.finish())
    }

    /// The query for the record with an id.
    pub fn of_record(kind: Kind, id: &str) -> Self {
        Self::of((kind.name, id))
    }

    /// The query whether an identity is connected.
    pub(super) fn of_connection(identity: &str) -> Self {
        Self::of(("online", identity))
    }

    /// The query whether the records with a value have a tombstone.
    pub(super) fn of_tombstone(kind: Kind, field: &str, value: &str) -> Self {
        Self::of((kind.name, field, value, "ended"))
    }

    /// The query whether there is any tombstone whose records are not deleted yet.
    pub(super) fn of_any_tombstone() -> Self {
        Self::of("ended")
    }

    /// The query for the records with a value, by the prefix of its index keys.
    pub(super) fn of_value(prefix: &[u8]) -> Self {
        Self::of(prefix)
    }
}

/// Passes queries on to a transaction and records them.
pub struct DependencyRecorder<'f> {
    lookup: &'f dyn Lookup,
    dependencies: RefCell<Vec<Dependency>>,
    fleeting: Cell<bool>,
}

impl<'f> DependencyRecorder<'f> {
    /// A recorder that has recorded no query yet.
    pub fn new(lookup: &'f dyn Lookup) -> Self {
        Self {
            lookup,
            dependencies: RefCell::default(),
            fleeting: Cell::new(false),
        }
    }

    /// The recorded dependencies. `None` if a query depends on something that changes without a
    /// commit, such as the time.
    pub fn dependencies(self) -> Option<Vec<Dependency>> {
        (!self.fleeting.get()).then(|| self.dependencies.into_inner())
    }

    fn note_value(&self, kind: Kind, field: &str, value: &str) {
        self.dependencies
            .borrow_mut()
            .push(Dependency::of_value(&index::prefix(
                kind,
                field,
                value.as_bytes(),
            )));
    }
}

impl Lookup for DependencyRecorder<'_> {
    fn record(&self, kind: Kind, id: &str) -> Result<Option<AnyRecord>> {
        self.dependencies
            .borrow_mut()
            .push(Dependency::of_record(kind, id));
        self.lookup.record(kind, id)
    }
    fn ids(&self, kind: Kind, field: &'static str, value: &str) -> Result<Vec<String>> {
        self.note_value(kind, field, value);
        self.lookup.ids(kind, field, value)
    }
    fn any(&self, kind: Kind, field: &'static str, value: &str) -> Result<bool> {
        self.note_value(kind, field, value);
        self.lookup.any(kind, field, value)
    }
    fn ended_before(&self, kind: Kind, field: &'static str, value: &str) -> Result<Epoch> {
        self.dependencies
            .borrow_mut()
            .push(Dependency::of_tombstone(kind, field, value));
        self.lookup.ended_before(kind, field, value)
    }
    fn any_tombstone(&self) -> Result<bool> {
        self.dependencies
            .borrow_mut()
            .push(Dependency::of_any_tombstone());
        self.lookup.any_tombstone()
    }
    fn router_info(&self, router: &str) -> Option<RouterInfo> {
        self.fleeting.set(true);
        self.lookup.router_info(router)
    }
    fn is_connected(&self, identity: &str) -> bool {
        self.dependencies
            .borrow_mut()
            .push(Dependency::of_connection(identity));
        self.lookup.is_connected(identity)
    }
    fn dynamic_cost(&self, terminator: &str) -> u16 {
        self.fleeting.set(true);
        self.lookup.dynamic_cost(terminator)
    }
    fn now(&self) -> Timestamp {
        self.fleeting.set(true);
        self.lookup.now()
    }
}
