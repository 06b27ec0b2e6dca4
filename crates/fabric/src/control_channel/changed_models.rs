//! Which routers may need another data model (`data_model.rs`).

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{connection::RouterConnection, registry::ConnectionRegistry};

/// The routers whose models may have changed.
#[derive(Default)]
pub(crate) struct ChangedModels {
    changed: Mutex<Changed>,
    added: Notify,
}

#[derive(Default)]
struct Changed {
    is_all: bool,
    /// By the number of the connection.
    some: HashMap<u64, Arc<RouterConnection>>,
}

impl ChangedModels {
    /// The models of all routers may have changed.
    pub(crate) fn add_all(&self) {
        self.changed.lock().is_all = true;
        self.added.notify_one();
    }

    /// The model of one router may have changed.
    pub(crate) fn add(&self, connection: &Arc<RouterConnection>) {
        self.changed
            .lock()
            .some
            .insert(connection.number, connection.clone());
        self.added.notify_one();
    }

    /// Waits until one may have changed.
    pub(crate) async fn added(&self) {
        self.added.notified().await;
    }

    /// The connections whose models may have changed; all for `is_all`.
    pub(crate) fn take(
        &self,
        registry: &ConnectionRegistry,
        is_all: bool,
    ) -> Vec<Arc<RouterConnection>> {
        let changed = std::mem::take(&mut *self.changed.lock());
        if !is_all && !changed.is_all {
            return changed.some.into_values().collect();
        }
        let mut connections = Vec::new();
        registry.each(|connection| connections.push(connection.clone()));
        connections
    }
}
