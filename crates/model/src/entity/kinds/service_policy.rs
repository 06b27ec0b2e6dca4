//! Service policies: which identities may dial or bind which services, and which posture checks
//! that requires.

use query::Type;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entity::{
    Entity, Field, IdPath, Identity, Kind, Lookup, NamedRole, OnDelete, PolicyType, PostureCheck,
    Record, Reference, Roles, Semantic, Service, Stateful,
};
use crate::error::{Error, Result};

/// Grants identities the right to use services, as long as their posture checks pass.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServicePolicy {
    pub name: String,
    /// The right it grants: `Dial` or `Bind`.
    #[serde(rename = "type")]
    pub policy_type: PolicyType,
    /// How attributes combine in all three lists.
    pub semantic: Semantic,
    /// The identities: `#attribute`, `@id`, or `#all` alone.
    #[serde(default)]
    pub identity_roles: Roles,
    /// The services: `#attribute`, `@id`, or `#all` alone.
    #[serde(default)]
    pub service_roles: Roles,
    /// The posture checks that must pass: `#attribute`, `@id`, or `#all` alone. An empty list
    /// requires none.
    #[serde(default)]
    pub posture_check_roles: Roles,
}

/// A service policy in responses.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ServicePolicyDetail")]
pub struct View {
    name: String,
    #[serde(rename = "type")]
    policy_type: PolicyType,
    semantic: Semantic,
    identity_roles: Roles,
    identity_roles_display: Vec<NamedRole>,
    service_roles: Roles,
    service_roles_display: Vec<NamedRole>,
    posture_check_roles: Roles,
    posture_check_roles_display: Vec<NamedRole>,
}

impl Stateful for ServicePolicy {
    type State = ();
}

impl Entity for ServicePolicy {
    const KIND: Kind = Kind {
        name: "servicePolicy",
        path: "service-policies",
        noun: "service policy",
    };
    const FIELDS: &'static [Field<Self>] = &[
        Field::every("name", |r| (&r.spec.name).into()),
        Field::plain("type", Type::Number, |r| r.spec.policy_type.number()),
        Field::plain("semantic", Type::Text, |r| r.spec.semantic.as_str().into()),
        Field::plain("identityRoles", Type::Set, |r| {
            (&r.spec.identity_roles).into()
        }),
        Field::plain("serviceRoles", Type::Set, |r| {
            (&r.spec.service_roles).into()
        }),
        Field::plain("postureCheckRoles", Type::Set, |r| {
            (&r.spec.posture_check_roles).into()
        }),
    ];
    const REFERENCES: &'static [Reference<Self>] = &[
        Reference::with_paths::<Identity>(
            "identityIds",
            &[IdPath::Roles("identityRoles")],
            |r| r.spec.identity_roles.ids().collect(),
            OnDelete::Clear(|r, id| r.spec.identity_roles.forget(id)),
        ),
        Reference::with_paths::<Service>(
            "serviceIds",
            &[IdPath::Roles("serviceRoles")],
            |r| r.spec.service_roles.ids().collect(),
            OnDelete::Clear(|r, id| r.spec.service_roles.forget(id)),
        ),
        Reference::with_paths::<PostureCheck>(
            "postureCheckIds",
            &[IdPath::Roles("postureCheckRoles")],
            |r| r.spec.posture_check_roles.ids().collect(),
            OnDelete::Clear(|r, id| r.spec.posture_check_roles.forget(id)),
        ),
    ];
    const LINKS: &'static [&'static str] = &["services", "identities", "posture-checks"];
    const BODY: &'static str = "policy";
    type View = View;

    fn check(&self, lookup: &dyn Lookup) -> Result<()> {
        let is_valid = self.policy_type != PolicyType::Invalid;
        Error::all([
            if is_valid {
                Ok(())
            } else {
                Err(Error::invalid(
                    "policyType",
                    "must be Dial or Bind",
                    "Invalid",
                ))
            },
            self.identity_roles
                .check_list::<Identity>("identityRoles", lookup),
            self.service_roles
                .check_list::<Service>("serviceRoles", lookup),
            self.posture_check_roles
                .check_list::<PostureCheck>("postureCheckRoles", lookup),
        ])
    }

    fn flaw(record: &Record<Self>) -> Option<&'static str> {
        Roles::flaw_of_lists(&[
            &record.spec.identity_roles,
            &record.spec.service_roles,
            &record.spec.posture_check_roles,
        ])
    }

    fn view(record: &Record<Self>, lookup: &dyn Lookup) -> Result<View> {
        let Self {
            name,
            policy_type,
            semantic,
            identity_roles,
            service_roles,
            posture_check_roles,
        } = record.spec.clone();
        Ok(View {
            name,
            policy_type,
            semantic,
            identity_roles_display: identity_roles.display::<Identity>(lookup, |r| &r.spec.name)?,
            service_roles_display: service_roles.display::<Service>(lookup, |r| &r.spec.name)?,
            posture_check_roles_display: posture_check_roles
                .display::<PostureCheck>(lookup, |r| &r.spec.name)?,
            identity_roles,
            service_roles,
            posture_check_roles,
        })
    }
}
