//! The readers that follow the history: their maximum number, and their wake-up.

use std::sync::Arc;

use store::{OpenStore, Phase};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// The readers that follow the history.
pub struct HistoryReaders {
    /// Notified by every commit; true once all readers must end.
    commits: watch::Sender<bool>,
    permits: Arc<Semaphore>,
}

impl HistoryReaders {
    /// For this store, with at most `limit` readers.
    pub fn following(store: &OpenStore, limit: usize) -> Arc<Self> {
        let readers = Arc::new(Self {
            commits: watch::Sender::new(false),
            permits: Arc::new(Semaphore::new(limit)),
        });
        let notified = readers.clone();
        store.subscribe(Phase::React, move |_| notified.commits.send_modify(|_| ()));
        readers
    }

    /// Ends all readers.
    pub fn close(&self) {
        self.commits.send_replace(true);
    }

    /// Reserves a slot for a reader, released on drop; `None` if all are taken.
    pub fn reserve(&self) -> Option<OwnedSemaphorePermit> {
        self.permits.clone().try_acquire_owned().ok()
    }

    /// Changes with every commit; true once all readers must end.
    pub(crate) fn commits(&self) -> watch::Receiver<bool> {
        self.commits.subscribe()
    }
}
