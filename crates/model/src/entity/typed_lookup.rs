//! The queries of [`Lookup`], typed by the kind of the records.

use super::{
    entity_trait::Entity,
    kind::Kind,
    lookup::Lookup,
    record::{Id, Record},
    tombstone,
};
use crate::error::{Error, Result};

/// The queries of [`Lookup`], with typed ids and records.
pub trait TypedLookup {
    /// The record with an id, if there is one. A record under a tombstone is not found.
    ///
    /// # Errors
    /// It is damaged, or the file cannot be read.
    fn find<E: Entity>(&self, id: &Id<E>) -> Result<Option<Record<E>>>;

    /// The record with an id.
    ///
    /// # Errors
    /// [`Error::NotFound`], or as in [`TypedLookup::find`].
    fn get<E: Entity>(&self, id: &Id<E>) -> Result<Record<E>>;

    /// The records with this value of the indexed field or reference `field`, ordered by id.
    ///
    /// # Errors
    /// As in [`TypedLookup::find`].
    fn linked<E: Entity>(&self, field: &'static str, value: &str) -> Result<Vec<Record<E>>>;

    /// Whether there is any such record.
    ///
    /// # Errors
    /// As in [`TypedLookup::find`].
    fn has<E: Entity>(&self, field: &'static str, value: &str) -> Result<bool>;
}

/// The error for a missing record of a kind.
pub fn missing(kind: Kind, id: impl ToString) -> Error {
    Error::NotFound {
        kind: kind.name,
        id: id.to_string(),
        field: None,
    }
}

impl<F: Lookup + ?Sized> TypedLookup for F {
    fn find<E: Entity>(&self, id: &Id<E>) -> Result<Option<Record<E>>> {
        let Some(found) = self.record(E::KIND, id.as_str())? else {
            return Ok(None);
        };
        let record = found
            .downcast::<Record<E>>()
            .map_err(|_| Error::Internal(format!("a {} is of another kind", E::KIND.name)))?;
        Ok(tombstone::stands(&record, &self)?.then_some(*record))
    }

    fn get<E: Entity>(&self, id: &Id<E>) -> Result<Record<E>> {
        self.find(id)?.ok_or_else(|| missing(E::KIND, id))
    }

    fn linked<E: Entity>(&self, field: &'static str, value: &str) -> Result<Vec<Record<E>>> {
        let mut records = Vec::new();
        for id in self.ids(E::KIND, field, value)? {
            match self.find(&Id::from_text(id.as_str()))? {
                Some(record) => records.push(record),
                None if E::ENDS_BY.is_empty() => return Err(missing(E::KIND, id)),
                None => {}
            }
        }
        Ok(records)
    }

    fn has<E: Entity>(&self, field: &'static str, value: &str) -> Result<bool> {
        if E::ENDS_BY.is_empty() || !self.any_tombstone()? {
            return self.any(E::KIND, field, value);
        }
        for id in self.ids(E::KIND, field, value)? {
            if self.find(&Id::<E>::from_text(id))?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
