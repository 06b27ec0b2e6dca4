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

impl<E: Entity> Field<E> {
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
    let own = E::FIELDS.iter().filter(|f| f.access == FieldAccess::Listed).map(|f| f.name);
    COMMON.iter().map(|(name, _)| *name).chain(own).chain(E::SECRET.iter().copied())
}

/// The vocabulary of one view of a kind: the names by which its lists are filtered and sorted. A filter tells what a value is,
/// so a view knows only the names of members that it shows.
pub struct Words<E> {
    shown: Shown,
    /// Names that order a list although they do not filter it.
    ordering: &'static [&'static str],
    of: PhantomData<fn() -> E>,
}

/// Which names a view knows.
#[derive(Clone, Copy)]
enum Shown {
    /// All public ones.
    All,
    /// Those of the members of [`Entity::View`], which never shows `isSystem`.
    Whole,
    /// These; `tags` stands for the members of that map.
    Only(&'static [&'static str]),
}

impl<E: Entity> Words<E> {
    /// All public names of the kind: what administrators use.
    pub const ALL: &'static Self = &Self::new(Shown::All);
    /// The names of everything that [`Entity::View`] shows: for other callers of lists that show records as their kind does.
    pub const WHOLE: &'static Self = &Self::new(Shown::Whole);

    const fn new(shown: Shown) -> Self {
        Self { shown, ordering: &[], of: PhantomData }
    }

    /// These names only; `tags` stands for the members of that map.
    pub const fn only(names: &'static [&'static str]) -> Self {
        Self::new(Shown::Only(names))
    }

    /// The same, with names that order a list and do not filter it.
    #[must_use]
    pub const fn ordered_by(self, names: &'static [&'static str]) -> Self {
        Self { ordering: names, ..self }
    }

    /// The names for a list that shows records as their kind does.
    pub fn of_whole(is_admin: bool) -> &'static Self {
        if is_admin { Self::ALL } else { Self::WHOLE }
    }

    /// Every name, as `meta.filterableFields` shows them.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        filterable::<E>().filter(|name| self.knows(name))
    }

    fn knows(&self, name: &str) -> bool {
        let name = if name.starts_with("tags.") { "tags" } else { name };
        match self.shown {
            Shown::All => true,
            Shown::Whole => name != "isSystem",
            Shown::Only(names) => names.contains(&name),
        }
    }

    fn find(name: &str) -> Option<(Symbol, Type)> {
        let whole = |field: usize, of| Some((Symbol { field, path: None }, of));
        if let Some(path) = name.strip_prefix("tags.") {
            return Some((Symbol { field: TAGS, path: Some(path.into()) }, Type::Any));
        }
        if let Some(at) = COMMON.iter().position(|(known, _)| *known == name && name != "tags") {
            return COMMON.get(at).and_then(|(_, of)| whole(at, *of));
        }
        let at = E::FIELDS.iter().position(|f| f.access != FieldAccess::Inner && f.name == name)?;
        E::FIELDS.get(at).and_then(|f| whole(COMMON.len() + at, f.of))
    }
}

impl<E: Entity> Vocabulary for Words<E> {
    fn resolve(&self, name: &str) -> Option<(Symbol, Type)> {
        if self.knows(name) { Self::find(name) } else { None }
    }

    fn order(&self, name: &str) -> Option<(Symbol, Type)> {
        if self.knows(name) || self.ordering.contains(&name) { Self::find(name) } else { None }
    }

    fn linked(&self, set: &Symbol) -> Option<&dyn Vocabulary> {
        // A view that does not show all of its own kind shows the ids of others and no more of them.
        if !matches!(self.shown, Shown::All) {
            return None;
        }
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
