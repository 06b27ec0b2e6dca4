//! Whether a router may connect, by its record.

use model::{
    entity::{EdgeRouter, Id, TransitRouter, TypedLookup, edge_router::State},
    error::Result,
};
use pki::Certificate;
use store::Read;

use super::shared_state::Network;

impl Network {
    /// The certificates of a router; `None` if it may not connect.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn enrolled(&self, id: &str) -> Result<Option<State>> {
        let found = self.store().read(|tx| record_of(tx, id))?;
        Ok(found
            .filter(|(is_disabled, state)| !is_disabled && state.is_verified)
            .map(|(_, state)| state))
    }

    /// Whether a certificate belongs to a router that may connect.
    pub(crate) fn is_of_router(&self, leaf: &Certificate, id: &str) -> bool {
        let is_issued =
            self.keystore.authority().has_issued(leaf) && leaf.valid_at(self.now().seconds());
        is_issued
            && matches!(self.enrolled(id), Ok(Some(state)) if state.has_fingerprint(&leaf.fingerprint()))
    }
}

/// Whether a router is disabled, and its certificates; `None` if it does not exist.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn record_of(tx: &Read<'_>, id: &str) -> Result<Option<(bool, State)>> {
    if let Some(router) = tx.find(&Id::<EdgeRouter>::from_text(id))? {
        return Ok(Some((router.spec.disabled, router.state)));
    }
    Ok(tx
        .find(&Id::<TransitRouter>::from_text(id))?
        .map(|router| (router.spec.disabled, router.state)))
}
