//! The view of open channels, circuits and links for administrators.

use std::{net::SocketAddr, time::Duration};

use model::clock::Timestamp;

/// The connection of a logged-in SDK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelInfo {
    /// Unique within this process.
    pub id: String,
    pub identity_id: String,
    pub api_session_id: String,
    /// The source address.
    pub address: Option<SocketAddr>,
    /// The text of the SDK's hello, if any; more is in the `sdkInfo` of the identity.
    pub hello: String,
    pub since: Timestamp,
    /// The number of circuits that have an end on this channel.
    pub circuits: usize,
    /// The number of terminators it hosts.
    pub terminators: usize,
    /// Bytes queued for it.
    pub queued_bytes: usize,
}

/// A connection between a client and a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CircuitInfo {
    pub id: String,
    pub service_id: String,
    pub terminator_id: String,
    pub since: Timestamp,
    /// The routers of its path, from the client to the host.
    pub routers: Vec<String>,
    /// The links between the routers: one fewer than there are routers.
    pub links: Vec<String>,
    pub client: EndInfo,
    /// `None` for a terminator that an administrator created.
    pub host: Option<EndInfo>,
}

/// One end of a circuit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndInfo {
    pub identity_id: String,
    pub api_session_id: String,
    /// The session with which it dialed or hosts.
    pub session_id: String,
    /// `None` at routers other than the built-in one.
    pub channel: Option<ChannelEndInfo>,
    /// `None` if neither the built-in router has counted it nor another one has reported it.
    pub sent: Option<SentInfo>,
}

/// The end of a circuit on a channel of the built-in router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelEndInfo {
    pub channel_id: String,
    /// The connection id on its channel.
    pub connection: u32,
}

/// The data that one end of a circuit has sent, as counted by the built-in router or reported by
/// its own router.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SentInfo {
    /// Data bytes received from this end.
    pub bytes: u64,
    /// Data bytes received per second, over the last measurement interval; `None` if its router has
    /// reported the bytes.
    pub bytes_per_second: Option<u64>,
}

/// The latency that is assumed for an end of a link until that end has measured it.
pub const UNMEASURED: Duration = Duration::from_secs(65);

/// A connection between two routers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkInfo {
    pub id: String,
    /// The protocol, such as `tls`.
    pub protocol: String,
    /// The router that opened it.
    pub source_id: String,
    /// The router that accepted it.
    pub destination_id: String,
    /// Whether both routers are connected to the controller, and the one that accepted it has
    /// confirmed it.
    pub is_usable: bool,
    /// When the link was first reported to the controller.
    pub since: Timestamp,
    /// The cost without latencies.
    pub static_cost: u32,
    /// The latencies that the source and the destination have measured.
    pub measured: [Option<Duration>; 2],
    /// The bytes that the source and the destination have sent.
    pub sent_bytes: [Option<u64>; 2],
    /// The cost in a path, including latencies.
    pub cost: u32,
    /// How often it was established.
    pub iteration: u32,
    /// The number of circuits over it.
    pub circuits: usize,
}
