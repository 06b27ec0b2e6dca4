//! One connection of a router that has said hello.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::outbox::Outbox;
use crate::{entity::RouterLink, frame::Frame};

/// So many requests of one router are worked on at the same time.
const MOST_REQUESTS: usize = 1024;

/// Which kind of record a router has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterKind {
    /// SDKs connect to it.
    Edge,
    /// It only carries traffic.
    Transit,
}

/// A connection.
pub struct RouterConnection {
    /// Unique as long as this process runs.
    pub number: u64,
    /// The id of its record.
    pub router: String,
    pub kind: RouterKind,
    pub address: Option<SocketAddr>,
    pub since: Instant,
    /// What the router says of itself, as records show it.
    pub link: Mutex<RouterLink>,
    pub outbox: Outbox,
    /// Counts the full states that were begun for it.
    pub full_states: AtomicU64,
    /// When it was last told everything because it asked.
    asked: Mutex<Option<Instant>>,
    /// Since when it has answered no heartbeat.
    answered: Mutex<Instant>,
    requests: AtomicUsize,
    is_closed: AtomicBool,
    closed: Notify,
}

/// What is known of a connection when it begins.
pub struct Opened {
    pub number: u64,
    pub router: String,
    pub kind: RouterKind,
    pub address: Option<SocketAddr>,
    pub link: RouterLink,
}

impl RouterConnection {
    pub fn new(opened: Opened) -> Self {
        let Opened { number, router, kind, address, link } = opened;
        Self {
            number,
            router,
            kind,
            address,
            since: Instant::now(),
            link: Mutex::new(link),
            outbox: Outbox::default(),
            full_states: AtomicU64::new(0),
            asked: Mutex::new(None),
            answered: Mutex::new(Instant::now()),
            requests: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            closed: Notify::new(),
        }
    }

    /// Sends a message. A router that does not read is cut off.
    pub fn send(&self, frame: Frame) {
        if self.outbox.push(frame).is_none() {
            self.close();
        }
    }

    /// Notes that it has answered a heartbeat.
    pub fn answered(&self) {
        *self.answered.lock() = Instant::now();
    }

    /// When it last answered a heartbeat; at first when it connected.
    pub fn last_answer(&self) -> Instant {
        *self.answered.lock()
    }

    /// Whether it may be told everything because it asks, which it may once in each `pause`.
    pub fn may_ask_again(&self, pause: Duration) -> bool {
        let mut asked = self.asked.lock();
        let may = asked.is_none_or(|asked| asked.elapsed() >= pause);
        if may {
            *asked = Some(Instant::now());
        }
        may
    }

    /// Counts one more request that is worked on, if they are not too many.
    pub fn begin_request(self: &Arc<Self>) -> Option<Request> {
        if self.requests.fetch_add(1, Ordering::AcqRel) >= MOST_REQUESTS {
            self.requests.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        Some(Request(self.clone()))
    }

    /// Cuts it off. Its reader does the rest.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.outbox.close();
        self.closed.notify_one();
    }

    /// Waits until it is cut off. For its reader alone.
    pub async fn closed(&self) {
        while !self.is_closed() {
            self.closed.notified().await;
        }
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }
}

/// A request that is worked on, counted as long as this is there.
pub struct Request(Arc<RouterConnection>);

impl Drop for Request {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}
