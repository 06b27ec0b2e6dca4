//! Changes of API sessions and sessions to be sent to routers, in order.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, mpsc};

use super::connection::RouterConnection;
use crate::{
    entity::{ApiSession, Id, Identity},
    frame::Frame,
};

/// Maximum API sessions in one message.
pub(crate) const CHUNK: usize = 100;
/// Maximum recorded changes. Beyond it every router gets a full state again.
const MAX_NOTICES: usize = 16_384;
/// Maximum readers of full states of one kind at the same time.
const FULL_STATES: usize = 2;
/// How long a router may delay the others that a full state is read for, in all.
const QUICK: Duration = Duration::from_secs(10);
/// The same for those that took longer than that.
const SLOW: Duration = Duration::from_secs(300);
/// Minimum interval between two full states that a router requests. A router requests one when 20 seconds have passed since it received the
/// first part of one, or the first part after its last request, and it has not received all parts. It uses each part that it receives
/// nevertheless, so that the state is written to its end. One repetition helps a router that was slow for a while; over a slow line, more would
/// never end. A refused request is not kept: what ended meanwhile is removed when the router reports its use.
const RESYNC_PAUSE: Duration = Duration::from_secs(600);

/// A change for routers.
pub(crate) enum Notice {
    /// A full state for one router, and its number.
    Begin(Arc<RouterConnection>, u64),
    /// A full state for all routers.
    Everything,
    Added(Vec<Id<ApiSession>>),
    Changed(Id<ApiSession>),
    /// The certificates of an identity.
    OfIdentity(Id<Identity>),
    /// By token.
    ApiSessionsRemoved(Vec<String>),
    /// A session from before the start of the controller has ended.
    EarlierEnded,
    /// API sessions that one router, named by the number of its connection, was told to end although they go on.
    AddedAgain(u64, Vec<Id<ApiSession>>),
    /// By id.
    SessionsRemoved(Vec<String>),
}

/// A message of a full state, and whether it is the last one.
pub(crate) type FullStatePart = (Arc<Frame>, bool);

/// The routers that wait for a full state, and the tasks that read one for all of them.
pub(crate) struct FullStateReaders {
    /// Where the parts of the next full state go.
    pub waiting: Mutex<Vec<mpsc::Sender<FullStatePart>>>,
    pub turns: Semaphore,
    /// How long a reader waits in all for a router that does not take its parts.
    pub patience: Duration,
}

impl FullStateReaders {
    fn new(patience: Duration) -> Self {
        Self { waiting: Mutex::default(), turns: Semaphore::new(FULL_STATES), patience }
    }
}

/// The recorded changes.
pub(crate) struct Sync {
    notices: Mutex<Vec<Notice>>,
    added: Notify,
    /// The first reader of full states, and one for routers that are too slow for the first.
    pub readers: [FullStateReaders; 2],
    /// Part of the ids of full states, which must ascend.
    count: AtomicU64,
}

impl Default for Sync {
    fn default() -> Self {
        Self {
            notices: Mutex::default(),
            added: Notify::new(),
            readers: [QUICK, SLOW].map(FullStateReaders::new),
            count: AtomicU64::new(0),
        }
    }
}

impl Sync {
    /// Starts a full state for a router, followed by every change from then on.
    pub(crate) fn begin(&self, connection: &Arc<RouterConnection>) {
        self.record(Notice::Begin(connection.clone(), connection.start_full_state()));
    }

    /// Starts a full state for a router that requests it, unless one is being written to it, and at most once in each [`RESYNC_PAUSE`]. Returns
    /// whether it is started.
    pub(crate) fn resync(&self, connection: &Arc<RouterConnection>) -> bool {
        let may = connection.may_resync(RESYNC_PAUSE);
        if may {
            self.begin(connection);
        }
        may
    }

    /// Records a change, in one notice with the one before if that is of the same kind, so that routers get fewer messages.
    pub(crate) fn record(&self, notice: Notice) {
        let mut notices = self.notices.lock();
        match (notices.last_mut(), notice) {
            (Some(Notice::Added(ids)), Notice::Added(more)) if ids.len() < CHUNK => ids.extend(more),
            (Some(Notice::ApiSessionsRemoved(all)), Notice::ApiSessionsRemoved(more))
            | (Some(Notice::SessionsRemoved(all)), Notice::SessionsRemoved(more))
                if all.len() < CHUNK =>
            {
                all.extend(more);
            }
            (_, notice) => notices.push(notice),
        }
        if notices.len() > MAX_NOTICES {
            notices.retain(|notice| matches!(notice, Notice::Begin(..)));
            notices.extend([Notice::Everything, Notice::EarlierEnded]);
        }
        drop(notices);
        self.added.notify_one();
    }

    /// Whether all recorded changes were taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.notices.lock().is_empty()
    }

    /// Waits for changes and takes them.
    pub(crate) async fn take(&self) -> Vec<Notice> {
        loop {
            let notices = std::mem::take(&mut *self.notices.lock());
            if !notices.is_empty() {
                return notices;
            }
            self.added.notified().await;
        }
    }

    /// The id of a full state or of a change: texts that ascend with time.
    pub(crate) fn id(&self) -> String {
        let millis = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
        format!("{millis:015x}{:08x}", self.count.fetch_add(1, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn changes_of_a_kind_share_notices() {
        let sync = Sync::default();
        let id = |number: usize| Id::from_text(format!("session{number}"));
        (0..CHUNK + 1).for_each(|number| sync.record(Notice::Added(vec![id(number)])));
        sync.record(Notice::ApiSessionsRemoved(vec!["first".into()]));
        sync.record(Notice::ApiSessionsRemoved(vec!["second".into()]));
        sync.record(Notice::Added(vec![id(0)]));
        let lengths = |notice: &Notice| match notice {
            Notice::Added(ids) => ("added", ids.len()),
            Notice::ApiSessionsRemoved(tokens) => ("removed", tokens.len()),
            _ => ("another", 0),
        };
        let taken = sync.take().await;
        assert_eq!(taken.iter().map(lengths).collect::<Vec<_>>(), [("added", CHUNK), ("added", 1), ("removed", 2), ("added", 1)]);
    }
}
