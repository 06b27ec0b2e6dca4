//! The application state that functions use. `controller/` builds it.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use fabric::{built_in_router::Router, control_channel::Control};
use maintenance::{Maintenance, Trials};
use model::{
    clock::{Clock, Timestamp},
    config::Config,
    error::Result,
    metrics::Metrics,
};
use pki::Keystore;
use policy::{
    access::Access,
    authentication::{
        ApiTokens, Caller, Codes, LoginLinks, Passwords, Refusals, Sessions, SignerLogins, Tokens,
    },
    change::Changes,
    enrollment::Reserved,
    hosting::Hosting,
    posture::Posture,
};
use store::Store;
use tokio::sync::Semaphore;

use super::{
    cache::network_tokens::NetworkTokens,
    cache::{json_cache::JsonCache, routers::RouterCache},
    history_readers::HistoryReaders,
    last_hour::LastHour,
    limits::RequestLimits,
    openapi::descriptions::Descriptions,
};

/// What the program was built from.
pub struct Build {
    /// The state of the sources.
    pub revision: &'static str,
    /// When.
    pub date: &'static str,
}

/// The components that functions in a route table may use.
pub struct AppState {
    pub build: Build,
    pub store: Store,
    pub changes: Changes,
    pub access: Access,
    pub posture: Posture,
    pub hosting: Hosting,
    pub keystore: Arc<Keystore>,
    /// The edge router of this process.
    pub router: Router,
    /// Remote routers.
    pub control: Control,
    pub maintenance: Maintenance,
    pub trials: Trials,
    pub descriptions: Descriptions,
    pub sessions: Sessions,
    pub api_tokens: ApiTokens,
    pub login_links: LoginLinks,
    pub passwords: Passwords,
    pub codes: Codes,
    pub tokens: Tokens,
    pub signer_logins: SignerLogins,
    /// Checks of the network that run: one at a time.
    pub network_checks: Arc<Semaphore>,
    pub refusals: Refusals,
    pub metrics: Metrics,
    pub readers: Arc<HistoryReaders>,
    pub last_hour: Arc<LastHour>,
    /// The configuration at the start.
    pub config: Arc<Config>,
    pub clock: Clock,
    /// The instance id, new at every start. Clients read `/version` again when it changes.
    pub instance: String,
    /// The first advertised `host:port` of this controller.
    pub address: String,
    /// All advertised addresses, including `address`.
    pub addresses: Vec<String>,
    /// Names and addresses that router certificates must not have.
    pub reserved: Reserved,
    /// When this process started.
    pub started: Timestamp,
    /// May be replaced while requests are answered.
    pub limits: ArcSwap<RequestLimits>,
    /// Cached JSON of records, for lists and details.
    pub json_cache: JsonCache,
    /// Cached edge routers, for sessions.
    pub routers: RouterCache,
    /// The cached network token, which any client may request.
    pub network_tokens: NetworkTokens,
}

impl AppState {
    /// The caller with an API token, or with a session token and, if given, the bearer token of an
    /// external signer. Counts as activity.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn caller(&self, token: &str, bearer: Option<&str>) -> Result<Option<Arc<Caller>>> {
        let now = self.clock.now();
        if ApiTokens::is_one(token) {
            return self.api_tokens.resolve(&self.store, token, now);
        }
        let Some(mut caller) = self.sessions.resolve(&self.store, token, now)? else {
            return Ok(None);
        };
        self.tokens
            .satisfy(&self.store, now, bearer, &mut caller)
            .await?;
        Ok(Some(caller))
    }

    /// When a caller's session ends if it is not used, and how long that is after a request. An API
    /// token ends at its time in any case.
    pub fn ends(&self, caller: &Caller) -> (Timestamp, Duration) {
        match &caller.token {
            Some(token) => {
                let end = token.spec.expires_at.unwrap_or_else(|| self.clock.now());
                (end, end.since(self.clock.now()))
            }
            None => (
                self.sessions
                    .last_activity(&caller.session)
                    .plus(self.sessions.timeout()),
                self.sessions.timeout(),
            ),
        }
    }
}
