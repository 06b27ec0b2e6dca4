//! API tokens: named, expiring secrets with which programs act as an identity, within a scope.

use std::fmt;

use query::{Type, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entity::{
    Amount, Entity, EntityRef, Field, Id, IdPath, Identity, Kind, Logged, Lookup, OnDelete, Record,
    Reference, Stateful, TypedLookup,
};
use crate::{
    clock::Timestamp,
    error::{Error, Result},
};

/// The action of every operation that changes nothing.
pub const READ: &str = "read";

/// What a request says about an API token. The secret is made by the controller and is not part of
/// the record.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiToken {
    pub name: String,
    /// The id of the identity that the token acts as. By default the identity that creates it.
    #[serde(default)]
    pub identity_id: Id<Identity>,
    /// The kinds that the token may use, as path segments such as `services`. Empty: all.
    #[serde(default)]
    #[schemars(extend("examples" = [["services", "service-policies"]]))]
    pub kinds: Vec<String>,
    /// The actions that the token may take: `read`, `create`, `update`, `delete`, and actions such
    /// as `disable` by their name. Empty: all.
    #[serde(default)]
    #[schemars(extend("examples" = [["read"]]))]
    pub actions: Vec<String>,
    /// Whether the token has only the rights of an ordinary identity, even if its identity is an
    /// administrator.
    #[serde(default)]
    pub self_service: bool,
    /// When the token ends; 90 days after its creation by default.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
}

impl ApiToken {
    /// Whether the token may do less than its identity.
    pub fn is_restricted(&self) -> bool {
        self.self_service || !self.kinds.is_empty() || !self.actions.is_empty()
    }

    /// Whether the scope has an action.
    pub fn may(&self, action: &str) -> bool {
        self.actions.is_empty() || self.actions.iter().any(|one| one == action)
    }

    /// Whether the scope has a kind, by its path segment.
    pub fn covers(&self, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|one| one == kind)
    }

    /// Whether the token has ended.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| end <= now)
    }
}

/// The part of a record that only code sets. `Debug` does not print the hash.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// The SHA-256 of the secret, in hexadecimal. The secret has 256 random bits, so that no slower
    /// hash is needed.
    pub hash: String,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

/// An API token in responses. The secret is only in the response to its creation.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ApiTokenDetail")]
pub struct View {
    name: String,
    identity: EntityRef,
    identity_id: Id<Identity>,
    /// The kinds that the token may use; empty: all.
    kinds: Vec<String>,
    /// The actions that the token may take; empty: all.
    actions: Vec<String>,
    /// Whether the token has only the rights of an ordinary identity.
    self_service: bool,
    expires_at: Option<Timestamp>,
    /// The parts of the scope that lead to every right, such as `create identities`. Empty without
    /// a scope.
    escalations: Vec<String>,
}

impl Stateful for ApiToken {
    type State = State;
}

impl Entity for ApiToken {
    const KIND: Kind = Kind {
        name: "apiToken",
        path: "api-tokens",
        noun: "API token",
    };
    const FIELDS: &'static [Field<Self>] = &[
        Field::every("name", |r| (&r.spec.name).into()),
        Field::indexed("identity", Type::Text, |r| {
            r.spec.identity_id.as_str().into()
        }),
        Field::plain("selfService", Type::Bool, |r| r.spec.self_service.into()),
        Field::plain("expiresAt", Type::Date, |r| {
            r.spec
                .expires_at
                .map_or(Value::Null, |end| Value::Date(end.millis()))
        }),
        Field::inner_unique("hash", Type::Text, |r| (&r.state.hash).into()),
    ];
    const REFERENCES: &'static [Reference<Self>] = &[Reference::with_paths::<Identity>(
        "identity",
        &[IdPath::Ids("identityId")],
        |r| vec![r.spec.identity_id.as_str()],
        OnDelete::Cascade,
    )];
    const LOGGED: Logged = Logged::Changes {
        secret: &["/hash"],
        quiet: &[],
    };
    type View = View;

    /// Not checked here: whether the scope fits the route tables. The handler that creates a token
    /// checks that.
    fn check(&self, lookup: &dyn Lookup) -> Result<()> {
        match self.expires_at {
            Some(end) if end <= lookup.now() => Err(Error::invalid(
                "expiresAt",
                "must be in the future",
                end.to_string(),
            )),
            _ => Ok(()),
        }
    }

    fn amounts(&self) -> Vec<(&'static str, Amount)> {
        vec![
            ("kinds", Amount::of_texts(&self.kinds)),
            ("actions", Amount::of_texts(&self.actions)),
        ]
    }

    fn view(record: &Record<Self>, lookup: &dyn Lookup) -> Result<View> {
        let escalations = record.spec.escalation_words();
        let Self {
            name,
            identity_id,
            kinds,
            actions,
            self_service,
            expires_at,
        } = record.spec.clone();
        let identity = lookup.get(&identity_id)?;
        Ok(View {
            name,
            identity: EntityRef::of(&identity, &identity.spec.name),
            identity_id,
            kinds,
            actions,
            self_service,
            expires_at,
            escalations,
        })
    }
}
