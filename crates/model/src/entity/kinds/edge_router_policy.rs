//! Edge router policies: which identities may connect over which edge routers.

use query::Type;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entity::{
    EdgeRouter, Entity, Field, IdPath, Identity, Kind, Lookup, NamedRole, OnDelete, Record,
    Reference, Roles, Semantic, Stateful,
};
use crate::error::{Error, Result};

/// Lets identities connect over edge routers.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EdgeRouterPolicy {
    pub name: String,
    /// How attributes combine in both lists.
    pub semantic: Semantic,
    /// The edge routers: `#attribute`, `@id`, or `#all` alone.
    #[serde(default)]
    pub edge_router_roles: Roles,
    /// The identities: `#attribute`, `@id`, or `#all` alone.
    #[serde(default)]
    pub identity_roles: Roles,
}

/// An edge router policy in responses.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "EdgeRouterPolicyDetail")]
pub struct View {
    name: String,
    semantic: Semantic,
    /// Whether the controller made it for the identity of an edge router; then it cannot be
    /// changed.
    is_system: bool,
    edge_router_roles: Roles,
    edge_router_roles_display: Vec<NamedRole>,
    identity_roles: Roles,
    identity_roles_display: Vec<NamedRole>,
}

impl Stateful for EdgeRouterPolicy {
    type State = ();
}

impl Entity for EdgeRouterPolicy {
    const KIND: Kind = Kind {
        name: "edgeRouterPolicy",
        path: "edge-router-policies",
        noun: "edge router policy",
    };
    const FIELDS: &'static [Field<Self>] = &[
        Field::every("name", |r| (&r.spec.name).into()),
        Field::plain("semantic", Type::Text, |r| r.spec.semantic.as_str().into()),
        Field::plain("identityRoles", Type::Set, |r| {
            (&r.spec.identity_roles).into()
        }),
        Field::plain("edgeRouterRoles", Type::Set, |r| {
            (&r.spec.edge_router_roles).into()
        }),
    ];
    const REFERENCES: &'static [Reference<Self>] = &[
        Reference::with_paths::<Identity>(
            "identityIds",
            &[IdPath::Roles("identityRoles")],
            |r| r.spec.identity_roles.ids().collect(),
            OnDelete::Clear(|r, id| r.spec.identity_roles.forget(id)),
        ),
        Reference::with_paths::<EdgeRouter>(
            "edgeRouterIds",
            &[IdPath::Roles("edgeRouterRoles")],
            |r| r.spec.edge_router_roles.ids().collect(),
            OnDelete::Clear(|r, id| r.spec.edge_router_roles.forget(id)),
        ),
    ];
    const LINKS: &'static [&'static str] = &["edge-routers", "identities"];
    const BODY: &'static str = "policy";
    type View = View;

    fn check(&self, lookup: &dyn Lookup) -> Result<()> {
        Error::all([
            self.edge_router_roles
                .check_list::<EdgeRouter>("edgeRouterRoles", lookup),
            self.identity_roles
                .check_list::<Identity>("identityRoles", lookup),
        ])
    }

    fn flaw(record: &Record<Self>) -> Option<&'static str> {
        Roles::flaw_of_lists(&[&record.spec.edge_router_roles, &record.spec.identity_roles])
    }

    fn view(record: &Record<Self>, lookup: &dyn Lookup) -> Result<View> {
        let Self {
            name,
            semantic,
            edge_router_roles,
            identity_roles,
        } = record.spec.clone();
        Ok(View {
            name,
            semantic,
            is_system: record.is_system,
            edge_router_roles_display: edge_router_roles
                .display::<EdgeRouter>(lookup, |r| &r.spec.name)?,
            identity_roles_display: identity_roles.display::<Identity>(lookup, |r| &r.spec.name)?,
            edge_router_roles,
            identity_roles,
        })
    }
}
