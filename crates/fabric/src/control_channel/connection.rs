//! One connection of a router that has said hello.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

use model::entity::RouterInfo;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use wire::{
    control::fabric::{LinkListener, PeerState, PeerStateChange},
    frame::Frame,
};

use super::{
    announced_sessions::AnnouncedSessions, connected_identities::ConnectedIdentities, group::Group,
    outbox::Outbox, report_queue::ReportQueue, tunneler::Tunneler,
};

/// Maximum requests of one router that are processed at the same time, and their bytes. The longest
/// message fits.
const MAX_REQUESTS: usize = 1024;
const MAX_REQUEST_BYTES: usize = 8 << 20;
/// Maximum further connections of a group: a router has one for each of three priorities.
const MAX_FURTHER: usize = 2;

/// The kind of a router's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouterKind {
    /// SDKs connect to it.
    Edge,
    /// It only forwards traffic.
    Transit,
    /// It is in this process, and its connection is a queue without a socket (`built_in.rs`).
    BuiltIn,
}

/// A connection.
pub(crate) struct RouterConnection {
    /// Unique in this process.
    pub number: u64,
    /// The id of its record.
    pub router: String,
    pub kind: RouterKind,
    pub address: Option<SocketAddr>,
    /// The group that it is the first connection of; `None` before version 2.
    pub group: Option<Group>,
    pub since: Instant,
    /// What the router reports about itself, as shown on its record.
    pub link: Mutex<RouterInfo>,
    pub outbox: Outbox,
    /// Where it accepts links.
    listeners: Vec<LinkListener>,
    /// The cost and the `noTraversal` of its record.
    weight: Mutex<(u16, bool)>,
    /// The identities with an SDK at the router.
    pub connected: ConnectedIdentities,
    /// The identity and API session with which the router itself dials and hosts services; `None`
    /// if it does not.
    pub tunneler: Mutex<Option<Arc<Tunneler>>>,
    /// The tasks that wait for the answer to a question, by the sequence number of the question.
    pub inspections: Mutex<HashMap<i32, oneshot::Sender<Frame>>>,
    /// Whether its record was deleted.
    pub is_deleted: AtomicBool,
    /// Whether the router may no longer connect with this certificate: its record was deleted,
    /// disabled or enrolled again.
    pub is_revoked: AtomicBool,
    /// Whether it has answered the hello.
    pub is_introduced: AtomicBool,
    /// Whether it takes public keys.
    pub has_data_model: AtomicBool,
    /// A hash of the public keys that it was sent.
    pub keys: AtomicU64,
    /// A hash of the data model that it was sent; 0 if none was.
    pub model: AtomicU64,
    /// Held while the API session of its tunneler is opened.
    pub opening: tokio::sync::Mutex<()>,
    /// Held while it is told which circuits from before the start have ended.
    pub telling: tokio::sync::Mutex<()>,
    /// The API sessions that it knows.
    pub announced_sessions: Mutex<AnnouncedSessions>,
    /// The position of the last change of other routers that it was told of (`announcements.rs`).
    pub announced: AtomicU64,
    /// When it last answered a heartbeat.
    answered: Mutex<Instant>,
    /// The reports that wait for the disk.
    pub reports: Arc<ReportQueue>,
    requests: AtomicUsize,
    request_bytes: AtomicUsize,
    /// The number of further connections of its group.
    further: AtomicUsize,
    is_closed: AtomicBool,
    closed: Notify,
}

/// The properties of a connection when it opens.
pub(crate) struct ConnectionParameters {
    pub number: u64,
    pub router: String,
    pub kind: RouterKind,
    pub address: Option<SocketAddr>,
    pub group: Option<Group>,
    pub link: RouterInfo,
    /// Where it accepts links.
    pub listeners: Vec<LinkListener>,
    /// The cost and the `noTraversal` of its record.
    pub weight: (u16, bool),
}

impl RouterConnection {
    /// A connection without a socket.
    #[cfg(test)]
    pub(crate) fn unconnected(router: &str) -> Arc<Self> {
        let (kind, link) = (RouterKind::Edge, RouterInfo::default());
        let (listeners, weight) = (Vec::new(), (0, false));
        let (address, group) = (None, None);
        Arc::new(Self::new(ConnectionParameters {
            number: 0,
            router: router.into(),
            kind,
            address,
            group,
            link,
            listeners,
            weight,
        }))
    }

    pub(crate) fn new(parameters: ConnectionParameters) -> Self {
        let ConnectionParameters {
            number,
            router,
            kind,
            address,
            group,
            link,
            listeners,
            weight,
        } = parameters;
        Self {
            number,
            router,
            kind,
            address,
            group,
            since: Instant::now(),
            link: Mutex::new(link),
            outbox: Outbox::default(),
            listeners,
            weight: Mutex::new(weight),
            connected: ConnectedIdentities::default(),
            tunneler: Mutex::new(None),
            inspections: Mutex::default(),
            is_deleted: AtomicBool::new(false),
            is_revoked: AtomicBool::new(false),
            is_introduced: AtomicBool::new(false),
            has_data_model: AtomicBool::new(false),
            keys: AtomicU64::new(0),
            model: AtomicU64::new(0),
            opening: tokio::sync::Mutex::default(),
            telling: tokio::sync::Mutex::default(),
            announced_sessions: Mutex::default(),
            announced: AtomicU64::new(0),
            answered: Mutex::new(Instant::now()),
            reports: Arc::default(),
            requests: AtomicUsize::new(0),
            request_bytes: AtomicUsize::new(0),
            further: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            closed: Notify::new(),
        }
    }

    /// The router in messages to other routers.
    pub(crate) fn as_peer(&self) -> PeerStateChange {
        let (id, version, listeners) = (
            self.router.clone(),
            self.link.lock().version.version.clone(),
            self.listeners.clone(),
        );
        PeerStateChange {
            id,
            version,
            state: PeerState::Healthy.into(),
            listeners,
        }
    }

    /// The cost and the `noTraversal` of its record.
    pub(crate) fn weight(&self) -> (u16, bool) {
        *self.weight.lock()
    }

    /// Takes the cost and the `noTraversal` of its record.
    pub(crate) fn set_weight(&self, cost: u16, is_end_only: bool) {
        *self.weight.lock() = (cost, is_end_only);
    }

    /// Sends a message. Disconnects a router that does not read. After [`Outbox::finish`] the
    /// message is dropped.
    pub(crate) fn send(&self, frame: Frame) {
        if self.outbox.push(frame).is_none() && !self.outbox.is_finished() {
            self.close();
        }
    }

    /// Records that a heartbeat was answered.
    pub(crate) fn heartbeat_answered(&self) {
        *self.answered.lock() = Instant::now();
    }

    /// When it last answered a heartbeat; initially when it connected.
    pub(crate) fn last_answer(&self) -> Instant {
        *self.answered.lock()
    }

    /// Counts a request of this length that is being processed, unless there are too many.
    pub(crate) fn begin_request(self: &Arc<Self>, bytes: usize) -> Option<RequestGuard> {
        let guard = RequestGuard {
            _count: self.count(|connection| &connection.requests, 1, MAX_REQUESTS)?,
            _bytes: self.count(
                |connection| &connection.request_bytes,
                bytes,
                MAX_REQUEST_BYTES,
            )?,
        };
        Some(guard)
    }

    /// Counts a further connection of its group, unless there are too many.
    pub(crate) fn join(self: &Arc<Self>) -> Option<CountGuard> {
        self.count(|connection| &connection.further, 1, MAX_FURTHER)
    }

    fn count(
        self: &Arc<Self>,
        counter: fn(&Self) -> &AtomicUsize,
        amount: usize,
        most: usize,
    ) -> Option<CountGuard> {
        let before = counter(self).fetch_add(amount, Ordering::AcqRel);
        // Dropping it takes the amount back.
        let guard = CountGuard {
            connection: self.clone(),
            counter,
            amount,
        };
        (before.saturating_add(amount) <= most).then_some(guard)
    }

    /// Disconnects it. Its readers clean up.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.outbox.close();
        self.closed.notify_waiters();
    }

    /// Waits until it is disconnected.
    pub(crate) async fn closed(&self) {
        // Created before the look, so that no notification is missed between them.
        let notified = self.closed.notified();
        if !self.is_closed() {
            notified.await;
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }
}

/// A request that is being processed; dropping it ends the count.
pub(crate) struct RequestGuard {
    _count: CountGuard,
    _bytes: CountGuard,
}

/// A part of what is counted at a connection; dropping it ends the count.
pub(crate) struct CountGuard {
    connection: Arc<RouterConnection>,
    counter: fn(&RouterConnection) -> &AtomicUsize,
    amount: usize,
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        (self.counter)(&self.connection).fetch_sub(self.amount, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_bounded_in_bytes() {
        let connection = RouterConnection::unconnected("router");
        let long = connection.begin_request(MAX_REQUEST_BYTES - 1);
        assert!(long.is_some() && connection.begin_request(2).is_none());
        let short = connection.begin_request(1);
        assert!(short.is_some() && connection.begin_request(1).is_none());
        drop(long);
        let requests: Vec<_> = (0..MAX_REQUESTS)
            .map(|_| connection.begin_request(1))
            .collect();
        assert_eq!(requests.iter().flatten().count(), MAX_REQUESTS - 1);
        drop((requests, short));
        assert_eq!(
            (
                connection.requests.load(Ordering::Acquire),
                connection.request_bytes.load(Ordering::Acquire)
            ),
            (0, 0)
        );
    }
}
