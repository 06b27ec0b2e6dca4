//! `edge_ctrl_pb`: the data model of routers from version 1.7 on.

use super::{TextEntry, Time, tunnel::CostEntry, tunnel::PrecedenceEntry};

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DataState {
    #[prost(message, repeated, tag = "1")]
    pub events: Vec<Event>,
    #[prost(uint64, tag = "2")]
    pub end_index: u64,
    #[prost(string, tag = "3")]
    pub timeline_id: String,
    #[prost(message, repeated, tag = "4")]
    pub caches: Vec<CacheEntry>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CacheEntry {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub value: Option<Cache>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Cache {
    #[prost(message, repeated, tag = "1")]
    pub data: Vec<TextBytes>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TextBytes {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub value: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ChangeSet {
    #[prost(uint64, tag = "1")]
    pub index: u64,
    #[prost(bool, tag = "2")]
    pub is_synthetic: bool,
    #[prost(message, repeated, tag = "3")]
    pub changes: Vec<Event>,
    #[prost(string, tag = "4")]
    pub timeline_id: String,
    #[prost(uint64, tag = "5")]
    pub previous_index: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Action {
    Create = 0,
    Update = 1,
    Delete = 2,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Event {
    #[prost(enumeration = "Action", tag = "1")]
    pub action: i32,
    #[prost(bool, tag = "3")]
    pub is_synthetic: bool,
    #[prost(oneof = "Model", tags = "10, 11, 12, 13, 14, 15, 16, 17, 18")]
    pub model: Option<Model>,
}

#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum Model {
    #[prost(message, tag = "10")]
    Identity(Identity),
    #[prost(message, tag = "11")]
    Service(Service),
    #[prost(message, tag = "12")]
    ServicePolicy(ServicePolicy),
    #[prost(message, tag = "13")]
    PostureCheck(PostureCheck),
    #[prost(message, tag = "14")]
    PublicKey(PublicKey),
    #[prost(message, tag = "15")]
    Revocation(Revocation),
    #[prost(message, tag = "16")]
    ServicePolicyChange(ServicePolicyChange),
    #[prost(message, tag = "17")]
    ConfigType(ConfigType),
    #[prost(message, tag = "18")]
    Config(Config),
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Identity {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(enumeration = "super::fabric::TerminatorPrecedence", tag = "3")]
    pub default_hosting_precedence: i32,
    #[prost(uint32, tag = "4")]
    pub default_hosting_cost: u32,
    #[prost(message, repeated, tag = "5")]
    pub service_hosting_precedences: Vec<PrecedenceEntry>,
    #[prost(message, repeated, tag = "6")]
    pub service_hosting_costs: Vec<CostEntry>,
    #[prost(bytes = "vec", tag = "7")]
    pub app_data_json: Vec<u8>,
    #[prost(message, repeated, tag = "8")]
    pub service_configs: Vec<ServiceConfigsEntry>,
    #[prost(bool, tag = "9")]
    pub disabled: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ServiceConfigsEntry {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub value: Option<ServiceConfigs>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ServiceConfigs {
    #[prost(message, repeated, tag = "1")]
    pub configs: Vec<TextEntry>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Service {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(bool, tag = "3")]
    pub encryption_required: bool,
    #[prost(string, repeated, tag = "4")]
    pub configs: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum PolicyType {
    Invalid = 0,
    Dial = 1,
    Bind = 2,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ServicePolicy {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(enumeration = "PolicyType", tag = "3")]
    pub policy_type: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum RelatedType {
    Invalid = 0,
    Service = 1,
    Identity = 2,
    PostureCheck = 3,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ServicePolicyChange {
    #[prost(string, tag = "1")]
    pub policy_id: String,
    #[prost(string, repeated, tag = "2")]
    pub related_entity_ids: Vec<String>,
    #[prost(enumeration = "RelatedType", tag = "3")]
    pub related_entity_type: i32,
    #[prost(bool, tag = "4")]
    pub add: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Revocation {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(message, optional, tag = "2")]
    pub expires_at: Option<Time>,
    #[prost(string, tag = "3")]
    pub kind: String,
    #[prost(message, optional, tag = "4")]
    pub issued_before: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum KeyUsage {
    JwtValidation = 0,
    ClientX509CertValidation = 1,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PublicKey {
    #[prost(bytes = "vec", tag = "1")]
    pub data: Vec<u8>,
    #[prost(string, tag = "2")]
    pub kid: String,
    #[prost(enumeration = "KeyUsage", repeated, tag = "3")]
    pub usages: Vec<i32>,
    /// 0: an X.509 certificate in DER, 1: a PKIX public key.
    #[prost(int32, tag = "4")]
    pub format: i32,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PostureCheck {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(string, tag = "4")]
    pub type_id: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ConfigType {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub name: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Config {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub type_id: String,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(string, tag = "4")]
    pub data_json: String,
}
