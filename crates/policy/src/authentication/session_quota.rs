//! The number of sessions of one kind per identity, and its limit.
//!
//! Sessions that end in large numbers with their authenticator or certificate authority keep
//! counting for seconds, until their records are deleted: only then is their identity known.
//! Invariant: open sessions and running logins together never exceed an identity's limit.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use model::{
    entity::{Epoch, Id, Identity},
    error::{Error, Result},
};

/// Seconds in `retry-after` for an identity with too many sessions: some may have idled out by
/// then.
const RETRY: u32 = 60;

/// The session counts of all identities. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SessionQuota {
    /// The limit per identity.
    limit: usize,
    counts: Arc<Mutex<HashMap<String, Count>>>,
}

/// The counts of one identity; removed when all are zero.
#[derive(Default)]
struct Count {
    open: usize,
    coming: usize,
    /// Sessions of earlier epochs were ended.
    since: Epoch,
    /// The number of ended sessions whose records are not deleted yet. They do not count towards
    /// the limit.
    ended: usize,
}

impl Count {
    /// The counter of a session opened in `epoch`.
    fn counter(&mut self, epoch: Epoch) -> &mut usize {
        if epoch >= self.since {
            &mut self.open
        } else {
            &mut self.ended
        }
    }
}

impl SessionQuota {
    /// Allows `limit` sessions per identity.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            counts: Arc::default(),
        }
    }

    /// Reserves a slot for a session that is about to be opened.
    ///
    /// # Errors
    /// [`Error::Busy`]: the limit is reached.
    pub(crate) fn admit(&self, identity: &Id<Identity>) -> Result<SessionSlot> {
        self.with(identity, |count| {
            if count.open + count.coming >= self.limit {
                return Err(Error::Busy { retry_after: RETRY });
            }
            count.coming += 1;
            Ok(SessionSlot {
                quota: self.clone(),
                identity: identity.clone(),
            })
        })
    }

    /// Counts a session that an identity opened in an epoch.
    pub(crate) fn count_opened(&self, identity: &Id<Identity>, epoch: Epoch) {
        self.count_found(identity, epoch, 0);
    }

    /// Counts a session found at the start; the identity's sessions of epochs before `since` were
    /// ended.
    pub(crate) fn count_found(&self, identity: &Id<Identity>, epoch: Epoch, since: Epoch) {
        self.with(identity, |count| {
            count.since = count.since.max(since);
            *count.counter(epoch) += 1;
        });
    }

    /// Removes a deleted session from the counts.
    pub(crate) fn count_deleted(&self, identity: &Id<Identity>, epoch: Epoch) {
        self.with(identity, |count| {
            let of = count.counter(epoch);
            *of = of.saturating_sub(1);
        });
    }

    /// Releases the slots of all sessions of an identity from epochs before this one.
    pub(crate) fn release_before(&self, identity: &Id<Identity>, epoch: Epoch) {
        self.with(identity, |count| {
            if count.since < epoch {
                count.since = epoch;
                count.ended += std::mem::take(&mut count.open);
            }
        });
    }

    fn with<T>(&self, identity: &Id<Identity>, work: impl FnOnce(&mut Count) -> T) -> T {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let done = work(counts.entry(identity.to_string()).or_default());
        if counts
            .get(identity.as_str())
            .is_some_and(|count| count.open + count.coming + count.ended == 0)
        {
            counts.remove(identity.as_str());
        }
        done
    }
}

/// A reserved slot for one session of an identity; released on drop.
pub struct SessionSlot {
    quota: SessionQuota,
    identity: Id<Identity>,
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        self.quota.with(&self.identity, |count| {
            count.coming = count.coming.saturating_sub(1)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessionless_identities_cost_nothing() {
        let (quota, ann) = (SessionQuota::new(2), Id::from_text("ann"));
        let known = |quota: &SessionQuota| quota.counts.lock().unwrap().len();
        let (before, after) = (0, 1);
        quota.count_opened(&ann, before);
        quota.count_opened(&ann, before);
        assert!(quota.admit(&ann).is_err());
        quota.release_before(&ann, 1);
        // Ended sessions take no slot while their records exist.
        quota.count_opened(&ann, after);
        quota.count_deleted(&ann, before);
        quota.count_opened(&ann, after);
        quota.count_deleted(&ann, before);
        assert!(quota.admit(&ann).is_err(), "two sessions are open");
        quota.count_deleted(&ann, after);
        drop(quota.admit(&ann).unwrap());
        quota.count_deleted(&ann, after);
        assert_eq!(known(&quota), 0);
        // Ended sessions found at a start, before their records are deleted.
        quota.count_found(&ann, before, 1);
        quota.count_found(&ann, after, 1);
        quota.count_found(&ann, before, 1);
        drop(quota.admit(&ann).unwrap());
        [before, after, before]
            .into_iter()
            .for_each(|gone| quota.count_deleted(&ann, gone));
        assert_eq!(known(&quota), 0);
    }
}
