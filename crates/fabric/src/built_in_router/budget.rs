//! The budget of bytes that all channels together may queue in memory, and the account that each
//! identity and remote router has in it.
//!
//! An account may hold half of what is free, so that whoever fills up the budget leaves room for
//! others; one that holds nothing may take one longer message, as long as a part of the budget
//! stays free for short ones. This is the dynamic threshold of `send_queue.rs`, by owner.
//!
//! Invariant: `used` is the number of bytes that the accounts hold. Bytes of messages that must not
//! be dropped (the end of a connection, answers) are taken even beyond the limit. These messages
//! are small, and their number is bounded by the numbers of channels and circuits.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::counters::Counter;

/// One waiter is woken for about this many bytes given back.
const SHARE: usize = 16 << 10;

/// This fraction of the budget is left free by messages that are longer than the share of their
/// account.
const LEFT_FREE: usize = 16;

/// A budget of bytes.
pub(crate) struct Budget {
    limit: usize,
    /// How often a reader had to wait for memory before it read on.
    pub pauses: Counter,
    used: AtomicUsize,
    waiting: AtomicUsize,
    waiters: Mutex<VecDeque<Arc<Notify>>>,
    /// By the identity or remote router that owns it.
    accounts: Mutex<HashMap<String, Weak<Account>>>,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            pauses: Counter::default(),
            used: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            waiters: Mutex::default(),
            accounts: Mutex::default(),
        }
    }

    /// The account of an owner.
    pub(crate) fn account(self: &Arc<Self>, owner: &str) -> Arc<Account> {
        let mut accounts = self.accounts.lock();
        if let Some(account) = accounts.get(owner).and_then(Weak::upgrade) {
            return account;
        }
        let account = Arc::new(Account::new(owner.to_owned(), self.clone()));
        accounts.insert(owner.to_owned(), Arc::downgrade(&account));
        account
    }

    /// Forgets the account of an owner unless it is in use.
    fn forget(&self, owner: &str) {
        let mut accounts = self.accounts.lock();
        if accounts
            .get(owner)
            .is_some_and(|account| account.strong_count() == 0)
        {
            accounts.remove(owner);
        }
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn free(&self) -> usize {
        self.limit.saturating_sub(self.used())
    }

    /// Whether so much is used that those who hold most and do not read are cut off: more than
    /// half. One account alone never holds so much.
    pub(crate) fn is_short(&self) -> bool {
        self.free() < self.limit / 2
    }

    /// Takes bytes even beyond the limit.
    fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Takes bytes if the limit allows it. Returns whether they were taken.
    fn try_take(&self, bytes: usize) -> bool {
        let take = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.limit);
        self.used
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, take)
            .is_ok()
    }

    /// Gives bytes back and wakes some waiters.
    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::AcqRel);
        self.wake_for(bytes);
    }

    /// Wakes waiters for which there may be room in so many bytes.
    fn wake_for(&self, bytes: usize) {
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
        for waiter in &woken {
            waiter.notify_one();
        }
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

/// The account of an identity or a remote router: the bytes that wait for it, and those of the
/// messages that it has begun to send.
pub(crate) struct Account {
    owner: String,
    pub budget: Arc<Budget>,
    held: AtomicUsize,
}

/// Bytes of a message that has begun to arrive; given back on drop.
pub(crate) struct Hold<'a>(&'a Account, usize);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.give_back(self.1);
    }
}

impl Account {
    fn new(owner: String, budget: Arc<Budget>) -> Self {
        Self {
            owner,
            budget,
            held: AtomicUsize::new(0),
        }
    }

    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether the account may take so many more bytes.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.fits(self.held(), bytes)
    }

    fn fits(&self, held: usize, bytes: usize) -> bool {
        let free = self.budget.free();
        held + bytes <= free / 2 || (held == 0 && bytes + self.budget.limit / LEFT_FREE <= free)
    }

    /// Takes bytes regardless of the limits.
    pub(crate) fn take(&self, bytes: usize) {
        self.held.fetch_add(bytes, Ordering::AcqRel);
        self.budget.take(bytes);
    }

    /// Takes bytes if there is room for them. Returns whether they were taken.
    pub(crate) fn try_take(&self, bytes: usize) -> bool {
        let taken = |held| self.fits(held, bytes).then(|| held + bytes);
        if self
            .held
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, taken)
            .is_err()
        {
            return false;
        }
        let is_taken = self.budget.try_take(bytes);
        if !is_taken {
            self.held.fetch_sub(bytes, Ordering::AcqRel);
        }
        is_taken
    }

    /// Holds bytes if there is room for them.
    pub(crate) fn try_hold(&self, bytes: usize) -> Option<Hold<'_>> {
        self.try_take(bytes).then(|| Hold(self, bytes))
    }

    /// Waits until there is room for bytes, and holds them. `waiter` belongs to the caller.
    pub(crate) async fn hold(&self, bytes: usize, waiter: &Arc<Notify>) -> Hold<'_> {
        let mut has_waited = false;
        loop {
            if let Some(hold) = self.try_hold(bytes) {
                if has_waited {
                    // There may be room for others as well.
                    self.budget.wake(1);
                }
                return hold;
            }
            if !std::mem::replace(&mut has_waited, true) {
                self.budget.pauses.increment();
            }
            self.budget.wait(waiter);
            if self.has_room(bytes) {
                // Bytes were given back before this waiter was registered.
                waiter.notify_one();
            }
            waiter.notified().await;
        }
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::AcqRel);
        self.budget.give_back(bytes);
    }

    /// Hands bytes over to another account.
    pub(crate) fn hand_over(&self, to: &Self, bytes: usize) {
        to.held.fetch_add(bytes, Ordering::AcqRel);
        self.held.fetch_sub(bytes, Ordering::AcqRel);
        self.budget.wake_for(bytes);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.budget.forget(&self.owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_leave_room_for_others() {
        let budget = Arc::new(Budget::new(64));
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|owner| budget.account(owner));
        assert!(!a.try_take(61), "a sixteenth stays free for others");
        assert!(a.try_take(32) && !a.try_take(1), "half of what is free");
        assert!(
            b.try_take(28) && !c.try_take(3) && c.try_take(2) && !d.try_take(2) && d.try_take(1)
        );
        assert_eq!((budget.used(), a.held(), b.held()), (63, 32, 28));
        a.hand_over(&b, 32);
        assert_eq!((budget.used(), a.held(), b.held()), (63, 0, 60));
        b.give_back(60);
        drop(a.try_hold(20).unwrap());
        assert!(a.try_hold(62).is_none());
        assert_eq!((budget.used(), a.held()), (3, 0));
        a.take(70);
        assert_eq!((budget.used(), budget.free(), a.held()), (73, 0, 70));
        a.give_back(70);
        assert!(Arc::ptr_eq(&a, &budget.account("a")));
        a.take(1);
        drop((a, b));
        assert_eq!(budget.account("b").held(), 0);
    }
}
