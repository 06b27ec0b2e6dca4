//! Edge routers: where identities connect to the network. The facts of the kind and its view for
//! administrators are in `edge_router_view.rs`, which uses kinds that refer to routers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entity::{
    Document, Lookup, Record, Roles, RouterInfo, Stateful, value::other_certificate,
};

/// A router that identities connect to.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EdgeRouter {
    /// Unique among all routers, edge and transit.
    pub name: String,
    /// Free data of its owner; it cannot be changed. Values may not be lists or objects.
    #[serde(default)]
    pub app_data: Document,
    /// Its share of the cost of a path.
    #[serde(default)]
    #[schemars(with = "Option<u16>")]
    pub cost: u16,
    /// Whether it must not connect.
    #[serde(default)]
    #[schemars(with = "Option<bool>")]
    pub disabled: bool,
    /// Whether it hosts and dials services itself, as the identity with its id and name.
    #[serde(default)]
    pub is_tunneler_enabled: bool,
    /// Whether paths may only begin or end at it.
    #[serde(default)]
    #[schemars(with = "Option<bool>")]
    pub no_traversal: bool,
    /// Names by which policies find the router.
    #[serde(default)]
    pub role_attributes: Roles,
}

/// The part of a record that only code sets; used by both kinds of routers.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// Whether it has enrolled.
    pub is_verified: bool,
    /// The fingerprint of the client certificate it connects with.
    pub fingerprint: Option<String>,
    pub cert_pem: Option<String>,
    /// The fingerprint of the certificate that replaces it once the router has confirmed it.
    pub unverified_fingerprint: Option<String>,
    pub unverified_cert_pem: Option<String>,
}

impl Stateful for EdgeRouter {
    type State = State;
}

impl EdgeRouter {
    /// The id of the built-in router. No other record has it, because other ids have twelve letters
    /// and digits.
    pub const BUILT_IN: &'static str = "built-in";
}

impl Record<EdgeRouter> {
    /// Whether it is the built-in router.
    pub fn is_built_in(&self) -> bool {
        self.id.as_str() == EdgeRouter::BUILT_IN
    }
}

impl State {
    /// Whether a fingerprint is that of the current certificate or of the one that replaces it once
    /// the router has confirmed it.
    pub fn has_fingerprint(&self, fingerprint: &str) -> bool {
        [&self.fingerprint, &self.unverified_fingerprint]
            .into_iter()
            .flatten()
            .any(|own| own.eq_ignore_ascii_case(fingerprint))
    }

    /// A contradiction in the state, if there is one.
    pub fn flaw(&self) -> Option<&'static str> {
        let pairs = [
            (&self.fingerprint, &self.cert_pem),
            (&self.unverified_fingerprint, &self.unverified_cert_pem),
        ];
        pairs.into_iter().find_map(|(fingerprint, pem)| {
            other_certificate(fingerprint.as_deref().unwrap_or_default(), pem.as_deref()?)
        })
    }
}

/// An edge router in responses to everybody who may use it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CommonEdgeRouter", inline)]
pub struct Common {
    pub name: String,
    /// The host name that it reports; empty while it is not connected.
    pub hostname: String,
    pub is_online: bool,
    /// Protocol to address: `tls` to `tls://host:port`.
    pub supported_protocols: BTreeMap<String, String>,
    /// How far its copy of the data model is synchronized.
    pub sync_status: String,
    pub cost: u16,
    pub no_traversal: bool,
    pub disabled: bool,
    pub app_data: Document,
}

impl Common {
    /// The view of a router with its current connection.
    pub fn of(record: &Record<EdgeRouter>, lookup: &dyn Lookup) -> Self {
        Self::with(record, lookup.router_info(record.id.as_str()))
    }

    /// The view of a router with this connection, or with none.
    pub fn with(record: &Record<EdgeRouter>, link: Option<RouterInfo>) -> Self {
        let EdgeRouter {
            name,
            app_data,
            cost,
            disabled,
            no_traversal,
            ..
        } = record.spec.clone();
        let is_online = link.is_some();
        let link = link.unwrap_or_default();
        let sync_status = if is_online {
            link.sync_status
        } else {
            "SYNC_UNKNOWN".into()
        };
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
