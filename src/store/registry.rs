//! The kinds, as function pointers: how the store treats all of them alike without naming one.

use std::collections::BTreeMap;

use super::{
    Tx, codec,
    index::{self, Code, IndexEntry},
};
use crate::{
    entity::{AnyRecord, Entity, Epoch, Facts, FactsExt, Id, Index, Kind, OnDelete, Reference},
    error::{Error, Result},
};

/// One kind, seen from the store. Integrity check, repair, snapshot and history go over these too.
pub struct KindEntry {
    pub kind: Kind,
    /// The references of the kind.
    pub edges: fn() -> Vec<ReferenceEdge>,
    /// By which of its fields and references very many records end at once.
    pub ends_by: &'static [&'static str],
    /// The era of a stored record.
    pub(super) era: fn(&str, &[u8]) -> Result<Epoch>,
    /// Reads a stored record: id and bytes to a `Record<E>`.
    pub decode: fn(&str, &[u8]) -> Result<AnyRecord>,
    /// Takes a stored record apart.
    pub parts: fn(&str, &[u8]) -> Result<Parts>,
    /// The fields and references that the index has it by, some twice.
    pub indexed: fn() -> Vec<&'static str>,
    /// Whether no two records may have the same value in a field.
    pub(super) is_unique: fn(&str) -> bool,
    /// Deletes one record and nothing else.
    pub(super) remove: fn(&Tx<'_>, &str) -> Result<()>,
    /// Takes an id of a kind out of a record, where its references say [`OnDelete::Clear`].
    pub(super) clear: fn(&Tx<'_>, &str, Kind, &str) -> Result<()>,
}

/// A stored record, as far as the store is concerned with what is in it.
#[derive(Debug)]
pub struct Parts {
    /// The index entries that belong to it.
    pub entries: Vec<IndexEntry>,
    /// What it refers to.
    pub targets: Vec<Target>,
    /// What contradicts itself in it.
    pub flaw: Option<&'static str>,
}

/// One reference of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReferenceEdge {
    pub field: &'static str,
    pub to: Kind,
    pub rule: Rule,
}

/// One id that a record refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub field: &'static str,
    pub kind: Kind,
    pub id: String,
}

/// What the deletion of a record does to one that refers to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
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
            era: |id, bytes| Ok(E::era(&codec::decode::<E>(id, bytes)?)),
            decode: |id, bytes| Ok(Box::new(codec::decode::<E>(id, bytes)?)),
            parts: parts::<E>,
            is_unique: |name| E::FIELDS.iter().any(|field| field.name == name && matches!(field.index, Index::Unique | Index::Every)),
            remove: |tx, id| tx.remove(&Id::<E>::from_text(id)),
            clear: clear::<E>,
        }
    }
}

fn indexed<E: Entity>() -> Vec<&'static str> {
    let fields = E::FIELDS.iter().filter(|field| field.index != Index::None).map(|field| field.name);
    fields.chain(E::REFERENCES.iter().map(|reference| reference.field)).collect()
}

fn edges<E: Entity>() -> Vec<ReferenceEdge> {
    let rule = |on_delete: &OnDelete<E>| match on_delete {
        OnDelete::Restrict => Rule::Restrict,
        OnDelete::Cascade => Rule::Cascade,
        OnDelete::Clear(_) => Rule::Clear,
    };
    E::REFERENCES.iter().map(|r| ReferenceEdge { field: r.field, to: r.kind, rule: rule(&r.on_delete) }).collect()
}

fn parts<E: Entity>(id: &str, bytes: &[u8]) -> Result<Parts> {
    let record = codec::decode::<E>(id, bytes)?;
    let of = |reference: &Reference<E>| {
        let target = |id: &str| Target { field: reference.field, kind: reference.kind, id: id.into() };
        (reference.ids)(&record).into_iter().map(target).collect::<Vec<_>>()
    };
    let targets = E::REFERENCES.iter().flat_map(of).collect();
    Ok(Parts { entries: index::entries(&record), targets, flaw: E::flaw(&record) })
}

fn clear<E: Entity>(tx: &Tx<'_>, id: &str, kind: Kind, target: &str) -> Result<()> {
    let Some(mut record) = tx.find(&Id::<E>::from_text(id))? else { return Ok(()) };
    for reference in E::REFERENCES.iter().filter(|r| r.kind == kind) {
        if let OnDelete::Clear(forget) = reference.on_delete {
            forget(&mut record, target);
        }
    }
    record.updated_at = tx.now();
    tx.put(record)
}

/// The list of kinds, and what refers to what.
pub(crate) struct Registry {
    entries: &'static [KindEntry],
    edges: Vec<(usize, ReferenceEdge)>,
    /// What the index is made of: the place of the kind and the name of the field, by code.
    fields: BTreeMap<Code, (usize, &'static str)>,
}

impl Registry {
    pub(super) fn new(entries: &'static [KindEntry]) -> Self {
        let edges = entries.iter().enumerate().flat_map(|(at, entry)| (entry.edges)().into_iter().map(move |edge| (at, edge)));
        let fields = entries
            .iter()
            .enumerate()
            .flat_map(|(at, entry)| (entry.indexed)().into_iter().map(move |field| (index::code(entry.kind, field), (at, field))));
        Self { entries, edges: edges.collect(), fields: fields.collect() }
    }

    /// The place of the kind, and the name of the field, that have a code.
    pub(super) fn field(&self, code: Code) -> Option<(usize, &'static str)> {
        self.fields.get(&code).copied()
    }

    /// All codes, ascending, with kind and field.
    pub(super) fn fields(&self) -> impl Iterator<Item = (Code, Kind, &'static str)> + '_ {
        self.fields.iter().filter_map(|(code, (place, field))| Some((*code, self.entries.get(*place)?.kind, *field)))
    }

    /// The list.
    pub(super) fn entries(&self) -> &'static [KindEntry] {
        self.entries
    }

    /// A kind's place in the list.
    pub(super) fn place(&self, kind: Kind) -> Result<usize> {
        let found = self.entries.iter().position(|entry| entry.kind.name == kind.name);
        found.ok_or_else(|| Error::Internal(format!("the store was opened without {}", kind.path)))
    }

    pub(super) fn entry(&self, place: usize) -> Result<&'static KindEntry> {
        self.entries.get(place).ok_or_else(|| Error::Internal("no such kind".into()))
    }

    /// The references that lead to a kind, with the place of the kind they are of.
    pub(super) fn edges_to(&self, kind: Kind) -> impl Iterator<Item = (usize, ReferenceEdge)> + '_ {
        self.edges.iter().filter(move |(_, edge)| edge.to == kind).copied()
    }
}
