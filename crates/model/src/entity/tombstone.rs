//! Tombstones: marks that very many records of a kind are deleted, long before they are removed one
//! by one.
//!
//! Not here: writing them and removing the records (`crates/store/src/tx/tombstone.rs`). A kind
//! names the values that tombstones are written for in [`Entity::ENDS_BY`]. Invariant: a record
//! under a tombstone is not found, and neither are its dependents.

use std::borrow::Cow;

use query::Value;

use super::{entity_trait::Entity, lookup::Lookup, record::Record, reference::OnDelete};
use crate::error::Result;

/// Whether a stored record still exists: neither it nor a record that it depends on is under a
/// tombstone.
///
/// # Errors
/// The file cannot be read.
pub fn stands<E: Entity>(record: &Record<E>, lookup: &dyn Lookup) -> Result<bool> {
    if E::ENDS_BY.is_empty() || !lookup.any_tombstone()? {
        return Ok(true);
    }
    for field in E::ENDS_BY {
        for value in values(record, field) {
            if lookup.ended_before(E::KIND, field, &value)? > E::epoch(record) {
                return Ok(false);
            }
        }
    }
    for reference in E::REFERENCES
        .iter()
        .filter(|reference| matches!(reference.on_delete, OnDelete::Cascade))
    {
        for id in (reference.ids)(record) {
            if !(reference.stands)(lookup, id)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// The values of an indexed field or reference of a record.
fn values<'r, E: Entity>(record: &'r Record<E>, name: &str) -> Vec<Cow<'r, str>> {
    // A field may hold more than references: the authenticator of a session may also be a signer.
    if let Some(field) = E::FIELDS.iter().find(|field| field.name == name) {
        return if let Value::Text(text) = (field.value)(record) {
            vec![text]
        } else {
            Vec::new()
        };
    }
    let reference = E::REFERENCES
        .iter()
        .find(|reference| reference.field == name);
    reference
        .map(|reference| {
            (reference.ids)(record)
                .into_iter()
                .map(Cow::Borrowed)
                .collect()
        })
        .unwrap_or_default()
}
