//! The facts of identities, and an identity as clients see it.

use std::collections::BTreeMap;

use query::Type;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Amount, ApiSession, AuthPolicy, Config, Document, Entity, EntityRef, EnvInfo, Field, Id,
    IdPath, Identity, IdentityType, Kind, Logged, Lookup, Mfa, OnDelete, Precedence, Record,
    Reference, Roles, SdkInfo, Service, TypedLookup,
    endpoint_info::Filled,
    identity::DEFAULT_AUTH_POLICY,
    identity_parts::{Credentials, Outstanding},
};
use crate::{
    clock::Timestamp,
    error::{Error, Result},
};

/// An identity in responses.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "IdentityDetail")]
pub struct View {
    name: String,
    r#type: EntityRef,
    type_id: &'static str,
    is_admin: bool,
    /// Whether it was made at the first start; then it cannot be deleted.
    is_default_admin: bool,
    role_attributes: Roles,
    auth_policy: EntityRef,
    auth_policy_id: Id<AuthPolicy>,
    external_id: Option<String>,
    authenticators: Credentials,
    /// Its unused enrollments.
    enrollment: Outstanding,
    /// Whether it may not log in at present.
    disabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled_until: Option<Timestamp>,
    has_api_session: bool,
    /// Whether it has a channel to an edge router.
    has_edge_router_connection: bool,
    /// The same as a word: `online` or `offline`.
    edge_router_connection_status: ConnectionStatus,
    /// Whether it has set up one-time codes.
    is_mfa_enabled: bool,
    default_hosting_cost: u16,
    default_hosting_precedence: Precedence,
    service_hosting_costs: BTreeMap<Id<Service>, u16>,
    service_hosting_precedences: BTreeMap<Id<Service>, Precedence>,
    app_data: Document,
    env_info: Filled<EnvInfo>,
    sdk_info: Filled<SdkInfo>,
}

/// Whether an identity has a channel to an edge router.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "IdentityConnectionStatus")]
enum ConnectionStatus {
    Online,
    Offline,
}

impl Entity for Identity {
    const KIND: Kind = Kind {
        name: "identity",
        path: "identities",
        noun: "identity",
    };
    const FIELDS: &'static [Field<Self>] = &[
        Field::every("name", |r| (&r.spec.name).into()),
        Field::indexed("roleAttributes", Type::Set, |r| {
            (&r.spec.role_attributes).into()
        }),
        Field::unique("externalId", Type::Text, |r| {
            r.spec.external_id.as_ref().into()
        }),
        Field::plain("type", Type::Text, |r| r.state.kind.as_str().into()),
        Field::indexed("authPolicyId", Type::Text, |r| {
            r.spec.auth_policy_id.as_str().into()
        }),
        Field::plain("isAdmin", Type::Bool, |r| r.is_admin().into()),
        Field::plain("isDefaultAdmin", Type::Bool, |r| {
            r.state.is_default_admin.into()
        }),
        Field::unlisted("hasApiSession", Type::Bool, |r, lookup| {
            lookup
                .has::<ApiSession>("identity", r.id.as_str())
                .ok()
                .into()
        }),
    ];
    const REFERENCES: &'static [Reference<Self>] = &[
        Reference::to::<AuthPolicy>(
            "authPolicyId",
            |r| vec![r.spec.auth_policy_id.as_str()],
            OnDelete::Restrict,
        ),
        Reference::with_paths::<Service>(
            "serviceConfigServices",
            &[],
            |r| {
                r.state
                    .service_configs
                    .iter()
                    .map(|o| o.service.as_str())
                    .collect()
            },
            OnDelete::Clear(|r, id| r.state.service_configs.retain(|o| o.service.as_str() != id)),
        ),
        Reference::with_paths::<Config>(
            "serviceConfigConfigs",
            &[],
            |r| {
                r.state
                    .service_configs
                    .iter()
                    .map(|o| o.config.as_str())
                    .collect()
            },
            OnDelete::Clear(|r, id| r.state.service_configs.retain(|o| o.config.as_str() != id)),
        ),
        Reference::with_paths::<Service>(
            "serviceHosting",
            &[
                IdPath::Ids("serviceHostingCosts"),
                IdPath::Ids("serviceHostingPrecedences"),
            ],
            |r| r.spec.hosted().map(Id::as_str).collect(),
            OnDelete::Clear(|r, id| {
                r.spec
                    .service_hosting_costs
                    .retain(|service, _| service.as_str() != id);
                r.spec
                    .service_hosting_precedences
                    .retain(|service, _| service.as_str() != id);
            }),
        ),
    ];
    const LINKS: &'static [&'static str] = &[
        "edge-router-policies",
        "edge-routers",
        "service-policies",
        "services",
        "posture-data",
        "failed-service-requests",
        "authenticators",
        "enrollments",
        "service-configs",
    ];
    const LOGGED: Logged = Logged::Changes {
        secret: &[],
        quiet: &["envInfo", "sdkInfo"],
    };
    type View = View;

    fn tidy(&mut self) {
        if self.auth_policy_id.as_str().trim().is_empty() {
            self.auth_policy_id = Id::from_text(DEFAULT_AUTH_POLICY);
        }
        self.external_id.take_if(|id| id.trim().is_empty());
    }

    fn check(&self, lookup: &dyn Lookup) -> Result<()> {
        let own = [
            self.role_attributes.check_attributes(),
            self.app_data.check_scalars("appData"),
            lookup.get(&self.auth_policy_id).map(|_| ()),
        ];
        Error::all(
            own.into_iter()
                .chain(self.hosted().map(|service| lookup.get(service).map(|_| ()))),
        )
    }

    fn amounts(&self) -> Vec<(&'static str, Amount)> {
        vec![
            ("roleAttributes", self.role_attributes.amount()),
            ("appData", self.app_data.amount()),
        ]
    }

    fn view(record: &Record<Self>, lookup: &dyn Lookup) -> Result<View> {
        let (spec, state, id) = (
            record.spec.clone(),
            record.state.clone(),
            record.id.as_str(),
        );
        let auth_policy = lookup.get(&spec.auth_policy_id)?;
        Ok(View {
            r#type: EntityRef::new(IdentityType::KIND, state.kind.as_str(), state.kind.as_str()),
            type_id: state.kind.as_str(),
            is_default_admin: state.is_default_admin,
            auth_policy: EntityRef::of(&auth_policy, &auth_policy.spec.name),
            auth_policy_id: auth_policy.id,
            authenticators: Credentials::of(id, lookup)?,
            enrollment: Outstanding::of(id, lookup)?,
            // The time is only read where it matters, because a view that reads it cannot be
            // cached.
            disabled: state.disabled_at.is_some() && state.is_disabled(lookup.now()),
            disabled_at: state.disabled_at,
            disabled_until: state.disabled_until,
            has_api_session: lookup.has::<ApiSession>("identity", id)?,
            has_edge_router_connection: lookup.is_connected(id),
            edge_router_connection_status: if lookup.is_connected(id) {
                ConnectionStatus::Online
            } else {
                ConnectionStatus::Offline
            },
            is_mfa_enabled: lookup
                .linked::<Mfa>("identity", id)?
                .iter()
                .any(|mfa| mfa.spec.is_verified),
            name: spec.name,
            is_admin: record.is_admin(),
            role_attributes: spec.role_attributes,
            external_id: spec.external_id,
            default_hosting_cost: spec.default_hosting_cost,
            default_hosting_precedence: spec.default_hosting_precedence,
            service_hosting_costs: spec.service_hosting_costs,
            service_hosting_precedences: spec.service_hosting_precedences,
            app_data: spec.app_data,
            env_info: Filled(state.env_info),
            sdk_info: Filled(state.sdk_info),
        })
    }

    fn links(record: &Record<Self>) -> Vec<(&'static str, String)> {
        vec![(
            "auth-policies",
            format!("auth-policies/{}", record.spec.auth_policy_id),
        )]
    }
}
