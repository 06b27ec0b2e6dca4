//! Fields: names, the value that each has in a record, and whether records are found by it. What a list knows of them: `words.rs`.

use super::{facts::Facts, kind::Stateful, record::Record};
use crate::query::{Type, Value};

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
pub struct Field<E: Stateful> {
    pub name: &'static str,
    pub of: Type,
    pub value: for<'r> fn(&'r Record<E>) -> Value<'r>,
    /// Where the record alone does not tell: the value with the help of what the world knows. Then `value` has none, and there
    /// is no index.
    pub asked: Option<Asked<E>>,
    pub index: Index,
    pub access: FieldAccess,
}

/// Who uses a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldAccess {
    /// Clients, and lists tell them so in `meta.filterableFields`.
    Listed,
    /// Clients, although lists do not tell them: the recorded lists tell other names.
    Unlisted,
    /// Only code.
    Inner,
}

/// A value that is found out when a list is filtered.
pub type Asked<E> = for<'r> fn(&'r Record<E>, &dyn Facts) -> Value<'r>;

impl<E: Stateful> Field<E> {
    /// Filterable, not indexed.
    pub const fn plain(name: &'static str, of: Type, value: for<'r> fn(&'r Record<E>) -> Value<'r>) -> Self {
        Self { name, of, value, asked: None, index: Index::None, access: FieldAccess::Listed }
    }
    /// Filterable and indexed.
    pub const fn indexed(name: &'static str, of: Type, value: for<'r> fn(&'r Record<E>) -> Value<'r>) -> Self {
        Self::looked_up(name, of, value, Index::Many, FieldAccess::Listed)
    }
    /// Filterable and unique.
    pub const fn unique(name: &'static str, of: Type, value: for<'r> fn(&'r Record<E>) -> Value<'r>) -> Self {
        Self::looked_up(name, of, value, Index::Unique, FieldAccess::Listed)
    }
    /// Filterable and sortable from the index alone: a text of its own that every record has.
    pub const fn every(name: &'static str, value: for<'r> fn(&'r Record<E>) -> Value<'r>) -> Self {
        Self::looked_up(name, Type::Text, value, Index::Every, FieldAccess::Listed)
    }
    /// Filterable, found out anew for each record: never indexed.
    pub const fn asked(name: &'static str, of: Type, value: Asked<E>) -> Self {
        Self { name, of, value: |_| Value::Null, asked: Some(value), index: Index::None, access: FieldAccess::Listed }
    }
    /// The same, not told among the names of a list.
    pub const fn unlisted(name: &'static str, of: Type, value: Asked<E>) -> Self {
        Self { name, of, value: |_| Value::Null, asked: Some(value), index: Index::None, access: FieldAccess::Unlisted }
    }
    /// Indexed for our own look-ups; clients do not see it.
    pub const fn inner(name: &'static str, of: Type, value: for<'r> fn(&'r Record<E>) -> Value<'r>) -> Self {
        Self::looked_up(name, of, value, Index::Many, FieldAccess::Inner)
    }
    /// Unique for our own look-ups; clients do not see it.
    pub const fn inner_unique(name: &'static str, of: Type, value: for<'r> fn(&'r Record<E>) -> Value<'r>) -> Self {
        Self::looked_up(name, of, value, Index::Unique, FieldAccess::Inner)
    }

    const fn looked_up(
        name: &'static str,
        of: Type,
        value: for<'r> fn(&'r Record<E>) -> Value<'r>,
        index: Index,
        access: FieldAccess,
    ) -> Self {
        assert!(matches!(of, Type::Text | Type::Set), "the index holds texts and the members of sets");
        Self { name, of, value, asked: None, index, access }
    }
}
