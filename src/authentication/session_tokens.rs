//! Which sessions need a signed token.
//!
//! Routers from version 1.7 on read only signed tokens. A router 1.1 reads any text, and ends at once what rests on a session that ends only if
//! its token is not signed. A signature also costs more than all the rest of a session.

use crate::{
    access::Access,
    entity::{EdgeRouter, Id, Session, TypedLookup},
    error::Result,
    store::Store,
};

/// Whether a router over which a session may be used reads only signed tokens, or may do so because it has enrolled and was not seen since the
/// start.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn needs_signed(store: &Store, access: &Access, session: &Session) -> Result<bool> {
    let online = store.online();
    let mut unknown: Vec<Id<EdgeRouter>> = Vec::new();
    let is_known = access.ask(|engine| {
        let common = engine.common_edge_routers(session.identity_id.as_str(), session.service_id.as_str());
        common.ids().filter(|id| id.as_ref() != EdgeRouter::BUILT_IN).any(|id| {
            let reads_signed = online.reads_signed(id);
            unknown.extend(reads_signed.is_none().then(|| Id::from_text(id.as_ref())));
            reads_signed == Some(true)
        })
    });
    if is_known || unknown.is_empty() {
        return Ok(is_known);
    }
    store.read(|tx| {
        for id in &unknown {
            if tx.find(id)?.is_some_and(|router| router.state.is_verified) {
                return Ok(true);
            }
        }
        Ok(false)
    })
}

/// Whether a router over which a session may be used is known to read only signed tokens.
pub(crate) fn is_read_signed(store: &Store, access: &Access, session: &Session) -> bool {
    let online = store.online();
    access.ask(|engine| {
        let common = engine.common_edge_routers(session.identity_id.as_str(), session.service_id.as_str());
        common.ids().any(|id| online.reads_signed(id) == Some(true))
    })
}
