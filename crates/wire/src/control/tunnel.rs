//! `edge_ctrl_pb`: routers that host and dial services themselves.

use super::{NumberedBytes, TextEntry};

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EnvInfo {
    #[prost(string, tag = "1")]
    pub arch: String,
    #[prost(string, tag = "2")]
    pub os: String,
    #[prost(string, tag = "3")]
    pub os_release: String,
    #[prost(string, tag = "4")]
    pub os_version: String,
    #[prost(string, tag = "5")]
    pub hostname: String,
    #[prost(string, tag = "6")]
    pub domain: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SdkInfo {
    #[prost(string, tag = "1")]
    pub app_id: String,
    #[prost(string, tag = "2")]
    pub app_version: String,
    #[prost(string, tag = "3")]
    pub branch: String,
    #[prost(string, tag = "4")]
    pub revision: String,
    #[prost(string, tag = "5")]
    pub kind: String,
    #[prost(string, tag = "6")]
    pub version: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CreateApiSession {
    #[prost(message, optional, tag = "1")]
    pub env_info: Option<EnvInfo>,
    #[prost(message, optional, tag = "2")]
    pub sdk_info: Option<SdkInfo>,
    #[prost(string, repeated, tag = "3")]
    pub config_types: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PrecedenceEntry {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(
        enumeration = "super::fabric::TerminatorPrecedence",
        optional,
        tag = "2"
    )]
    pub value: Option<i32>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CostEntry {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(uint32, optional, tag = "2")]
    pub value: Option<u32>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CreateApiSessionResponse {
    #[prost(string, tag = "1")]
    pub session_id: String,
    #[prost(string, tag = "2")]
    pub token: String,
    #[prost(uint32, tag = "3")]
    pub refresh_interval_seconds: u32,
    #[prost(string, tag = "4")]
    pub identity_id: String,
    #[prost(string, tag = "5")]
    pub identity_name: String,
    #[prost(enumeration = "super::fabric::TerminatorPrecedence", tag = "6")]
    pub default_hosting_precedence: i32,
    #[prost(uint32, tag = "7")]
    pub default_hosting_cost: u32,
    #[prost(string, tag = "8")]
    pub app_data_json: String,
    #[prost(message, repeated, tag = "9")]
    pub service_precedences: Vec<PrecedenceEntry>,
    #[prost(message, repeated, tag = "10")]
    pub service_costs: Vec<CostEntry>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CreateSessionResponse {
    #[prost(string, tag = "1")]
    pub session_id: String,
    #[prost(string, tag = "2")]
    pub token: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Service {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(string, repeated, tag = "3")]
    pub permissions: Vec<String>,
    #[prost(bool, tag = "4")]
    pub encryption: bool,
    /// JSON.
    #[prost(bytes = "vec", tag = "5")]
    pub config: Vec<u8>,
    /// JSON.
    #[prost(bytes = "vec", tag = "6")]
    pub tags: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ServicesList {
    #[prost(bytes = "vec", tag = "1")]
    pub last_update: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    pub services: Vec<Service>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CreateTerminator {
    #[prost(string, tag = "1")]
    pub service_name: String,
    #[prost(string, tag = "2")]
    pub session_id: String,
    #[prost(string, tag = "3")]
    pub address: String,
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
    #[prost(int64, tag = "9")]
    pub start_time: i64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CreateTerminatorResponse {
    #[prost(message, optional, tag = "1")]
    pub api_session: Option<CreateApiSessionResponse>,
    #[prost(message, optional, tag = "2")]
    pub session: Option<CreateSessionResponse>,
    #[prost(string, tag = "3")]
    pub terminator_id: String,
    #[prost(int64, tag = "4")]
    pub start_time: i64,
}

/// A change of cost or precedence.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UpdateTerminator {
    #[prost(string, tag = "1")]
    pub terminator_id: String,
    #[prost(uint32, tag = "2")]
    pub cost: u32,
    #[prost(enumeration = "super::fabric::TerminatorPrecedence", tag = "3")]
    pub precedence: i32,
    #[prost(bool, tag = "4")]
    pub update_precedence: bool,
    #[prost(bool, tag = "5")]
    pub update_cost: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CreateTerminatorV2 {
    #[prost(string, tag = "1")]
    pub service_id: String,
    #[prost(string, tag = "2")]
    pub address: String,
    #[prost(message, repeated, tag = "3")]
    pub peer_data: Vec<NumberedBytes>,
    #[prost(uint32, tag = "4")]
    pub cost: u32,
    #[prost(enumeration = "super::fabric::TerminatorPrecedence", tag = "5")]
    pub precedence: i32,
    #[prost(string, tag = "6")]
    pub instance_id: String,
    #[prost(bytes = "vec", tag = "7")]
    pub instance_secret: Vec<u8>,
    #[prost(int64, tag = "8")]
    pub start_time: i64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CreateTerminatorV2Response {
    #[prost(string, tag = "1")]
    pub terminator_id: String,
    #[prost(int64, tag = "2")]
    pub start_time: i64,
    #[prost(enumeration = "super::edge::CreateTerminatorResult", tag = "3")]
    pub result: i32,
    #[prost(string, tag = "4")]
    pub text: String,
}

/// A dial by the router itself.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CreateCircuit {
    #[prost(string, tag = "1")]
    pub session_id: String,
    #[prost(string, tag = "2")]
    pub service_name: String,
    #[prost(string, tag = "3")]
    pub terminator_instance_id: String,
    #[prost(message, repeated, tag = "4")]
    pub peer_data: Vec<NumberedBytes>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CreateCircuitResponse {
    #[prost(message, optional, tag = "1")]
    pub api_session: Option<CreateApiSessionResponse>,
    #[prost(message, optional, tag = "2")]
    pub session: Option<CreateSessionResponse>,
    #[prost(string, tag = "3")]
    pub circuit_id: String,
    #[prost(string, tag = "4")]
    pub address: String,
    #[prost(message, repeated, tag = "5")]
    pub peer_data: Vec<NumberedBytes>,
    #[prost(message, repeated, tag = "6")]
    pub tags: Vec<TextEntry>,
}

/// A dial by a router from version 1.7 on itself.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CreateCircuitV2 {
    #[prost(string, tag = "1")]
    pub service_name: String,
    #[prost(string, tag = "2")]
    pub terminator_instance_id: String,
    #[prost(message, repeated, tag = "3")]
    pub peer_data: Vec<NumberedBytes>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CreateCircuitV2Response {
    #[prost(string, tag = "1")]
    pub circuit_id: String,
    #[prost(string, tag = "2")]
    pub address: String,
    #[prost(message, repeated, tag = "3")]
    pub peer_data: Vec<NumberedBytes>,
    #[prost(message, repeated, tag = "4")]
    pub tags: Vec<TextEntry>,
}
