//! Those who read the history as it grows: how many may, and what wakes them up.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::store::Store;

/// Those who watch the history grow.
pub struct Watchers {
    /// Rings when anything was committed; true once nobody may watch any more.
    commits: watch::Sender<bool>,
    places: Arc<Semaphore>,
}

impl Watchers {
    /// Of this store, at most so many.
    pub fn following(store: &Store, most: usize) -> Arc<Self> {
        let watchers = Arc::new(Self { commits: watch::Sender::new(false), places: Arc::new(Semaphore::new(most)) });
        let rung = watchers.clone();
        store.subscribe(move |_| rung.commits.send_modify(|_| ()));
        watchers
    }

    /// Ends every watch.
    pub fn close(&self) {
        self.commits.send_replace(true);
    }

    /// A place to watch from, until it is dropped; `None` when all are taken.
    pub fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }

    /// Changes with every commit, and is true once every watch ends.
    pub fn commits(&self) -> watch::Receiver<bool> {
        self.commits.subscribe()
    }
}
