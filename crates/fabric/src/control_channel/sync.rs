//! The API sessions and sessions that edge routers are told of: a full state after their hello,
//! then every committed change, in order.
//!
//! The listener on the writer's thread only records what has changed. One task reads the present
//! state of what has changed, compares it with what each router was told, and passes the difference
//! to the task of the router (`sync_follower.rs`). So no change is missed; one that is recorded
//! twice does no harm.
//!
//! Invariant: a router is told only of API sessions that it may know (`channel_sessions.rs`,
//! `router_rights.rs`), and of the end only of what it was told of.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use model::{
    entity::{ApiSession, Entity, Id, Identity, Lookup},
    error::Result,
};
use roaring::RoaringTreemap;
use tokio::task::block_in_place;
use wire::{control::model::Action, frame::Frame};

use super::{
    channel_sessions::{ChannelSession, SessionChange},
    connection::RouterConnection,
    control_core::ControlCore,
    earlier_ends,
    replies::api_sessions_removed,
    sync_follower::{Follower, added, sessions_removed, updated},
    sync_queue::{CHUNK, EndedSession, Notice},
    told_identities,
};

/// How long changes are collected after some were sent, for each connected router, because each of
/// them costs an encrypted message. A change after a quiet time is sent at once.
const PAUSE_PER_ROUTER: Duration = Duration::from_micros(50);

/// Passes recorded changes to routers. Never ends.
pub(crate) async fn run(core: Arc<ControlCore>) {
    let mut followers = Followers {
        core: core.clone(),
        all: HashMap::new(),
    };
    loop {
        let notices = core.sync.take().await;
        if let Err(error) = block_in_place(|| followers.take(notices)) {
            tracing::warn!(%error, "changes cannot be sent to routers; all API sessions are read again");
            core.sync.record(Notice::Everything);
            tokio::time::sleep(core.times.refusal).await;
        }
        tokio::time::sleep(
            PAUSE_PER_ROUTER * u32::try_from(followers.all.len()).unwrap_or(u32::MAX),
        )
        .await;
    }
}

/// The routers to which changes are sent, by the numbers of their connections.
struct Followers {
    core: Arc<ControlCore>,
    all: HashMap<u64, Follower>,
}

impl Followers {
    /// Handles recorded changes in order, after the full states that are to begin.
    ///
    /// # Errors
    /// Some could not be read.
    fn take(&mut self, notices: Vec<Notice>) -> Result<()> {
        self.all
            .retain(|_, follower| !follower.connection.is_closed());
        if self.all.is_empty() {
            // Nothing was recorded while no router was connected.
            self.core.channel_sessions.write().clear();
        }
        let (mut beginning, mut changes) = (Vec::new(), Vec::new());
        for notice in notices {
            match notice {
                Notice::Begin(connection) => beginning.push(connection),
                change => changes.push(change),
            }
        }
        self.begin(beginning);
        if self.all.is_empty() {
            return Ok(());
        }
        let (mut outcome, mut has_earlier_ended) = (Ok(()), false);
        for notice in changes {
            let handled = match notice {
                // One task for each router, however many have ended.
                Notice::EarlierEnded => {
                    has_earlier_ended = true;
                    Ok(())
                }
                notice => self.handle(notice),
            };
            outcome = outcome.and(handled);
        }
        if has_earlier_ended {
            for follower in self.all.values() {
                tokio::spawn(earlier_ends::end(
                    self.core.clone(),
                    follower.connection.clone(),
                ));
            }
        }
        outcome
    }

    fn handle(&self, notice: Notice) -> Result<()> {
        match notice {
            Notice::Begin(_) | Notice::EarlierEnded => {}
            Notice::Everything => {
                self.read_all()?;
                self.review();
            }
            Notice::Rights => self.review(),
            Notice::ApiSessions(ids) => {
                self.changed(&ids.iter().map(Id::as_str).collect::<Vec<_>>())?
            }
            Notice::OfIdentity(id) => self.identity_changed(&id)?,
            Notice::AddedAgain(number, ids) => self.add_again(number, &ids),
            Notice::SessionsEnded(ended) => self.sessions_ended(&ended),
        }
        Ok(())
    }

    /// Starts full states.
    fn begin(&mut self, mut beginning: Vec<Arc<RouterConnection>>) {
        beginning.retain(|connection| !connection.is_closed());
        if beginning.is_empty() {
            return;
        }
        if self.all.is_empty()
            && let Err(error) = self.read_all()
        {
            tracing::warn!(%error, "API sessions cannot be read; the routers that need them are disconnected");
            return beginning.iter().for_each(|connection| connection.close());
        }
        let known = self.core.known_to(&beginning.iter().collect::<Vec<_>>());
        for (connection, known) in beginning.into_iter().zip(known) {
            tokio::spawn(earlier_ends::end(self.core.clone(), connection.clone()));
            connection.announced_sessions.lock().begin(known);
            if told_identities::takes(&connection) {
                // Its data model has the identities of these API sessions.
                self.core.changed_models.add(&connection);
            }
            let follower = self
                .all
                .entry(connection.number)
                .or_insert_with(|| Follower::start(&self.core, connection));
            follower.write_full_state();
        }
    }

    /// Reads all API sessions. Tells routers what has changed in those that they know.
    fn read_all(&self) -> Result<()> {
        let store = &self.core.network.store();
        let (mut changes, mut found) = (Vec::new(), HashSet::new());
        store.read(|tx| {
            tx.each_readable::<ApiSession>(|session| {
                // One of very many that ended at once may still be there.
                let Some(now) = tx
                    .find_readable(&session.id)?
                    .map_or(Ok(None), |session| ChannelSession::of(tx, &session))?
                else {
                    return Ok(());
                };
                found.insert(now.id.clone());
                let change = self
                    .core
                    .channel_sessions
                    .write()
                    .set(session.id.as_str(), Some(now));
                changes.extend(change.filter(SessionChange::is_changed));
                Ok(())
            })
        })?;
        let mut sessions = self.core.channel_sessions.write();
        let gone: Vec<String> = sessions
            .ids()
            .filter(|id| !found.contains(*id))
            .cloned()
            .collect();
        changes.extend(gone.iter().filter_map(|id| sessions.set(id, None)));
        drop(sessions);
        for some in changes.chunks(CHUNK) {
            self.tell(some);
        }
        Ok(())
    }

    /// Reads what API sessions are now, and tells routers what has changed.
    fn changed(&self, ids: &[&str]) -> Result<()> {
        for some in ids.chunks(CHUNK) {
            let found = self.core.network.store().read(|tx| {
                let found = some.iter().map(|id| ChannelSession::find(tx, id));
                found.collect::<Result<Vec<_>>>()
            })?;
            let mut sessions = self.core.channel_sessions.write();
            let changes: Vec<SessionChange> = some
                .iter()
                .zip(found)
                .filter_map(|(id, found)| sessions.set(id, found))
                .collect();
            drop(sessions);
            self.tell(&changes);
        }
        Ok(())
    }

    fn identity_changed(&self, identity: &Id<Identity>) -> Result<()> {
        let mut ids: HashSet<String> = self
            .core
            .channel_sessions
            .read()
            .ids_of(identity.as_str())
            .map(str::to_owned)
            .collect();
        ids.extend(
            self.core
                .network
                .store()
                .read(|tx| tx.ids(ApiSession::KIND, "identity", identity.as_str()))?,
        );
        self.changed(&ids.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Tells routers what has become of some API sessions, at most [`CHUNK`].
    fn tell(&self, changes: &[SessionChange]) {
        if changes.is_empty() || self.all.is_empty() {
            return;
        }
        let identities: Vec<&str> = changes
            .iter()
            .map(|change| {
                change
                    .now
                    .as_ref()
                    .map_or("", |session| session.identity.as_str())
            })
            .collect();
        let routers = self
            .all
            .values()
            .map(|follower| follower.connection.router.as_str());
        let rights = self.core.rights_at(routers, &identities);
        // Most routers are told the same.
        let mut messages: HashMap<[u128; 3], Vec<Arc<Frame>>> = HashMap::new();
        for (router, follower) in self.all.values().enumerate() {
            let mut announced = follower.connection.announced_sessions.lock();
            let ([mut ended, mut gained, mut changed], mut lost) = ([0_u128; 3], BTreeSet::new());
            for (at, change) in changes.iter().enumerate() {
                let may = change.now.as_ref().filter(|session| {
                    if session.is_of_router {
                        session.identity == follower.connection.router
                    } else {
                        rights.may(at, router)
                    }
                });
                match may {
                    Some(_) if announced.has(change.row) => {
                        changed |=
                            u128::from(change.is_changed() && announced.is_told(change.row)) << at;
                    }
                    Some(session) => {
                        gained |=
                            u128::from(follower.gain(&mut announced, change.row, session)) << at
                    }
                    None => {
                        lost.extend(change.identity().filter(|_| announced.has(change.row)));
                        ended |= u128::from(announced.lose(change.row)) << at;
                    }
                }
            }
            let gone = told_identities::gone(lost, &announced, &self.core.channel_sessions.read());
            drop(announced);
            follower.send_identities(
                Action::Create,
                selected(changes, gained).filter_map(SessionChange::identity),
            );
            let of = messages
                .entry([ended, gained, changed])
                .or_insert_with(|| self.messages(changes, [ended, gained, changed]));
            for message in of.iter() {
                follower.send(message.clone());
            }
            follower.send_identities(Action::Delete, gone.into_iter());
        }
    }

    /// The messages about those of some changes whose bits are set: what has ended, was gained, and
    /// was changed.
    fn messages(
        &self,
        changes: &[SessionChange],
        [ended, gained, changed]: [u128; 3],
    ) -> Vec<Arc<Frame>> {
        let tokens: Vec<String> = selected(changes, ended)
            .filter_map(|change| change.token().map(str::to_owned))
            .collect();
        let encoded = |bits| {
            selected(changes, bits)
                .filter_map(|change| Some(change.now.as_ref()?.encoded.clone()))
                .collect::<Vec<_>>()
        };
        let (gained, changed) = (encoded(gained), encoded(changed));
        let mut messages = Vec::new();
        messages.extend((!tokens.is_empty()).then(|| api_sessions_removed(tokens)));
        messages.extend(
            (!gained.is_empty()).then(|| added(gained, false, (0, true, &self.core.sync.id()))),
        );
        messages.extend((!changed.is_empty()).then(|| updated(changed)));
        messages.into_iter().map(Arc::new).collect()
    }

    /// Compares what routers know with what they may know, and tells them the difference.
    fn review(&self) {
        let followers: Vec<&Follower> = self.all.values().collect();
        let known = self.core.known_to(
            &followers
                .iter()
                .map(|follower| &follower.connection)
                .collect::<Vec<_>>(),
        );
        for (follower, known) in followers.into_iter().zip(known) {
            let mut announced = follower.connection.announced_sessions.lock();
            let (before, sessions) = (announced.all(), self.core.channel_sessions.read());
            let lost: RoaringTreemap = &before - &known;
            let losing = lost
                .iter()
                .filter_map(|row| Some(sessions.find(row)?.identity.as_str()))
                .collect();
            let lost = lost
                .iter()
                .filter(|row| announced.lose(*row))
                .collect::<Vec<_>>();
            let gained: RoaringTreemap = &known - &before;
            let gained = gained
                .into_iter()
                .filter_map(|row| Some((row, sessions.find(row)?)));
            let gained: Vec<_> = gained
                .filter(|(row, session)| follower.gain(&mut announced, *row, session))
                .map(|(_, session)| session)
                .collect();
            for some in lost.chunks(CHUNK) {
                let tokens = some
                    .iter()
                    .filter_map(|row| Some(sessions.find(*row)?.token.clone()));
                follower.send(Arc::new(api_sessions_removed(tokens.collect())));
            }
            for some in gained.chunks(CHUNK) {
                let encoded = some.iter().map(|session| session.encoded.clone()).collect();
                follower.send_identities(
                    Action::Create,
                    some.iter().map(|session| session.identity.as_str()),
                );
                follower.send(Arc::new(added(
                    encoded,
                    false,
                    (0, true, &self.core.sync.id()),
                )));
            }
            let gone = told_identities::gone(losing, &announced, &sessions);
            for some in gone.chunks(CHUNK) {
                follower.send_identities(Action::Delete, some.iter().copied());
            }
        }
    }

    /// Tells a router that API sessions go on that it was told to end.
    fn add_again(&self, number: u64, ids: &[Id<ApiSession>]) {
        let Some(follower) = self.all.get(&number) else {
            return;
        };
        let (announced, sessions) = (
            follower.connection.announced_sessions.lock(),
            self.core.channel_sessions.read(),
        );
        let rows = ids
            .iter()
            .filter_map(|id| sessions.row(id.as_str()))
            .filter(|row| announced.is_told(*row));
        let encoded: Vec<_> = rows
            .filter_map(|row| Some(sessions.find(row)?.encoded.clone()))
            .collect();
        for some in encoded.chunks(CHUNK) {
            follower.send(Arc::new(added(
                some.to_vec(),
                false,
                (0, true, &self.core.sync.id()),
            )));
        }
    }

    /// Tells routers that sessions have ended whose API sessions they know.
    fn sessions_ended(&self, ended: &[EndedSession]) {
        let rows: Vec<Option<u64>> = {
            let sessions = self.core.channel_sessions.read();
            ended
                .iter()
                .map(|ended| sessions.row(&ended.api_session))
                .collect()
        };
        for follower in self.all.values() {
            let announced = follower.connection.announced_sessions.lock();
            let known = ended
                .iter()
                .zip(&rows)
                .filter(|(_, row)| row.is_some_and(|row| announced.has(row)));
            let known: Vec<&EndedSession> = known.map(|(ended, _)| ended).collect();
            drop(announced);
            if !known.is_empty() {
                follower.send(Arc::new(sessions_removed(
                    known
                        .iter()
                        .map(|ended| ended.shown_to(&follower.connection.router)),
                )));
            }
        }
    }
}

/// Those of some changes whose bits are set.
fn selected(changes: &[SessionChange], bits: u128) -> impl Iterator<Item = &SessionChange> {
    changes
        .iter()
        .enumerate()
        .filter(move |(at, _)| bits >> at & 1 == 1)
        .map(|(_, change)| change)
}
