//! The changes of a committed transaction, published once they are safe on disk.

use std::{any::Any, sync::Arc};

use super::{dependency::Dependency, index::IndexEntry};
use model::entity::{Entity, Epoch, Kind, Record};

/// One record that was created (no `old`), changed, or deleted (no `new`). An event with neither is
/// about a repaired index entry of the record, or about a new tombstone (`tombstone`). A
/// transaction that changes a record twice publishes two events.
#[derive(Clone)]
pub struct Event {
    pub kind: Kind,
    pub id: String,
    /// The record before the change, a `Record<E>` of the kind.
    pub old: Option<Arc<dyn Any + Send + Sync>>,
    /// The record after the change, a `Record<E>` of the kind.
    pub new: Option<Arc<dyn Any + Send + Sync>>,
    /// The tombstone of all records of the kind with a value; these records get no events of their
    /// own.
    pub tombstone: Option<Tombstone>,
    /// The queries whose answers changed.
    pub(super) dependencies: Vec<Dependency>,
}

/// A mark that all records of a kind that had a value are deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tombstone {
    pub field: &'static str,
    pub value: String,
    /// Records of earlier epochs are deleted.
    pub epoch: Epoch,
}

impl Event {
    /// `moved` are the index entries that were added or removed with the change.
    pub(super) fn new<'m, E: Entity>(
        old: Option<Record<E>>,
        new: Option<Record<E>>,
        moved: impl Iterator<Item = &'m IndexEntry>,
    ) -> Option<Self> {
        let id = new.as_ref().or(old.as_ref())?.id.to_string();
        let values = moved
            .filter_map(|entry| entry.key.get(..entry.prefix))
            .map(Dependency::of_value);
        let dependencies = std::iter::once(Dependency::of_record(E::KIND, &id))
            .chain(values)
            .collect();
        let shared = |record| Arc::new(record) as Arc<dyn Any + Send + Sync>;
        Some(Self {
            kind: E::KIND,
            id,
            old: old.map(shared),
            new: new.map(shared),
            tombstone: None,
            dependencies,
        })
    }

    /// An index entry that was repaired without a change to its record. It only invalidates caches.
    pub(super) fn repaired(kind: Kind, id: &str, prefix: &[u8]) -> Self {
        Self {
            kind,
            id: id.to_owned(),
            old: None,
            new: None,
            tombstone: None,
            dependencies: vec![Dependency::of_value(prefix)],
        }
    }

    /// A tombstone was written.
    pub(super) fn ended(kind: Kind, tombstone: Tombstone) -> Self {
        let dependencies = vec![
            Dependency::of_tombstone(kind, tombstone.field, &tombstone.value),
            Dependency::of_any_tombstone(),
        ];
        Self {
            kind,
            id: String::new(),
            old: None,
            new: None,
            tombstone: Some(tombstone),
            dependencies,
        }
    }

    /// The record before and after, if the event is about this kind; otherwise `None`.
    pub fn of<E: Entity>(&self) -> Option<(EventRecord<'_, E>, EventRecord<'_, E>)> {
        fn typed<E: Entity>(record: Option<&Arc<dyn Any + Send + Sync>>) -> Option<&Record<E>> {
            record?.downcast_ref()
        }
        (self.kind == E::KIND).then(|| (typed(self.old.as_ref()), typed(self.new.as_ref())))
    }
}

/// The record before or after an event; `None` where there is none.
pub(crate) type EventRecord<'e, E> = Option<&'e Record<E>>;

/// A function that is called with the events of each transaction, in commit order.
pub(crate) type EventHandler = Box<dyn Fn(&[Event]) + Send + Sync>;

/// The phase in which a listener is called for a commit: all listeners of a phase are called before
/// those of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The listener updates state that other listeners read.
    Update,
    /// The listener acts on the change, and reads the state that listeners of the first phase have
    /// updated.
    React,
}
