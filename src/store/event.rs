//! What a committed transaction changed, told once it is safe on disk.

use std::{any::Any, sync::Arc};

use super::{dependency::Dependency, index::IndexEntry};
use crate::entity::{Entity, Epoch, Kind, Record};

/// One record that was created (no `old`), changed, or deleted (no `new`). With neither: the index of one was mended, or very many ended
/// (`ending`). A transaction that touches a record twice tells it twice.
#[derive(Clone)]
pub struct Event {
    pub kind: Kind,
    pub id: String,
    /// The record before, a `Record<E>` of the kind.
    pub old: Option<Arc<dyn Any + Send + Sync>>,
    /// The record after, a `Record<E>` of the kind.
    pub new: Option<Arc<dyn Any + Send + Sync>>,
    /// All records of the kind that have a value were ended; no single one of them is told then.
    pub ending: Option<Tombstone>,
    /// The questions that have another answer now.
    pub(super) marks: Vec<Dependency>,
}

/// The end of all records of a kind that had a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tombstone {
    pub field: &'static str,
    pub value: String,
    /// Those of earlier eras are over.
    pub era: Epoch,
}

impl Event {
    /// `moved` are the entries of the index that came or went with it.
    pub(super) fn new<'m, E: Entity>(
        old: Option<Record<E>>,
        new: Option<Record<E>>,
        moved: impl Iterator<Item = &'m IndexEntry>,
    ) -> Option<Self> {
        let id = new.as_ref().or(old.as_ref())?.id.to_string();
        let values = moved.filter_map(|entry| entry.key.get(..entry.prefix)).map(Dependency::of_value);
        let marks = std::iter::once(Dependency::of_record(E::KIND, &id)).chain(values).collect();
        let shared = |record| Arc::new(record) as Arc<dyn Any + Send + Sync>;
        Some(Self { kind: E::KIND, id, old: old.map(shared), new: new.map(shared), ending: None, marks })
    }

    /// An entry of the index that was mended, without a change to its record. Tells what is kept in memory, and nobody else.
    pub(super) fn mended(kind: Kind, id: &str, prefix: &[u8]) -> Self {
        Self { kind, id: id.to_owned(), old: None, new: None, ending: None, marks: vec![Dependency::of_value(prefix)] }
    }

    /// The end of very many records.
    pub(super) fn ended(kind: Kind, ending: Tombstone) -> Self {
        let marks = vec![Dependency::of_ending(kind, ending.field, &ending.value), Dependency::of_any_ending()];
        Self { kind, id: String::new(), old: None, new: None, ending: Some(ending), marks }
    }

    /// The record before and after, if the event is about this kind.
    pub fn of<E: Entity>(&self) -> Option<(Version<'_, E>, Version<'_, E>)> {
        fn typed<E: Entity>(record: Option<&Arc<dyn Any + Send + Sync>>) -> Option<&Record<E>> {
            record?.downcast_ref()
        }
        (self.kind == E::KIND).then(|| (typed(self.old.as_ref()), typed(self.new.as_ref())))
    }
}

/// A record before or after an event.
pub type Version<'e, E> = Option<&'e Record<E>>;

/// Hears the events of each transaction, in order.
pub type Listener = Box<dyn Fn(&[Event]) + Send + Sync>;

/// When a listener hears of a commit: those of one phase have all heard of it before those of the next do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It keeps something up to date that others look at.
    Update,
    /// It acts, and looks at what the listeners of the first phase keep up to date.
    React,
}
