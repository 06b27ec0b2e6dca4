//! Service edge router policies: which services can be reached over which edge routers.

use query::Type;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entity::{
    EdgeRouter, Entity, Field, IdPath, Kind, Lookup, NamedRole, OnDelete, Record, Reference, Roles,
    Semantic, Service, Stateful,
};
use crate::error::{Error, Result};

/// Lets services be reached over edge routers.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceEdgeRouterPolicy {
    pub name: String,
    /// How attributes combine in both lists.
    pub semantic: Semantic,
    /// The edge routers: `#attribute`, `@id`, or `#all` alone.
    #[serde(default)]
    pub edge_router_roles: Roles,
    /// The services: `#attribute`, `@id`, or `#all` alone.
    #[serde(default)]
    pub service_roles: Roles,
}

/// A service edge router policy in responses.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ServiceEdgeRouterPolicyDetail")]
pub struct View {
    name: String,
    semantic: Semantic,
    edge_router_roles: Roles,
    edge_router_roles_display: Vec<NamedRole>,
    service_roles: Roles,
    service_roles_display: Vec<NamedRole>,
}

impl Stateful for ServiceEdgeRouterPolicy {
    type State = ();
}

impl Entity for ServiceEdgeRouterPolicy {
    const KIND: Kind = Kind {
        name: "serviceEdgeRouterPolicy",
        path: "service-edge-router-policies",
        noun: "service edge router policy",
    };
    const FIELDS: &'static [Field<Self>] = &[
        Field::every("name", |r| (&r.spec.name).into()),
        Field::plain("semantic", Type::Text, |r| r.spec.semantic.as_str().into()),
        Field::plain("serviceRoles", Type::Set, |r| {
            (&r.spec.service_roles).into()
        }),
        Field::plain("edgeRouterRoles", Type::Set, |r| {
            (&r.spec.edge_router_roles).into()
        }),
    ];
    const REFERENCES: &'static [Reference<Self>] = &[
        Reference::with_paths::<Service>(
            "serviceIds",
            &[IdPath::Roles("serviceRoles")],
            |r| r.spec.service_roles.ids().collect(),
            OnDelete::Clear(|r, id| r.spec.service_roles.forget(id)),
        ),
        Reference::with_paths::<EdgeRouter>(
            "edgeRouterIds",
            &[IdPath::Roles("edgeRouterRoles")],
            |r| r.spec.edge_router_roles.ids().collect(),
            OnDelete::Clear(|r, id| r.spec.edge_router_roles.forget(id)),
        ),
    ];
    const LINKS: &'static [&'static str] = &["edge-routers", "services"];
    const BODY: &'static str = "policy";
    type View = View;

    fn check(&self, lookup: &dyn Lookup) -> Result<()> {
        Error::all([
            self.edge_router_roles
                .check_list::<EdgeRouter>("edgeRouterRoles", lookup),
            self.service_roles
                .check_list::<Service>("serviceRoles", lookup),
        ])
    }

    fn flaw(record: &Record<Self>) -> Option<&'static str> {
        Roles::flaw_of_lists(&[&record.spec.edge_router_roles, &record.spec.service_roles])
    }

    fn view(record: &Record<Self>, lookup: &dyn Lookup) -> Result<View> {
        let Self {
            name,
            semantic,
            edge_router_roles,
            service_roles,
        } = record.spec.clone();
        Ok(View {
            name,
            semantic,
            edge_router_roles_display: edge_router_roles
                .display::<EdgeRouter>(lookup, |r| &r.spec.name)?,
            service_roles_display: service_roles.display::<Service>(lookup, |r| &r.spec.name)?,
            edge_router_roles,
            service_roles,
        })
    }
}
