//! Terminators that are to be deleted because their binding has ended.

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::entity::{Id, Terminator};

/// The queue of terminators to delete.
#[derive(Default)]
pub struct Removals {
    ids: Mutex<Vec<Id<Terminator>>>,
    added: Notify,
}

impl Removals {
    pub fn add(&self, ids: impl IntoIterator<Item = Id<Terminator>>) {
        self.ids.lock().extend(ids);
        self.added.notify_one();
    }

    /// Takes up to `most` of them.
    pub fn take(&self, most: usize) -> Vec<Id<Terminator>> {
        let mut ids = self.ids.lock();
        let count = ids.len().min(most);
        ids.drain(..count).collect()
    }

    /// Waits until some are added.
    pub async fn wait(&self) {
        self.added.notified().await;
    }
}
