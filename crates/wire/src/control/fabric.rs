//! `ctrl_pb`: routers, terminators, routes and links.

use super::{NumberedBytes, TextEntry};

/// Settings of a router by number; 1 is a new address of the controller.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Settings {
    #[prost(message, repeated, tag = "1")]
    pub data: Vec<NumberedBytes>,
}

/// Circuits that have been idle at a router.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CircuitConfirmation {
    #[prost(string, repeated, tag = "1")]
    pub circuit_ids: Vec<String>,
    #[prost(message, repeated, tag = "2")]
    pub idle_times: Vec<IdleTime>,
}

/// How long a circuit has been idle, in ns.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct IdleTime {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(int64, optional, tag = "2")]
    pub value: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum TerminatorPrecedence {
    Default = 0,
    Required = 1,
    Failed = 2,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RemoveTerminators {
    #[prost(string, repeated, tag = "1")]
    pub terminator_ids: Vec<String>,
}

/// A terminator that a router is asked about.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Terminator {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub binding: String,
    #[prost(string, tag = "3")]
    pub address: String,
    #[prost(uint64, tag = "4")]
    pub marker: u64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ValidateTerminators {
    #[prost(message, repeated, tag = "1")]
    pub terminators: Vec<Terminator>,
    #[prost(bool, tag = "2")]
    pub fix_invalid: bool,
    #[prost(bool, tag = "3")]
    pub post_create: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum TerminatorInvalidReason {
    UnknownBinding = 0,
    UnknownTerminator = 1,
    BadState = 2,
}

/// What a router knows of a terminator.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TerminatorState {
    #[prost(bool, tag = "1")]
    pub valid: bool,
    #[prost(enumeration = "TerminatorInvalidReason", tag = "2")]
    pub reason: i32,
    #[prost(string, tag = "3")]
    pub detail: String,
    #[prost(uint64, tag = "4")]
    pub marker: u64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TerminatorStateEntry {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub value: Option<TerminatorState>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ValidateTerminatorsResponse {
    #[prost(message, repeated, tag = "1")]
    pub states: Vec<TerminatorStateEntry>,
}

/// An underlying connection of a link.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LinkConnection {
    #[prost(string, tag = "1")]
    pub kind: String,
    #[prost(string, tag = "2")]
    pub local_address: String,
    #[prost(string, tag = "3")]
    pub remote_address: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LinkConnectionState {
    #[prost(uint32, tag = "1")]
    pub state_iteration: u32,
    #[prost(message, repeated, tag = "2")]
    pub connections: Vec<LinkConnection>,
}

/// A link that a router has dialed.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RouterLink {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub destination_router_id: String,
    #[prost(string, tag = "3")]
    pub protocol: String,
    #[prost(string, repeated, tag = "4")]
    pub cost_tags: Vec<String>,
    #[prost(string, tag = "5")]
    pub dial_address: String,
    #[prost(uint32, tag = "6")]
    pub iteration: u32,
    #[prost(message, optional, tag = "7")]
    pub connection_state: Option<LinkConnectionState>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RouterLinks {
    #[prost(message, repeated, tag = "1")]
    pub links: Vec<RouterLink>,
    #[prost(bool, tag = "2")]
    pub full_refresh: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LinkStateUpdate {
    #[prost(string, tag = "1")]
    pub link_id: String,
    #[prost(uint32, tag = "2")]
    pub iteration: u32,
    #[prost(message, optional, tag = "3")]
    pub connection_state: Option<LinkConnectionState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum FaultSubject {
    Ingress = 0,
    Egress = 1,
    Link = 2,
    Forward = 3,
    UnknownOwnerForward = 4,
    LinkDuplicate = 5,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Fault {
    #[prost(enumeration = "FaultSubject", tag = "1")]
    pub subject: i32,
    /// Of a circuit or link; of several circuits with spaces between them for
    /// [`FaultSubject::Forward`].
    #[prost(string, tag = "2")]
    pub id: String,
    #[prost(uint32, tag = "3")]
    pub iteration: u32,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Context {
    #[prost(message, repeated, tag = "1")]
    pub fields: Vec<TextEntry>,
    #[prost(uint32, tag = "2")]
    pub channel_mask: u32,
}

/// How a router is to forward a circuit.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Route {
    #[prost(string, tag = "1")]
    pub circuit_id: String,
    #[prost(uint32, tag = "2")]
    pub attempt: u32,
    #[prost(message, optional, tag = "3")]
    pub egress: Option<Egress>,
    #[prost(message, repeated, tag = "4")]
    pub forwards: Vec<Forward>,
    #[prost(message, optional, tag = "5")]
    pub context: Option<Context>,
    /// The time left for the route, in ns.
    #[prost(uint64, tag = "6")]
    pub timeout: u64,
    #[prost(message, repeated, tag = "7")]
    pub tags: Vec<TextEntry>,
}

/// The end of a circuit at its host.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Egress {
    #[prost(string, tag = "1")]
    pub binding: String,
    #[prost(string, tag = "2")]
    pub address: String,
    #[prost(string, tag = "3")]
    pub destination: String,
    #[prost(message, repeated, tag = "4")]
    pub peer_data: Vec<NumberedBytes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum DestinationType {
    Start = 0,
    End = 1,
    Link = 2,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Forward {
    #[prost(string, tag = "1")]
    pub source: String,
    #[prost(string, tag = "2")]
    pub destination: String,
    #[prost(enumeration = "DestinationType", tag = "3")]
    pub destination_type: i32,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Unroute {
    #[prost(string, tag = "1")]
    pub circuit_id: String,
    #[prost(bool, tag = "2")]
    pub now: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct InspectRequest {
    #[prost(string, repeated, tag = "1")]
    pub requested_values: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct InspectValue {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct InspectResponse {
    #[prost(bool, tag = "1")]
    pub success: bool,
    #[prost(string, repeated, tag = "2")]
    pub errors: Vec<String>,
    #[prost(message, repeated, tag = "3")]
    pub values: Vec<InspectValue>,
}

/// A question: whether certificates belong to a router.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct VerifyRouter {
    #[prost(string, tag = "1")]
    pub router_id: String,
    #[prost(string, repeated, tag = "2")]
    pub fingerprints: Vec<String>,
}

/// Where a router accepts links.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LinkListener {
    #[prost(string, tag = "1")]
    pub address: String,
    #[prost(string, tag = "2")]
    pub protocol: String,
    #[prost(string, repeated, tag = "3")]
    pub cost_tags: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub groups: Vec<String>,
    #[prost(string, tag = "5")]
    pub local_binding: String,
}

/// The value of a header of hellos.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Listeners {
    #[prost(message, repeated, tag = "1")]
    pub listeners: Vec<LinkListener>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum PeerState {
    Healthy = 0,
    Unhealthy = 1,
    Removed = 2,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PeerStateChange {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub version: String,
    #[prost(enumeration = "PeerState", tag = "3")]
    pub state: i32,
    #[prost(message, repeated, tag = "4")]
    pub listeners: Vec<LinkListener>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PeerStateChanges {
    #[prost(message, repeated, tag = "1")]
    pub changes: Vec<PeerStateChange>,
}

/// The value of a header of hellos: what a router can do.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RouterMetadata {
    #[prost(int32, repeated, tag = "1")]
    pub capabilities: Vec<i32>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RouterInterface {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub hardware_address: String,
    #[prost(int64, tag = "3")]
    pub mtu: i64,
    #[prost(int64, tag = "4")]
    pub index: i64,
    #[prost(uint64, tag = "5")]
    pub flags: u64,
    #[prost(string, repeated, tag = "6")]
    pub addresses: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RouterInterfaces {
    #[prost(message, repeated, tag = "1")]
    pub interfaces: Vec<RouterInterface>,
}
