//! Connects and Binds in progress: bounded in number on each channel, and in bytes for each
//! identity and in total, because each is held in memory until it is answered.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;
use wire::frame::Frame;

use super::channel::Channel;
use crate::network::IdentityQuota;

/// The maximum number on one channel.
const MAX_REQUESTS: usize = 1024;
/// All together take at most this fraction of what may be queued.
const PART: usize = 8;
/// One identity takes at most this fraction of that.
const IDENTITY_PART: usize = 4;
/// What a request costs in bytes beside its message.
const OVERHEAD: usize = 512;

/// The bytes of all requests in progress.
pub(crate) struct RequestBudget {
    max_bytes: usize,
    bytes: AtomicUsize,
    by_identity: Mutex<IdentityQuota>,
}

/// A request in progress, counted until this is dropped.
pub(crate) struct RequestGuard {
    requests: Arc<RequestBudget>,
    channel: Arc<Channel>,
    bytes: usize,
}

impl RequestBudget {
    /// For a router that may queue this many bytes.
    pub(crate) fn new(max_queued: usize) -> Self {
        let max_bytes = max_queued / PART;
        Self {
            max_bytes,
            bytes: AtomicUsize::new(0),
            by_identity: Mutex::new(IdentityQuota::new(max_bytes / IDENTITY_PART)),
        }
    }

    /// Counts a request of a channel; `None` at a limit.
    pub(crate) fn begin(
        self: &Arc<Self>,
        channel: &Arc<Channel>,
        message: &Frame,
    ) -> Option<RequestGuard> {
        // A message that is passed on is held twice.
        let bytes = 2 * message.len() + OVERHEAD;
        let take = |used: usize| {
            used.checked_add(bytes)
                .filter(|used| *used <= self.max_bytes)
        };
        if channel.requests.fetch_add(1, Ordering::AcqRel) >= MAX_REQUESTS {
            channel.requests.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        if !self
            .by_identity
            .lock()
            .take(channel.login.identity.as_str(), bytes)
        {
            channel.requests.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        if self
            .bytes
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, take)
            .is_err()
        {
            channel.requests.fetch_sub(1, Ordering::AcqRel);
            self.by_identity
                .lock()
                .give_back(channel.login.identity.as_str(), bytes);
            return None;
        }
        Some(RequestGuard {
            requests: self.clone(),
            channel: channel.clone(),
            bytes,
        })
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.channel.requests.fetch_sub(1, Ordering::AcqRel);
        self.requests
            .by_identity
            .lock()
            .give_back(self.channel.login.identity.as_str(), self.bytes);
        self.requests.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}
