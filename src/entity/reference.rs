//! References: which records of other kinds a record names, and what their deletion does to it. How a kind says so: `reference_to.rs`.

use super::{
    facts::Facts,
    kind::{Kind, Stateful},
    record::Record,
};
use crate::{
    error::Result,
    query::{Subject, Vocabulary},
};

/// What the deletion of a record does to one that refers to it.
pub enum OnDelete<E: Stateful> {
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
pub struct Reference<E: Stateful> {
    /// Under this name the ids are indexed, and errors speak of it.
    pub field: &'static str,
    /// The kind that the ids are of.
    pub kind: Kind,
    /// The ids in a record. They must exist when it is written.
    pub ids: for<'r> fn(&'r Record<E>) -> Vec<&'r str>,
    pub on_delete: OnDelete<E>,
    /// Where requests write the ids; `None`: in the member that is called like the field. Empty where only code writes them.
    pub(super) places: Option<&'static [Place]>,
    pub(super) words: fn() -> &'static dyn Vocabulary,
    pub(super) visit: Visit,
    /// Whether what it names was not ended along with many others.
    pub stands: fn(&dyn Facts, &str) -> Result<bool>,
}

/// Shows a record with an id, if there is one.
type Visit = fn(&dyn Facts, &str, &mut dyn FnMut(&dyn Subject));
