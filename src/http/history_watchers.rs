//! The readers that follow the history: their maximum number, and their wake-up.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::store::{OpenStore, Phase};

/// The followers of the history.
pub struct Watchers {
    /// Notified by every commit; true once all followers must end.
    commits: watch::Sender<bool>,
    permits: Arc<Semaphore>,
}

impl Watchers {
    /// For this store, with at most `limit` followers.
    pub fn following(store: &OpenStore, limit: usize) -> Arc<Self> {
        let watchers = Arc::new(Self { commits: watch::Sender::new(false), permits: Arc::new(Semaphore::new(limit)) });
        let rung = watchers.clone();
        store.subscribe(Phase::React, move |_| rung.commits.send_modify(|_| ()));
        watchers
    }

    /// Ends all followers.
    pub fn close(&self) {
        self.commits.send_replace(true);
    }

    /// Reserves a place for a follower, released on drop; `None` if all are taken.
    pub fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.permits.clone().try_acquire_owned().ok()
    }

    /// Changes with every commit; true once all followers must end.
    pub(crate) fn commits(&self) -> watch::Receiver<bool> {
        self.commits.subscribe()
    }
}
