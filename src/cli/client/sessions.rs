//! The sessions of one process.

use std::{sync::Arc, time::Duration};

use client::{Session, SessionStatus};
use parking_lot::Mutex;
use tokio::{task::JoinSet, time::timeout};

/// How long the end of a command waits for controllers.
const PATIENCE: Duration = Duration::from_secs(2);

/// Sessions that come and go. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Sessions(Arc<Mutex<Vec<Session>>>);

impl Sessions {
    pub(super) fn add(&self, session: Session) {
        self.0.lock().push(session);
    }

    pub(super) fn all(&self) -> Vec<Session> {
        self.0.lock().clone()
    }

    pub(super) fn remove(&self, session: &Session) {
        self.0.lock().retain(|one| !one.is(session));
    }

    pub(super) fn status(&self) -> Vec<SessionStatus> {
        self.all().iter().map(Session::status).collect()
    }

    /// Ends them, as far as the controllers answer soon.
    pub(super) async fn log_out(&self) {
        let mut ending = JoinSet::new();
        for session in self.all() {
            ending.spawn(async move { session.log_out().await });
        }
        drop(timeout(PATIENCE, ending.join_all()).await);
    }
}

impl From<Vec<Session>> for Sessions {
    fn from(all: Vec<Session>) -> Self {
        Self(Arc::new(Mutex::new(all)))
    }
}
