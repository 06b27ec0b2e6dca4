//! Fields: their names, the value of each in a record, and how it is indexed. Which fields a list
//! accepts in filters: `filter_names.rs`.

use query::{Type, Value};

use super::{kind::Stateful, lookup::Lookup, record::Record};

/// How the store finds records by a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Index {
    /// Not indexed: a filter on it reads every candidate.
    None,
    /// By value; several records may share one.
    Many,
    /// By value, unique within the kind. An empty or absent value is not indexed.
    Unique,
    /// By value, unique within the kind, never empty. So the index alone lists all records in the
    /// order of their values.
    Every,
}

/// A name, its value in a record, and how it is indexed.
pub struct Field<E: Stateful> {
    pub name: &'static str,
    pub of: Type,
    pub value: for<'r> fn(&'r Record<E>) -> Value<'r>,
    /// Computes the value, if it depends on more than the record. Then `value` returns no value,
    /// and the field is not indexed.
    pub asked: Option<Asked<E>>,
    pub index: Index,
    /// Reads from a value the id of the only record that may have that value, if the value contains
    /// it.
    pub id_in: Option<fn(&str) -> Option<String>>,
    pub access: FieldAccess,
}

/// Who may use a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldAccess {
    /// Clients; `meta.filterableFields` lists it.
    Listed,
    /// Clients, but `meta.filterableFields` does not list it, because the recorded lists do not.
    Unlisted,
    /// Only code.
    Inner,
}

/// A value that is computed when a list is filtered.
pub(crate) type Asked<E> = for<'r> fn(&'r Record<E>, &dyn Lookup) -> Value<'r>;

impl<E: Stateful> Field<E> {
    /// Filterable, not indexed.
    pub const fn plain(
        name: &'static str,
        of: Type,
        value: for<'r> fn(&'r Record<E>) -> Value<'r>,
    ) -> Self {
        Self {
            name,
            of,
            value,
            asked: None,
            index: Index::None,
            id_in: None,
            access: FieldAccess::Listed,
        }
    }
    /// Filterable, not indexed; `id_in` reads the id of the only possible record from most values.
    pub(crate) const fn naming(
        name: &'static str,
        value: for<'r> fn(&'r Record<E>) -> Value<'r>,
        id_in: fn(&str) -> Option<String>,
    ) -> Self {
        Self {
            id_in: Some(id_in),
            ..Self::plain(name, Type::Text, value)
        }
    }
    /// Filterable and indexed.
    pub const fn indexed(
        name: &'static str,
        of: Type,
        value: for<'r> fn(&'r Record<E>) -> Value<'r>,
    ) -> Self {
        Self::looked_up(name, of, value, Index::Many, FieldAccess::Listed)
    }
    /// Filterable and unique.
    pub const fn unique(
        name: &'static str,
        of: Type,
        value: for<'r> fn(&'r Record<E>) -> Value<'r>,
    ) -> Self {
        Self::looked_up(name, of, value, Index::Unique, FieldAccess::Listed)
    }
    /// Filterable and sortable by the index alone: a unique text that every record has.
    pub const fn every(name: &'static str, value: for<'r> fn(&'r Record<E>) -> Value<'r>) -> Self {
        Self::looked_up(name, Type::Text, value, Index::Every, FieldAccess::Listed)
    }
    /// Filterable and computed for each record; never indexed.
    pub const fn asked(name: &'static str, of: Type, value: Asked<E>) -> Self {
        Self {
            name,
            of,
            value: |_| Value::Null,
            asked: Some(value),
            index: Index::None,
            id_in: None,
            access: FieldAccess::Listed,
        }
    }
    /// Like [`Field::asked`], but not in `meta.filterableFields`.
    pub(crate) const fn unlisted(name: &'static str, of: Type, value: Asked<E>) -> Self {
        Self {
            name,
            of,
            value: |_| Value::Null,
            asked: Some(value),
            index: Index::None,
            id_in: None,
            access: FieldAccess::Unlisted,
        }
    }
    /// Indexed for internal look-ups only.
    pub const fn inner(
        name: &'static str,
        of: Type,
        value: for<'r> fn(&'r Record<E>) -> Value<'r>,
    ) -> Self {
        Self::looked_up(name, of, value, Index::Many, FieldAccess::Inner)
    }
    /// Unique, for internal look-ups only.
    pub(crate) const fn inner_unique(
        name: &'static str,
        of: Type,
        value: for<'r> fn(&'r Record<E>) -> Value<'r>,
    ) -> Self {
        Self::looked_up(name, of, value, Index::Unique, FieldAccess::Inner)
    }

    const fn looked_up(
        name: &'static str,
        of: Type,
        value: for<'r> fn(&'r Record<E>) -> Value<'r>,
        index: Index,
        access: FieldAccess,
    ) -> Self {
        assert!(
            matches!(of, Type::Text | Type::Set),
            "the index holds texts and the members of sets"
        );
        Self {
            name,
            of,
            value,
            asked: None,
            index,
            id_in: None,
            access,
        }
    }
}
