//! Circuits that an earlier run of the controller has set up. Routers that outlived that run still
//! carry them, and this run does not know them.
//!
//! Routers that are told of the end of a session do not end all its circuits: version 1.1 none, and
//! version 1.7 forgets some after other circuits of the session have ended. At the end of an API
//! session they close the connections of its SDK. When a session from before the start ends, they
//! are therefore told that the API session has ended, and a moment later that there is such an API
//! session again: all circuits and terminators of the SDK end, and it connects again.

use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use model::{
    clock::Timestamp,
    entity::{ApiSession, Id, Record, Session},
};
use parking_lot::Mutex;

/// A router that still answers heartbeats so long after it was told has received it: otherwise its
/// connection would have been closed.
const CONFIRMED: Duration = Duration::from_secs(60);

/// Beyond so many API sessions whose sessions have ended, routers are told that all have.
const MAX_ENDED: usize = 10_000;

/// What is known of the time before the start.
pub(crate) struct EarlierCircuits(Mutex<State>);

struct State {
    /// When this run began; or when the last session from before was created, if the clock was set
    /// back in between.
    start: Timestamp,
    /// Routers that may have earlier circuits; none until they were read.
    outlived: Option<HashSet<String>>,
    /// Routers that were started during this run, until `outlived` was read. They have no earlier
    /// circuits.
    started: HashSet<String>,
    /// What has ended since the start, each once: the earlier circuits of an API session end
    /// together.
    ended: Vec<Ended>,
    known: HashSet<String>,
    /// What each router was told.
    told: HashMap<String, Told>,
}

/// How many entries of `ended` a router was told.
struct Told {
    /// The number of the connection; numbers ascend.
    connection: u64,
    count: usize,
    /// How many it has received with certainty.
    confirmed: usize,
    /// How many a heartbeat will confirm, and since when that is awaited.
    pending: (usize, Instant),
}

/// Whose sessions from before the start have ended.
#[derive(Clone)]
pub(crate) enum Ended {
    Of(Id<ApiSession>),
    /// Very many sessions for a service ended at once, and it is not known whose.
    Some,
}

impl EarlierCircuits {
    pub(crate) fn new(start: Timestamp) -> Self {
        Self(Mutex::new(State {
            start,
            outlived: None,
            started: HashSet::new(),
            ended: Vec::new(),
            known: HashSet::new(),
            told: HashMap::new(),
        }))
    }

    /// Takes the routers that were there at the start, and when the last session from before was
    /// created.
    pub(crate) fn scanned(&self, mut routers: HashSet<String>, last_session: Option<Timestamp>) {
        let mut state = self.0.lock();
        state.start = last_session.map_or(state.start, |last| last.max(state.start));
        routers.retain(|router| !state.started.contains(router));
        state.started = HashSet::new();
        state.outlived = Some(routers);
        state.forget_if_over();
    }

    /// Whether what was created at this moment is from before the start.
    pub(crate) fn is_earlier(&self, created_at: Timestamp) -> bool {
        created_at <= self.0.lock().start
    }

    /// Records that a router was started during this run, or was deleted.
    pub(crate) fn router_started(&self, router: &str) {
        let mut state = self.0.lock();
        state.told.remove(router);
        if let Some(outlived) = &mut state.outlived {
            outlived.remove(router);
        } else {
            state.started.insert(router.to_owned());
        }
        state.forget_if_over();
    }

    /// Records that a session has ended. Returns whether routers are to be told.
    pub(crate) fn session_ended(&self, session: &Record<Session>) -> bool {
        self.is_earlier(session.created_at)
            && self.record(Ended::Of(session.spec.api_session_id.clone()))
    }

    /// Records that very many sessions for a service have ended at once. Returns whether routers
    /// are to be told.
    pub(crate) fn some_ended(&self) -> bool {
        self.record(Ended::Some)
    }

    fn record(&self, ended: Ended) -> bool {
        let mut state = self.0.lock();
        let is_complete = matches!(state.ended.last(), Some(Ended::Some));
        let is_new = match &ended {
            _ if is_complete || state.is_over() => false,
            Ended::Of(id) => state.known.insert(id.to_string()),
            Ended::Some => true,
        };
        if is_new {
            let is_full = state.ended.len() >= MAX_ENDED;
            if is_full {
                state.known = HashSet::new();
            }
            state.ended.push(if is_full { Ended::Some } else { ended });
        }
        is_new
    }

    /// What a router is still to be told on this connection, and the number of all entries, for
    /// [`Self::told`]. What it was told on an earlier connection counts only if it was confirmed. A
    /// router that cannot have earlier circuits is told nothing.
    pub(crate) fn untold(&self, router: &str, connection: u64) -> (Vec<Ended>, usize) {
        let state = self.0.lock();
        let State { ended, told, .. } = &*state;
        let count = match told.get(router) {
            _ if !state.may_have_circuits(router) => ended.len(),
            Some(told) if told.connection == connection => told.count,
            Some(told) => told.confirmed,
            None => 0,
        };
        (ended.get(count..).unwrap_or_default().to_vec(), ended.len())
    }

    /// Records that a router was told the first entries, up to this number.
    pub(crate) fn told(&self, router: &str, connection: u64, count: usize) {
        let now = Instant::now();
        let mut state = self.0.lock();
        let told = state.told.entry(router.to_owned()).or_insert(Told {
            connection,
            count: 0,
            confirmed: 0,
            pending: (0, now),
        });
        match told.connection.cmp(&connection) {
            Ordering::Greater => {}
            Ordering::Less => {
                *told = Told {
                    connection,
                    count,
                    pending: (count, now),
                    ..*told
                }
            }
            Ordering::Equal => {
                told.count = told.count.max(count);
                if told.pending.0 <= told.confirmed {
                    told.pending = (told.count, now);
                }
            }
        }
    }

    /// Records that a router has answered a heartbeat.
    pub(crate) fn heartbeat_answered(&self, router: &str, connection: u64) {
        let mut state = self.0.lock();
        let told = state
            .told
            .get_mut(router)
            .filter(|told| told.connection == connection && told.pending.1.elapsed() > CONFIRMED);
        if let Some(told) = told {
            (told.confirmed, told.pending) = (told.pending.0, (told.count, Instant::now()));
        }
    }
}

impl State {
    fn may_have_circuits(&self, router: &str) -> bool {
        self.outlived.as_ref().map_or_else(
            || !self.started.contains(router),
            |outlived| outlived.contains(router),
        )
    }

    /// Whether no router has earlier circuits any more.
    fn is_over(&self) -> bool {
        self.outlived.as_ref().is_some_and(HashSet::is_empty)
    }

    fn forget_if_over(&mut self) {
        if self.is_over() {
            (self.ended, self.known, self.told) = (Vec::new(), HashSet::new(), HashMap::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(earlier: &EarlierCircuits, id: &str) -> bool {
        earlier.record(Ended::Of(Id::from_text(id)))
    }

    #[test]
    fn unconfirmed_ends_are_told_again() {
        let earlier = EarlierCircuits::new(Timestamp::from_millis(0));
        assert!(ended(&earlier, "a") && !ended(&earlier, "a"), "each once");
        let (untold, count) = earlier.untold("router", 1);
        assert_eq!((untold.len(), count), (1, 1));
        earlier.told("router", 1, count);
        earlier.heartbeat_answered("router", 1);
        assert!(
            earlier.untold("router", 1).0.is_empty(),
            "told on this connection"
        );
        assert_eq!(
            earlier.untold("router", 2).0.len(),
            1,
            "the connection may have been dead"
        );
        earlier.0.lock().told.get_mut("router").unwrap().pending.1 -= CONFIRMED;
        earlier.heartbeat_answered("router", 2);
        assert_eq!(
            earlier.untold("router", 2).0.len(),
            1,
            "another connection confirms nothing"
        );
        earlier.heartbeat_answered("router", 1);
        assert!(earlier.untold("router", 2).0.is_empty(), "confirmed");
        assert!(ended(&earlier, "b"));
        assert_eq!(earlier.untold("router", 2).0.len(), 1);
    }

    #[test]
    fn started_routers_are_told_nothing() {
        let earlier = EarlierCircuits::new(Timestamp::from_millis(0));
        earlier.router_started("router");
        assert!(ended(&earlier, "a") && earlier.untold("router", 1).0.is_empty());
        assert_eq!(earlier.untold("another", 1).0.len(), 1);
    }

    #[test]
    fn mass_ends_are_told_once() {
        let earlier = EarlierCircuits::new(Timestamp::from_millis(0));
        assert!(earlier.some_ended() && !earlier.some_ended() && !ended(&earlier, "a"));
    }

    #[test]
    fn earlier_circuits_are_forgotten_when_over() {
        let earlier = EarlierCircuits::new(Timestamp::from_millis(0));
        earlier.router_started("one");
        earlier.scanned(["one", "two", "three"].map(String::from).into(), None);
        assert!(ended(&earlier, "a") && earlier.untold("one", 1).0.is_empty());
        assert!(earlier.untold("created later", 1).0.is_empty());
        earlier.told("two", 1, 1);
        earlier.router_started("two");
        assert!(ended(&earlier, "b") && earlier.untold("two", 2).0.is_empty());
        assert_eq!(earlier.untold("three", 1).0.len(), 2);
        earlier.router_started("three");
        assert!(!ended(&earlier, "c") && !earlier.some_ended());
        let state = earlier.0.lock();
        assert!(state.ended.is_empty() && state.known.is_empty() && state.told.is_empty());
    }

    #[test]
    fn remembered_ends_are_bounded() {
        let earlier = EarlierCircuits::new(Timestamp::from_millis(0));
        for id in 0..MAX_ENDED + 10 {
            ended(&earlier, &id.to_string());
        }
        let (untold, count) = earlier.untold("router", 1);
        assert!(count == MAX_ENDED + 1 && matches!(untold.last(), Some(Ended::Some)));
        assert!(earlier.0.lock().known.is_empty());
    }

    #[test]
    fn sessions_outlive_clocks_set_back() {
        let earlier = EarlierCircuits::new(Timestamp::from_millis(1000));
        assert!(
            earlier.is_earlier(Timestamp::from_millis(1000))
                && !earlier.is_earlier(Timestamp::from_millis(5000))
        );
        earlier.scanned(HashSet::new(), Some(Timestamp::from_millis(5000)));
        assert!(
            earlier.is_earlier(Timestamp::from_millis(5000))
                && !earlier.is_earlier(Timestamp::from_millis(5001))
        );
    }
}
