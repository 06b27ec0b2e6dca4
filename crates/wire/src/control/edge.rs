//! `edge_ctrl_pb`: API sessions, sessions, and what SDKs do at a router.

use bytes::Bytes;

use super::{NumberedBytes, TextEntry};

/// What the controller reports about itself.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ServerHello {
    #[prost(string, tag = "1")]
    pub version: String,
    #[prost(message, repeated, tag = "2")]
    pub data: Vec<TextEntry>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Address {
    #[prost(string, tag = "10")]
    pub value: String,
    #[prost(string, tag = "20")]
    pub protocol: String,
    #[prost(string, tag = "30")]
    pub hostname: String,
    #[prost(int32, tag = "40")]
    pub port: i32,
}

/// Where a router accepts SDKs.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EdgeListener {
    #[prost(message, optional, tag = "10")]
    pub address: Option<Address>,
    #[prost(message, optional, tag = "20")]
    pub advertise: Option<Address>,
}

/// What a router reports about itself.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ClientHello {
    #[prost(string, tag = "1")]
    pub version: String,
    #[prost(string, tag = "2")]
    pub hostname: String,
    #[prost(string, repeated, tag = "3")]
    pub protocols: Vec<String>,
    #[prost(message, repeated, tag = "4")]
    pub data: Vec<TextEntry>,
    #[prost(string, repeated, tag = "5")]
    pub protocol_ports: Vec<String>,
    #[prost(message, repeated, tag = "10")]
    pub listeners: Vec<EdgeListener>,
}

/// An API session and the certificates that it may be used with.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ApiSession {
    #[prost(string, tag = "1")]
    pub token: String,
    #[prost(string, repeated, tag = "2")]
    pub cert_fingerprints: Vec<String>,
    #[prost(string, tag = "3")]
    pub id: String,
    #[prost(string, tag = "4")]
    pub identity_id: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ApiSessionAdded {
    #[prost(bool, tag = "1")]
    pub is_full_state: bool,
    #[prost(message, repeated, tag = "2")]
    pub api_sessions: Vec<ApiSession>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ApiSessionUpdated {
    #[prost(message, repeated, tag = "1")]
    pub api_sessions: Vec<ApiSession>,
}

/// [`ApiSessionAdded`] and [`ApiSessionUpdated`] with API sessions that are encoded already.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EncodedAdded {
    #[prost(bool, tag = "1")]
    pub is_full_state: bool,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub api_sessions: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EncodedUpdated {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub api_sessions: Vec<Bytes>,
}

/// API sessions that have ended. The message about ended sessions has the same fields.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Removed {
    #[prost(string, repeated, tag = "1")]
    pub tokens: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub ids: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ApiSessionHeartbeat {
    #[prost(string, repeated, tag = "1")]
    pub tokens: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RequestResync {
    #[prost(string, tag = "1")]
    pub reason: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ValidateSessions {
    #[prost(string, repeated, tag = "1")]
    pub session_tokens: Vec<String>,
}

/// The request of an SDK to host a service.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CreateTerminator {
    /// Also the id of the terminator.
    #[prost(string, tag = "1")]
    pub address: String,
    #[prost(string, tag = "2")]
    pub session_token: String,
    #[prost(string, repeated, tag = "3")]
    pub fingerprints: Vec<String>,
    #[prost(message, repeated, tag = "4")]
    pub peer_data: Vec<NumberedBytes>,
    #[prost(uint32, tag = "5")]
    pub cost: u32,
    #[prost(enumeration = "super::fabric::TerminatorPrecedence", tag = "6")]
    pub precedence: i32,
    #[prost(string, tag = "7")]
    pub instance_id: String,
    #[prost(bytes = "vec", tag = "8")]
    pub instance_secret: Vec<u8>,
    /// Absent in version 1.1.
    #[prost(string, tag = "9")]
    pub api_session_token: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum CreateTerminatorResult {
    Success = 0,
    FailedIdConflict = 1,
    FailedOther = 2,
    FailedBusy = 3,
    FailedInvalidSession = 4,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CreateTerminatorResponse {
    #[prost(string, tag = "1")]
    pub terminator_id: String,
    #[prost(enumeration = "CreateTerminatorResult", tag = "2")]
    pub result: i32,
    #[prost(string, tag = "3")]
    pub text: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UpdateTerminator {
    #[prost(string, tag = "1")]
    pub session_token: String,
    #[prost(string, repeated, tag = "2")]
    pub fingerprints: Vec<String>,
    #[prost(string, tag = "3")]
    pub terminator_id: String,
    #[prost(uint32, tag = "4")]
    pub cost: u32,
    #[prost(enumeration = "super::fabric::TerminatorPrecedence", tag = "5")]
    pub precedence: i32,
    #[prost(bool, tag = "6")]
    pub update_precedence: bool,
    #[prost(bool, tag = "7")]
    pub update_cost: bool,
    #[prost(string, tag = "8")]
    pub api_session_token: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExtendEnrollment {
    #[prost(string, tag = "1")]
    pub client_cert_csr: String,
    #[prost(string, tag = "2")]
    pub server_cert_csr: String,
    #[prost(bool, tag = "3")]
    pub require_verification: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EnrollmentCertificates {
    #[prost(string, tag = "1")]
    pub client_cert_pem: String,
    #[prost(string, tag = "2")]
    pub server_cert_pem: String,
    #[prost(string, tag = "3")]
    pub ca_certs_pem: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExtendEnrollmentVerify {
    #[prost(string, tag = "1")]
    pub client_cert_pem: String,
}

/// Why a request is refused.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Refusal {
    #[prost(string, tag = "1")]
    pub code: String,
    #[prost(string, tag = "2")]
    pub message: String,
    #[prost(string, tag = "3")]
    pub cause: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ConnectTime {
    /// In ms.
    #[prost(int64, tag = "1")]
    pub connect_time: i64,
    #[prost(string, tag = "2")]
    pub source: String,
    #[prost(string, tag = "3")]
    pub destination: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ConnectEvent {
    #[prost(string, tag = "1")]
    pub identity_id: String,
    #[prost(bool, tag = "2")]
    pub is_connected: bool,
    #[prost(message, repeated, tag = "3")]
    pub connect_times: Vec<ConnectTime>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ConnectEvents {
    #[prost(message, repeated, tag = "1")]
    pub events: Vec<ConnectEvent>,
    #[prost(bool, tag = "2")]
    pub full_state: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SubscribeToDataModel {
    #[prost(uint64, tag = "1")]
    pub current_index: u64,
    #[prost(uint32, tag = "2")]
    pub duration_seconds: u32,
    #[prost(bool, tag = "3")]
    pub renew: bool,
    #[prost(string, tag = "4")]
    pub timeline_id: String,
    #[prost(string, tag = "5")]
    pub subscription_id: String,
}
