//! The bytes that all channels together may have waiting in memory.
//!
//! Invariant: `used` is what was taken and not given back. What must go through (closing a connection, answers) is taken even beyond the
//! limit; it is small and bounded by the number of channels and circuits.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Whoever waits is woken for about every so many bytes that are given back.
const SHARE: usize = 16 << 10;

/// A budget of bytes.
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
    waiting: AtomicUsize,
    waiters: Mutex<VecDeque<Arc<Notify>>>,
}

impl Budget {
    pub fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0), waiting: AtomicUsize::new(0), waiters: Mutex::default() }
    }

    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub fn free(&self) -> usize {
        self.limit.saturating_sub(self.used())
    }

    /// Takes bytes whether or not they are there.
    pub fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Takes bytes if they are there.
    pub fn try_take(&self, bytes: usize) -> bool {
        let take = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.limit);
        self.used.fetch_update(Ordering::AcqRel, Ordering::Relaxed, take).is_ok()
    }

    /// Gives bytes back, and wakes some of those who wait for them.
    pub fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::AcqRel);
        if self.waiting.load(Ordering::Acquire) > 0 {
            self.wake(bytes / SHARE + 1);
        }
    }

    /// Wakes so many of those who wait, for instance because one of them does not need to any more.
    pub fn wake(&self, most: usize) {
        let woken: Vec<_> = {
            let mut waiters = self.waiters.lock();
            let count = most.min(waiters.len());
            let woken = waiters.drain(..count).collect();
            self.waiting.store(waiters.len(), Ordering::Release);
            woken
        };
        woken.iter().for_each(|waiter: &Arc<Notify>| waiter.notify_one());
    }

    /// Has somebody woken once bytes are given back. They may be woken for nothing.
    pub fn wait(&self, waiter: &Arc<Notify>) {
        let mut waiters = self.waiters.lock();
        if !waiters.iter().any(|known| Arc::ptr_eq(known, waiter)) {
            waiters.push_back(waiter.clone());
        }
        self.waiting.store(waiters.len(), Ordering::Release);
    }
}
