//! Identities: people, devices and programs that log in, and the tunnelers inside edge routers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::identity_state::{IdentityKind, Override, State};
use super::{
    Amount, ApiSession, AuthPolicy, Config, Document, Entity, EntityRef, Facts, FactsExt, Field, Id, IdentityType, Kind, Logged, Mfa,
    OnDelete, Place, Precedence, Record, Reference, Roles, Service,
    identity_parts::{Credentials, EnvInfo, Filled, Outstanding, SdkInfo},
};
use crate::{
    clock::Timestamp,
    error::{Error, Result},
    query::Type,
};

/// The auth policy of those who name none; made at the first start.
pub const DEFAULT_AUTH_POLICY: &str = "default";

/// Somebody or something that logs in.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    pub name: String,
    /// Accepted for the sake of older clients; every identity that is made by request becomes a `Default`.
    #[serde(rename = "type")]
    pub claimed_kind: ClaimedKind,
    /// Whether it may manage everything. The right to use services is a matter of policies even so.
    pub is_admin: bool,
    /// Names by which policies find the identity.
    #[serde(default)]
    pub role_attributes: Roles,
    /// How it may log in; blank: by the policy `default`.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub auth_policy_id: Id<AuthPolicy>,
    /// What an external authority calls it, in the claims of certificates and tokens; blank: nothing.
    #[serde(default)]
    pub external_id: Option<String>,
    /// The cost of reaching a service through it, unless said otherwise for the service.
    #[serde(default)]
    pub default_hosting_cost: u16,
    /// Its precedence as a host, unless said otherwise for the service.
    #[serde(default)]
    pub default_hosting_precedence: Precedence,
    /// The cost as a host of single services, by service id.
    #[serde(default)]
    pub service_hosting_costs: BTreeMap<Id<Service>, u16>,
    /// The precedence as a host of single services, by service id.
    #[serde(default)]
    pub service_hosting_precedences: BTreeMap<Id<Service>, Precedence>,
    /// Anything its application wants to find again. Values are no lists or objects.
    #[serde(default)]
    pub app_data: Document,
}

/// What a request may call an identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "IdentityKind")]
pub enum ClaimedKind {
    User,
    Device,
    Service,
    Router,
    Default,
}

impl ClaimedKind {
    /// What it claims that the identity is. A new identity is a `Default` all the same; an edit must claim what it is.
    pub fn kind(self) -> IdentityKind {
        if self == Self::Router { IdentityKind::Router } else { IdentityKind::Default }
    }
}

/// An identity as clients see it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "IdentityDetail")]
pub struct View {
    name: String,
    r#type: EntityRef,
    type_id: &'static str,
    is_admin: bool,
    /// Made at the first start; it cannot be deleted.
    is_default_admin: bool,
    role_attributes: Roles,
    auth_policy: EntityRef,
    auth_policy_id: Id<AuthPolicy>,
    external_id: Option<String>,
    authenticators: Credentials,
    /// Enrollments that are outstanding.
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
    /// Whether it gives one-time codes.
    is_mfa_enabled: bool,
    default_hosting_cost: u16,
    default_hosting_precedence: Precedence,
    service_hosting_costs: BTreeMap<Id<Service>, u16>,
    service_hosting_precedences: BTreeMap<Id<Service>, Precedence>,
    app_data: Document,
    env_info: Filled<EnvInfo>,
    sdk_info: Filled<SdkInfo>,
}

impl Record<Identity> {
    /// Whether it may do everything.
    pub fn is_admin(&self) -> bool {
        self.spec.is_admin || self.state.is_default_admin
    }
}

impl Entity for Identity {
    const KIND: Kind = Kind { name: "identity", path: "identities" };
    const FIELDS: &'static [Field<Self>] = &[
        Field::every("name", |r| (&r.spec.name).into()),
        Field::indexed("roleAttributes", Type::Set, |r| (&r.spec.role_attributes).into()),
        Field::unique("externalId", Type::Text, |r| r.spec.external_id.as_ref().into()),
        Field::plain("type", Type::Text, |r| r.state.kind.as_str().into()),
        Field::indexed("authPolicyId", Type::Text, |r| r.spec.auth_policy_id.as_str().into()),
        Field::plain("isAdmin", Type::Bool, |r| r.is_admin().into()),
        Field::plain("isDefaultAdmin", Type::Bool, |r| r.state.is_default_admin.into()),
        Field::unlisted("hasApiSession", Type::Bool, |r, facts| facts.has::<ApiSession>("identity", r.id.as_str()).ok().into()),
    ];
    const REFERENCES: &'static [Reference<Self>] = &[
        Reference::to::<AuthPolicy>("authPolicyId", |r| vec![r.spec.auth_policy_id.as_str()], OnDelete::Restrict),
        Reference::placed::<Service>(
            "serviceConfigServices",
            &[],
            |r| r.state.service_configs.iter().map(|o| o.service.as_str()).collect(),
            OnDelete::Clear(|r, id| r.state.service_configs.retain(|o| o.service.as_str() != id)),
        ),
        Reference::placed::<Config>(
            "serviceConfigConfigs",
            &[],
            |r| r.state.service_configs.iter().map(|o| o.config.as_str()).collect(),
            OnDelete::Clear(|r, id| r.state.service_configs.retain(|o| o.config.as_str() != id)),
        ),
        Reference::placed::<Service>(
            "serviceHosting",
            &[Place::Ids("serviceHostingCosts"), Place::Ids("serviceHostingPrecedences")],
            |r| r.spec.hosted().map(Id::as_str).collect(),
            OnDelete::Clear(|r, id| {
                r.spec.service_hosting_costs.retain(|service, _| service.as_str() != id);
                r.spec.service_hosting_precedences.retain(|service, _| service.as_str() != id);
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
    const LOGGED: Logged = Logged::Changes { secret: &[], quiet: &["envInfo", "sdkInfo"] };
    type State = State;
    type View = View;

    fn tidy(&mut self) {
        if self.auth_policy_id.as_str().trim().is_empty() {
            self.auth_policy_id = Id::from_text(DEFAULT_AUTH_POLICY);
        }
        self.external_id.take_if(|id| id.trim().is_empty());
    }

    fn check(&self, facts: &dyn Facts) -> Result<()> {
        let own =
            [self.role_attributes.check_attributes(), self.app_data.check_scalars("appData"), facts.get(&self.auth_policy_id).map(|_| ())];
        Error::all(own.into_iter().chain(self.hosted().map(|service| facts.get(service).map(|_| ()))))
    }

    fn amounts(&self) -> Vec<(&'static str, Amount)> {
        vec![("roleAttributes", self.role_attributes.amount()), ("appData", self.app_data.amount())]
    }

    fn view(record: &Record<Self>, facts: &dyn Facts) -> Result<View> {
        let (spec, state, id) = (record.spec.clone(), record.state.clone(), record.id.as_str());
        let auth_policy = facts.get(&spec.auth_policy_id)?;
        Ok(View {
            r#type: EntityRef::new(IdentityType::KIND, state.kind.as_str(), state.kind.as_str()),
            type_id: state.kind.as_str(),
            is_default_admin: state.is_default_admin,
            auth_policy: EntityRef::of(&auth_policy, &auth_policy.spec.name),
            auth_policy_id: auth_policy.id,
            authenticators: Credentials::of(id, facts)?,
            enrollment: Outstanding::of(id, facts)?,
            // Only where time can tell: a view that asks for it cannot be kept.
            disabled: state.disabled_at.is_some() && state.is_disabled(facts.now()),
            disabled_at: state.disabled_at,
            disabled_until: state.disabled_until,
            has_api_session: facts.has::<ApiSession>("identity", id)?,
            has_edge_router_connection: facts.is_connected(id),
            is_mfa_enabled: facts.linked::<Mfa>("identity", id)?.iter().any(|mfa| mfa.spec.is_verified),
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
        vec![("auth-policies", format!("auth-policies/{}", record.spec.auth_policy_id))]
    }
}

impl Identity {
    /// An identity of which nothing is said but its name.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            claimed_kind: ClaimedKind::Default,
            is_admin: false,
            role_attributes: Roles::default(),
            auth_policy_id: Id::from_text(DEFAULT_AUTH_POLICY),
            external_id: None,
            default_hosting_cost: 0,
            default_hosting_precedence: Precedence::Default,
            service_hosting_costs: BTreeMap::new(),
            service_hosting_precedences: BTreeMap::new(),
            app_data: Document::default(),
        }
    }

    /// The id of the auth policy that applies.
    pub fn auth_policy(&self) -> &Id<AuthPolicy> {
        &self.auth_policy_id
    }

    /// The services of which it says how it hosts them, some twice.
    fn hosted(&self) -> impl Iterator<Item = &Id<Service>> {
        self.service_hosting_costs.keys().chain(self.service_hosting_precedences.keys())
    }
}
