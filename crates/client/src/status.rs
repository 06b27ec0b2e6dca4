//! What an endpoint does now, for the person who runs it.

use serde::{Deserialize, Serialize};

/// One identity that is logged in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionStatus {
    /// The name of the identity.
    pub identity: String,
    /// The address of the controller that answered last.
    pub controller: String,
    /// When the certificate ends, in unix seconds.
    pub certificate_end: Option<i64>,
    pub routers: Vec<RouterStatus>,
    pub services: Vec<ServiceStatus>,
}

/// An open channel to an edge router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouterStatus {
    /// `host:port`.
    pub address: String,
    /// Connections and terminators that use the channel.
    pub uses: usize,
}

/// A service that is hosted or can be reached here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceStatus {
    pub service: String,
    pub role: ServiceRole,
    /// The routers of a service that is hosted, and the port of one that is forwarded.
    pub at: Vec<String>,
    /// Connections now.
    pub connections: usize,
    /// Whether a health check has failed.
    pub has_failed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ServiceRole {
    Hosted,
    Forwarded,
}

/// Describes a service; `None` once that has ended.
pub(crate) type Describe = Box<dyn Fn() -> Option<ServiceStatus> + Send + Sync>;
