//! The names by which the lists of a kind are filtered and sorted, and a record as a filter sees
//! it.

use std::marker::PhantomData;

use query::{FilterTarget, Symbol, Type, Value, Vocabulary};

use super::{
    entity_trait::Entity,
    field::{Field, FieldAccess},
    lookup::Lookup,
    record::Record,
};

/// The fields that every stored kind has, in the order of their symbols; a kind's own fields
/// follow.
const COMMON: [(&str, Type); 5] = [
    ("id", Type::Text),
    ("createdAt", Type::Date),
    ("updatedAt", Type::Date),
    ("tags", Type::Any),
    ("isSystem", Type::Bool),
];
const TAGS: usize = 3;

/// The field of a kind that a symbol names, if it is one of the kind's own.
pub fn field_of<E: Entity>(symbol: &Symbol) -> Option<&'static Field<E>> {
    E::FIELDS.get(symbol.field.checked_sub(COMMON.len())?)
}

/// Whether a symbol is the record's id.
pub fn is_id(symbol: &Symbol) -> bool {
    symbol.field == 0
}

/// The filter names of a kind in `meta.filterableFields`.
pub fn filterable<E: Entity>() -> impl Iterator<Item = &'static str> {
    let own = E::FIELDS
        .iter()
        .filter(|f| f.access == FieldAccess::Listed)
        .map(|f| f.name);
    COMMON
        .iter()
        .map(|(name, _)| *name)
        .chain(own)
        .chain(E::SECRET.iter().copied())
}

/// The vocabulary of one view of a kind: the names that filter and sort its lists. A filter reveals
/// values, so a view accepts only the names of members that it shows.
pub struct FilterNames<E> {
    shown: Shown,
    /// Names that sort a list but do not filter it.
    ordering: &'static [&'static str],
    of: PhantomData<fn() -> E>,
}

/// Which names a view knows.
#[derive(Clone, Copy)]
enum Shown {
    /// All public ones.
    All,
    /// The members of [`Entity::View`], which never shows `isSystem`.
    Whole,
    /// These; `tags` stands for the members of that map.
    Only(&'static [&'static str]),
}

impl<E: Entity> FilterNames<E> {
    /// All public names of the kind, for administrators.
    pub const ALL: &'static Self = &Self::new(Shown::All);
    /// The names of everything in [`Entity::View`], for other callers of lists that show that view.
    pub const WHOLE: &'static Self = &Self::new(Shown::Whole);

    const fn new(shown: Shown) -> Self {
        Self {
            shown,
            ordering: &[],
            of: PhantomData,
        }
    }

    /// Only these names; `tags` stands for the members of that map.
    pub const fn only(names: &'static [&'static str]) -> Self {
        Self::new(Shown::Only(names))
    }

    /// The same, with names that sort a list but do not filter it.
    #[must_use]
    pub const fn ordered_by(self, names: &'static [&'static str]) -> Self {
        Self {
            ordering: names,
            ..self
        }
    }

    /// The names for a list that shows [`Entity::View`].
    pub fn of_whole(is_admin: bool) -> &'static Self {
        if is_admin { Self::ALL } else { Self::WHOLE }
    }

    /// Every name, as in `meta.filterableFields`.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        filterable::<E>().filter(|name| self.knows(name))
    }

    fn knows(&self, name: &str) -> bool {
        let name = if name.starts_with("tags.") {
            "tags"
        } else {
            name
        };
        match self.shown {
            Shown::All => true,
            Shown::Whole => name != "isSystem",
            Shown::Only(names) => names.contains(&name),
        }
    }

    fn find(name: &str) -> Option<(Symbol, Type)> {
        let whole = |field: usize, of| Some((Symbol { field, path: None }, of));
        if let Some(path) = name.strip_prefix("tags.") {
            return Some((
                Symbol {
                    field: TAGS,
                    path: Some(path.into()),
                },
                Type::Any,
            ));
        }
        if let Some(at) = COMMON
            .iter()
            .position(|(known, _)| *known == name && name != "tags")
        {
            return COMMON.get(at).and_then(|(_, of)| whole(at, *of));
        }
        let at = E::FIELDS
            .iter()
            .position(|f| f.access != FieldAccess::Inner && f.name == name)?;
        E::FIELDS
            .get(at)
            .and_then(|f| whole(COMMON.len() + at, f.of))
    }
}

impl<E: Entity> Vocabulary for FilterNames<E> {
    fn resolve(&self, name: &str) -> Option<(Symbol, Type)> {
        if self.knows(name) {
            Self::find(name)
        } else {
            None
        }
    }

    fn order(&self, name: &str) -> Option<(Symbol, Type)> {
        if self.knows(name) || self.ordering.contains(&name) {
            Self::find(name)
        } else {
            None
        }
    }

    fn linked(&self, set: &Symbol) -> Option<&dyn Vocabulary> {
        // A view that does not show all of its own kind shows only the ids of other kinds.
        if !matches!(self.shown, Shown::All) {
            return None;
        }
        let name = field_of::<E>(set)?.name;
        E::REFERENCES
            .iter()
            .find(|r| r.field == name)
            .map(|r| (r.names)())
    }
}

/// A record as a subject of the query language.
pub struct RecordTarget<'r, E: Entity> {
    pub record: &'r Record<E>,
    pub lookup: &'r dyn Lookup,
}

impl<E: Entity> FilterTarget for RecordTarget<'_, E> {
    fn value(&self, symbol: &Symbol) -> Value<'_> {
        let record = self.record;
        match symbol.field {
            0 => record.id.as_str().into(),
            1 => Value::Date(record.created_at.millis()),
            2 => Value::Date(record.updated_at.millis()),
            TAGS => symbol
                .path
                .as_deref()
                .map_or(Value::Null, |path| record.tags.value(path)),
            // Never false: saved filters expect no value for records that do not belong to the
            // system.
            4 => record.is_system.then_some(true).into(),
            _ => field_of::<E>(symbol).map_or(Value::Null, |f| {
                f.asked
                    .map_or_else(|| (f.value)(record), |ask| ask(record, self.lookup))
            }),
        }
    }

    fn linked(&self, set: &Symbol, visit: &mut dyn FnMut(&dyn FilterTarget)) {
        let Some(field) = field_of::<E>(set) else {
            return;
        };
        for reference in E::REFERENCES.iter().filter(|r| r.field == field.name) {
            for id in (reference.ids)(self.record) {
                (reference.visit)(self.lookup, id, visit);
            }
        }
    }
}
