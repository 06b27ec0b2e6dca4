//! A channel: the connection of a logged-in SDK. What its connection ids mean is in
//! `connections.rs`.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering},
    },
};

use model::{
    clock::Timestamp,
    entity::{ApiSession, Id, Identity},
};
use tokio::sync::Notify;
use wire::frame::Frame;

use super::send_queue::SendQueue;

/// The connection of a logged-in SDK.
pub(crate) struct Channel {
    pub login: ChannelLogin,
    pub outbox: Arc<SendQueue>,
    /// How many unknown session tokens came in a row.
    pub unknown_tokens: AtomicUsize,
    /// How many tokens that name no session were looked up and were unknown, or are being looked
    /// up.
    pub searched_tokens: AtomicUsize,
    sequence: AtomicI32,
    /// The number of Connects and Binds in progress; counted by `requests.rs`.
    pub requests: AtomicUsize,
    /// Whether everything was written to it, and its end.
    pub is_written: AtomicBool,
    is_closed: AtomicBool,
    closed: Notify,
}

/// The unchanging data of a channel, from its hello.
pub(crate) struct ChannelLogin {
    /// Unique within this process.
    pub number: u64,
    pub identity: Id<Identity>,
    pub api_session: Id<ApiSession>,
    /// The token of the API session.
    pub token: String,
    pub address: Option<SocketAddr>,
    /// The body of its hello.
    pub hello: String,
    pub since: Timestamp,
}

impl Channel {
    pub(crate) fn new(login: ChannelLogin, outbox: SendQueue) -> Self {
        Self {
            login,
            outbox: Arc::new(outbox),
            unknown_tokens: AtomicUsize::new(0),
            searched_tokens: AtomicUsize::new(0),
            sequence: AtomicI32::new(1),
            requests: AtomicUsize::new(0),
            is_written: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            closed: Notify::new(),
        }
    }

    /// The sequence number of the next message we send: never negative and never 0, which means
    /// none.
    pub(crate) fn next_sequence(&self) -> i32 {
        let next = |sequence: i32| Some(sequence.checked_add(1).unwrap_or(1));
        self.sequence
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .unwrap_or(1)
    }

    /// Sends a control message. Closes the channel if the peer does not read its control messages.
    pub(crate) fn send(&self, frame: Frame) {
        if !self.outbox.control(frame) {
            self.close();
        }
    }

    /// Closes the channel. Its reader ends everything on it.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.closed.notify_waiters();
        self.closed.notify_one();
    }

    /// Waits until the channel is closed. For its reader only.
    pub(crate) async fn closed(&self) {
        while !self.is_closed.load(Ordering::Acquire) {
            self.closed.notified().await;
        }
    }
}
