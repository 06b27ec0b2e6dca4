//! API sessions in use: which caller a token stands for, and when each session was last active.
//!
//! The last activity is kept in memory and written back in batches (`upkeep.rs`); a session that idles longer than the timeout is
//! over at that moment, whenever its record goes.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::Caller;
use crate::{
    clock::Timestamp,
    entity::{ApiSession, AuthQuery, FactsExt, Id, Record},
    error::Result,
    store::Store,
};

/// What is known of sessions beside their records. Cheap to clone.
#[derive(Clone)]
pub struct Sessions {
    timeout: Duration,
    active: Arc<Mutex<HashMap<String, Activity>>>,
}

#[derive(Clone, Copy)]
struct Activity {
    at: Timestamp,
    written: bool,
}

impl Sessions {
    /// The sessions of a store, over after idling for `timeout`. What ended there is forgotten here, however it ended.
    pub fn following(store: &Store, timeout: Duration) -> Self {
        let sessions = Self { timeout, active: Arc::default() };
        let told = sessions.clone();
        store.subscribe(move |events| {
            for event in events {
                if let Some((Some(ended), None)) = event.of::<ApiSession>() {
                    told.forget(ended.id.as_str());
                }
            }
        });
        sessions
    }

    /// How long a session may idle.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The caller behind a token, if it is that of a session that is not over. Counts as activity.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn resolve(&self, store: &Store, token: &str, now: Timestamp) -> Result<Option<Caller>> {
        if token.len() != 36 {
            return Ok(None);
        }
        let found = store.read(|tx| {
            let Some(session) = tx.find_by::<ApiSession>("token", token)? else { return Ok(None) };
            if self.is_over(&session, now) {
                return Ok(None);
            }
            let Some(identity) = tx.find(&session.spec.identity_id)? else { return Ok(None) };
            if identity.state.is_disabled(now) {
                return Ok(None);
            }
            let queries = AuthQuery::outstanding(&session.spec, tx)?;
            Ok(Some(Caller { session, identity, queries }))
        })?;
        if let Some(caller) = &found {
            self.touch(caller.session.id.as_str(), now);
        }
        Ok(found)
    }

    /// The last activity of a session.
    pub fn last_activity(&self, session: &Record<ApiSession>) -> Timestamp {
        let seen = self.with(|active| active.get(session.id.as_str()).map(|activity| activity.at));
        seen.map_or(session.spec.last_activity_at, |at| at.max(session.spec.last_activity_at))
    }

    /// Whether a session idled too long.
    pub fn is_over(&self, session: &Record<ApiSession>, now: Timestamp) -> bool {
        now.since(self.last_activity(session)) > self.timeout
    }

    /// Notes that a session is active.
    fn touch(&self, id: &str, now: Timestamp) {
        self.with(|active| match active.get_mut(id) {
            Some(activity) => *activity = Activity { at: activity.at.max(now), written: false },
            None => {
                active.insert(id.to_owned(), Activity { at: now, written: false });
            }
        });
    }

    /// Forgets a session that ended.
    pub fn forget(&self, id: &str) {
        self.with(|active| active.remove(id));
    }

    /// The activities that were not written yet; from now on they count as written.
    pub fn take_unwritten(&self) -> Vec<(Id<ApiSession>, Timestamp)> {
        self.with(|active| {
            let unwritten = active.iter_mut().filter(|(_, activity)| !activity.written);
            unwritten
                .map(|(id, activity)| {
                    activity.written = true;
                    (Id::from_text(id.clone()), activity.at)
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
