//! API sessions in use: which caller a token stands for, and when each session was last active.
//!
//! A caller is kept in memory as long as nothing changes that it is made of, so that a client that polls touches no database.
//! The last activity is kept in memory and written back in batches (`upkeep.rs`); a session that idles longer than the timeout is
//! over at that moment, whenever its record goes.
//!
//! How long a session idles is counted by the steady clock: a host's clock that is put forward by days ends no session, and one that
//! is put back keeps none. What idled when this process began is known from its record alone, so there the dates of the host's clock count.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::Caller;
use crate::{
    clock::{Clock, Timestamp},
    entity::{ApiSession, AuthPolicy, AuthQuery, Entity, ExternalJwtSigner, FactsExt, Id, Identity, Kind, Record},
    error::{Error, Result},
    store::{Kept, Noting, Store},
};

/// What is known of sessions beside their records. Cheap to clone.
#[derive(Clone)]
pub struct Sessions {
    clock: Clock,
    /// When this began to follow the store, by the steady clock.
    began: Timestamp,
    timeout: Duration,
    /// An identity may have so many.
    most: usize,
    active: Arc<Mutex<HashMap<String, Activity>>>,
    /// How many each identity has, by its id.
    held: Arc<Mutex<HashMap<String, usize>>>,
    /// Callers by token: clients ask again and again.
    callers: Kept<Caller>,
}

/// Where to come back who has too many sessions, in seconds; some of them may have idled out by then.
const RETRY: u32 = 60;
/// Callers that are kept, of about 2 KB each.
const CALLERS: usize = 20_000;
/// What a caller is made of.
const MADE_OF: &[Kind] = &[ApiSession::KIND, Identity::KIND, AuthPolicy::KIND, ExternalJwtSigner::KIND];

#[derive(Clone, Copy)]
struct Activity {
    /// By the steady clock.
    at: Timestamp,
    written: bool,
}

impl Sessions {
    /// The sessions of a store, over after idling for `timeout`, at most so many an identity. What ended there is forgotten here, however
    /// it ended.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn following(store: &Store, clock: Clock, timeout: Duration, most: usize) -> Result<Self> {
        let callers = Kept::following(store, |kind| MADE_OF.contains(&kind), CALLERS);
        let (active, held) = (Arc::default(), Arc::default());
        let sessions = Self { began: clock.steady(), clock, timeout, most, active, held, callers };
        let told = sessions.clone();
        store.subscribe(move |events| {
            for event in events {
                match event.of::<ApiSession>() {
                    Some((None, Some(opened))) => {
                        told.note(opened.id.as_str(), true);
                        told.count(&opened.spec.identity_id, true);
                    }
                    Some((Some(ended), None)) => {
                        told.forget(ended.id.as_str());
                        told.count(&ended.spec.identity_id, false);
                    }
                    _ => {}
                }
            }
        });
        store.read(|tx| {
            tx.each::<ApiSession>(|session| {
                sessions.count(&session.spec.identity_id, true);
                Ok(())
            })
        })?;
        Ok(sessions)
    }

    fn count(&self, identity: &Id<Identity>, one_more: bool) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let count = held.get(identity.as_str()).copied().unwrap_or_default();
        match if one_more { count + 1 } else { count.saturating_sub(1) } {
            0 => drop(held.remove(identity.as_str())),
            count => drop(held.insert(identity.as_str().to_owned(), count)),
        }
    }

    /// Whether an identity may have another session. Log-ins that are under way at the same time do not know of each other.
    ///
    /// # Errors
    /// [`Error::Busy`]: it has as many as it may.
    pub fn admit(&self, identity: &Id<Identity>) -> Result<()> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let full = held.get(identity.as_str()).is_some_and(|held| *held >= self.most);
        if full { Err(Error::Busy { retry_after: RETRY }) } else { Ok(()) }
    }

    /// How long a session may idle.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The caller behind a token, if it is that of a session that is not over. Counts as activity.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn resolve(&self, store: &Store, token: &str, now: Timestamp) -> Result<Option<Arc<Caller>>> {
        if token.len() != 36 {
            return Ok(None);
        }
        let known = self.callers.find(token);
        let known = if known.is_some() { known } else { self.look_up(store, token)? };
        let good = |Caller { session, identity, .. }: &Caller| !self.is_over(session) && !identity.state.is_disabled(now);
        let caller = known.filter(|caller| good(caller));
        if let Some(caller) = &caller {
            self.note(caller.session.id.as_str(), false);
        }
        Ok(caller)
    }

    fn look_up(&self, store: &Store, token: &str) -> Result<Option<Arc<Caller>>> {
        let at = self.callers.now();
        store.read(|tx| {
            let facts = Noting::new(tx);
            let Some(session) = facts.linked::<ApiSession>("token", token)?.pop() else { return Ok(None) };
            let Some(identity) = facts.find(&session.spec.identity_id)? else { return Ok(None) };
            let queries = AuthQuery::outstanding(&session.spec, &facts)?;
            let caller = Arc::new(Caller { session, identity, queries });
            if let Some(marks) = facts.marks() {
                self.callers.keep(token, caller.clone(), marks, at);
            }
            Ok(Some(caller))
        })
    }

    /// The last activity of a session, as the host's clock would show it now.
    pub fn last_activity(&self, session: &Record<ApiSession>) -> Timestamp {
        self.clock.now().minus(self.idled(session))
    }

    /// Whether a session idled too long.
    pub fn is_over(&self, session: &Record<ApiSession>) -> bool {
        self.idled(session) > self.timeout
    }

    /// For how long nothing was heard from a session. One that was not heard of since this began idles since then at least, whatever
    /// date a clock that was wrong gave it.
    fn idled(&self, session: &Record<ApiSession>) -> Duration {
        let seen = self.with(|active| active.get(session.id.as_str()).map(|activity| activity.at));
        self.clock.steady().since(seen.unwrap_or_else(|| session.spec.last_activity_at.min(self.began)))
    }

    /// Notes that a session is active, which its record says already if it is `written`.
    fn note(&self, id: &str, written: bool) {
        let at = self.clock.steady();
        self.with(|active| match active.get_mut(id) {
            Some(activity) => *activity = Activity { at, written },
            None => {
                active.insert(id.to_owned(), Activity { at, written });
            }
        });
    }

    /// Forgets a session that ended.
    pub fn forget(&self, id: &str) {
        self.with(|active| active.remove(id));
    }

    /// The activities that were not written yet, as the host's clock would show them now; from now on they count as written.
    pub fn take_unwritten(&self) -> Vec<(Id<ApiSession>, Timestamp)> {
        let (now, steady) = (self.clock.now(), self.clock.steady());
        self.with(|active| {
            let unwritten = active.iter_mut().filter(|(_, activity)| !activity.written);
            unwritten
                .map(|(id, activity)| {
                    activity.written = true;
                    (Id::from_text(id.clone()), now.minus(steady.since(activity.at)))
                })
                .collect()
        })
    }

    /// Activities that were taken, but could not be written.
    pub fn owe<'a>(&self, taken: impl Iterator<Item = &'a Id<ApiSession>>) {
        self.with(|active| {
            for id in taken {
                if let Some(activity) = active.get_mut(id.as_str()) {
                    activity.written = false;
                }
            }
        });
    }

    fn with<T>(&self, work: impl FnOnce(&mut HashMap<String, Activity>) -> T) -> T {
        work(&mut self.active.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
