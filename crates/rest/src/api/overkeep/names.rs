//! The names of records that circuits, channels and links refer to by id.

use std::{cell::RefCell, collections::HashMap};

use model::{
    entity::{EdgeRouter, Id, Identity, SdkInfo, Service, TransitRouter, TypedLookup},
    error::Result,
};
use schemars::JsonSchema;
use serde::Serialize;
use store::Read;

/// A reference to a record of the management interface.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[schemars(rename = "LiveName")]
pub(crate) struct Named {
    pub id: String,
    /// Blank if the record was deleted meanwhile.
    pub name: String,
}

/// The names of records within a transaction. Each name is read once.
pub(crate) struct RecordNames<'t> {
    tx: &'t Read<'t>,
    known: RefCell<HashMap<String, String>>,
}

impl<'t> RecordNames<'t> {
    /// Reads names in a transaction.
    pub(crate) fn of(tx: &'t Read<'t>) -> Self {
        Self {
            tx,
            known: RefCell::default(),
        }
    }

    /// An identity.
    ///
    /// # Errors
    /// Its record cannot be read.
    pub(crate) fn identity(&self, id: String) -> Result<Named> {
        self.named(id, |id| {
            Ok(self
                .tx
                .find(&Id::<Identity>::from_text(id))?
                .map(|identity| identity.spec.name))
        })
    }

    /// An identity, and the SDK of its last log-in; blank if there is none.
    ///
    /// # Errors
    /// Its record cannot be read.
    pub(crate) fn client(&self, id: String) -> Result<(Named, SdkInfo)> {
        let identity = self.tx.find(&Id::<Identity>::from_text(id.as_str()))?;
        let (name, sdk) = identity
            .map(|identity| (identity.spec.name, identity.state.sdk_info))
            .unwrap_or_default();
        Ok((Named { id, name }, sdk))
    }

    /// A service.
    ///
    /// # Errors
    /// Its record cannot be read.
    pub(crate) fn service(&self, id: String) -> Result<Named> {
        self.named(id, |id| {
            Ok(self
                .tx
                .find(&Id::<Service>::from_text(id))?
                .map(|service| service.spec.name))
        })
    }

    /// A router of either kind.
    ///
    /// # Errors
    /// Its record cannot be read.
    pub(crate) fn router(&self, id: String) -> Result<Named> {
        self.named(id, |id| {
            let edge = self
                .tx
                .find(&Id::<EdgeRouter>::from_text(id))?
                .map(|router| router.spec.name);
            Ok(edge.or(self
                .tx
                .find(&Id::<TransitRouter>::from_text(id))?
                .map(|router| router.spec.name)))
        })
    }

    fn named(
        &self,
        id: String,
        find: impl FnOnce(&str) -> Result<Option<String>>,
    ) -> Result<Named> {
        if let Some(name) = self.known.borrow().get(&id) {
            return Ok(Named {
                name: name.clone(),
                id,
            });
        }
        let name = find(&id)?.unwrap_or_default();
        self.known.borrow_mut().insert(id.clone(), name.clone());
        Ok(Named { id, name })
    }
}
