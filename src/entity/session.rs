//! Sessions: the right, shown to an edge router, to dial or host one service.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ApiSession, Entity, EntityRef, Facts, FactsExt, Field, Id, Identity, Kind, Logged, OnDelete, PolicyType, Record, Reference, Service,
    ServicePolicy, Stateful,
};
use crate::{error::Result, query::Type};

/// The right of one API session to dial or bind one service. No request writes it as such, and nothing prints it.
#[derive(Clone, Serialize, Deserialize)]
pub struct Session {
    /// What is shown to the edge router.
    pub token: String,
    pub api_session_id: Id<ApiSession>,
    pub identity_id: Id<Identity>,
    pub service_id: Id<Service>,
    pub policy_type: PolicyType,
    /// Policies that granted it when it was made, their posture checks passed.
    pub service_policies: Vec<Id<ServicePolicy>>,
}

impl Session {
    /// What there is one session of: an API session, a service and a right.
    pub fn key(api_session: &Id<ApiSession>, service: &Id<Service>, right: PolicyType) -> String {
        format!("{api_session}/{service}/{}", right.as_str())
    }

    /// The ids of an identity's sessions, ascending, each once: those of its API sessions, of which there may be very many.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn ids_of(identity: &str, facts: &dyn Facts) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        for api_session in facts.ids(ApiSession::KIND, "identity", identity)? {
            ids.extend(facts.ids(Self::KIND, "apiSession", &api_session)?);
        }
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }
}

/// A session as clients see it, without the routers to go over, which depend on policies.
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
    const KIND: Kind = Kind { name: "session", path: "sessions" };
    const FIELDS: &'static [Field<Self>] = &[
        // Rarely filtered by; then all sessions are read. It is never given twice because it is random.
        Field::plain("token", Type::Text, |r| (&r.spec.token).into()),
        Field::indexed("apiSession", Type::Text, |r| r.spec.api_session_id.as_str().into()),
        Field::indexed("service", Type::Text, |r| r.spec.service_id.as_str().into()),
        Field::plain("type", Type::Text, |r| r.spec.policy_type.as_str().into()),
        Field::inner_unique("key", Type::Text, |r| Self::key(&r.spec.api_session_id, &r.spec.service_id, r.spec.policy_type).into()),
    ];
    const REFERENCES: &'static [Reference<Self>] = &[
        Reference::to::<ApiSession>("apiSession", |r| vec![r.spec.api_session_id.as_str()], OnDelete::Cascade),
        Reference::to::<Service>("service", |r| vec![r.spec.service_id.as_str()], OnDelete::Cascade),
    ];
    const ENDS_BY: &'static [&'static str] = &["apiSession", "service"];
    const LINKS: &'static [&'static str] = &["route-path"];
    const LOGGED: Logged = Logged::Nothing;
    const MADE_BY_CLIENTS: bool = true;
    type View = View;

    fn view(record: &Record<Self>, facts: &dyn Facts) -> Result<View> {
        let Self { token, api_session_id, identity_id, service_id, policy_type, .. } = record.spec.clone();
        let (api_session, service) = (facts.get(&api_session_id)?, facts.get(&service_id)?);
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
