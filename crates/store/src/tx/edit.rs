//! The effects of writing or deleting one record on rows, index, history and listeners, computed
//! from the record before and after. This is a pure function of both. [`Tx`](super::write::Tx)
//! checks the effects against the other records and applies them, for every kind.

use std::collections::BTreeSet;

use query::Value;

use crate::{
    codec,
    event::Event,
    index::{self, IndexEntry},
};
use model::{
    entity::{Entity, Field, HistoryEntry, Index, Kind, Lookup, Record},
    error::{Error, Result},
};

/// One change of one record.
pub(crate) struct Edit {
    pub kind: Kind,
    pub id: String,
    /// The record's bytes afterwards; `None` if the record is deleted.
    pub row: Option<Vec<u8>>,
    /// The index entries to remove.
    pub removed: Vec<IndexEntry>,
    /// The index entries to add, in the order in which errors name them, each with the member of a
    /// request that holds its field.
    pub added: Vec<(IndexEntry, &'static str)>,
    /// The ids that the record newly refers to.
    pub targets: Vec<NewTarget>,
    pub event: Option<Event>,
    /// The row of the history about the change, if it is logged.
    pub history_entry: Option<HistoryEntry>,
}

/// An id that a record newly refers to.
pub(crate) struct NewTarget {
    pub field: &'static str,
    pub kind: Kind,
    pub id: String,
    /// Whether a referenced record is not under a tombstone.
    pub stands: fn(&dyn Lookup, &str) -> Result<bool>,
}

impl Edit {
    /// The change from `old`, or from nothing, to `new`; `by_system` says whether the controller
    /// itself makes it.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a required field is empty, or the record is too large.
    pub(crate) fn put<E: Entity>(
        old: Option<Record<E>>,
        new: Record<E>,
        by_system: bool,
    ) -> Result<Self> {
        check_every(&new)?;
        let targets = new_targets(old.as_ref(), &new);
        let before = old.as_ref().map(index::entries).unwrap_or_default();
        let after = index::entries(&new);
        let without = |entry: &IndexEntry, others: &[IndexEntry]| {
            others
                .binary_search_by(|other| other.key.cmp(&entry.key))
                .is_err()
        };
        let removed: Vec<IndexEntry> = before
            .iter()
            .filter(|entry| without(entry, &after))
            .cloned()
            .collect();
        let mut added: Vec<IndexEntry> = after
            .into_iter()
            .filter(|entry| without(entry, &before))
            .collect();
        // If several values are taken, they are reported in the order of the kind's fields.
        added.sort_by_key(|entry| E::FIELDS.iter().position(|field| field.name == entry.field));
        let row = Some(codec::encode(&new)?);
        let history_entry = history_entry(old.as_ref(), Some(&new), by_system)?;
        let (id, added) = (
            new.id.to_string(),
            added.into_iter().map(named::<E>).collect::<Vec<_>>(),
        );
        let event = Event::new(
            old,
            Some(new),
            removed.iter().chain(added.iter().map(|(entry, _)| entry)),
        );
        Ok(Self {
            kind: E::KIND,
            id,
            row,
            removed,
            added,
            targets,
            event,
            history_entry,
        })
    }

    /// The change that deletes a record.
    ///
    /// # Errors
    /// [`Error::Internal`] if a member has no JSON form, which is a defect.
    pub(crate) fn delete<E: Entity>(old: Record<E>, by_system: bool) -> Result<Self> {
        let (id, removed) = (old.id.to_string(), index::entries(&old));
        let history_entry = history_entry(Some(&old), None, by_system)?;
        let event = Event::new(Some(old), None, removed.iter());
        Ok(Self {
            kind: E::KIND,
            id,
            row: None,
            removed,
            added: Vec::new(),
            targets: Vec::new(),
            event,
            history_entry,
        })
    }
}

/// The index entries of a record, unique or not, each with the member of a request that holds its
/// field.
pub(crate) fn entries_with_members<E: Entity>(
    record: &Record<E>,
) -> impl Iterator<Item = (IndexEntry, &'static str)> {
    index::entries(record).into_iter().map(named::<E>)
}

fn named<E: Entity>(entry: IndexEntry) -> (IndexEntry, &'static str) {
    let member = E::MEMBERS
        .iter()
        .find(|(field, _)| *field == entry.field)
        .map_or(entry.field, |(_, member)| member);
    (entry, member)
}

fn new_targets<E: Entity>(old: Option<&Record<E>>, new: &Record<E>) -> Vec<NewTarget> {
    let mut targets = Vec::new();
    for reference in E::REFERENCES {
        let before: BTreeSet<&str> = old
            .map(reference.ids)
            .unwrap_or_default()
            .into_iter()
            .collect();
        let ids = (reference.ids)(new)
            .into_iter()
            .filter(|id| !before.contains(id));
        targets.extend(ids.map(|id| NewTarget {
            field: reference.field,
            kind: reference.kind,
            id: id.into(),
            stands: reference.stands,
        }));
    }
    targets
}

fn history_entry<E: Entity>(
    old: Option<&Record<E>>,
    new: Option<&Record<E>>,
    by_system: bool,
) -> Result<Option<HistoryEntry>> {
    if by_system && new.or(old).is_some_and(E::is_unlogged) {
        Ok(None)
    } else {
        HistoryEntry::of(old, new)
    }
}

/// Checks that no field that every record of the kind must have is empty.
///
/// # Errors
/// [`Error::Invalid`] with the name of the first empty field.
pub fn check_every<E: Entity>(record: &Record<E>) -> Result<()> {
    let empty =
        |field: &&Field<E>| !matches!((field.value)(record), Value::Text(text) if !text.is_empty());
    match E::FIELDS
        .iter()
        .filter(|field| field.index == Index::Every)
        .find(empty)
    {
        Some(field) => Err(Error::invalid(field.name, "must not be empty", "")),
        None => Ok(()),
    }
}
