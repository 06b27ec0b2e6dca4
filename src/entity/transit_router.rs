//! Transit routers: they carry traffic between edge routers, and nobody connects to them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{EdgeRouter, Entity, Facts, Field, Id, Kind, Record, edge_router::State, router_enrollment::RouterEnrollment};
use crate::{
    error::{Error, Result},
    query::Type,
};

/// A router that only carries traffic on.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TransitRouter {
    /// No other router, edge or transit, has the same.
    pub name: String,
    /// What it adds to the cost of a path.
    #[serde(default)]
    #[schemars(with = "Option<u16>")]
    pub cost: u16,
    /// Whether paths may only begin or end there.
    #[serde(default)]
    #[schemars(with = "Option<bool>")]
    pub no_traversal: bool,
    /// Whether it is told to stay away.
    #[serde(default)]
    #[schemars(with = "Option<bool>")]
    pub disabled: bool,
}

/// A router as administrators see it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RouterDetail")]
pub struct View {
    name: String,
    cost: u16,
    no_traversal: bool,
    disabled: bool,
    is_online: bool,
    is_verified: bool,
    fingerprint: Option<String>,
    unverified_fingerprint: Option<String>,
    unverified_cert_pem: Option<String>,
    #[serde(flatten)]
    enrollment: RouterEnrollment,
}

impl Entity for TransitRouter {
    const KIND: Kind = Kind { name: "transitRouter", path: "transit-routers" };
    const FIELDS: &'static [Field<Self>] = &[
        Field::every("name", |r| (&r.spec.name).into()),
        Field::unique("fingerprint", Type::Text, |r| r.state.fingerprint.as_ref().into()),
        Field::plain("cost", Type::Number, |r| r.spec.cost.into()),
        Field::plain("noTraversal", Type::Bool, |r| r.spec.no_traversal.into()),
        Field::plain("disabled", Type::Bool, |r| r.spec.disabled.into()),
    ];
    const KEPT: &'static [&'static str] = &["cost", "noTraversal", "disabled"];
    const BODY: &'static str = "router";
    type State = State;
    type View = View;

    fn check(&self, facts: &dyn Facts) -> Result<()> {
        if facts.any(EdgeRouter::KIND, "name", &self.name)? {
            return Err(Error::Duplicate { field: "name".into(), value: self.name.clone() });
        }
        Ok(())
    }

    fn flaw(record: &Record<Self>) -> Option<&'static str> {
        record.state.flaw()
    }

    fn view(record: &Record<Self>, facts: &dyn Facts) -> Result<View> {
        let id = record.id.as_str();
        let enrollment = RouterEnrollment::of("transitRouter", id, record.state.is_verified, facts)?;
        Ok(View::with(&record.spec, &record.state, facts.link(id).is_some(), enrollment))
    }
}

impl TransitRouter {
    /// An edge router as one among the transit routers, for lists and filters over both.
    pub fn of_edge_router(router: Record<EdgeRouter>) -> Record<Self> {
        let Record { id, created_at, updated_at, tags, is_system, spec, state } = router;
        let EdgeRouter { name, cost, no_traversal, disabled, .. } = spec;
        let spec = Self { name, cost, no_traversal, disabled };
        Record { id: Id::from_text(id.into_text()), created_at, updated_at, tags, is_system, spec, state }
    }
}

impl View {
    /// An edge router among transit routers. Clients know it as verified here, and its enrollment from its own list alone.
    pub fn of_edge_router(record: &Record<TransitRouter>, facts: &dyn Facts) -> Self {
        let state = State { is_verified: true, ..record.state.clone() };
        Self::with(&record.spec, &state, facts.link(record.id.as_str()).is_some(), RouterEnrollment::default())
    }

    fn with(spec: &TransitRouter, state: &State, is_online: bool, enrollment: RouterEnrollment) -> Self {
        Self {
            name: spec.name.clone(),
            cost: spec.cost,
            no_traversal: spec.no_traversal,
            disabled: spec.disabled,
            is_online,
            is_verified: state.is_verified,
            fingerprint: state.fingerprint.clone(),
            unverified_fingerprint: state.unverified_fingerprint.clone(),
            unverified_cert_pem: state.unverified_cert_pem.clone(),
            enrollment,
        }
    }
}
