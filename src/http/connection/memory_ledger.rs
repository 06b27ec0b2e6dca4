//! Bytes that are held in memory for clients: answers that are not read yet, heads and bodies of requests that have not come whole.
//!
//! Each connection has an [`Account`], each thing that is held for it a [`Hold`]. Two bounds are kept: above the one of a connection no
//! further request on it is worked on until the client has read; above the one of all connections together, those are cut off that hold
//! something and have gone longest without taking anything, and no connection takes up a further request until there is room again
//! ([`Account::total_room`]): a connection that is cut off keeps its memory until its task runs. Not here: who reads and writes (`connection/guard.rs`, `connection/http2.rs`).
//! Invariant: an account's sums are those of its holds, and the ledger's sum is that of its accounts.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::timeout};

/// The shortest time between two looks for connections to cut off.
const REST: Duration = Duration::from_millis(5);
/// How long a connection waits for room in the total before it looks again by itself.
const RECHECK: Duration = Duration::from_secs(1);
/// The shortest time between two lines of the log about them.
const QUIET: Duration = Duration::from_secs(60);

/// How many bytes may be held.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Of answers that the client of one connection has not read.
    pub each: usize,
    /// For all connections together.
    pub total: usize,
}

/// All accounts. Cheap to clone.
#[derive(Clone)]
pub struct MemoryLedger(Arc<Accounts>);

struct Accounts {
    bounds: Bounds,
    started: Instant,
    held: AtomicUsize,
    next: AtomicU64,
    accounts: Mutex<HashMap<u64, Weak<State>>>,
    looked: Mutex<Looked>,
    /// Wakes one connection that waits for room in the total.
    freed: Notify,
}

/// The last look for connections to cut off.
struct Looked {
    at: Option<Instant>,
    told: Option<Instant>,
    /// Connections cut off since it was told.
    cut: usize,
}

impl MemoryLedger {
    /// Nothing is held yet.
    pub fn new(bounds: Bounds) -> Self {
        Self(Arc::new(Accounts {
            bounds,
            started: Instant::now(),
            held: AtomicUsize::new(0),
            next: AtomicU64::new(0),
            accounts: Mutex::default(),
            looked: Mutex::new(Looked { at: None, told: None, cut: 0 }),
            freed: Notify::new(),
        }))
    }

    /// The account of a new connection.
    pub fn open(&self) -> Account {
        let id = self.0.next.fetch_add(1, Relaxed);
        let state = Arc::new(State {
            id,
            ledger: self.clone(),
            held: AtomicUsize::new(0),
            unread: AtomicUsize::new(0),
            since: AtomicU64::new(0),
            is_cut: AtomicBool::new(false),
            cut: Notify::new(),
            room: Notify::new(),
        });
        self.0.accounts.lock().insert(id, Arc::downgrade(&state));
        Account(state)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.0.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Cuts connections off until what the others hold is an eighth below the bound; those first that have gone longest without taking
    /// anything.
    fn make_room(&self) {
        let Some(mut looked) = self.0.looked.try_lock() else { return };
        if looked.at.is_some_and(|at| at.elapsed() < REST) {
            return;
        }
        looked.at = Some(Instant::now());
        let known: Vec<Arc<State>> = self.0.accounts.lock().values().filter_map(Weak::upgrade).collect();
        let mut holding: Vec<(u64, usize, Arc<State>)> = known
            .into_iter()
            .filter(|state| !state.is_cut.load(Relaxed) && state.held.load(Relaxed) > 0)
            .map(|state| (state.since.load(Relaxed), state.held.load(Relaxed), state))
            .collect();
        let mut held: usize = holding.iter().map(|(_, held, _)| held).sum();
        if held < self.0.bounds.total {
            return;
        }
        holding.sort_by_key(|(since, ..)| *since);
        for (_, freed, state) in holding {
            if held <= self.0.bounds.total / 8 * 7 {
                break;
            }
            held = held.saturating_sub(freed);
            state.is_cut.store(true, Relaxed);
            state.cut.notify_one();
            looked.cut += 1;
        }
        if looked.told.is_none_or(|told| told.elapsed() >= QUIET) {
            let bound = self.0.bounds.total;
            tracing::warn!(connections = looked.cut, bound, "clients leave too much unread; connections that took nothing were cut off");
            looked.told = Some(Instant::now());
            looked.cut = 0;
        }
    }
}

/// What is held for one connection. Cheap to clone.
#[derive(Clone)]
pub struct Account(Arc<State>);

struct State {
    id: u64,
    ledger: MemoryLedger,
    held: AtomicUsize,
    unread: AtomicUsize,
    /// Milliseconds since the ledger began, when the client last took something or nothing was held.
    since: AtomicU64,
    is_cut: AtomicBool,
    cut: Notify,
    room: Notify,
}

impl Account {
    /// Holds so many bytes that are no answer.
    pub fn hold(&self, bytes: usize) -> Hold {
        let hold = Hold { account: self.clone(), kept: AtomicUsize::new(0), answer: AtomicUsize::new(0) };
        hold.keep(bytes);
        hold
    }

    /// Waits until the client has read enough for another answer.
    pub async fn room(&self) {
        let state = &self.0;
        loop {
            let read = state.room.notified();
            if state.unread.load(Relaxed) < state.ledger.0.bounds.each {
                return;
            }
            read.await;
        }
    }

    /// Whether the bound of all connections leaves room for another request.
    pub fn has_total_room(&self) -> bool {
        let Accounts { held, bounds, .. } = &*self.0.ledger.0;
        held.load(Relaxed) < bounds.total
    }

    /// Waits until the bound of all connections leaves room for another request. Connections are cut off for it, maybe this one.
    pub async fn total_room(&self) {
        let freed = &self.0.ledger.0.freed;
        while !self.has_total_room() {
            self.0.ledger.make_room();
            drop(timeout(RECHECK, freed.notified()).await);
        }
        // There may be room for the next one as well.
        freed.notify_one();
    }

    /// Notes that the client took something.
    pub fn took(&self) {
        self.0.since.store(self.0.ledger.now(), Relaxed);
    }

    /// Waits until the connection is to be cut off.
    pub async fn is_cut(&self) {
        self.0.cut.notified().await;
    }

    fn change(&self, old: usize, new: usize) {
        let Accounts { held, bounds, freed, .. } = &*self.0.ledger.0;
        if new > old {
            let more = new - old;
            if self.0.held.fetch_add(more, Relaxed) == 0 {
                self.took();
            }
            if held.fetch_add(more, Relaxed) + more >= bounds.total {
                self.0.ledger.make_room();
            }
        } else {
            self.0.held.fetch_sub(old - new, Relaxed);
            let before = held.fetch_sub(old - new, Relaxed);
            if before >= bounds.total && before - (old - new) < bounds.total {
                freed.notify_one();
            }
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.ledger.0.accounts.lock().remove(&self.id);
    }
}

/// Bytes that are held for a connection, until this is dropped.
pub struct Hold {
    account: Account,
    kept: AtomicUsize,
    answer: AtomicUsize,
}

impl Hold {
    /// Holds so many bytes beside the answer instead of those before.
    pub fn keep(&self, bytes: usize) {
        self.account.change(self.kept.swap(bytes, Relaxed), bytes);
    }

    /// Holds an answer of so many bytes instead of the one before.
    pub fn answer(&self, bytes: usize) {
        let old = self.answer.swap(bytes, Relaxed);
        let state = &self.account.0;
        if bytes > old {
            state.unread.fetch_add(bytes - old, Relaxed);
        } else {
            state.unread.fetch_sub(old - bytes, Relaxed);
            state.room.notify_waiters();
        }
        self.account.change(old, bytes);
    }

    /// Notes that the client took a part of it.
    pub fn took(&self) {
        self.account.took();
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.answer(0);
        self.keep(0);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn ledger() -> MemoryLedger {
        MemoryLedger::new(Bounds { each: 100, total: 800 })
    }

    #[test]
    fn sums_are_those_of_what_is_held() {
        let ledger = ledger();
        let (one, other) = (ledger.open(), ledger.open());
        let holds = [one.hold(10), one.hold(20), other.hold(30)];
        holds[0].answer(50);
        assert_eq!((ledger.0.held.load(Relaxed), one.0.held.load(Relaxed), one.0.unread.load(Relaxed)), (110, 80, 50));
        holds[0].answer(5);
        holds[1].keep(1);
        assert_eq!((ledger.0.held.load(Relaxed), one.0.held.load(Relaxed), one.0.unread.load(Relaxed)), (46, 16, 5));
        drop(holds);
        assert_eq!((ledger.0.held.load(Relaxed), one.0.held.load(Relaxed), one.0.unread.load(Relaxed)), (0, 0, 0));
        drop((one, other));
        assert!(ledger.0.accounts.lock().is_empty());
    }

    #[test]
    fn a_connection_has_room_once_its_client_has_read() {
        let account = ledger().open();
        let holds = [account.hold(500), account.hold(0)];
        assert!(account.room().now_or_never().is_some(), "what is no answer does not count");
        holds[1].answer(100);
        let mut waits = Box::pin(account.room());
        assert!((&mut waits).now_or_never().is_none());
        holds[1].answer(99);
        assert!(waits.now_or_never().is_some());
    }

    #[tokio::test]
    async fn requests_wait_for_the_total() {
        let ledger = ledger();
        let accounts: Vec<Account> = (0..3).map(|_| ledger.open()).collect();
        let held = accounts[0].hold(800);
        let mut waiting = Box::pin(async { tokio::join!(accounts[1].total_room(), accounts[2].total_room()) });
        assert!(!accounts[1].has_total_room() && (&mut waiting).now_or_never().is_none());
        assert!(accounts[0].is_cut().now_or_never().is_some() && accounts[1].is_cut().now_or_never().is_none());
        held.keep(799);
        // `join!` may ask the second before the first wakes it.
        assert!((&mut waiting).now_or_never().is_some() || waiting.now_or_never().is_some(), "whoever is woken wakes the next");
    }

    #[test]
    fn of_all_connections_those_are_cut_off_that_took_nothing_for_longest() {
        let ledger = ledger();
        let accounts: Vec<Account> = (0..8).map(|_| ledger.open()).collect();
        let held: Vec<Hold> = accounts.iter().map(|account| account.hold(99)).collect();
        accounts.iter().zip([5, 1, 6, 2, 7, 8, 9, 10]).for_each(|(account, since)| account.0.since.store(since, Relaxed));
        let is_cut = |account: &Account| account.is_cut().now_or_never().is_some();
        assert!(!accounts.iter().any(is_cut));
        held[4].answer(9);
        let cut: Vec<usize> = (0..8).filter(|n| is_cut(&accounts[*n])).collect();
        assert_eq!(cut, [1, 3], "801 bytes, and 603 of those that stay");
        let idle = ledger.open();
        std::thread::sleep(2 * REST);
        held[4].answer(10);
        assert!(!is_cut(&idle) && !accounts.iter().any(is_cut), "what is being freed counts no more");
    }
}
