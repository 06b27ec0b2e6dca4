//! State shared by all control channels.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, OnceLock},
    time::Duration,
};

use parking_lot::Mutex;
use pki::Keystore;
use tokio::{sync::RwLock, time::sleep};
use wire::frame::Frame;

use super::{
    asked_routers::AskedRouters,
    changed_models::ChangedModels,
    channel_sessions::ChannelSessions,
    circuit::Circuits,
    earlier_circuits::EarlierCircuits,
    links::{Loss, ReportedLinks},
    measurements::Measurements,
    registry::ConnectionRegistry,
    removals::Removals,
    revoked_routers::RevokedRouters,
    sync_queue::Sync,
};
use crate::{
    authentication::Passwords,
    built_in_router::Router,
    change::Changes,
    config,
    enrollment::Reserved,
    fabric::{Edge, Graph, Network, Path, Paths},
    online::Online,
};

/// The parts of the controller that the control channel uses.
pub(crate) struct ControlContext {
    pub changes: Changes,
    pub keystore: Arc<Keystore>,
    pub routers: config::RemoteRoutersConfig,
    pub passwords: Passwords,
    /// The names that routers may not have.
    pub reserved: Reserved,
}

/// Time limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// Until a hello arrives.
    pub hello: Duration,
    /// Between two heartbeats to a router.
    pub heartbeat: Duration,
    /// Without an answer to a heartbeat, until the connection is closed.
    pub silence: Duration,
    /// Without a byte within a message.
    pub stall: Duration,
    /// Until a router answers a route or a question.
    pub route: Duration,
    /// Delay of a refused bind: SDKs repeat binds immediately.
    pub refusal: Duration,
    /// How long circuits and terminators of a disconnected router are kept.
    pub absence: Duration,
    /// How long a router may be disconnected without a row in the history.
    pub disconnected: Duration,
    /// How long a router has to end a circuit after it was told that the session has ended.
    pub ending: Duration,
    /// How long another path is looked for after a link was lost.
    pub reroute: Duration,
}

impl Times {
    /// The time limits from the configuration; those without a key are constant, except in tests.
    pub(crate) fn of(config: &config::RemoteRoutersConfig) -> Self {
        let seconds = Duration::from_secs;
        let config::ControlTimes {
            heartbeat,
            silence,
            route,
            forget_after,
        } = config.times;
        Self {
            hello: seconds(5),
            heartbeat,
            silence,
            stall: seconds(30),
            route,
            refusal: seconds(1),
            absence: forget_after.unwrap_or(config.forget_after.duration()),
            disconnected: seconds(10),
            ending: Duration::from_millis(500),
            reroute: config.reroute_timeout.duration(),
        }
    }
}

/// The controller's side of all control channels.
pub(crate) struct ControlCore {
    /// What remote routers share with the built-in router.
    pub network: Arc<Network>,
    pub context: ControlContext,
    pub times: Times,
    pub registry: ConnectionRegistry,
    pub revoked: RevokedRouters,
    /// The routers whose last row in the history says that they are connected.
    pub noted: Mutex<HashSet<String>>,
    pub sync: Sync,
    /// Notified when sessions may have tokens that their routers do not read.
    pub unfit_tokens: tokio::sync::Notify,
    /// The API sessions that routers may know, while an edge router is connected.
    pub channel_sessions: parking_lot::RwLock<ChannelSessions>,
    pub circuits: Circuits,
    pub earlier: EarlierCircuits,
    /// Held for reading by a review, until what it found has ended.
    pub reviewing: Arc<RwLock<()>>,
    pub removals: Arc<Removals>,
    pub links: ReportedLinks,
    pub asked_routers: AskedRouters,
    pub paths: Paths,
    pub measurements: Measurements,
    /// The routers whose data models may have changed.
    pub changed_models: ChangedModels,
    /// Set when the built-in router has become a member of the network.
    pub built_in: OnceLock<Router>,
}

impl ControlCore {
    pub(crate) fn new(network: Arc<Network>, context: ControlContext, times: Times) -> Self {
        Self {
            circuits: Circuits::default(),
            earlier: EarlierCircuits::new(network.now()),
            times,
            registry: ConnectionRegistry::default(),
            revoked: RevokedRouters::default(),
            noted: Mutex::default(),
            sync: Sync::default(),
            unfit_tokens: tokio::sync::Notify::new(),
            channel_sessions: parking_lot::RwLock::default(),
            reviewing: Arc::default(),
            removals: Arc::default(),
            links: ReportedLinks::new(network.online().clone()),
            asked_routers: AskedRouters::default(),
            paths: Paths::default(),
            measurements: Measurements::default(),
            changed_models: ChangedModels::default(),
            built_in: OnceLock::new(),
            network,
            context,
        }
    }

    pub(crate) fn online(&self) -> &Online {
        self.network.online()
    }

    /// The loss of a link at this moment.
    pub(crate) fn loss<'l>(&self, reason: &'l str) -> Loss<'l> {
        Loss {
            reason,
            at: self.network.now(),
        }
    }

    /// Sends a message to a router if it is connected. Returns whether it is.
    pub(crate) fn send(&self, router: &str, frame: Frame) -> bool {
        let connection = self.registry.find(router);
        connection
            .inspect(|connection| connection.send(frame))
            .is_some()
    }

    /// The cheapest paths from a router, by the router where each ends.
    pub(crate) fn paths_from(&self, router: &str) -> Arc<HashMap<String, Arc<Path>>> {
        self.paths.from(router, || {
            let edge = |link: super::links::ReportedLink| Edge {
                cost: link.cost(),
                link: link.id,
                ends: [link.source, link.destination],
            };
            let confirmed = self
                .links
                .all()
                .into_iter()
                .filter(|link| link.is_confirmed);
            Graph::new(self.registry.nodes(), confirmed.map(edge).collect())
        })
    }

    /// The costs of the links of a path; `None` for a link that is lost, or leads to another router
    /// than that of the path.
    fn link_costs(&self, path: &Path) -> impl Iterator<Item = Option<u32>> {
        let ends = path.routers.iter().zip(path.routers.iter().skip(1));
        path.links
            .iter()
            .zip(ends)
            .map(|(link, (one, other))| self.links.cost_between(link, [one, other]))
    }

    /// Whether all links of a path still connect its routers.
    pub(crate) fn has_links_of(&self, path: &Path) -> bool {
        self.link_costs(path).all(|cost| cost.is_some())
    }

    /// The present cost of a path; `None` if one of its links or routers is gone.
    pub(crate) fn cost_of(&self, path: &Path) -> Option<u32> {
        let links = self.link_costs(path);
        let routers = path
            .routers
            .iter()
            .skip(1)
            .map(|router| Some(self.registry.find(router)?.as_node().entry_cost()));
        links
            .chain(routers)
            .try_fold(0_u32, |total, cost| Some(total.saturating_add(cost?)))
    }

    /// Waits for a moment until the messages that are queued are written.
    pub(crate) async fn flush(&self) {
        const STEP: Duration = Duration::from_millis(10);
        for _ in 0..30 {
            let mut is_empty = self.sync.is_empty();
            self.registry
                .each(|connection| is_empty &= connection.outbox.is_empty());
            // The last message may have been taken from its queue and not be written yet.
            sleep(STEP).await;
            if is_empty {
                return;
            }
        }
    }

    pub(crate) fn is_connected(&self, router: &str) -> bool {
        self.registry.find(router).is_some()
    }
}
