//! The budget of bytes that all channels together may queue in memory.
//!
//! Invariant: `used` is the number of bytes that were taken and not given back. Bytes of messages that must not be dropped (the end of a
//! connection, answers) are taken even beyond the limit. These messages are small, and their number is bounded by the numbers of channels
//! and circuits.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::counters::Counter;

/// One waiter is woken for about this many bytes given back.
const SHARE: usize = 16 << 10;

/// A budget of bytes.
pub(crate) struct Budget {
    limit: usize,
    /// How often a reader had to wait for memory before it read on.
    pub pauses: Counter,
    used: AtomicUsize,
    waiting: AtomicUsize,
    waiters: Mutex<VecDeque<Arc<Notify>>>,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, pauses: Counter::default(), used: AtomicUsize::new(0), waiting: AtomicUsize::new(0), waiters: Mutex::default() }
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn free(&self) -> usize {
        self.limit.saturating_sub(self.used())
    }

    /// Takes bytes even beyond the limit.
    pub(crate) fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Takes bytes if the limit allows it. Returns whether they were taken.
    pub(crate) fn try_take(&self, bytes: usize) -> bool {
        let take = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.limit);
        self.used.fetch_update(Ordering::AcqRel, Ordering::Relaxed, take).is_ok()
    }

    /// Gives bytes back and wakes some waiters.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::AcqRel);
        if self.waiting.load(Ordering::Acquire) > 0 {
            self.wake(bytes / SHARE + 1);
        }
    }

    /// Wakes up to `maximum` waiters, for example when one of them no longer needs its wake-up.
    pub(crate) fn wake(&self, maximum: usize) {
        let woken: Vec<_> = {
            let mut waiters = self.waiters.lock();
            let count = maximum.min(waiters.len());
            let woken = waiters.drain(..count).collect();
            self.waiting.store(waiters.len(), Ordering::Release);
            woken
        };
        woken.iter().for_each(|waiter: &Arc<Notify>| waiter.notify_one());
    }

    /// Wakes `waiter` once bytes are given back; spurious wake-ups are possible.
    pub(crate) fn wait(&self, waiter: &Arc<Notify>) {
        let mut waiters = self.waiters.lock();
        if !waiters.iter().any(|known| Arc::ptr_eq(known, waiter)) {
            waiters.push_back(waiter.clone());
        }
        self.waiting.store(waiters.len(), Ordering::Release);
    }
}
