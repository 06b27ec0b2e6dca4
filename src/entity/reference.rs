//! References: which records of other kinds a record names, and what their deletion does to it.

use super::{Entity, Facts, FactsExt, Id, Kind, Record, Seen, Words};
use crate::{
    error::Result,
    query::{Subject, Vocabulary},
};

/// What the deletion of a record does to one that refers to it.
pub enum OnDelete<E: Entity> {
    /// It is refused.
    Restrict,
    /// The referring record goes too.
    Cascade,
    /// The id is taken out of the referring record.
    Clear(fn(&mut Record<E>, &str)),
}

/// Where ids of a reference stand in the JSON that requests write. Dots lead into members of members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// An id, a list of ids, or a map whose keys are ids.
    Ids(&'static str),
    /// A list of roles, in which `@id` names a record.
    Roles(&'static str),
}

/// Ids of one other kind in a record of kind `E`.
pub struct Reference<E: Entity> {
    /// Under this name the ids are indexed, and errors speak of it.
    pub field: &'static str,
    /// The kind that the ids are of.
    pub kind: Kind,
    /// The ids in a record. They must exist when it is written.
    pub ids: for<'r> fn(&'r Record<E>) -> Vec<&'r str>,
    pub on_delete: OnDelete<E>,
    /// Where requests write the ids; `None`: in the member that is called like the field. Empty where only code writes them.
    places: Option<&'static [Place]>,
    pub(super) words: fn() -> &'static dyn Vocabulary,
    pub(super) visit: Visit,
    /// Whether what it names was not ended along with many others.
    pub stands: fn(&dyn Facts, &str) -> Result<bool>,
}

/// Shows a record with an id, if there is one.
type Visit = fn(&dyn Facts, &str, &mut dyn FnMut(&dyn Subject));

impl<E: Entity> Reference<E> {
    /// Ids of kind `T`.
    pub const fn to<T: Entity>(field: &'static str, ids: for<'r> fn(&'r Record<E>) -> Vec<&'r str>, on_delete: OnDelete<E>) -> Self {
        Self { field, kind: T::KIND, ids, on_delete, places: None, words: words::<T>, visit: visit::<T>, stands: stands::<T> }
    }

    /// Ids of kind `T` that requests write in these places.
    pub const fn placed<T: Entity>(
        field: &'static str,
        places: &'static [Place],
        ids: for<'r> fn(&'r Record<E>) -> Vec<&'r str>,
        on_delete: OnDelete<E>,
    ) -> Self {
        Self { field, kind: T::KIND, ids, on_delete, places: Some(places), words: words::<T>, visit: visit::<T>, stands: stands::<T> }
    }

    /// Where requests write the ids.
    pub fn places(&self) -> Vec<Place> {
        self.places.map_or_else(|| vec![Place::Ids(self.field)], <[Place]>::to_vec)
    }
}

fn stands<T: Entity>(facts: &dyn Facts, id: &str) -> Result<bool> {
    Ok(T::ENDS_BY.is_empty() || facts.find::<T>(&Id::from_text(id))?.is_some())
}

fn words<T: Entity>() -> &'static dyn Vocabulary {
    Words::<T>::ALL
}

fn visit<T: Entity>(facts: &dyn Facts, id: &str, see: &mut dyn FnMut(&dyn Subject)) {
    if let Ok(Some(record)) = facts.find::<T>(&Id::from_text(id)) {
        see(&Seen { record: &record, facts });
    }
}
