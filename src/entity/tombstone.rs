//! Endings: very many records of a kind that are over at once, long before anybody could delete them one by one.
//!
//! Not here: who ends them and when their rows go (`store/tx/tombstone.rs`). A kind says by which of its values that can happen in
//! [`Entity::ENDS_BY`]. Invariant: a record that was ended is found by nobody, and neither is one that goes with it.

use std::borrow::Cow;

use super::{entity_trait::Entity, facts::Facts, record::Record, reference::OnDelete};
use crate::{error::Result, query::Value};

/// Whether a stored record still counts: it was not ended, and what it goes with was not.
///
/// # Errors
/// The file cannot be read.
pub fn stands<E: Entity>(record: &Record<E>, facts: &dyn Facts) -> Result<bool> {
    if E::ENDS_BY.is_empty() || !facts.any_ended()? {
        return Ok(true);
    }
    for field in E::ENDS_BY {
        for value in values(record, field) {
            if facts.ended(E::KIND, field, &value)? > E::era(record) {
                return Ok(false);
            }
        }
    }
    for reference in E::REFERENCES.iter().filter(|reference| matches!(reference.on_delete, OnDelete::Cascade)) {
        for id in (reference.ids)(record) {
            if !(reference.stands)(facts, id)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// What a record has in an indexed field or a reference.
fn values<'r, E: Entity>(record: &'r Record<E>, name: &str) -> Vec<Cow<'r, str>> {
    if let Some(reference) = E::REFERENCES.iter().find(|reference| reference.field == name) {
        return (reference.ids)(record).into_iter().map(Cow::Borrowed).collect();
    }
    match E::FIELDS.iter().find(|field| field.name == name).map(|field| (field.value)(record)) {
        Some(Value::Text(text)) => vec![text],
        _ => Vec::new(),
    }
}
