//! How many sessions each identity has, and whether there is room for another.
//!
//! Invariant: sessions that are open and log-ins that are under way are together no more than an identity may have.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    entity::{ApiSession, Era, Id, Identity, Record},
    error::{Error, Result},
};

/// Where to come back who has too many sessions, in seconds; some of them may have idled out by then.
const RETRY: u32 = 60;

/// Room for sessions. Cheap to clone.
#[derive(Clone)]
pub struct Room {
    /// An identity may have so many.
    most: usize,
    counts: Arc<Mutex<HashMap<String, Count>>>,
}

/// Of one identity.
#[derive(Default)]
struct Count {
    open: usize,
    coming: usize,
    /// Sessions of earlier eras were ended and do not count, whenever they are deleted.
    since: Era,
}

impl Room {
    /// Room for so many sessions of each identity.
    pub fn new(most: usize) -> Self {
        Self { most, counts: Arc::default() }
    }

    /// Keeps a place for a session that is about to be opened.
    ///
    /// # Errors
    /// [`Error::Busy`]: there is none.
    pub fn admit(&self, identity: &Id<Identity>) -> Result<Place> {
        self.with(identity, |count| {
            if count.open + count.coming >= self.most {
                return Err(Error::Busy { retry_after: RETRY });
            }
            count.coming += 1;
            Ok(Place { room: self.clone(), identity: identity.clone() })
        })
    }

    /// Counts a session that was opened.
    pub fn opened(&self, session: &Record<ApiSession>) {
        self.with(&session.spec.identity_id, |count| count.open += usize::from(session.state.era >= count.since));
    }

    /// Counts one no more that was deleted.
    pub fn deleted(&self, session: &Record<ApiSession>) {
        let counted = |count: &Count| usize::from(session.state.era >= count.since);
        self.with(&session.spec.identity_id, |count| count.open = count.open.saturating_sub(counted(count)));
    }

    /// Counts none of an identity that are of an era before this one.
    pub fn ended(&self, identity: &Id<Identity>, era: Era) {
        self.with(identity, |count| {
            if count.since < era {
                (count.open, count.since) = (0, era);
            }
        });
    }

    fn with<T>(&self, identity: &Id<Identity>, work: impl FnOnce(&mut Count) -> T) -> T {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let done = work(counts.entry(identity.to_string()).or_default());
        if counts.get(identity.as_str()).is_some_and(|count| count.open + count.coming == 0 && count.since == 0) {
            counts.remove(identity.as_str());
        }
        done
    }
}

/// A place for one session of an identity, until it is dropped.
pub struct Place {
    room: Room,
    identity: Id<Identity>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.with(&self.identity, |count| count.coming = count.coming.saturating_sub(1));
    }
}
