//! Routers that may no longer connect (`disconnected_routers.rs`).

use std::{mem, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::connection::RouterConnection;

/// A router that was deleted, disabled or enrolled again.
pub(crate) struct RevokedRouter {
    pub id: String,
    pub is_deleted: bool,
    pub connection: Option<Arc<RouterConnection>>,
}

/// Routers that may no longer connect, and of which something may still have to end.
#[derive(Default)]
pub(crate) struct RevokedRouters {
    waiting: Mutex<Vec<RevokedRouter>>,
    added: Notify,
}

impl RevokedRouters {
    pub(crate) fn add(&self, router: RevokedRouter) {
        self.waiting.lock().push(router);
        self.added.notify_one();
    }

    /// Waits for the next ones and takes them.
    pub(crate) async fn next(&self) -> Vec<RevokedRouter> {
        loop {
            let waiting = mem::take(&mut *self.waiting.lock());
            if !waiting.is_empty() {
                return waiting;
            }
            self.added.notified().await;
        }
    }
}
