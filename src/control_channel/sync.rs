//! The API sessions and sessions that are sent to edge routers: the full state after their hello, then every committed change, in order.
//!
//! The listener on the writer's thread only records what has changed. One task encodes the changes and passes them to each router, whose
//! own task sends them after the full state. So no change is missed; a change that is sent twice does no harm.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use prost::Message;
use serde_json::json;
use tokio::sync::mpsc;

use super::{
    connection::RouterConnection,
    core::ControlCore,
    earlier_ends,
    message::{content, edge, key},
    replies::{IsComplete, Lists, api_sessions_removed, decoded},
    sync_queue::{CHUNK, FullStatePart, Notice},
};
use crate::{
    authentication::fingerprints_of,
    entity::{ApiSession, AuthQuery, Authenticator, Entity, Id, Record, Session, SessionCertificate, TypedLookup},
    error::Result,
    frame::{Builder, Frame},
    store::{Event, Read},
};

/// How long changes are collected after some were sent, for each connected router, because each of them costs an encrypted message. A change
/// after a quiet time is sent at once.
const PAUSE_PER_ROUTER: Duration = Duration::from_micros(50);
const PART_PAUSE: Duration = Duration::from_millis(5);
/// Maximum messages waiting for a router. Beyond it the router is disconnected; it reconnects and gets a full state.
const MAX_WAITING: usize = 8192;
/// Maximum sessions and identities in one message of a router.
const MAX_TOKENS: usize = 20_000;

/// Records what a committed change means to routers. While none is connected, little is recorded: a router gets a full state when it connects.
pub(crate) fn on_commit(core: &ControlCore, event: &Event) {
    let has_earlier_ended = match event.of::<Session>() {
        Some((Some(old), None)) => core.earlier.session_ended(old),
        // The sessions of an API session end in such numbers with it, and routers are told of that.
        _ if event.kind == Session::KIND && event.tombstone.as_ref().is_some_and(|tombstone| tombstone.field != "apiSession") => {
            core.earlier.some_ended()
        }
        _ => false,
    };
    if core.registry.is_empty() {
        return;
    }
    let sync = &core.sync;
    if has_earlier_ended {
        sync.record(Notice::EarlierEnded);
    }
    if event.tombstone.is_some() {
        // The event does not name the records when very many end at once.
        if event.kind == ApiSession::KIND || event.kind == SessionCertificate::KIND {
            sync.record(Notice::Everything);
        }
        return;
    }
    match event.of::<ApiSession>() {
        Some((None, Some(new))) => sync.record(Notice::Added(vec![new.id.clone()])),
        Some((Some(old), None)) => {
            core.registry.each(|connection| connection.connected.ended(&old.id, core.online()));
            sync.record(Notice::ApiSessionsRemoved(vec![old.spec.token.clone()]));
        }
        Some((Some(old), Some(new))) if old.spec.is_mfa_complete != new.spec.is_mfa_complete => {
            sync.record(Notice::Added(vec![new.id.clone()]))
        }
        _ => {}
    }
    if let Some((Some(old), None)) = event.of::<Session>() {
        sync.record(Notice::SessionsRemoved(vec![old.id.to_string()]));
    }
    if let Some((old, new)) = event.of::<SessionCertificate>() {
        new.or(old).into_iter().for_each(|certificate| sync.record(Notice::Changed(certificate.spec.api_session_id.clone())));
    }
    if let Some((old, new)) = event.of::<Authenticator>() {
        let fingerprint =
            |record: Option<&Record<Authenticator>>| record.and_then(|record| record.spec.credential.fingerprint().map(String::from));
        if fingerprint(old) != fingerprint(new) {
            new.or(old).into_iter().for_each(|record| sync.record(Notice::OfIdentity(record.spec.identity_id.clone())));
        }
    }
}

/// A router to which changes are sent.
struct Follower {
    connection: Arc<RouterConnection>,
    changes: mpsc::Sender<Arc<Frame>>,
}

/// Sends recorded changes to routers. Never ends.
pub(crate) async fn run(core: Arc<ControlCore>) {
    let mut followers: HashMap<u64, Follower> = HashMap::new();
    loop {
        let mut has_earlier_ended = false;
        for notice in core.sync.take().await {
            followers.retain(|_, follower| !follower.connection.is_closed());
            match notice {
                Notice::Begin(connection, number) => {
                    tokio::spawn(earlier_ends::end(core.clone(), connection.clone()));
                    // A full state for all routers may have replaced it.
                    if connection.is_latest_full_state(number) {
                        followers.insert(connection.number, follow(&core, connection, number));
                    }
                }
                // One task for each router, however many have ended.
                Notice::EarlierEnded => has_earlier_ended = true,
                Notice::AddedAgain(connection, ids) => {
                    if let Some(follower) = followers.get(&connection) {
                        match additions(&core, &ids) {
                            Ok(messages) => messages.into_iter().for_each(|message| send(follower, Arc::new(message))),
                            Err(error) => {
                                tracing::warn!(router = %follower.connection.router, %error, "API sessions cannot be read");
                                follower.connection.close();
                            }
                        }
                    }
                }
                Notice::Everything => followers.values_mut().for_each(|follower| {
                    let number = follower.connection.start_full_state();
                    *follower = follow(&core, follower.connection.clone(), number);
                }),
                notice => match messages(&core, notice) {
                    Ok(messages) => {
                        for message in messages.into_iter().map(Arc::new) {
                            followers.values().for_each(|follower| send(follower, message.clone()));
                        }
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a change cannot be sent to routers; they get a full state again");
                        core.sync.record(Notice::Everything);
                        tokio::time::sleep(core.times.refusal).await;
                    }
                },
            }
        }
        if has_earlier_ended {
            for follower in followers.values() {
                tokio::spawn(earlier_ends::end(core.clone(), follower.connection.clone()));
            }
        }
        tokio::time::sleep(PAUSE_PER_ROUTER * u32::try_from(followers.len()).unwrap_or(u32::MAX)).await;
    }
}

fn send(follower: &Follower, message: Arc<Frame>) {
    if let Err(mpsc::error::TrySendError::Full(_)) = follower.changes.try_send(message) {
        tracing::warn!(router = %follower.connection.router, "a router that does not read changes is disconnected");
        follower.connection.close();
    }
}

/// The messages that add API sessions which still exist.
fn additions(core: &ControlCore, ids: &[Id<ApiSession>]) -> Result<Vec<Frame>> {
    let mut messages = Vec::new();
    for some in ids.chunks(CHUNK) {
        let sessions = core.context.authorizer.store.read(|tx| {
            let encoded = some.iter().map(|id| tx.find(id)?.map_or(Ok(None), |session| encoded(tx, &session)));
            encoded.filter_map(Result::transpose).collect::<Result<Vec<_>>>()
        })?;
        if !sessions.is_empty() {
            messages.push(added(sessions, false, (0, true, &core.sync.id())));
        }
    }
    Ok(messages)
}

fn messages(core: &ControlCore, notice: Notice) -> Result<Vec<Frame>> {
    let store = &core.context.authorizer.store;
    let updated = |sessions: Vec<edge::ApiSession>| {
        let body = edge::ApiSessionUpdated { api_sessions: sessions }.encode_to_vec();
        vec![Builder::new(content::API_SESSION_UPDATED).text(key::SYNC_STRATEGY, "instant").text(key::SYNC_STATE, "").body(&body)]
    };
    Ok(match notice {
        Notice::Begin(..) | Notice::Everything | Notice::EarlierEnded | Notice::AddedAgain(..) => Vec::new(),
        Notice::Added(ids) => additions(core, &ids)?,
        Notice::Changed(id) => {
            let session = store.read(|tx| tx.find(&id)?.map_or(Ok(None), |session| encoded(tx, &session)))?;
            session.map_or_else(Vec::new, |session| updated(vec![session]))
        }
        Notice::OfIdentity(id) => {
            let sessions = store.read(|tx| {
                let sessions = tx.linked::<ApiSession>("identity", id.as_str())?;
                sessions.iter().filter_map(|session| encoded(tx, session).transpose()).collect::<Result<Vec<_>>>()
            })?;
            if sessions.is_empty() { Vec::new() } else { updated(sessions) }
        }
        Notice::ApiSessionsRemoved(tokens) => vec![api_sessions_removed(tokens)],
        Notice::SessionsRemoved(ids) => vec![sessions_removed(ids)],
    })
}

/// An API session in the form for routers; none while a second factor is outstanding.
fn encoded(tx: &Read<'_>, session: &Record<ApiSession>) -> Result<Option<edge::ApiSession>> {
    let policy = tx.get(tx.get(&session.spec.identity_id)?.spec.auth_policy())?;
    if AuthQuery::outstanding(&session.spec, &policy.spec, tx)?.iter().any(|query| !query.is_token()) {
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

/// Sends the full state with this number to a router. Changes sent to the follower come after it.
fn follow(core: &Arc<ControlCore>, connection: Arc<RouterConnection>, number: u64) -> Follower {
    let (changes, waiting) = mpsc::channel(MAX_WAITING);
    tokio::spawn(run_follower(core.clone(), connection.clone(), number, waiting));
    Follower { connection, changes }
}

async fn run_follower(core: Arc<ControlCore>, connection: Arc<RouterConnection>, number: u64, mut waiting: mpsc::Receiver<Arc<Frame>>) {
    if let Err(error) = send_full_state(&core, &connection, number).await {
        tracing::warn!(router = %connection.router, %error, "the full state cannot be sent to a router; it is disconnected");
        return connection.close();
    }
    while let Some(frame) = waiting.recv().await {
        if connection.outbox.push_when_low(Arc::unwrap_or_clone(frame)).await.is_none() {
            if !connection.outbox.is_finished() {
                connection.close();
            }
            return;
        }
    }
}

/// Sends a full state. One reader encodes it for all routers that wait for one, so that the work does not grow with their number. A router
/// that is too slow for the others gets another one, together with those that are slow, too.
async fn send_full_state(core: &Arc<ControlCore>, connection: &Arc<RouterConnection>, number: u64) -> Result<()> {
    let is_current = || connection.is_latest_full_state(number) && !connection.is_closed();
    for (kind, readers) in core.sync.readers.iter().enumerate() {
        let (sender, mut parts) = mpsc::channel(4);
        readers.waiting.lock().push(sender);
        tokio::spawn(read_for_waiting(core.clone(), kind));
        let mut is_begun = false;
        while let Some((part, is_last)) = parts.recv().await {
            if !is_begun && is_current() {
                core.registry.update_link(connection, core.online(), |link| link.sync_status = "SYNC_IN_PROGRESS".into());
            }
            is_begun = true;
            if !is_current() || connection.outbox.push_when_low(Arc::unwrap_or_clone(part)).await.is_none() {
                return Ok(());
            }
            // The reader may go on for others.
            if is_last {
                connection.full_state_ended(number);
                core.registry.update_link(connection, core.online(), |link| link.sync_status = "SYNC_DONE".into());
                return Ok(());
            }
        }
    }
    Err(crate::error::Error::Internal("API sessions cannot be read, or the router does not take them in time".into()))
}

/// Reads a full state for all routers that wait for a reader of this kind when its turn comes.
async fn read_for_waiting(core: Arc<ControlCore>, kind: usize) {
    let Some(readers) = core.sync.readers.get(kind) else { return };
    let _turn = readers.turns.acquire().await;
    let waiting = std::mem::take(&mut *readers.waiting.lock());
    if waiting.is_empty() {
        return;
    }
    let receivers = Receivers(waiting.into_iter().map(|parts| Receiver { parts, patience: readers.patience }).collect());
    let reader = core.clone();
    let read = tokio::task::spawn_blocking(move || read_full_state(&reader, receivers)).await;
    if !matches!(read, Ok(Ok(()))) {
        tracing::warn!(failed = ?read, "API sessions cannot be read");
    }
}

/// A router that a full state is read for, and how long the reader still waits for it in all.
struct Receiver {
    parts: mpsc::Sender<FullStatePart>,
    patience: Duration,
}

struct Receivers(Vec<Receiver>);

impl Receivers {
    /// Sends a part to all of them. A router that has spent its time gets no more parts. While the reader waits for one, the others go on.
    fn send(&mut self, part: Frame, is_last: bool) {
        let part = Arc::new(part);
        self.0.retain_mut(|Receiver { parts, patience }| {
            let (mut sent, began) = (parts.try_send((part.clone(), is_last)), Instant::now());
            while let Err(mpsc::error::TrySendError::Full(part)) = sent {
                if began.elapsed() >= *patience {
                    return false;
                }
                std::thread::sleep(PART_PAUSE);
                sent = parts.try_send(part);
            }
            *patience = patience.saturating_sub(began.elapsed());
            sent.is_ok()
        });
    }
}

/// Encodes all API sessions; stops early if nobody receives them. Blocks.
fn read_full_state(core: &ControlCore, mut receivers: Receivers) -> Result<()> {
    let (id, mut sequence, mut part) = (core.sync.id(), 0, Vec::with_capacity(CHUNK));
    core.context.authorizer.store.read(|tx| {
        tx.each_readable::<ApiSession>(|session| {
            if receivers.0.iter().all(|receiver| receiver.parts.is_closed()) || tx.find_readable(&session.id)?.is_none() {
                return Ok(());
            }
            let Some(session) = encoded(tx, &session)? else { return Ok(()) };
            if part.len() == CHUNK {
                receivers.send(added(std::mem::take(&mut part), true, (sequence, false, &id)), false);
                sequence += 1;
            }
            part.push(session);
            Ok(())
        })
    })?;
    receivers.send(added(part, true, (sequence, true, &id)), true);
    Ok(())
}

/// Marks API sessions in use at a router as active, and reports those that have ended.
pub(crate) fn heartbeat(core: &ControlCore, connection: &Arc<RouterConnection>, frame: &Frame) {
    let Some(report) = Lists::of(connection, frame) else { return };
    let authorizer = &core.context.authorizer;
    let now = authorizer.clock.now();
    let is_unknown = |token: &&str| match authorizer.sessions.resolve(&authorizer.store, token, now) {
        Ok(Some(caller)) => {
            connection.connected.seen(&caller.session.id, &caller.identity.id, core.online());
            false
        }
        Ok(None) => true,
        Err(_) => false,
    };
    let tokens: Vec<String> = report.texts(1).take(MAX_TOKENS).filter(is_unknown).map(String::from).collect();
    if !tokens.is_empty() {
        connection.send(api_sessions_removed(tokens));
    }
}

/// Takes a report of the identities whose SDKs are connected. Those that may not use the router are ignored.
pub(crate) fn connect_events(core: &ControlCore, connection: &Arc<RouterConnection>, frame: &Frame) {
    let Some((report, full)) = Lists::of(connection, frame).zip(decoded::<IsComplete>(connection, frame)) else { return };
    let identities = core.context.authorizer.access.ask(|engine| {
        let may = |event: &edge::ConnectEvent| engine.edge_routers_of_identity(&event.identity_id).contains(&connection.router);
        let events = report.messages::<edge::ConnectEvent>(1).take(MAX_TOKENS).filter(|event| !event.is_connected || may(event));
        events.map(|event| (event.identity_id, event.is_connected)).collect()
    });
    connection.connected.report(identities, full.is_complete, core.online());
}

/// Reports to a router that was disconnected which of its sessions have ended.
pub(crate) fn validate(core: &ControlCore, connection: &Arc<RouterConnection>, frame: &Frame) {
    let Some(request) = Lists::of(connection, frame) else { return };
    match core.ended_sessions(request.texts(1).take(MAX_TOKENS).map(String::from).collect()) {
        Ok(ids) if ids.is_empty() => {}
        Ok(ids) => connection.send(sessions_removed(ids)),
        Err(error) => tracing::warn!(%error, "sessions cannot be looked up"),
    }
}

/// Routers identify a session by the id that its token names, provided that the message has one id for each token.
fn sessions_removed(ids: Vec<String>) -> Frame {
    Builder::new(content::SESSION_REMOVED).body(&edge::Removed { tokens: ids.clone(), ids }.encode_to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(100);

    fn receiver(size: usize) -> (Receiver, mpsc::Receiver<FullStatePart>) {
        let (parts, received) = mpsc::channel(size);
        (Receiver { parts, patience: PATIENCE }, received)
    }

    fn send(receivers: Vec<Receiver>, count: i32) {
        let mut receivers = Receivers(receivers);
        (0..count).for_each(|number| receivers.send(Builder::new(number).empty(), number == count - 1));
    }

    /// Takes all parts, with a pause after each. Returns the number of the last one.
    fn take(mut parts: mpsc::Receiver<FullStatePart>, pause: Duration) -> Option<i32> {
        let mut last = None;
        while let Some((frame, _)) = parts.blocking_recv() {
            last = Some(frame.content_type());
            std::thread::sleep(pause);
        }
        last
    }

    #[test]
    fn slow_routers_delay_no_others() {
        let ((slow, mut of_slow), (quick, of_quick)) = (receiver(1), receiver(1));
        std::thread::scope(|scope| {
            let taking = scope.spawn(|| take(of_quick, Duration::from_millis(1)));
            send(vec![slow, quick], 20);
            assert_eq!(taking.join().unwrap(), Some(19), "also what follows after the slow one had its time");
        });
        assert_eq!(of_slow.try_recv().map(|(frame, _)| frame.content_type()), Ok(0));
        assert!(of_slow.try_recv().is_err(), "it gets no more parts, and no last one");
    }

    #[test]
    fn delays_by_slow_router_add_up() {
        let (slow, parts) = receiver(1);
        std::thread::scope(|scope| {
            // Each part is taken just in time.
            let taking = scope.spawn(|| take(parts, PATIENCE / 4));
            send(vec![slow], 20);
            assert!(taking.join().unwrap().unwrap() < 19, "it got all parts");
        });
    }
}
