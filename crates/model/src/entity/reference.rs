//! References: which records of other kinds a record names, and what their deletion does to it. How
//! a kind declares its references: `reference_to.rs`.

use query::{FilterTarget, Vocabulary};

use super::{
    kind::{Kind, Stateful},
    lookup::Lookup,
    record::Record,
};
use crate::error::Result;

/// What the deletion of a record does to a record that refers to it.
pub enum OnDelete<E: Stateful> {
    /// The deletion is rejected.
    Restrict,
    /// The referring record is deleted too.
    Cascade,
    /// The id is removed from the referring record.
    Clear(fn(&mut Record<E>, &str)),
}

/// The place of a reference's ids in the JSON of requests. Dots separate nested members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdPath {
    /// An id, a list of ids, or a map whose keys are ids.
    Ids(&'static str),
    /// A list of roles, in which `@id` names a record.
    Roles(&'static str),
}

/// Ids of another kind in a record of kind `E`.
pub struct Reference<E: Stateful> {
    /// The name under which the ids are indexed, and which errors use.
    pub field: &'static str,
    /// The kind that the ids belong to.
    pub kind: Kind,
    /// The ids in a record. The records must exist when it is written.
    pub ids: for<'r> fn(&'r Record<E>) -> Vec<&'r str>,
    pub on_delete: OnDelete<E>,
    /// The paths of the ids in requests; `None` for the member with the name of the field. Empty if
    /// only code writes them.
    pub(super) paths: Option<&'static [IdPath]>,
    pub(super) names: fn() -> &'static dyn Vocabulary,
    pub(super) visit: Visit,
    /// Whether a referenced record is not under a tombstone.
    pub stands: fn(&dyn Lookup, &str) -> Result<bool>,
}

/// Passes the record with an id to a visitor, if it exists.
type Visit = fn(&dyn Lookup, &str, &mut dyn FnMut(&dyn FilterTarget));
