//! POST /sessions: a session for the right to dial or bind a service.

use model::{
    entity::{Amount, Id, PolicyType, Record, Service, Session, Tags, TypedLookup},
    error::{Error, Refusal, Result},
};
use policy::{
    authentication::session_tokens,
    change::{Change, Lifecycle},
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::posture::allowed;
use crate::{
    answer::CreatedData,
    api::common::session::{SessionViewer, View},
    call::Call,
    envelope::Detail,
    extractor::Body,
};

/// A request for a session.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Session")]
pub(crate) struct NewSession {
    #[serde(default)]
    service_id: Id<Service>,
    /// `Dial` by default.
    #[serde(default, rename = "type")]
    #[schemars(with = "PolicyType")]
    policy_type: Option<PolicyType>,
    #[serde(default)]
    tags: Tags,
}

/// POST /sessions
pub(crate) async fn create(
    call: Call,
    Body(wish): Body<NewSession>,
) -> Result<CreatedData<Detail<View>>> {
    let caller = call.caller()?.clone();
    let wanted = wish.policy_type.unwrap_or(PolicyType::Dial);
    if wanted == PolicyType::Invalid {
        return Err(Error::invalid("type", "must be Dial or Bind", "Invalid"));
    }
    wish.tags
        .amount()
        .check("tags", Amount::default(), call.changes.most_of_clients())?;
    let (api_session, service) = (&caller.session.id, &wish.service_id);
    let key = Session::key(api_session, service, wanted);
    if let Some(open) = call
        .state
        .store
        .read(|tx| tx.find_by::<Session>("key", &key))?
    {
        let open = with_current_token(&call, open).await?;
        return SessionViewer::read(&call.state, |sight| sight.render(&open)).map(CreatedData);
    }
    let service = call.state.store.read(|tx| tx.get(service))?;
    let service_policies = allowed(&call, &caller, &service, wanted)?;
    let routers = SessionViewer::read(&call.state, |sight| {
        Ok(sight.in_common(&caller.identity.id, &service.id))
    })?;
    if routers.is_empty() {
        return Err(Error::Refused(Refusal::NoEdgeRoutersAvailable));
    }
    let id = Id::from_text(Session::new_id());
    let mut session = Session {
        token: String::new(),
        api_session_id: caller.session.id.clone(),
        identity_id: caller.identity.id.clone(),
        service_id: wish.service_id,
        policy_type: wanted,
        service_policies,
    };
    let is_signed = session_tokens::needs_signed(&call.state.store, &call.state.access, &session);
    session.token = call
        .changes
        .session_token(&id, &session, is_signed, call.now)?;
    let place = call
        .state
        .logins
        .sessions
        .admit_service(&caller.identity.id)?;
    // The slot is held until the session is stored and is itself counted.
    let (record, _) = call
        .changes
        .run(move |change| open(change, id, session, wish.tags).map(|record| (record, place)))
        .await?;
    SessionViewer::read(&call.state, |sight| {
        sight.render_with_routers(&record, &routers)
    })
    .map(CreatedData)
}

/// Stores the session, or returns the one that another request opened meanwhile.
fn open(
    change: &Change<'_, '_>,
    id: Id<Session>,
    session: Session,
    tags: Tags,
) -> Result<Record<Session>> {
    let key = Session::key(
        &session.api_session_id,
        &session.service_id,
        session.policy_type,
    );
    let mut record = Record::new(id, change.now(), session);
    record.tags = tags;
    change.insert(record).or_else(|refusal| match &refusal {
        Error::Duplicate { field, .. } if field == "key" => {
            change.read().find_by("key", &key)?.ok_or(refusal)
        }
        Error::NotFound {
            field: Some(field), ..
        } if field == "apiSession" => Err(Error::Unauthorized { anonymous: false }),
        _ => Err(refusal),
    })
}

/// An open session with a token that routers accept: another one if the key of the listener has
/// changed, the token is old, or a router needs a signed one now.
async fn with_current_token(call: &Call, open: Record<Session>) -> Result<Record<Session>> {
    let is_signed = session_tokens::needs_signed(&call.state.store, &call.state.access, &open.spec);
    if call
        .changes
        .is_session_token_current(&open, is_signed, call.now)
    {
        return Ok(open);
    }
    let token = call
        .changes
        .session_token(&open.id, &open.spec, is_signed, call.now)?;
    let renew = move |change: &Change<'_, '_>| {
        let Some(mut record) = change.find(&open.id)? else {
            return Err(Error::Unauthorized { anonymous: false });
        };
        record.spec.token = token;
        change.put(record.clone())?;
        Ok(record)
    };
    call.changes.run(renew).await
}
