//! State shared by all control channels.

use std::{collections::HashSet, sync::Arc, time::Duration};

use model::config;
use parking_lot::Mutex;
use pki::Keystore;
use policy::{authentication::Passwords, change::Changes, enrollment::Reserved};
use store::online::Online;
use tokio::time::sleep;

use super::{
    asked_routers::AskedRouters, changed_models::ChangedModels, channel_sessions::ChannelSessions,
    earlier_circuits::EarlierCircuits, measurements::Measurements, registry::ConnectionRegistry,
    revoked_routers::RevokedRouters, sync_queue::Sync,
};
use crate::network::Network;

/// The parts of the controller that the control channel uses.
pub struct ControlContext {
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
    /// Until a router answers a question.
    pub route: Duration,
    /// Delay of a refused bind: SDKs repeat binds immediately.
    pub refusal: Duration,
    /// How long circuits and terminators of a disconnected router are kept.
    pub absence: Duration,
    /// How long a router has to end a circuit after it was told that the session has ended.
    pub ending: Duration,
    /// How long a router may be disconnected without a row in the history.
    pub disconnected: Duration,
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
            ending: Duration::from_millis(500),
            disconnected: seconds(10),
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
    pub earlier: EarlierCircuits,
    pub asked_routers: AskedRouters,
    pub measurements: Measurements,
    /// The routers whose data models may have changed.
    pub changed_models: ChangedModels,
}

impl ControlCore {
    pub(crate) fn new(network: Arc<Network>, context: ControlContext, times: Times) -> Self {
        Self {
            earlier: EarlierCircuits::new(network.now()),
            times,
            registry: ConnectionRegistry::default(),
            revoked: RevokedRouters::default(),
            noted: Mutex::default(),
            sync: Sync::default(),
            unfit_tokens: tokio::sync::Notify::new(),
            channel_sessions: parking_lot::RwLock::default(),
            asked_routers: AskedRouters::default(),
            measurements: Measurements::default(),
            changed_models: ChangedModels::default(),
            network,
            context,
        }
    }

    pub(crate) fn online(&self) -> &Online {
        self.network.online()
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
