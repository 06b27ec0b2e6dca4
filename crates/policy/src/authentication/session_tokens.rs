//! Which sessions need a signed token.
//!
//! Routers from version 1.7 on read only signed tokens. A router 1.1 reads any text, and ends at
//! once what rests on a session that ends only if its token is not signed. A signature also costs
//! more than all the rest of a session.

use model::entity::Session;
use store::Store;

use crate::access::Access;

/// Whether a router over which a session may be used reads only signed tokens, or may do so because
/// it has enrolled and was not seen since the start.
pub fn needs_signed(store: &Store, access: &Access, session: &Session) -> bool {
    access.ask(|engine| {
        let common =
            engine.common_edge_routers(session.identity_id.as_str(), session.service_id.as_str());
        store
            .online()
            .may_read_signed(|router| common.contains(router))
    })
}

/// Whether a router over which a session may be used is known to read only signed tokens.
pub fn is_read_signed(store: &Store, access: &Access, session: &Session) -> bool {
    access.ask(|engine| {
        let common =
            engine.common_edge_routers(session.identity_id.as_str(), session.service_id.as_str());
        store
            .online()
            .reads_signed(|router| common.contains(router))
    })
}
