//! What answers are made with. Put together in `controller/`.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::{
    cache::network_tokens::NetworkTokens,
    cache::{json_cache::JsonCache, routers::Routers},
    history_watchers::Watchers,
    limits::Limits,
    openapi::descriptions::Descriptions,
};
use crate::{
    access::Access,
    authentication::{Caller, Codes, Passwords, Refusals, Sessions, Tokens},
    change::Changes,
    clock::Clock,
    enrollment::Reserved,
    error::Result,
    maintenance::Maintenance,
    network::Router,
    pki::Keystore,
    posture::Posture,
    store::Store,
};

/// Every service a function in a route table may use.
pub struct AppState {
    pub store: Store,
    pub changes: Changes,
    pub access: Access,
    pub posture: Posture,
    pub keystore: Arc<Keystore>,
    /// The edge router of this process.
    pub router: Router,
    pub maintenance: Maintenance,
    pub descriptions: Descriptions,
    pub sessions: Sessions,
    pub passwords: Passwords,
    pub codes: Codes,
    pub tokens: Tokens,
    pub refusals: Refusals,
    pub watchers: Arc<Watchers>,
    pub clock: Clock,
    /// New at every start; clients read the version again when it changes.
    pub instance: String,
    /// `host:port` under which clients reach this controller, the one they are sent to first.
    pub address: String,
    /// That one and all others.
    pub addresses: Vec<String>,
    /// What routers may not be called.
    pub reserved: Reserved,
    /// When this process started.
    pub started: crate::clock::Timestamp,
    /// They may become others while requests are answered.
    pub limits: ArcSwap<Limits>,
    /// Records as text, for lists and details.
    pub texts: JsonCache,
    /// Edge routers, for sessions.
    pub routers: Routers,
    /// What anybody is told of the network.
    pub network_tokens: NetworkTokens,
}

impl AppState {
    /// The caller with a session's token, and with the bearer token of an external signer, if one is shown. Counts as activity.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn caller(&self, token: &str, bearer: Option<&str>) -> Result<Option<Arc<Caller>>> {
        let now = self.clock.now();
        let Some(mut caller) = self.sessions.resolve(&self.store, token, now)? else { return Ok(None) };
        self.tokens.satisfy(&self.store, now, bearer, &mut caller).await?;
        Ok(Some(caller))
    }
}
