//! How many sessions each identity has, of one kind, and whether there is room for another.
//!
//! Sessions that end with their credential or authority, very many at once, keep their room until they are cleared away, for seconds: whose
//! they are is told only then.
//! Invariant: sessions that are open and log-ins that are under way are together no more than an identity may have.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    entity::{Epoch, Id, Identity},
    error::{Error, Result},
};

/// Seconds after which it is worth asking again for who has too many sessions: some of them may have idled out by then.
const RETRY: u32 = 60;

/// Room for sessions. Cheap to clone.
#[derive(Clone)]
pub struct SessionQuota {
    /// An identity may have so many.
    most: usize,
    counts: Arc<Mutex<HashMap<String, Count>>>,
}

/// Of one identity, for as long as there is anything to count.
#[derive(Default)]
struct Count {
    open: usize,
    coming: usize,
    /// Sessions of earlier eras were ended.
    since: Epoch,
    /// So many of these are still to be deleted. They take no room.
    ended: usize,
}

impl Count {
    /// Where a session counts.
    fn of(&mut self, era: Epoch) -> &mut usize {
        if era >= self.since { &mut self.open } else { &mut self.ended }
    }
}

impl SessionQuota {
    /// Room for so many sessions of each identity.
    pub fn new(most: usize) -> Self {
        Self { most, counts: Arc::default() }
    }

    /// Keeps a place for a session that is about to be opened.
    ///
    /// # Errors
    /// [`Error::Busy`]: there is none.
    pub fn admit(&self, identity: &Id<Identity>) -> Result<SessionSlot> {
        self.with(identity, |count| {
            if count.open + count.coming >= self.most {
                return Err(Error::Busy { retry_after: RETRY });
            }
            count.coming += 1;
            Ok(SessionSlot { room: self.clone(), identity: identity.clone() })
        })
    }

    /// Counts a session of an identity that was opened in an era.
    pub fn opened(&self, identity: &Id<Identity>, era: Epoch) {
        self.found(identity, era, 0);
    }

    /// Counts a session that there is, of an identity whose sessions of eras before `since` were ended.
    pub fn found(&self, identity: &Id<Identity>, era: Epoch, since: Epoch) {
        self.with(identity, |count| {
            count.since = count.since.max(since);
            *count.of(era) += 1;
        });
    }

    /// Counts one no more that was deleted.
    pub fn deleted(&self, identity: &Id<Identity>, era: Epoch) {
        self.with(identity, |count| {
            let of = count.of(era);
            *of = of.saturating_sub(1);
        });
    }

    /// Gives the room back of all that an identity has of eras before this one.
    pub fn ended(&self, identity: &Id<Identity>, era: Epoch) {
        self.with(identity, |count| {
            if count.since < era {
                count.since = era;
                count.ended += std::mem::take(&mut count.open);
            }
        });
    }

    fn with<T>(&self, identity: &Id<Identity>, work: impl FnOnce(&mut Count) -> T) -> T {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let done = work(counts.entry(identity.to_string()).or_default());
        if counts.get(identity.as_str()).is_some_and(|count| count.open + count.coming + count.ended == 0) {
            counts.remove(identity.as_str());
        }
        done
    }
}

/// A place for one session of an identity, until it is dropped.
pub struct SessionSlot {
    room: SessionQuota,
    identity: Id<Identity>,
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        self.room.with(&self.identity, |count| count.coming = count.coming.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_of_an_identity_without_sessions() {
        let (room, ann) = (SessionQuota::new(2), Id::from_text("ann"));
        let known = |room: &SessionQuota| room.counts.lock().unwrap().len();
        let (before, after) = (0, 1);
        room.opened(&ann, before);
        room.opened(&ann, before);
        assert!(room.admit(&ann).is_err());
        room.ended(&ann, 1);
        // What was ended takes no room, however long it is there.
        room.opened(&ann, after);
        room.deleted(&ann, before);
        room.opened(&ann, after);
        room.deleted(&ann, before);
        assert!(room.admit(&ann).is_err(), "two are open");
        room.deleted(&ann, after);
        drop(room.admit(&ann).unwrap());
        room.deleted(&ann, after);
        assert_eq!(known(&room), 0);
        // As they are found at a start, before they are cleared away.
        room.found(&ann, before, 1);
        room.found(&ann, after, 1);
        room.found(&ann, before, 1);
        drop(room.admit(&ann).unwrap());
        [before, after, before].into_iter().for_each(|gone| room.deleted(&ann, gone));
        assert_eq!(known(&room), 0);
    }
}
