//! API sessions: one for each log-in.

use std::fmt;

use query::{Type, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entity::{
    Action, AuthPolicy, Authenticator, Ca, ConfigType, Entity, EntityRef, Epoch, ExternalJwtSigner,
    Field, Id, Identity, Kind, Logged, Lookup, OnDelete, Record, Reference, Stateful, Stored,
    TypedLookup, auth_policy::Secondary, kind::unreadable,
};
use crate::{clock::Timestamp, error::Result};

/// The authenticator id of a session that was opened by a claim in the certificate of a third-party
/// authority.
const INTERNAL: &str = "internal";
/// The authenticator id of a session that was opened by a one-time link of the host's owner.
const LINK: &str = "link";
/// The prefix of the authenticator id of a session that was opened by a token of an external
/// signer; the signer's id follows.
const SIGNER: &str = "extJwtId:";

/// A log-in that is still valid. Requests do not write it directly. `Debug` does not print the
/// token.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiSession {
    /// The secret that authenticates requests as the identity.
    pub token: String,
    pub identity_id: Id<Identity>,
    /// The id of an authenticator, or `internal`, or `link`, or `extJwtId:<signer id>`.
    pub authenticator_id: String,
    /// The config types whose configs services show.
    pub config_types: Vec<Id<ConfigType>>,
    pub ip_address: String,
    /// Whether the identity had a second factor when it logged in.
    pub is_mfa_required: bool,
    /// Whether it has entered a one-time code since.
    pub is_mfa_complete: bool,
    pub last_activity_at: Timestamp,
}

impl fmt::Debug for ApiSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiSession")
            .field("identity_id", &self.identity_id)
            .finish_non_exhaustive()
    }
}

impl ApiSession {
    /// The id of the authenticator, if the session was opened with one.
    pub fn authenticator(&self) -> Option<&str> {
        let id = self.authenticator_id.as_str();
        (!id.is_empty() && id != INTERNAL && id != LINK && !id.starts_with(SIGNER)).then_some(id)
    }

    /// Whether it is that of the tunneler of a router, which has proven its certificate on its
    /// control channel.
    pub fn is_of_router(&self) -> bool {
        self.authenticator_id.is_empty()
    }

    /// Whether a one-time code is still required, by the session or by the `secondary` part of the
    /// identity's auth policy.
    pub fn lacks_code(&self, secondary: &Secondary) -> bool {
        (self.is_mfa_required || secondary.require_totp) && !self.is_mfa_complete
    }
}

/// What opened a session. Deleting a credential, an authority or a signer ends its sessions, and so
/// does disabling a signer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginBasis {
    /// A credential of the identity.
    Authenticator(Id<Authenticator>),
    /// A claim in the certificate of a third-party authority.
    Claim(Id<Ca>),
    /// A token of an external signer.
    Token(Id<ExternalJwtSigner>),
    /// A one-time link of the owner of the host.
    Link,
}

impl LoginBasis {
    /// The authenticator id of the session in the API.
    pub fn authenticator_id(&self) -> String {
        match self {
            Self::Authenticator(id) => id.to_string(),
            Self::Claim(_) => INTERNAL.into(),
            Self::Link => LINK.into(),
            Self::Token(id) => format!("{SIGNER}{id}"),
        }
    }

    /// The authority, for a claim.
    pub fn ca(&self) -> Option<&Id<Ca>> {
        match self {
            Self::Claim(id) => Some(id),
            Self::Authenticator(_) | Self::Token(_) | Self::Link => None,
        }
    }
}

/// The part of a record that only code sets.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct State {
    /// The authority whose claim opened the session, if one did.
    pub ca_id: Option<Id<Ca>>,
    /// When a one-time code was last accepted in it.
    pub passed_at: Option<Timestamp>,
    /// The epoch of its creation; see `entity/tombstone.rs`.
    pub epoch: Epoch,
}

/// The state as stored in version 2.
#[derive(Deserialize)]
struct StateBeforeEpochs {
    ca_id: Option<Id<Ca>>,
    passed_at: Option<Timestamp>,
}

impl From<StateBeforeEpochs> for State {
    fn from(StateBeforeEpochs { ca_id, passed_at }: StateBeforeEpochs) -> Self {
        Self {
            ca_id,
            passed_at,
            epoch: 0,
        }
    }
}

/// An API session in responses to administrators and its owner.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ApiSessionDetail")]
pub struct View {
    token: String,
    identity: EntityRef,
    identity_id: Id<Identity>,
    authenticator_id: String,
    config_types: Vec<Id<ConfigType>>,
    ip_address: String,
    is_mfa_required: bool,
    is_mfa_complete: bool,
    /// What the session lacks before it may do anything.
    pub(crate) auth_queries: Vec<AuthQuery>,
    /// Whether an administrator asked that the certificate of the log-in is renewed.
    is_cert_extend_requested: bool,
    /// Whether a new key should be made for it.
    is_cert_key_roll_requested: bool,
    /// The last activity that is stored on disk.
    last_activity_at: Timestamp,
    /// The last activity, including what is only in memory.
    pub cached_last_activity_at: Timestamp,
}

/// Something that a session lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuthQueryDetail")]
pub struct AuthQuery {
    /// `MFA`, a one-time code, or `EXT-JWT`, a token of an external signer.
    pub(crate) type_id: String,
    pub provider: Provider,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<CodeFormat>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) http_method: Option<String>,
    /// Where to send the code, or where to get the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) http_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_length: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_length: Option<i64>,
}

/// What verifies the answer: the controller (`ziti`) or the issuer at a URL (`url`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "MfaProviders")]
pub enum Provider {
    Ziti,
    Url,
}

/// The characters of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "MfaFormats")]
pub enum CodeFormat {
    Numeric,
    Alpha,
    AlphaNumeric,
}

impl AuthQuery {
    /// A one-time code is required.
    pub fn code() -> Self {
        Self {
            type_id: "MFA".into(),
            provider: Provider::Ziti,
            format: Some(CodeFormat::AlphaNumeric),
            http_method: Some("POST".into()),
            http_url: Some("./authenticate/mfa".into()),
            min_length: Some(4),
            max_length: Some(6),
        }
    }

    /// A token of an external signer is required, which can be obtained at `url`.
    pub fn token(url: Option<String>) -> Self {
        let http_url = url.filter(|url| !url.is_empty());
        Self {
            type_id: "EXT-JWT".into(),
            provider: Provider::Url,
            format: None,
            http_method: None,
            http_url,
            min_length: None,
            max_length: None,
        }
    }

    /// Whether a token of an external signer is required.
    pub fn is_token(&self) -> bool {
        self.provider == Provider::Url
    }

    /// What a session lacks under the auth policy of its identity. A token of a second signer comes
    /// with each request, so that it is always listed here.
    ///
    /// # Errors
    /// The signer cannot be read.
    pub fn outstanding(
        session: &ApiSession,
        policy: &AuthPolicy,
        lookup: &dyn Lookup,
    ) -> Result<Vec<Self>> {
        let secondary = &policy.secondary;
        let mut lacking = Vec::new();
        if session.lacks_code(secondary) {
            lacking.push(Self::code());
        }
        if let Some(signer) = &secondary.require_ext_jwt_signer {
            lacking.push(Self::token(
                lookup
                    .get::<ExternalJwtSigner>(signer)?
                    .spec
                    .external_auth_url,
            ));
        }
        Ok(lacking)
    }
}

impl Stateful for ApiSession {
    type State = State;
}

impl Entity for ApiSession {
    const KIND: Kind = Kind {
        name: "apiSession",
        path: "api-sessions",
        noun: "API session",
    };
    const FIELDS: &'static [Field<Self>] = &[
        Field::unique("token", Type::Text, |r| (&r.spec.token).into()),
        Field::indexed("identity", Type::Text, |r| {
            r.spec.identity_id.as_str().into()
        }),
        Field::plain("lastActivityAt", Type::Date, |r| {
            Value::Date(r.spec.last_activity_at.millis())
        }),
        Field::indexed("authenticator", Type::Text, |r| {
            (&r.spec.authenticator_id).into()
        }),
        Field::plain("ipAddress", Type::Text, |r| (&r.spec.ip_address).into()),
    ];
    const REFERENCES: &'static [Reference<Self>] = &[
        Reference::to::<Identity>(
            "identity",
            |r| vec![r.spec.identity_id.as_str()],
            OnDelete::Cascade,
        ),
        Reference::to::<Authenticator>(
            "authenticator",
            |r| r.spec.authenticator().into_iter().collect(),
            OnDelete::Cascade,
        ),
        Reference::to::<Ca>(
            "ca",
            |r| r.state.ca_id.iter().map(Id::as_str).collect(),
            OnDelete::Cascade,
        ),
    ];
    const LINKS: &'static [&'static str] = &["sessions"];
    const LOGGED: Logged = Logged::Visits {
        comes: Action::Login,
        goes: Action::Logout,
        shown: &["identityId", "authenticatorId", "ipAddress"],
    };
    const ENDS_BY: &'static [&'static str] = &["identity", "authenticator", "ca"];
    const VERSION: u8 = 3;
    type View = View;

    fn epoch(record: &Record<Self>) -> Epoch {
        record.state.epoch
    }

    /// Version 1 had no state.
    fn upgrade(version: u8, old: &mut impl Stored) -> Result<(Self, State)> {
        match version {
            1 => old
                .read::<Self, ()>(Self::ENCODING)
                .map(|(spec, ())| (spec, State::default())),
            2 => old
                .read::<Self, StateBeforeEpochs>(Self::ENCODING)
                .map(|(spec, state)| (spec, state.into())),
            _ => Err(unreadable(version)),
        }
    }

    fn view(record: &Record<Self>, lookup: &dyn Lookup) -> Result<View> {
        let identity = lookup.get(&record.spec.identity_id)?;
        let policy = lookup.get(identity.spec.auth_policy())?;
        let auth_queries = AuthQuery::outstanding(&record.spec, &policy.spec, lookup)?;
        let authenticator = record
            .spec
            .authenticator()
            .map(Id::<Authenticator>::from_text);
        let authenticator = authenticator
            .map(|id| lookup.find(&id))
            .transpose()?
            .flatten();
        Ok(View::of(
            record.spec.clone(),
            &identity,
            auth_queries,
            authenticator.as_ref(),
        ))
    }
}

impl View {
    /// The view of a session of `identity`; `auth_queries` is what the session lacks,
    /// `authenticator` the credential that opened it.
    pub fn of(
        spec: ApiSession,
        identity: &Record<Identity>,
        auth_queries: Vec<AuthQuery>,
        authenticator: Option<&Record<Authenticator>>,
    ) -> Self {
        let wish = authenticator.and_then(|authenticator| authenticator.state.extension.as_ref());
        Self {
            is_cert_extend_requested: wish.is_some(),
            is_cert_key_roll_requested: wish.is_some_and(|wish| wish.roll_keys),
            token: spec.token,
            identity: EntityRef::of(identity, &identity.spec.name),
            identity_id: spec.identity_id,
            authenticator_id: spec.authenticator_id,
            config_types: spec.config_types,
            ip_address: spec.ip_address,
            is_mfa_required: spec.is_mfa_required,
            is_mfa_complete: spec.is_mfa_complete,
            auth_queries,
            last_activity_at: spec.last_activity_at,
            cached_last_activity_at: spec.last_activity_at,
        }
    }
}
