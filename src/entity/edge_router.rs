//! Edge routers: where identities connect to the network.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Amount, Document, Entity, Facts, Field, Kind, Record, Roles, RouterLink, TransitRouter, VersionInfo, other_certificate,
    router_enrollment::RouterEnrollment,
};
use crate::{
    error::{Error, Result},
    query::Type,
};

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

/// An edge router as administrators see it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "EdgeRouterDetail")]
pub struct View {
    #[serde(flatten)]
    common: Common,
    role_attributes: Roles,
    is_verified: bool,
    is_tunneler_enabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
    cert_pem: Option<String>,
    unverified_fingerprint: Option<String>,
    unverified_cert_pem: Option<String>,
    version_info: VersionInfo,
    #[serde(flatten)]
    enrollment: RouterEnrollment,
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

impl Entity for EdgeRouter {
    const KIND: Kind = Kind { name: "edgeRouter", path: "edge-routers" };
    const FIELDS: &'static [Field<Self>] = &[
        Field::every("name", |r| (&r.spec.name).into()),
        Field::unique("fingerprint", Type::Text, |r| r.state.fingerprint.as_ref().into()),
        Field::plain("cost", Type::Number, |r| r.spec.cost.into()),
        Field::plain("noTraversal", Type::Bool, |r| r.spec.no_traversal.into()),
        Field::plain("disabled", Type::Bool, |r| r.spec.disabled.into()),
        Field::indexed("roleAttributes", Type::Set, |r| (&r.spec.role_attributes).into()),
        Field::plain("isVerified", Type::Bool, |r| r.state.is_verified.into()),
        Field::plain("isTunnelerEnabled", Type::Bool, |r| r.spec.is_tunneler_enabled.into()),
        Field::asked("connected", Type::Bool, |r, facts| facts.link(r.id.as_str()).is_some().into()),
        Field::asked("online", Type::Bool, |r, facts| facts.link(r.id.as_str()).is_some().into()),
    ];
    const LINKS: &'static [&'static str] = &["edge-router-policies"];
    type State = State;
    type View = View;

    fn check(&self, facts: &dyn Facts) -> Result<()> {
        let is_taken = facts.any(TransitRouter::KIND, "name", &self.name)?;
        let taken = || Error::Duplicate { field: "name".into(), value: self.name.clone() };
        Error::all([
            self.role_attributes.check_attributes(),
            self.app_data.check_scalars("appData"),
            if is_taken { Err(taken()) } else { Ok(()) },
        ])
    }

    fn amounts(&self) -> Vec<(&'static str, Amount)> {
        vec![("roleAttributes", self.role_attributes.amount()), ("appData", self.app_data.amount())]
    }

    fn flaw(record: &Record<Self>) -> Option<&'static str> {
        record.state.flaw()
    }

    fn view(record: &Record<Self>, facts: &dyn Facts) -> Result<View> {
        let link = facts.link(record.id.as_str());
        let State { is_verified, fingerprint, cert_pem, unverified_fingerprint, unverified_cert_pem } = record.state.clone();
        Ok(View {
            version_info: link.as_ref().map(|link| link.version.clone()).unwrap_or_default(),
            common: Common::with(record, link),
            role_attributes: record.spec.role_attributes.clone(),
            is_verified,
            is_tunneler_enabled: record.spec.is_tunneler_enabled,
            fingerprint,
            cert_pem,
            unverified_fingerprint,
            unverified_cert_pem,
            enrollment: RouterEnrollment::of("edgeRouter", record.id.as_str(), is_verified, facts)?,
        })
    }
}
