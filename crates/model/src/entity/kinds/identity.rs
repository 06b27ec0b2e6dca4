//! Identities: people, devices and programs that log in, and the tunnelers inside edge routers. The
//! facts of the kind and its view for clients are in `identity_view.rs`, which uses kinds that
//! refer to identities.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::entity::identity_state::Override;
pub use crate::entity::identity_state::{IdentityKind, State};
use crate::entity::{AuthPolicy, Document, Id, Precedence, Record, Roles, Service, Stateful};

/// The auth policy of identities that name none; made at the first start.
pub const DEFAULT_AUTH_POLICY: &str = "default";

/// A person, device or program that logs in.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    pub name: String,
    /// Accepted for compatibility with older clients; every identity created by a request is a
    /// `Default`.
    #[serde(rename = "type")]
    pub claimed_kind: ClaimedKind,
    /// Whether it may manage everything. Policies still decide which services it may use.
    pub is_admin: bool,
    /// Names by which policies find the identity.
    #[serde(default)]
    pub role_attributes: Roles,
    /// The auth policy that says how it may log in; if empty, `default`.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub auth_policy_id: Id<AuthPolicy>,
    /// Its name at an external authority, in the claims of certificates and tokens; empty or absent
    /// means none.
    #[serde(default)]
    pub external_id: Option<String>,
    /// The cost of reaching a service through it, unless set for the service.
    #[serde(default)]
    pub default_hosting_cost: u16,
    /// Its precedence as a host, unless set for the service.
    #[serde(default)]
    pub default_hosting_precedence: Precedence,
    /// Its cost as a host of single services, by service id.
    #[serde(default)]
    pub service_hosting_costs: BTreeMap<Id<Service>, u16>,
    /// Its precedence as a host of single services, by service id.
    #[serde(default)]
    pub service_hosting_precedences: BTreeMap<Id<Service>, Precedence>,
    /// Free data of its application. Values may not be lists or objects.
    #[serde(default)]
    pub app_data: Document,
}

/// The types that a request may give an identity.
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
    /// The identity type that the claim stands for. A new identity becomes a `Default`, whichever
    /// type it claims; an edit must claim the actual type.
    pub fn kind(self) -> IdentityKind {
        if self == Self::Router {
            IdentityKind::Router
        } else {
            IdentityKind::Default
        }
    }
}

impl Stateful for Identity {
    type State = State;
}

impl Record<Identity> {
    /// Whether it is an administrator.
    pub fn is_admin(&self) -> bool {
        self.spec.is_admin || self.state.is_default_admin
    }
}

impl Identity {
    /// An identity with this name and defaults.
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

    /// The services with a hosting cost or precedence, possibly with duplicates.
    pub(in crate::entity) fn hosted(&self) -> impl Iterator<Item = &Id<Service>> {
        self.service_hosting_costs
            .keys()
            .chain(self.service_hosting_precedences.keys())
    }
}
