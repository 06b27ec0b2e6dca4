//! The caller's own resources: the session of the request and its identity.

use model::{
    clock::Timestamp,
    entity::{
        ApiSession, Authenticator, Entity, HalLinks, Id, Identity, Record, TypedLookup,
        api_session::View,
    },
    error::Result,
};
use policy::authentication::{Caller, session_end};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    answer::{Data, NoData},
    call::Call,
    envelope::Detail,
};

/// The session of a request.
pub(crate) type SessionDetail = Detail<CurrentSession>;

/// The members of the session of a request.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CurrentApiSessionDetail")]
pub(crate) struct CurrentSession {
    #[serde(flatten)]
    of: <ApiSession as Entity>::View,
    /// When the session ends if it is not used.
    expires_at: Timestamp,
    /// The idle timeout of a session, in seconds.
    expiration_seconds: u64,
    /// Whether its client certificate can be renewed here.
    is_cert_extendable: bool,
}

/// The caller's session as shown.
///
/// # Errors
/// A record that the view needs cannot be read.
pub(crate) fn current(call: &Call, caller: &Caller) -> Result<SessionDetail> {
    let session = &caller.session;
    let active = call.state.logins.sessions.last_activity(session);
    let authenticator = session
        .spec
        .authenticator()
        .map(Id::<Authenticator>::from_text);
    let authenticator = authenticator
        .map(|id| call.state.store.read(|tx| tx.find(&id)))
        .transpose()?
        .flatten();
    let is_cert_extendable = authenticator
        .as_ref()
        .is_some_and(Record::is_issued_by_network);
    let mut of = View::of(
        session.spec.clone(),
        &caller.identity,
        caller.queries.clone(),
        authenticator.as_ref(),
    );
    of.cached_last_activity_at = active;
    let (expires_at, left) = call.state.logins.ends(caller, call.state.clock.now());
    let view = CurrentSession {
        of,
        expires_at,
        expiration_seconds: left.as_secs(),
        is_cert_extendable,
    };
    Ok(Detail::new(session, view))
}

/// GET /current-api-session
pub(crate) async fn session(call: Call) -> Result<Data<SessionDetail>> {
    let caller = call.caller()?;
    current(&call, caller).map(Data)
}

/// DELETE /current-api-session
pub(crate) async fn log_out(call: Call) -> Result<NoData> {
    session_end::log_out(&call.changes, call.caller()?.session.id.clone())
        .await
        .map(|()| NoData)
}

/// GET /current-identity
pub(crate) async fn identity(call: Call) -> Result<Data<Detail<<Identity as Entity>::View>>> {
    let id = &call.identity()?.id;
    call.state.store.read(|tx| {
        let record = tx.get(id)?;
        let mut detail = Detail::new(&record, Identity::view(&record, tx)?);
        detail.links = HalLinks::default()
            .with("self", "current-identity")
            .with("mfa", "current-identity/mfa");
        Ok(Data(detail))
    })
}
