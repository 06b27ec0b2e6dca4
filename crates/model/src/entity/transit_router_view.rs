//! The facts of transit routers, and a transit router as administrators see it.

use query::Type;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    EdgeRouter, Entity, Field, Kind, Lookup, Record, TransitRouter, edge_router::State,
    router_enrollment::RouterEnrollment,
};
use crate::error::{Error, Result};

/// A router in responses to administrators.
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
    const KIND: Kind = Kind {
        name: "transitRouter",
        path: "transit-routers",
        noun: "transit router",
    };
    const FIELDS: &'static [Field<Self>] = &[
        Field::every("name", |r| (&r.spec.name).into()),
        Field::unique("fingerprint", Type::Text, |r| {
            r.state.fingerprint.as_ref().into()
        }),
        Field::plain("cost", Type::Number, |r| r.spec.cost.into()),
        Field::plain("noTraversal", Type::Bool, |r| r.spec.no_traversal.into()),
        Field::plain("disabled", Type::Bool, |r| r.spec.disabled.into()),
    ];
    const KEPT: &'static [&'static str] = &["cost", "noTraversal", "disabled"];
    const BODY: &'static str = "router";
    type View = View;

    fn check(&self, lookup: &dyn Lookup) -> Result<()> {
        if lookup.any(EdgeRouter::KIND, "name", &self.name)? {
            return Err(Error::Duplicate {
                field: "name".into(),
                value: self.name.clone(),
            });
        }
        Ok(())
    }

    fn flaw(record: &Record<Self>) -> Option<&'static str> {
        record.state.flaw()
    }

    fn view(record: &Record<Self>, lookup: &dyn Lookup) -> Result<View> {
        let id = record.id.as_str();
        let enrollment =
            RouterEnrollment::of("transitRouter", id, record.state.is_verified, lookup)?;
        Ok(View::with(
            &record.spec,
            &record.state,
            lookup.router_info(id).is_some(),
            enrollment,
        ))
    }
}

impl View {
    /// An edge router in the list of transit routers. Clients expect it to be verified there and
    /// without its enrollment.
    pub fn of_edge_router(record: &Record<TransitRouter>, lookup: &dyn Lookup) -> Self {
        let state = State {
            is_verified: true,
            ..record.state.clone()
        };
        Self::with(
            &record.spec,
            &state,
            lookup.router_info(record.id.as_str()).is_some(),
            RouterEnrollment::default(),
        )
    }

    fn with(
        spec: &TransitRouter,
        state: &State,
        is_online: bool,
        enrollment: RouterEnrollment,
    ) -> Self {
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
