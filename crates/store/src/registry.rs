//! The kinds as function pointers, so that the store handles all of them without naming one.

use std::collections::BTreeMap;

use super::{
    codec,
    index::{self, IndexCode, IndexEntry},
    tx::{edit::Edit, tables::Table},
};
use model::{
    clock::Timestamp,
    entity::{
        AnyRecord, Entity, Epoch, HistoryClass, Index, Kind, Lookup, OnDelete, Reference, tombstone,
    },
    error::{Error, Result},
};

/// What the store knows of one kind. Integrity check, repair, snapshot and history use it too.
pub struct KindEntry {
    pub kind: Kind,
    /// The references of the kind.
    pub edges: fn() -> Vec<ReferenceEdge>,
    /// The fields and references whose records can be deleted by a tombstone.
    pub ends_by: &'static [&'static str],
    /// The epoch of a stored record.
    pub(super) epoch: fn(&str, &[u8]) -> Result<Epoch>,
    /// Decodes a stored record: id and bytes to a `Record<E>`.
    pub decode: fn(&str, &[u8]) -> Result<AnyRecord>,
    /// Gives the parts of a stored record that the store uses.
    pub parts: fn(&str, &[u8]) -> Result<RecordParts>,
    /// The indexed fields and references, possibly with duplicates.
    pub indexed: fn() -> Vec<&'static str>,
    /// Whether a field's values are unique.
    pub(super) is_unique: fn(&str) -> bool,
    /// Whether a stored record is not under a tombstone.
    pub(super) stands: fn(&str, &[u8], &dyn Lookup) -> Result<bool>,
    /// What deleting a stored record does; the flag says whether the controller itself does it.
    pub(super) deletion: fn(&str, &[u8], bool) -> Result<Edit>,
    /// The edit that removes an id from a stored record, for references with [`OnDelete::Clear`].
    pub(super) clearing: fn(&str, &[u8], &RemovedReference<'_>) -> Result<Edit>,
}

/// An id that is to be removed from the records that refer to it.
pub(super) struct RemovedReference<'c> {
    pub kind: Kind,
    pub id: &'c str,
    pub at: Timestamp,
    pub by_system: bool,
}

/// The parts of a stored record that the store uses.
#[derive(Debug)]
pub struct RecordParts {
    /// Its index entries.
    pub entries: Vec<IndexEntry>,
    /// The records that it refers to.
    pub targets: Vec<Target>,
    /// A contradiction in its content, if there is one.
    pub flaw: Option<&'static str>,
}

/// One reference of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReferenceEdge {
    pub field: &'static str,
    pub to: Kind,
    pub rule: DeleteRule,
}

/// One id that a record refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub field: &'static str,
    pub kind: Kind,
    pub id: String,
}

/// What the deletion of a record does to a record that refers to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteRule {
    Restrict,
    Cascade,
    Clear,
}

impl KindEntry {
    /// The entry of a kind.
    pub const fn of<E: Entity>() -> Self {
        Self {
            kind: E::KIND,
            edges: edges::<E>,
            ends_by: E::ENDS_BY,
            indexed: indexed::<E>,
            epoch: |id, bytes| Ok(E::epoch(&codec::decode::<E>(id, bytes)?)),
            decode: |id, bytes| Ok(Box::new(codec::decode::<E>(id, bytes)?)),
            parts: parts::<E>,
            is_unique: |name| {
                E::FIELDS.iter().any(|field| {
                    field.name == name && matches!(field.index, Index::Unique | Index::Every)
                })
            },
            stands: |id, bytes, lookup| {
                Ok(!lookup.any_tombstone()?
                    || tombstone::stands(&codec::decode::<E>(id, bytes)?, lookup)?)
            },
            deletion: |id, bytes, by_system| {
                Edit::delete(codec::decode::<E>(id, bytes)?, by_system)
            },
            clearing: clearing::<E>,
        }
    }
}

fn indexed<E: Entity>() -> Vec<&'static str> {
    let fields = E::FIELDS
        .iter()
        .filter(|field| field.index != Index::None)
        .map(|field| field.name);
    fields
        .chain(E::REFERENCES.iter().map(|reference| reference.field))
        .collect()
}

fn edges<E: Entity>() -> Vec<ReferenceEdge> {
    let rule = |on_delete: &OnDelete<E>| match on_delete {
        OnDelete::Restrict => DeleteRule::Restrict,
        OnDelete::Cascade => DeleteRule::Cascade,
        OnDelete::Clear(_) => DeleteRule::Clear,
    };
    E::REFERENCES
        .iter()
        .map(|r| ReferenceEdge {
            field: r.field,
            to: r.kind,
            rule: rule(&r.on_delete),
        })
        .collect()
}

fn parts<E: Entity>(id: &str, bytes: &[u8]) -> Result<RecordParts> {
    let record = codec::decode::<E>(id, bytes)?;
    let of = |reference: &Reference<E>| {
        let target = |id: &str| Target {
            field: reference.field,
            kind: reference.kind,
            id: id.into(),
        };
        (reference.ids)(&record)
            .into_iter()
            .map(target)
            .collect::<Vec<_>>()
    };
    let targets = E::REFERENCES.iter().flat_map(of).collect();
    Ok(RecordParts {
        entries: index::entries(&record),
        targets,
        flaw: E::flaw(&record),
    })
}

fn clearing<E: Entity>(id: &str, bytes: &[u8], cleared: &RemovedReference<'_>) -> Result<Edit> {
    let old = codec::decode::<E>(id, bytes)?;
    let mut new = old.clone();
    for reference in E::REFERENCES.iter().filter(|r| r.kind == cleared.kind) {
        if let OnDelete::Clear(forget) = reference.on_delete {
            forget(&mut new, cleared.id);
        }
    }
    new.updated_at = cleared.at;
    Edit::put(Some(old), new, cleared.by_system)
}

/// The names of all tables, by slot.
pub(super) fn table_names(kinds: &[KindEntry]) -> Vec<String> {
    Table::all(kinds.len())
        .map(|table| table_name(table, kinds))
        .collect()
}

/// The name of a table in the file.
pub(super) fn table_name(table: Table, kinds: &[KindEntry]) -> String {
    match table {
        Table::Meta => "meta".into(),
        Table::Settings => "settings".into(),
        Table::Index => "index".into(),
        Table::History(HistoryClass::Changes) => "history".into(),
        Table::History(HistoryClass::Sessions) => "history.sessions".into(),
        Table::Endings => "endings".into(),
        Table::Records(place) => format!(
            "records.{}",
            kinds.get(place).map_or("", |entry| entry.kind.name)
        ),
    }
}

/// The kinds, their references and their indexed fields.
pub(crate) struct KindRegistry {
    entries: &'static [KindEntry],
    edges: Vec<(usize, ReferenceEdge)>,
    /// The indexed fields by code: the place of the kind, and the name of the field.
    fields: BTreeMap<IndexCode, (usize, &'static str)>,
}

impl KindRegistry {
    pub(super) fn new(entries: &'static [KindEntry]) -> Self {
        let edges = entries
            .iter()
            .enumerate()
            .flat_map(|(at, entry)| (entry.edges)().into_iter().map(move |edge| (at, edge)));
        let fields = entries.iter().enumerate().flat_map(|(at, entry)| {
            (entry.indexed)()
                .into_iter()
                .map(move |field| (index::code(entry.kind, field), (at, field)))
        });
        Self {
            entries,
            edges: edges.collect(),
            fields: fields.collect(),
        }
    }

    /// The place of the kind and the name of the field with a code.
    pub(super) fn field(&self, code: IndexCode) -> Option<(usize, &'static str)> {
        self.fields.get(&code).copied()
    }

    /// All codes in ascending order, with kind and field.
    pub(super) fn fields(&self) -> impl Iterator<Item = (IndexCode, Kind, &'static str)> + '_ {
        self.fields.iter().filter_map(|(code, (place, field))| {
            Some((*code, self.entries.get(*place)?.kind, *field))
        })
    }

    /// All kinds.
    pub(super) fn entries(&self) -> &'static [KindEntry] {
        self.entries
    }

    /// A kind's place in the list.
    pub(super) fn place(&self, kind: Kind) -> Result<usize> {
        let found = self
            .entries
            .iter()
            .position(|entry| entry.kind.name == kind.name);
        found.ok_or_else(|| Error::Internal(format!("the store was opened without {}", kind.path)))
    }

    pub(super) fn entry(&self, place: usize) -> Result<&'static KindEntry> {
        self.entries
            .get(place)
            .ok_or_else(|| Error::Internal("no such kind".into()))
    }

    /// The references that lead to a kind, with the place of the kind that has them.
    pub(super) fn edges_to(&self, kind: Kind) -> impl Iterator<Item = (usize, ReferenceEdge)> + '_ {
        self.edges
            .iter()
            .filter(move |(_, edge)| edge.to == kind)
            .copied()
    }
}
