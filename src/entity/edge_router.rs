//! Edge routers: where identities connect to the network. Their facts and how administrators see them: `edge_router_view.rs`, which looks at
//! kinds that refer to routers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Document, Facts, Record, Roles, RouterLink, Stateful, value::other_certificate};

/// A router that identities connect to.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EdgeRouter {
    /// No other router, edge or transit, has the same.
    pub name: String,
    /// Anything its owner wants to find again; set once. Values are no lists or objects.
    #[serde(default)]
    pub app_data: Document,
    /// What it adds to the cost of a path.
    #[serde(default)]
    #[schemars(with = "Option<u16>")]
    pub cost: u16,
    /// Whether it is told to stay away.
    #[serde(default)]
    #[schemars(with = "Option<bool>")]
    pub disabled: bool,
    /// Whether it hosts and dials services itself, as the identity with its id and name.
    #[serde(default)]
    pub is_tunneler_enabled: bool,
    /// Whether paths may only begin or end there.
    #[serde(default)]
    #[schemars(with = "Option<bool>")]
    pub no_traversal: bool,
    /// Names by which policies find the router.
    #[serde(default)]
    pub role_attributes: Roles,
}

/// What only code sets. Both routers have it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// Whether it has enrolled.
    pub is_verified: bool,
    /// Of the client certificate it connects with.
    pub fingerprint: Option<String>,
    pub cert_pem: Option<String>,
    /// Of the certificate that is to replace it once the router has confirmed it.
    pub unverified_fingerprint: Option<String>,
    pub unverified_cert_pem: Option<String>,
}

impl Stateful for EdgeRouter {
    type State = State;
}

impl EdgeRouter {
    /// The id of the router inside of the controller. No other record has it: ids of others have twelve letters and digits.
    pub const BUILT_IN: &'static str = "built-in";
}

impl Record<EdgeRouter> {
    /// Whether it is the router inside of the controller.
    pub fn is_built_in(&self) -> bool {
        self.id.as_str() == EdgeRouter::BUILT_IN
    }
}

impl State {
    /// What contradicts itself in it.
    pub fn flaw(&self) -> Option<&'static str> {
        let pairs = [(&self.fingerprint, &self.cert_pem), (&self.unverified_fingerprint, &self.unverified_cert_pem)];
        pairs.into_iter().find_map(|(fingerprint, pem)| other_certificate(fingerprint.as_deref().unwrap_or_default(), pem.as_deref()?))
    }
}

/// What everybody who may use an edge router sees of it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CommonEdgeRouter", inline)]
pub struct Common {
    pub name: String,
    /// Where it says it can be reached; blank while it is not connected.
    pub hostname: String,
    pub is_online: bool,
    /// Protocol to address: `tls` to `tls://host:port`.
    pub supported_protocols: BTreeMap<String, String>,
    /// How far its copy of the data model is.
    pub sync_status: String,
    pub cost: u16,
    pub no_traversal: bool,
    pub disabled: bool,
    pub app_data: Document,
}

impl Common {
    /// What everybody sees of one router.
    pub fn of(record: &Record<EdgeRouter>, facts: &dyn Facts) -> Self {
        Self::with(record, facts.link(record.id.as_str()))
    }

    /// The same, with this connection or with none.
    pub fn with(record: &Record<EdgeRouter>, link: Option<RouterLink>) -> Self {
        let EdgeRouter { name, app_data, cost, disabled, no_traversal, .. } = record.spec.clone();
        let is_online = link.is_some();
        let link = link.unwrap_or_default();
        let sync_status = if is_online { link.sync_status } else { "SYNC_UNKNOWN".into() };
        Self {
            name,
            hostname: link.hostname,
            is_online,
            supported_protocols: link.protocols,
            sync_status,
            cost,
            no_traversal,
            disabled,
            app_data,
        }
    }
}
