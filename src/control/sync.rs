//! What edge routers are told of API sessions and sessions: everything when they have said hello, then every committed change, in order.
//!
//! The listener on the writer's thread only notes what has changed. One task makes messages of the notes and hands them to each router,
//! whose own task sends them behind the full state that it began with. So nothing is missed, and what is told twice does no harm.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, atomic::Ordering},
};

use prost::Message;
use serde_json::json;
use tokio::sync::mpsc;

use super::{
    answers::body,
    connection::RouterConnection,
    core::Core,
    message::{content, edge, key},
    sync_queue::{CHUNK, Notice},
};
use crate::{
    authentication::fingerprints_of,
    entity::{ApiSession, AuthQuery, Authenticator, Entity, FactsExt, Record, Session, SessionCertificate},
    error::Result,
    frame::{Builder, Frame},
    store::{Event, Read},
};

/// With more messages than this waiting for a router it is cut off; it comes back and is told everything.
const MOST_WAITING: usize = 65_536;
/// A router asks about at most this many sessions at once.
const MOST_TOKENS: usize = 20_000;

/// Notes what a committed change means to routers. Nothing while none is connected: they are told everything when they come.
pub fn hear(core: &Core, event: &Event) {
    if core.registry.is_empty() {
        return;
    }
    let sync = &core.sync;
    if event.ending.is_some() {
        // Which of very many have ended is not told.
        if event.kind == ApiSession::KIND || event.kind == SessionCertificate::KIND {
            sync.note(Notice::Everything);
        }
        return;
    }
    match event.of::<ApiSession>() {
        Some((None, Some(new))) => sync.note(Notice::Added(new.id.clone())),
        Some((Some(old), None)) => sync.note(Notice::ApiSessionRemoved(old.spec.token.clone())),
        Some((Some(old), Some(new))) if old.spec.is_mfa_complete != new.spec.is_mfa_complete => sync.note(Notice::Added(new.id.clone())),
        _ => {}
    }
    if let Some((Some(old), None)) = event.of::<Session>() {
        sync.note(Notice::SessionsRemoved(vec![old.spec.token.clone()]));
    }
    if let Some((old, new)) = event.of::<SessionCertificate>() {
        new.or(old).into_iter().for_each(|certificate| sync.note(Notice::Changed(certificate.spec.api_session_id.clone())));
    }
    if let Some((old, new)) = event.of::<Authenticator>() {
        let fingerprint =
            |record: Option<&Record<Authenticator>>| record.and_then(|record| record.spec.credential.fingerprint().map(String::from));
        if fingerprint(old) != fingerprint(new) {
            new.or(old).into_iter().for_each(|record| sync.note(Notice::OfIdentity(record.spec.identity_id.clone())));
        }
    }
}

/// A router that is told of changes.
struct Follower {
    connection: Arc<RouterConnection>,
    changes: mpsc::Sender<Frame>,
}

/// Tells routers what is noted, for ever.
pub async fn run(core: Arc<Core>) {
    let mut followers: HashMap<u64, Follower> = HashMap::new();
    loop {
        for notice in core.sync.take().await {
            followers.retain(|_, follower| !follower.connection.is_closed());
            match notice {
                Notice::Begin(connection) => drop(followers.insert(connection.number, follow(&core, connection))),
                Notice::Everything => followers.values_mut().for_each(|follower| *follower = follow(&core, follower.connection.clone())),
                notice => match messages(&core, notice) {
                    Ok(messages) => messages.iter().for_each(|message| tell(&followers, message)),
                    Err(error) => {
                        tracing::warn!(%error, "a change cannot be told to routers; they are told everything anew");
                        core.sync.note(Notice::Everything);
                        tokio::time::sleep(core.times.refusal).await;
                    }
                },
            }
        }
    }
}

fn tell(followers: &HashMap<u64, Follower>, message: &Frame) {
    for follower in followers.values() {
        if let Err(mpsc::error::TrySendError::Full(_)) = follower.changes.try_send(message.clone()) {
            tracing::warn!(router = %follower.connection.router, "a router that does not take changes is cut off");
            follower.connection.close();
        }
    }
}

fn messages(core: &Core, notice: Notice) -> Result<Vec<Frame>> {
    let store = &core.parts.rights.store;
    let updated = |sessions: Vec<edge::ApiSession>| {
        let body = edge::ApiSessionUpdated { api_sessions: sessions }.encode_to_vec();
        vec![Builder::new(content::API_SESSION_UPDATED).text(key::SYNC_STRATEGY, "instant").text(key::SYNC_STATE, "").body(&body)]
    };
    let removed = |content_type, tokens| {
        let body = edge::Removed { tokens, ids: Vec::new() }.encode_to_vec();
        vec![Builder::new(content_type).body(&body)]
    };
    Ok(match notice {
        Notice::Begin(_) | Notice::Everything => Vec::new(),
        Notice::Added(id) => match store.read(|tx| tx.find(&id)?.map_or(Ok(None), |session| shown(tx, &session)))? {
            Some(session) => vec![added(vec![session], false, (0, true, &core.sync.id()))],
            None => Vec::new(),
        },
        Notice::Changed(id) => {
            let session = store.read(|tx| tx.find(&id)?.map_or(Ok(None), |session| shown(tx, &session)))?;
            session.map_or_else(Vec::new, |session| updated(vec![session]))
        }
        Notice::OfIdentity(id) => {
            let sessions = store.read(|tx| {
                let sessions = tx.linked::<ApiSession>("identity", id.as_str())?;
                sessions.iter().filter_map(|session| shown(tx, session).transpose()).collect::<Result<Vec<_>>>()
            })?;
            if sessions.is_empty() { Vec::new() } else { updated(sessions) }
        }
        Notice::ApiSessionRemoved(token) => removed(content::API_SESSION_REMOVED, vec![token]),
        Notice::SessionsRemoved(tokens) => removed(content::SESSION_REMOVED, tokens),
    })
}

/// An API session as routers are told of it; nothing while a second factor is outstanding.
fn shown(tx: &Read<'_>, session: &Record<ApiSession>) -> Result<Option<edge::ApiSession>> {
    if AuthQuery::outstanding(&session.spec, tx)?.iter().any(|query| !query.is_token()) {
        return Ok(None);
    }
    Ok(Some(edge::ApiSession {
        token: session.spec.token.clone(),
        cert_fingerprints: fingerprints_of(tx, session)?,
        id: session.id.to_string(),
        identity_id: session.spec.identity_id.to_string(),
    }))
}

fn added(sessions: Vec<edge::ApiSession>, is_full_state: bool, (sequence, is_last, id): (usize, bool, &str)) -> Frame {
    let body = edge::ApiSessionAdded { is_full_state, api_sessions: sessions }.encode_to_vec();
    let state = json!({ "id": id, "isLast": is_last, "sequence": sequence }).to_string();
    Builder::new(content::API_SESSION_ADDED).text(key::SYNC_STRATEGY, "instant").text(key::SYNC_STATE, &state).body(&body)
}

/// Begins to tell a router everything. What is sent to the follower goes behind it.
fn follow(core: &Arc<Core>, connection: Arc<RouterConnection>) -> Follower {
    let (changes, waiting) = mpsc::channel(MOST_WAITING);
    let number = connection.full_states.fetch_add(1, Ordering::AcqRel) + 1;
    tokio::spawn(run_follower(core.clone(), connection.clone(), number, waiting));
    Follower { connection, changes }
}

async fn run_follower(core: Arc<Core>, connection: Arc<RouterConnection>, number: u64, mut waiting: mpsc::Receiver<Frame>) {
    if let Err(error) = tell_everything(&core, &connection, number).await {
        tracing::warn!(router = %connection.router, %error, "a router cannot be told of API sessions; it is cut off");
        return connection.close();
    }
    while let Some(frame) = waiting.recv().await {
        if connection.outbox.push_in_turn(frame).await.is_none() {
            return connection.close();
        }
    }
}

async fn tell_everything(core: &Arc<Core>, connection: &Arc<RouterConnection>, number: u64) -> Result<()> {
    let permit = core.sync.full_states.acquire().await;
    let is_current = || connection.full_states.load(Ordering::Acquire) == number && !connection.is_closed();
    if !is_current() {
        return Ok(());
    }
    core.registry.show(connection, core.online(), |link| link.sync_status = "SYNC_IN_PROGRESS".into());
    let (give, mut parts) = mpsc::channel(4);
    let reader = core.clone();
    let reading = tokio::task::spawn_blocking(move || read_everything(&reader, &give));
    while let Some(part) = parts.recv().await {
        if !is_current() || connection.outbox.push_in_turn(part).await.is_none() {
            return Ok(());
        }
    }
    drop(permit);
    reading.await.map_err(|error| crate::error::Error::Internal(format!("the reader of API sessions: {error}")))??;
    core.registry.show(connection, core.online(), |link| link.sync_status = "SYNC_DONE".into());
    Ok(())
}

/// Makes messages of all API sessions, and ends early where nobody takes them.
fn read_everything(core: &Core, give: &mpsc::Sender<Frame>) -> Result<()> {
    let (id, mut sequence, mut part) = (core.sync.id(), 0, Vec::with_capacity(CHUNK));
    core.parts.rights.store.read(|tx| {
        tx.each_readable::<ApiSession>(|session| {
            if give.is_closed() || tx.find_readable(&session.id)?.is_none() {
                return Ok(());
            }
            let Some(session) = shown(tx, &session)? else { return Ok(()) };
            if part.len() == CHUNK {
                let message = added(std::mem::take(&mut part), true, (sequence, false, &id));
                drop(give.blocking_send(message));
                sequence += 1;
            }
            part.push(session);
            Ok(())
        })
    })?;
    drop(give.blocking_send(added(part, true, (sequence, true, &id))));
    Ok(())
}

/// API sessions that are in use at a router count as active; it is told of those that have ended.
pub fn heard_of(core: &Core, connection: &Arc<RouterConnection>, frame: &Frame) {
    let Some(heard) = body::<edge::ApiSessionHeartbeat>(connection, frame) else { return };
    let rights = &core.parts.rights;
    let now = rights.clock.now();
    let is_unknown = |token: &String| matches!(rights.sessions.resolve(&rights.store, token, now), Ok(None));
    let tokens: Vec<String> = heard.tokens.into_iter().take(MOST_TOKENS).filter(is_unknown).collect();
    if !tokens.is_empty() {
        let body = edge::Removed { tokens, ids: Vec::new() }.encode_to_vec();
        connection.send(Builder::new(content::API_SESSION_REMOVED).body(&body));
    }
}

/// A router that was away is told which of its sessions have ended.
pub fn validate(core: &Core, connection: &Arc<RouterConnection>, frame: &Frame) {
    let Some(asked) = body::<edge::ValidateSessions>(connection, frame) else { return };
    let asked: HashSet<String> = asked.session_tokens.into_iter().take(MOST_TOKENS).collect();
    match core.tokens_without_session(asked) {
        Ok(tokens) if tokens.is_empty() => {}
        Ok(tokens) => {
            let body = edge::Removed { tokens: tokens.into_iter().collect(), ids: Vec::new() }.encode_to_vec();
            connection.send(Builder::new(content::SESSION_REMOVED).body(&body));
        }
        Err(error) => tracing::warn!(%error, "sessions cannot be looked up"),
    }
}
