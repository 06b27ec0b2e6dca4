//! What is shown of open channels and circuits.

use std::{net::SocketAddr, time::Duration};

use crate::clock::Timestamp;

/// A connection of an SDK that is logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelInfo {
    /// Unique as long as this process runs.
    pub id: String,
    pub identity_id: String,
    pub api_session_id: String,
    /// Where it comes from.
    pub address: Option<SocketAddr>,
    /// What the SDK calls itself in its hello, if it does; the rest is in the `sdkInfo` of the identity.
    pub hello: String,
    pub since: Timestamp,
    /// Circuits of which an end is on it.
    pub circuits: usize,
    /// Services it hosts, counted by terminator.
    pub terminators: usize,
    /// Bytes that wait to be written to it.
    pub queued_bytes: usize,
}

/// A connection between a client and a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CircuitInfo {
    pub id: String,
    pub service_id: String,
    pub terminator_id: String,
    pub since: Timestamp,
    pub client: EndInfo,
    pub host: EndInfo,
}

/// One end of a circuit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndInfo {
    pub identity_id: String,
    pub api_session_id: String,
    /// The session that lets it dial or host.
    pub session_id: String,
    pub channel_id: String,
    /// How the SDK numbers the connection on its channel.
    pub connection: u32,
    /// Bytes of data that came from it.
    pub bytes: u64,
    /// The same each second, lately.
    pub bytes_per_second: u64,
}

/// A connection between two routers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkInfo {
    pub id: String,
    /// What is spoken on it, such as `tls`.
    pub protocol: String,
    /// The router that made it.
    pub source_id: String,
    /// The router that it was made to.
    pub destination_id: String,
    /// Such as `Connected`.
    pub state: &'static str,
    /// An administrator keeps paths away from it.
    pub is_down: bool,
    /// What an administrator has it cost.
    pub static_cost: u32,
    pub source_latency: Duration,
    pub destination_latency: Duration,
    /// What it costs a path, latencies included.
    pub cost: u32,
    /// How often it has been made.
    pub iteration: u32,
}
