//! Sessions: the right to dial or host one service, which clients show to edge routers.

use pki::jwt::claimed_id;
use query::Type;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entity::{
    ApiSession, Entity, EntityRef, Field, Id, Identity, Kind, Logged, Lookup, OnDelete, PolicyType,
    Record, Reference, Service, ServicePolicy, Stateful, TypedLookup,
};
use crate::error::Result;

/// The right of one API session to dial or bind one service. Requests do not write it directly, and
/// it has no `Debug`.
#[derive(Clone, Serialize, Deserialize)]
pub struct Session {
    /// The token that a client shows to the edge router, a secret that names the session: signed
    /// where a router needs it, otherwise the id of the session and random text after a dot. Random
    /// text alone in records of earlier versions.
    pub token: String,
    pub api_session_id: Id<ApiSession>,
    pub identity_id: Id<Identity>,
    pub service_id: Id<Service>,
    pub policy_type: PolicyType,
    /// The policies that granted it when it was made, with their posture checks passed.
    pub service_policies: Vec<Id<ServicePolicy>>,
}

impl Session {
    /// The unique key of a session: its API session, its service and its right.
    pub fn key(api_session: &Id<ApiSession>, service: &Id<Service>, right: PolicyType) -> String {
        format!("{api_session}/{service}/{}", right.as_str())
    }

    /// The id of the session that a token names; `None` for a token of an earlier version and for
    /// any other text.
    pub fn named_by(token: &str) -> Option<String> {
        let opaque = || {
            token
                .split_once('.')
                .filter(|(id, secret)| !id.is_empty() && !secret.contains('.'))
        };
        claimed_id(token).or_else(|| Some(opaque()?.0.to_owned()))
    }

    /// Whether a token is signed.
    pub fn is_signed(token: &str) -> bool {
        claimed_id(token).is_some()
    }

    /// The session of an API session with this token.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn with_token(
        token: &str,
        api_session: &Id<ApiSession>,
        lookup: &dyn Lookup,
    ) -> Result<Option<Record<Self>>> {
        let is_meant = |session: &Record<Self>| {
            session.spec.token == token && session.spec.api_session_id == *api_session
        };
        if let Some(id) = Self::named_by(token) {
            return Ok(lookup.find(&Id::<Self>::from_text(id))?.filter(is_meant));
        }
        // A token of an earlier version, which names no session.
        for id in lookup.ids(Self::KIND, "apiSession", api_session.as_str())? {
            if let Some(session) = lookup.find(&Id::<Self>::from_text(id))?.filter(is_meant) {
                return Ok(Some(session));
            }
        }
        Ok(None)
    }

    /// The ids of an identity's sessions in ascending order, without duplicates. They are found by
    /// its API sessions, of which there may be very many.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn ids_of(identity: &str, lookup: &dyn Lookup) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        for api_session in lookup.ids(ApiSession::KIND, "identity", identity)? {
            ids.extend(lookup.ids(Self::KIND, "apiSession", &api_session)?);
        }
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }
}

/// A session in responses, without the edge routers, which depend on policies.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionMembers")]
pub struct View {
    token: String,
    #[serde(rename = "type")]
    policy_type: PolicyType,
    api_session: EntityRef,
    api_session_id: Id<ApiSession>,
    identity_id: Id<Identity>,
    service: EntityRef,
    service_id: Id<Service>,
}

impl Stateful for Session {
    type State = ();
}

impl Entity for Session {
    const KIND: Kind = Kind {
        name: "session",
        path: "sessions",
        noun: "session",
    };
    const FIELDS: &'static [Field<Self>] = &[
        // Not indexed: a token names its session. Only a filter on one of an earlier version reads
        // all sessions.
        Field::naming("token", |r| (&r.spec.token).into(), Self::named_by),
        Field::indexed("apiSession", Type::Text, |r| {
            r.spec.api_session_id.as_str().into()
        }),
        Field::indexed("service", Type::Text, |r| r.spec.service_id.as_str().into()),
        Field::plain("type", Type::Text, |r| r.spec.policy_type.as_str().into()),
        Field::inner_unique("key", Type::Text, |r| {
            Self::key(
                &r.spec.api_session_id,
                &r.spec.service_id,
                r.spec.policy_type,
            )
            .into()
        }),
    ];
    const REFERENCES: &'static [Reference<Self>] = &[
        Reference::to::<ApiSession>(
            "apiSession",
            |r| vec![r.spec.api_session_id.as_str()],
            OnDelete::Cascade,
        ),
        Reference::to::<Service>(
            "service",
            |r| vec![r.spec.service_id.as_str()],
            OnDelete::Cascade,
        ),
    ];
    const ENDS_BY: &'static [&'static str] = &["apiSession", "service"];
    const LINKS: &'static [&'static str] = &["route-path"];
    const LOGGED: Logged = Logged::Nothing;
    const MADE_BY_CLIENTS: bool = true;
    type View = View;

    fn view(record: &Record<Self>, lookup: &dyn Lookup) -> Result<View> {
        let Self {
            token,
            api_session_id,
            identity_id,
            service_id,
            policy_type,
            ..
        } = record.spec.clone();
        let (api_session, service) = (lookup.get(&api_session_id)?, lookup.get(&service_id)?);
        Ok(View {
            token,
            policy_type,
            api_session: EntityRef::of(&api_session, ""),
            api_session_id,
            identity_id,
            service: EntityRef::of(&service, &service.spec.name),
            service_id,
        })
    }
}
