//! The view of open channels, circuits and links for administrators.

use std::{net::SocketAddr, time::Duration};

use crate::clock::Timestamp;

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
    pub client: EndInfo,
    pub host: EndInfo,
}

/// One end of a circuit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndInfo {
    pub identity_id: String,
    pub api_session_id: String,
    /// The session with which it dialled or hosts.
    pub session_id: String,
    pub channel_id: String,
    /// The connection id on its channel.
    pub connection: u32,
    /// Data bytes received from this end.
    pub bytes: u64,
    /// Data bytes received per second, over the last measurement interval.
    pub bytes_per_second: u64,
}

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
    /// For example `Connected`.
    pub state: &'static str,
    /// Whether an administrator excludes it from paths.
    pub is_down: bool,
    /// The cost that an administrator set.
    pub static_cost: u32,
    pub source_latency: Duration,
    pub destination_latency: Duration,
    /// The cost in a path, including latencies.
    pub cost: u32,
    /// How often it was established.
    pub iteration: u32,
}
