//! The only questions an entity may ask the world.

use std::collections::BTreeMap;

use super::{AnyRecord, Entity, Id, Kind, Record};
use crate::{
    clock::Timestamp,
    error::{Error, Result},
};

/// What a transaction tells. Both kinds of transaction are one.
pub trait Facts {
    /// The record of a kind with an id, as a `Record<E>` of that kind.
    ///
    /// # Errors
    /// It is damaged, or the file cannot be read.
    fn record(&self, kind: Kind, id: &str) -> Result<Option<AnyRecord>>;

    /// The ids of a kind's records whose indexed field or reference `field` has this value, ascending.
    ///
    /// # Errors
    /// The file cannot be read.
    fn ids(&self, kind: Kind, field: &'static str, value: &str) -> Result<Vec<String>>;

    /// Whether a kind has a record whose indexed field or reference `field` has this value.
    ///
    /// # Errors
    /// The file cannot be read.
    fn any(&self, kind: Kind, field: &'static str, value: &str) -> Result<bool>;

    /// The connection of a router, while it has one.
    fn link(&self, router: &str) -> Option<Link>;

    /// The time of the transaction.
    fn now(&self) -> Timestamp;
}

/// What a connected router says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    pub hostname: String,
    /// Protocol to address: `tls` to `tls://host:port`.
    pub protocols: BTreeMap<String, String>,
    pub sync_status: String,
}

/// The same questions, typed.
pub trait FactsExt {
    /// The record with an id, if there is one.
    ///
    /// # Errors
    /// It is damaged, or the file cannot be read.
    fn find<E: Entity>(&self, id: &Id<E>) -> Result<Option<Record<E>>>;

    /// The record with an id.
    ///
    /// # Errors
    /// There is none, or as in [`FactsExt::find`].
    fn get<E: Entity>(&self, id: &Id<E>) -> Result<Record<E>>;

    /// The records whose indexed field or reference `field` has this value, by id.
    ///
    /// # Errors
    /// As in [`FactsExt::find`].
    fn linked<E: Entity>(&self, field: &'static str, value: &str) -> Result<Vec<Record<E>>>;
}

impl<F: Facts + ?Sized> FactsExt for F {
    fn find<E: Entity>(&self, id: &Id<E>) -> Result<Option<Record<E>>> {
        let Some(found) = self.record(E::KIND, id.as_str())? else { return Ok(None) };
        found.downcast().map(|record| Some(*record)).map_err(|_| Error::Internal(format!("a {} is of another kind", E::KIND.name)))
    }

    fn get<E: Entity>(&self, id: &Id<E>) -> Result<Record<E>> {
        self.find(id)?.ok_or_else(|| Error::NotFound { kind: E::KIND.name, id: id.to_string(), field: None })
    }

    fn linked<E: Entity>(&self, field: &'static str, value: &str) -> Result<Vec<Record<E>>> {
        let ids = self.ids(E::KIND, field, value)?;
        ids.into_iter().map(|id| self.get(&Id::from_text(id))).collect()
    }
}
