//! Changes of API sessions and sessions to be sent to routers, in order.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use model::entity::{ApiSession, Id, Identity, Record, Session};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::connection::{RouterConnection, RouterKind};

/// Maximum API sessions in one message.
pub(crate) const CHUNK: usize = 100;
/// Maximum recorded changes. Beyond it all API sessions are compared with what routers were told.
const MAX_NOTICES: usize = 16_384;
/// Minimum interval between two full states that a router requests. A router requests one when 20
/// seconds have passed since it received the first part of one, or the first part after its last
/// request, and it has not received all parts. It uses each part that it receives nevertheless, so
/// that the state is written to its end. One repetition helps a router that was slow for a while;
/// over a slow line, more would never end. A refused request is not kept: what ended meanwhile is
/// removed when the router reports its use.
const RESYNC_PAUSE: Duration = Duration::from_secs(600);

/// A change for routers.
pub(crate) enum Notice {
    /// A full state for one router.
    Begin(Arc<RouterConnection>),
    /// Any API session may have been opened, changed or ended, and any right of identities at
    /// routers.
    Everything,
    /// The rights of identities at routers.
    Rights,
    /// API sessions that were opened, changed or ended.
    ApiSessions(Vec<Id<ApiSession>>),
    /// The certificates, roles or auth policy of an identity.
    OfIdentity(Id<Identity>),
    /// A session from before the start of the controller has ended.
    EarlierEnded,
    /// API sessions that one router, named by the number of its connection, was told to end
    /// although they go on.
    AddedAgain(u64, Vec<Id<ApiSession>>),
    SessionsEnded(Vec<EndedSession>),
}

/// A session that has ended.
pub(crate) struct EndedSession {
    pub id: String,
    /// As SDKs show it to routers.
    pub token: String,
    pub api_session: String,
    pub identity: String,
}

impl EndedSession {
    pub(crate) fn of(session: &Record<Session>) -> Self {
        let Session {
            token,
            api_session_id,
            identity_id,
            ..
        } = &session.spec;
        let (token, id) = Self::named(token);
        Self {
            id,
            token,
            api_session: api_session_id.to_string(),
            identity: identity_id.to_string(),
        }
    }

    /// The token and the id of a session by which routers know it, if it is given by its token or
    /// id. Those that read signed tokens know only the id.
    pub(crate) fn named(text: &str) -> (String, String) {
        let id = Session::named_by(text).unwrap_or_else(|| text.to_owned());
        (
            if Session::is_signed(text) {
                id.clone()
            } else {
                text.to_owned()
            },
            id,
        )
    }

    /// The token and the id by which a router knows it. The tunneler of a router knows its sessions
    /// by their ids only.
    pub(crate) fn shown_to(&self, router: &str) -> (String, String) {
        let token = if self.identity == router {
            &self.id
        } else {
            &self.token
        };
        (token.clone(), self.id.clone())
    }
}

/// The recorded changes.
#[derive(Default)]
pub(crate) struct Sync {
    notices: Mutex<Vec<Notice>>,
    added: Notify,
    /// Part of the ids of full states, which must ascend.
    count: AtomicU64,
}

impl Sync {
    /// Starts a full state for an edge router, followed by every change from then on. Other routers
    /// know no API sessions.
    pub(crate) fn begin(&self, connection: &Arc<RouterConnection>) {
        if connection.kind == RouterKind::Edge {
            connection.announced_sessions.lock().reserve();
            self.record(Notice::Begin(connection.clone()));
        }
    }

    /// Starts a full state for a router that requests it, unless one is being written to it, and at
    /// most once in each [`RESYNC_PAUSE`]. Returns whether it is started.
    pub(crate) fn resync(&self, connection: &Arc<RouterConnection>) -> bool {
        let may = connection
            .announced_sessions
            .lock()
            .may_resync(RESYNC_PAUSE);
        if may {
            self.begin(connection);
        }
        may
    }

    /// Records a change, in one notice with the one before if that is of the same kind, so that
    /// routers get fewer messages.
    pub(crate) fn record(&self, notice: Notice) {
        let mut notices = self.notices.lock();
        match (notices.last_mut(), notice) {
            (Some(Notice::ApiSessions(ids)), Notice::ApiSessions(more)) if ids.len() < CHUNK => {
                ids.extend(more)
            }
            (Some(Notice::SessionsEnded(all)), Notice::SessionsEnded(more))
                if all.len() < CHUNK =>
            {
                all.extend(more)
            }
            (Some(Notice::Rights), Notice::Rights)
            | (Some(Notice::Everything), Notice::Everything) => {}
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
        let millis = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_millis());
        format!(
            "{millis:015x}{:08x}",
            self.count.fetch_add(1, Ordering::Relaxed)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn changes_of_a_kind_share_notices() {
        let sync = Sync::default();
        let id = |number: usize| Id::from_text(format!("session{number}"));
        let ended = |id: &str| EndedSession {
            id: id.into(),
            token: String::new(),
            api_session: String::new(),
            identity: String::new(),
        };
        for number in 0..=CHUNK {
            sync.record(Notice::ApiSessions(vec![id(number)]));
        }
        for id in ["first", "second"] {
            sync.record(Notice::SessionsEnded(vec![ended(id)]));
        }
        for _ in 0..3 {
            sync.record(Notice::Rights);
        }
        sync.record(Notice::ApiSessions(vec![id(0)]));
        let lengths = |notice: &Notice| match notice {
            Notice::ApiSessions(ids) => ("changed", ids.len()),
            Notice::SessionsEnded(ended) => ("ended", ended.len()),
            _ => ("another", 0),
        };
        let taken = sync.take().await;
        let expected = [
            ("changed", CHUNK),
            ("changed", 1),
            ("ended", 2),
            ("another", 0),
            ("changed", 1),
        ];
        assert_eq!(taken.iter().map(lengths).collect::<Vec<_>>(), expected);
    }
}
