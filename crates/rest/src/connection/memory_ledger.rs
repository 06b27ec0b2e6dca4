//! The ledger of bytes held in memory for clients: unread answers, and incomplete heads and bodies
//! of requests.
//!
//! Each connection has an [`Account`], each held item a [`Hold`]. There are two bounds.
//!
//! The first bound is for unread answers on one connection. Above it, no request of the connection
//! is started until the client has read.
//!
//! The second bound is for all connections together. Every client may use seven eighths of it.
//! Above that share, connections that hold memory are closed, first those whose clients have not
//! read for the longest time, until the others hold at most three quarters of the bound. A closed
//! connection keeps its memory until its task runs. No connection starts a request before there is
//! room again ([`Account::total_room`]). The last eighth is reserved for clients that have read a
//! whole answer on their connection.
//!
//! Not here: reading and writing (`connection/guard.rs`, `connection/http2.rs`), the order of
//! waiting connections (`connection/waiters.rs`). Invariant: the sums of an account are those of
//! its holds, and the sum of the ledger is that of its accounts.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use listener::ClientPrefix;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::timeout};

use super::waiters::Waiters;

/// The minimum interval between two searches for connections to close.
const SEARCH_INTERVAL: Duration = Duration::from_millis(5);
/// How long a connection waits for room in the total before it checks again without being notified.
const RECHECK: Duration = Duration::from_secs(1);
/// The minimum interval between two log lines about closed connections.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The bounds, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct MemoryBounds {
    /// For unread answers on one connection.
    pub each: usize,
    /// For all bytes held for clients on all connections.
    pub total: usize,
}

impl MemoryBounds {
    /// The part of the total that every client may use.
    fn shared(self) -> usize {
        self.total / 8 * 7
    }
}

/// All accounts. Cheap to clone.
#[derive(Clone)]
pub struct MemoryLedger(Arc<Accounts>);

struct Accounts {
    bounds: MemoryBounds,
    started: Instant,
    held: AtomicUsize,
    next: AtomicU64,
    accounts: Mutex<HashMap<u64, Weak<State>>>,
    last_search: Mutex<LastSearch>,
    /// Connections that wait for room in the part of the total that every client may use.
    waiters: Waiters,
    /// Connections that wait for room in the whole total. Their clients have read a whole answer.
    readers: Waiters,
}

/// The last search for connections to close.
struct LastSearch {
    at: Option<Instant>,
    logged_at: Option<Instant>,
    /// Connections closed since the last log line.
    cut: usize,
}

impl MemoryLedger {
    /// An empty ledger.
    pub(crate) fn new(bounds: MemoryBounds) -> Self {
        Self(Arc::new(Accounts {
            bounds,
            started: Instant::now(),
            held: AtomicUsize::new(0),
            next: AtomicU64::new(0),
            accounts: Mutex::default(),
            last_search: Mutex::new(LastSearch {
                at: None,
                logged_at: None,
                cut: 0,
            }),
            waiters: Waiters::default(),
            readers: Waiters::default(),
        }))
    }

    /// The account of a new connection from a network.
    pub(crate) fn open(&self, network: ClientPrefix) -> Account {
        let id = self.0.next.fetch_add(1, Relaxed);
        let state = Arc::new(State {
            id,
            network,
            ledger: self.clone(),
            held: AtomicUsize::new(0),
            unread: AtomicUsize::new(0),
            since: AtomicU64::new(0),
            reads: AtomicBool::new(false),
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

    /// Closes connections until the others hold at most 3/4 of the total, first those whose clients
    /// have not read for the longest time. Does nothing if the connections that are not being
    /// closed hold less than the part of the total that every client may use.
    fn make_room(&self) {
        let Some(mut last_search) = self.0.last_search.try_lock() else {
            return;
        };
        if last_search
            .at
            .is_some_and(|at| at.elapsed() < SEARCH_INTERVAL)
        {
            return;
        }
        last_search.at = Some(Instant::now());
        let known: Vec<Arc<State>> = self
            .0
            .accounts
            .lock()
            .values()
            .filter_map(Weak::upgrade)
            .collect();
        let mut holding: Vec<(u64, usize, Arc<State>)> = known
            .into_iter()
            .filter(|state| !state.is_cut.load(Relaxed) && state.held.load(Relaxed) > 0)
            .map(|state| (state.since.load(Relaxed), state.held.load(Relaxed), state))
            .collect();
        let mut held: usize = holding.iter().map(|(_, held, _)| held).sum();
        if held < self.0.bounds.shared() {
            return;
        }
        holding.sort_by_key(|(since, ..)| *since);
        for (_, freed, state) in holding {
            if held <= self.0.bounds.total / 4 * 3 {
                break;
            }
            held = held.saturating_sub(freed);
            state.is_cut.store(true, Relaxed);
            state.cut.notify_one();
            last_search.cut += 1;
        }
        if last_search
            .logged_at
            .is_none_or(|logged_at| logged_at.elapsed() >= LOG_INTERVAL)
        {
            let bound = self.0.bounds.total;
            tracing::warn!(
                connections = last_search.cut,
                bound,
                "clients leave too much unread; connections whose clients read nothing were closed"
            );
            last_search.logged_at = Some(Instant::now());
            last_search.cut = 0;
        }
    }
}

/// The memory held for one connection. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Account(Arc<State>);

struct State {
    id: u64,
    network: ClientPrefix,
    ledger: MemoryLedger,
    held: AtomicUsize,
    unread: AtomicUsize,
    /// When the client last read something, or, if later, when bytes were held after none were.
    /// In milliseconds since the ledger was created.
    since: AtomicU64,
    /// Whether the client has read a whole answer.
    reads: AtomicBool,
    is_cut: AtomicBool,
    cut: Notify,
    room: Notify,
}

impl Account {
    /// Adds held bytes that are not part of an answer.
    pub(crate) fn hold(&self, bytes: usize) -> Hold {
        let hold = Hold {
            account: self.clone(),
            kept: AtomicUsize::new(0),
            answer: AtomicUsize::new(0),
        };
        hold.keep(bytes);
        hold
    }

    /// Waits until the client has read enough for another answer.
    pub(crate) async fn room(&self) {
        let state = &self.0;
        loop {
            let read = state.room.notified();
            if state.unread.load(Relaxed) < state.ledger.0.bounds.each {
                return;
            }
            read.await;
        }
    }

    /// Whether the bound of all connections has room for another request.
    pub(crate) fn has_total_room(&self) -> bool {
        let Accounts { held, bounds, .. } = &*self.0.ledger.0;
        held.load(Relaxed)
            < if self.reads() {
                bounds.total
            } else {
                bounds.shared()
            }
    }

    /// Waits until the bound of all connections has room for another request. Closes connections to
    /// make room, possibly this one.
    pub(crate) async fn total_room(&self) {
        let Accounts {
            waiters, readers, ..
        } = &*self.0.ledger.0;
        let waiter = if self.reads() { readers } else { waiters }.join(self.0.network);
        while !self.has_total_room() {
            self.0.ledger.make_room();
            if timeout(RECHECK, waiter.called()).await.is_ok() {
                waiter.rejoin();
            }
        }
    }

    fn reads(&self) -> bool {
        self.0.reads.load(Relaxed)
    }

    /// Notes that the client read something.
    pub(crate) fn took(&self) {
        self.0.since.store(self.0.ledger.now(), Relaxed);
    }

    /// Waits until the connection must be closed.
    pub(crate) async fn is_cut(&self) {
        self.0.cut.notified().await;
    }

    fn change(&self, old: usize, new: usize) {
        let Accounts {
            held,
            bounds,
            waiters,
            readers,
            ..
        } = &*self.0.ledger.0;
        if new > old {
            let more = new - old;
            if self.0.held.fetch_add(more, Relaxed) == 0 {
                self.took();
            }
            if held.fetch_add(more, Relaxed) + more >= bounds.shared() {
                self.0.ledger.make_room();
            }
        } else {
            self.0.held.fetch_sub(old - new, Relaxed);
            let before = held.fetch_sub(old - new, Relaxed);
            let passed = |bound: usize| before >= bound && before - (old - new) < bound;
            if passed(bounds.total) {
                readers.call_next();
            }
            if passed(bounds.shared()) {
                waiters.call_next();
            }
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.ledger.0.accounts.lock().remove(&self.id);
    }
}

/// Bytes held for a connection until this is dropped.
pub(crate) struct Hold {
    account: Account,
    kept: AtomicUsize,
    answer: AtomicUsize,
}

impl Hold {
    /// Sets the bytes held besides the answer.
    pub(crate) fn keep(&self, bytes: usize) {
        self.account.change(self.kept.swap(bytes, Relaxed), bytes);
    }

    /// Sets the bytes of the answer.
    pub(crate) fn answer(&self, bytes: usize) {
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

    /// Notes that the client read a part of the answer.
    pub(crate) fn took(&self) {
        self.account.took();
    }

    /// Notes that the client has read the whole answer.
    pub(crate) fn took_all(&self) {
        self.account.0.reads.store(true, Relaxed);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.answer(0);
        self.keep(0);
    }
}

#[cfg(test)]
mod tests;
