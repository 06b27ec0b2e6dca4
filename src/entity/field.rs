//! Fields: the names by which lists are filtered, and the index entries of a record.

use std::marker::PhantomData;

use super::{Entity, Facts, Record};
use crate::query::{Subject, Symbol, Type, Value, Vocabulary};

/// Whether and how the store finds records by a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Index {
    /// Not at all: a filter on it reads every candidate.
    None,
    /// By value; several records may share one.
    Many,
    /// By value; no two records of the kind may share one. An empty or absent value is not indexed.
    Unique,
    /// By value, which every record has: never empty, and no other's. So the index alone tells all records, in the order of
    /// their values.
    Every,
}

/// A name, the value it has in a record, and how it is indexed.
pub struct Field<E: Entity> {
    pub name: &'static str,
    pub of: Type,
    pub value: for<'r> fn(&'r Record<E>) -> Value<'r>,
    /// Where the record alone does not tell: the value with the help of what the world knows. Then `value` has none, and there
    /// is no index.
    pub asked: Option<Asked<E>>,
    pub index: Index,
    /// Whether clients may filter and sort by it.
    pub public: bool,
}

/// A value that is found out when a list is filtered.
pub type Asked<E> = for<'r> fn(&'r Record<E>, &dyn Facts) -> Value<'r>;

impl<E: Entity> Field<E> {
    /// Filterable, not indexed.
    pub const fn plain(name: &'static str, of: Type, value: for<'r> fn(&'r Record<E>) -> Value<'r>) -> Self {
        Self { name, of, value, asked: None, index: Index::None, public: true }
    }
    /// Filterable and indexed.
    pub const fn indexed(name: &'static str, of: Type, value: for<'r> fn(&'r Record<E>) -> Value<'r>) -> Self {
        Self::looked_up(name, of, value, Index::Many, true)
    }
    /// Filterable and unique.
    pub const fn unique(name: &'static str, of: Type, value: for<'r> fn(&'r Record<E>) -> Value<'r>) -> Self {
        Self::looked_up(name, of, value, Index::Unique, true)
    }
    /// Filterable and sortable from the index alone: a text of its own that every record has.
    pub const fn every(name: &'static str, value: for<'r> fn(&'r Record<E>) -> Value<'r>) -> Self {
        Self::looked_up(name, Type::Text, value, Index::Every, true)
    }
    /// Filterable, found out anew for each record: never indexed.
    pub const fn asked(name: &'static str, of: Type, value: Asked<E>) -> Self {
        Self { name, of, value: |_| Value::Null, asked: Some(value), index: Index::None, public: true }
    }
    /// Indexed for our own look-ups; clients do not see it.
    pub const fn inner(name: &'static str, of: Type, value: for<'r> fn(&'r Record<E>) -> Value<'r>) -> Self {
        Self::looked_up(name, of, value, Index::Many, false)
    }
    /// Unique for our own look-ups; clients do not see it.
    pub const fn inner_unique(name: &'static str, of: Type, value: for<'r> fn(&'r Record<E>) -> Value<'r>) -> Self {
        Self::looked_up(name, of, value, Index::Unique, false)
    }

    const fn looked_up(name: &'static str, of: Type, value: for<'r> fn(&'r Record<E>) -> Value<'r>, index: Index, public: bool) -> Self {
        assert!(matches!(of, Type::Text | Type::Set), "the index holds texts and the members of sets");
        Self { name, of, value, asked: None, index, public }
    }
}

/// Names that every stored kind has, in the order of their symbols; a kind's own fields follow.
const COMMON: [(&str, Type); 5] =
    [("id", Type::Text), ("createdAt", Type::Date), ("updatedAt", Type::Date), ("tags", Type::Any), ("isSystem", Type::Bool)];
const TAGS: usize = 3;

/// The field of a kind that a symbol names, if it is one of the kind's own.
pub fn field_of<E: Entity>(symbol: &Symbol) -> Option<&'static Field<E>> {
    E::FIELDS.get(symbol.field.checked_sub(COMMON.len())?)
}

/// Whether a symbol is the record's id.
pub fn is_id(symbol: &Symbol) -> bool {
    symbol.field == 0
}

/// The names a client may use of a kind, as `meta.filterableFields` shows them.
pub fn filterable<E: Entity>() -> impl Iterator<Item = &'static str> {
    let own = E::FIELDS.iter().filter(|f| f.public).map(|f| f.name);
    COMMON.iter().map(|(name, _)| *name).chain(own).chain(E::SECRET.iter().copied())
}

/// The vocabulary of a kind's lists.
pub struct Words<E>(PhantomData<fn() -> E>);

impl<E: Entity> Words<E> {
    /// There is nothing to it but the kind.
    pub const WORDS: &'static Self = &Self(PhantomData);
}

impl<E: Entity> Vocabulary for Words<E> {
    fn resolve(&self, name: &str) -> Option<(Symbol, Type)> {
        let whole = |field: usize, of| Some((Symbol { field, path: None }, of));
        if let Some(path) = name.strip_prefix("tags.") {
            return Some((Symbol { field: TAGS, path: Some(path.into()) }, Type::Any));
        }
        if let Some(at) = COMMON.iter().position(|(known, _)| *known == name && name != "tags") {
            return COMMON.get(at).and_then(|(_, of)| whole(at, *of));
        }
        let at = E::FIELDS.iter().position(|f| f.public && f.name == name)?;
        E::FIELDS.get(at).and_then(|f| whole(COMMON.len() + at, f.of))
    }

    fn linked(&self, set: &Symbol) -> Option<&dyn Vocabulary> {
        let name = field_of::<E>(set)?.name;
        E::REFERENCES.iter().find(|r| r.field == name).map(|r| (r.words)())
    }
}

/// A record as the query language sees it.
pub struct Seen<'r, E: Entity> {
    pub record: &'r Record<E>,
    pub facts: &'r dyn Facts,
}

impl<E: Entity> Subject for Seen<'_, E> {
    fn value(&self, symbol: &Symbol) -> Value<'_> {
        let record = self.record;
        match symbol.field {
            0 => record.id.as_str().into(),
            1 => Value::Date(record.created_at.millis()),
            2 => Value::Date(record.updated_at.millis()),
            TAGS => symbol.path.as_deref().map_or(Value::Null, |path| record.tags.value(path)),
            // Never false: saved filters know records that are not the system's as those without a value.
            4 => record.is_system.then_some(true).into(),
            _ => field_of::<E>(symbol).map_or(Value::Null, |f| f.asked.map_or_else(|| (f.value)(record), |ask| ask(record, self.facts))),
        }
    }

    fn linked(&self, set: &Symbol, visit: &mut dyn FnMut(&dyn Subject)) {
        let Some(field) = field_of::<E>(set) else { return };
        for reference in E::REFERENCES.iter().filter(|r| r.field == field.name) {
            for id in (reference.ids)(self.record) {
                (reference.visit)(self.facts, id, visit);
            }
        }
    }
}
