//! The keys of the built-in router (`[router]`) and of remote routers (`[routers]`).

use std::{net::SocketAddr, time::Duration};

use serde::{Deserialize, Serialize};

use super::value::{self, Address, Span};

/// The built-in edge router. Sizes limit the data queued in memory for clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RouterConfig {
    pub enabled: bool,
    /// `None`: router clients connect to the same address as all others.
    #[serde(deserialize_with = "value::optional_socket")]
    pub listen: Option<SocketAddr>,
    /// As given; `Config::router_address` supplies the default.
    pub advertise: Option<Address>,
    /// Per circuit and direction.
    pub max_circuit_kib: usize,
    /// The limit on the queued data of one channel.
    pub max_channel_mib: usize,
    /// The limit on the queued data of all channels together.
    pub max_total_mib: usize,
    pub max_message_mib: usize,
    /// The maximum number of binds of one identity.
    pub max_binds: usize,
    pub max_circuits: usize,
    pub max_circuits_per_identity: usize,
    pub max_channels_per_identity: usize,
    /// How long circuits may continue when the router stops.
    pub drain_timeout: Span,
}

/// Remote routers, which connect to the controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RemoteRoutersConfig {
    /// `None`: they connect to the same address as all others.
    #[serde(deserialize_with = "value::optional_socket")]
    pub listen: Option<SocketAddr>,
    /// Of SDKs at one router.
    pub max_terminators: usize,
    /// How long circuits and terminators of a router that is not connected are kept.
    pub forget_after: Span,
    /// How long another path is looked for.
    pub reroute_timeout: Span,
    /// Has no keys.
    #[serde(skip)]
    pub times: ControlTimes,
}

/// Time limits of control channels that only tests change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ControlTimes {
    /// Between two heartbeats to a router.
    pub heartbeat: Duration,
    /// Without an answer to a heartbeat, until the connection is closed.
    pub silence: Duration,
    /// Until a router answers a route or a question.
    pub route: Duration,
    /// In place of `forget_after`, which has a minimum.
    pub forget_after: Option<Duration>,
}

impl Default for ControlTimes {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            heartbeat: seconds(10),
            silence: seconds(30),
            route: seconds(10),
            forget_after: None,
        }
    }
}

impl Default for RouterConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            listen: None,
            advertise: None,
            max_circuit_kib: 512,
            max_channel_mib: 16,
            max_total_mib: 64,
            max_message_mib: 16,
            max_binds: 10_000,
            max_circuits: 100_000,
            max_circuits_per_identity: 20_000,
            max_channels_per_identity: 1000,
            drain_timeout: Span::seconds(5),
        }
    }
}

impl Default for RemoteRoutersConfig {
    fn default() -> Self {
        Self {
            listen: None,
            max_terminators: 20_000,
            forget_after: Span::minutes(2),
            reroute_timeout: Span::seconds(10),
            times: ControlTimes::default(),
        }
    }
}
