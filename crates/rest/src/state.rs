//! The application state that functions use. `controller/` builds it.
//!
//! Components that serve one purpose are parts with a name; the part that identifies callers is in
//! `logins.rs`. What many operations use stands alone.

use std::sync::Arc;

use arc_swap::ArcSwap;
use fabric::{built_in_router::Router, control_channel::Control};
use maintenance::{Maintenance, Trials};
use model::{
    clock::{Clock, Timestamp},
    config::Config,
    metrics::Metrics,
};
use pki::Keystore;
use policy::{
    access::Access, change::Changes, enrollment::Reserved, hosting::Hosting, posture::Posture,
};
use store::Store;
use tokio::sync::Semaphore;

use super::{
    cache::network_tokens::NetworkTokens,
    cache::{json_cache::JsonCache, routers::RouterCache},
    history_readers::HistoryReaders,
    last_hour::LastHour,
    limits::RequestLimits,
    logins::Logins,
    openapi::descriptions::Descriptions,
};

/// What the program was built from.
pub struct Build {
    /// The state of the sources.
    pub revision: &'static str,
    /// When.
    pub date: &'static str,
}

/// What is known of this controller: the program, its start, and its addresses.
pub struct Instance {
    pub build: Build,
    /// The instance id, new at every start. Clients read `/version` again when it changes.
    pub id: String,
    /// When this process started.
    pub started: Timestamp,
    /// The first advertised `host:port` of this controller.
    pub address: String,
    /// All advertised addresses, including `address`.
    pub addresses: Vec<String>,
    /// Names and addresses that router certificates must not have.
    pub reserved: Reserved,
}

/// The network of routers, and who hosts services on it.
pub struct RouterNetwork {
    /// The edge router of this process.
    pub router: Router,
    /// Remote routers.
    pub control: Control,
    pub hosting: Hosting,
    pub last_hour: Arc<LastHour>,
}

/// Work on the data file and checks of the host, at the request of an operator.
pub struct Upkeep {
    pub maintenance: Maintenance,
    pub trials: Trials,
    /// Checks of the network that run: one at a time.
    pub network_checks: Arc<Semaphore>,
}

/// Answers and parts of answers that are kept, and made again when what they show changes.
pub struct Caches {
    /// JSON of records, for lists and details.
    pub json: JsonCache,
    /// Edge routers, for sessions.
    pub routers: RouterCache,
    /// The network token, which any client may request.
    pub network_tokens: NetworkTokens,
}

/// The components that functions in a route table may use.
pub struct AppState {
    pub store: Store,
    pub changes: Changes,
    pub access: Access,
    pub posture: Posture,
    pub keystore: Arc<Keystore>,
    pub clock: Clock,
    /// The configuration at the start.
    pub config: Arc<Config>,
    /// May be replaced while requests are answered.
    pub limits: ArcSwap<RequestLimits>,
    pub metrics: Metrics,
    /// The readers that follow the history.
    pub readers: Arc<HistoryReaders>,
    pub descriptions: Descriptions,
    pub logins: Logins,
    pub network: RouterNetwork,
    pub instance: Instance,
    pub upkeep: Upkeep,
    pub caches: Caches,
}
