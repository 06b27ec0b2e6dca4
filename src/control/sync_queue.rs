//! What routers are to be told of API sessions and sessions, in order.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};

use super::connection::RouterConnection;
use crate::entity::{ApiSession, Id, Identity};

/// API sessions in one message.
pub const CHUNK: usize = 100;
/// With more notes than this every router is told everything anew.
const MOST_NOTES: usize = 65_536;
/// So many routers are told everything at the same time.
const FULL_STATES: usize = 2;
/// A router that asks for everything again is told so at most this often.
const AGAIN: Duration = Duration::from_secs(10);

/// Something that routers are to be told.
pub enum Notice {
    /// Everything, to one router.
    Begin(Arc<RouterConnection>),
    /// Everything, to all.
    Everything,
    Added(Id<ApiSession>),
    Changed(Id<ApiSession>),
    /// The certificates of an identity.
    OfIdentity(Id<Identity>),
    ApiSessionRemoved(String),
    /// Tokens.
    SessionsRemoved(Vec<String>),
}

/// What is to be told.
pub struct Sync {
    notes: Mutex<Vec<Notice>>,
    added: Notify,
    pub full_states: Semaphore,
    /// Part of the ids of full states, which grow.
    count: AtomicU64,
}

impl Default for Sync {
    fn default() -> Self {
        Self { notes: Mutex::default(), added: Notify::new(), full_states: Semaphore::new(FULL_STATES), count: AtomicU64::new(0) }
    }
}

impl Sync {
    /// Has a router told everything, and every change from then on.
    pub fn begin(&self, connection: &Arc<RouterConnection>) {
        self.note(Notice::Begin(connection.clone()));
    }

    /// The same for a router that asks for it.
    pub fn again(&self, connection: &Arc<RouterConnection>) {
        if connection.may_ask_again(AGAIN) {
            self.begin(connection);
        }
    }

    /// Adds a notice.
    pub fn note(&self, notice: Notice) {
        let mut notes = self.notes.lock();
        match (notes.last_mut(), notice) {
            (Some(Notice::SessionsRemoved(tokens)), Notice::SessionsRemoved(more)) if tokens.len() < CHUNK => tokens.extend(more),
            (_, notice) => notes.push(notice),
        }
        if notes.len() > MOST_NOTES {
            notes.retain(|notice| matches!(notice, Notice::Begin(_)));
            notes.push(Notice::Everything);
        }
        drop(notes);
        self.added.notify_one();
    }

    /// Waits for notices and takes them.
    pub async fn take(&self) -> Vec<Notice> {
        loop {
            let notes = std::mem::take(&mut *self.notes.lock());
            if !notes.is_empty() {
                return notes;
            }
            self.added.notified().await;
        }
    }

    /// The id of a full state or of a change: texts that grow with time.
    pub fn id(&self) -> String {
        let millis = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
        format!("{millis:015x}{:08x}", self.count.fetch_add(1, Ordering::Relaxed))
    }
}
