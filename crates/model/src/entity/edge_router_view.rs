//! The facts of edge routers, and an edge router as administrators see it.

use query::Type;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Amount, EdgeRouter, Entity, Field, Kind, Lookup, Record, Roles, TransitRouter, VersionInfo,
    edge_router::{Common, State},
    router_enrollment::RouterEnrollment,
};
use crate::error::{Error, Result};

/// An edge router in responses to administrators.
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

impl Entity for EdgeRouter {
    const KIND: Kind = Kind {
        name: "edgeRouter",
        path: "edge-routers",
        noun: "edge router",
    };
    const FIELDS: &'static [Field<Self>] = &[
        Field::every("name", |r| (&r.spec.name).into()),
        Field::unique("fingerprint", Type::Text, |r| {
            r.state.fingerprint.as_ref().into()
        }),
        Field::plain("cost", Type::Number, |r| r.spec.cost.into()),
        Field::plain("noTraversal", Type::Bool, |r| r.spec.no_traversal.into()),
        Field::plain("disabled", Type::Bool, |r| r.spec.disabled.into()),
        Field::indexed("roleAttributes", Type::Set, |r| {
            (&r.spec.role_attributes).into()
        }),
        Field::plain("isVerified", Type::Bool, |r| r.state.is_verified.into()),
        Field::plain("isTunnelerEnabled", Type::Bool, |r| {
            r.spec.is_tunneler_enabled.into()
        }),
        Field::asked("connected", Type::Bool, |r, lookup| {
            lookup.router_info(r.id.as_str()).is_some().into()
        }),
        Field::asked("online", Type::Bool, |r, lookup| {
            lookup.router_info(r.id.as_str()).is_some().into()
        }),
    ];
    const LINKS: &'static [&'static str] = &["edge-router-policies"];
    type View = View;

    fn check(&self, lookup: &dyn Lookup) -> Result<()> {
        let is_taken = lookup.any(TransitRouter::KIND, "name", &self.name)?;
        let taken = || Error::Duplicate {
            field: "name".into(),
            value: self.name.clone(),
        };
        Error::all([
            self.role_attributes.check_attributes(),
            self.app_data.check_scalars("appData"),
            if is_taken { Err(taken()) } else { Ok(()) },
        ])
    }

    fn amounts(&self) -> Vec<(&'static str, Amount)> {
        vec![
            ("roleAttributes", self.role_attributes.amount()),
            ("appData", self.app_data.amount()),
        ]
    }

    fn flaw(record: &Record<Self>) -> Option<&'static str> {
        record.state.flaw()
    }

    fn view(record: &Record<Self>, lookup: &dyn Lookup) -> Result<View> {
        let link = lookup.router_info(record.id.as_str());
        let State {
            is_verified,
            fingerprint,
            cert_pem,
            unverified_fingerprint,
            unverified_cert_pem,
        } = record.state.clone();
        Ok(View {
            version_info: link
                .as_ref()
                .map(|link| link.version.clone())
                .unwrap_or_default(),
            common: Common::with(record, link),
            role_attributes: record.spec.role_attributes.clone(),
            is_verified,
            is_tunneler_enabled: record.spec.is_tunneler_enabled,
            fingerprint,
            cert_pem,
            unverified_fingerprint,
            unverified_cert_pem,
            enrollment: RouterEnrollment::of(
                "edgeRouter",
                record.id.as_str(),
                is_verified,
                lookup,
            )?,
        })
    }
}
