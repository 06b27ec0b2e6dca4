//! Circuits that an earlier run of the controller has set up. Routers that outlived that run still carry them, and this run does not know them.
//!
//! Routers that are told of the end of a session do not end all its circuits: version 1.1 none, and version 1.7 forgets some after other circuits
//! of the session have ended. At the end of an API session they close the connections of its SDK. When a session from before the start ends, they
//! are therefore told that the API session has ended, and a moment later that there is such an API session again: all circuits and terminators
//! of the SDK end, and it connects again.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;

use crate::{
    clock::Timestamp,
    entity::{ApiSession, Id, Record, Session},
};

/// What is known of the time before the start.
pub(crate) struct EarlierCircuits {
    /// When this run began.
    pub start: Timestamp,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Routers that were started during this run. They have no earlier circuits.
    started: HashSet<String>,
    /// What has ended since the start.
    ended: Vec<Ended>,
    /// The number of entries of `ended` that each router was told.
    told: HashMap<String, usize>,
}

/// Whose sessions from before the start have ended.
#[derive(Clone)]
pub(crate) enum Ended {
    Of(Id<ApiSession>),
    /// Very many sessions ended at once, and it is not known which.
    Some,
}

impl EarlierCircuits {
    pub(crate) fn new(start: Timestamp) -> Self {
        Self { start, state: Mutex::default() }
    }

    /// Records that a router was started during this run.
    pub(crate) fn router_started(&self, router: &str) {
        self.state.lock().started.insert(router.to_owned());
    }

    /// Records that a session has ended. Returns whether it is from before the start.
    pub(crate) fn session_ended(&self, session: &Record<Session>) -> bool {
        let is_earlier = session.created_at <= self.start;
        if is_earlier {
            self.state.lock().ended.push(Ended::Of(session.spec.api_session_id.clone()));
        }
        is_earlier
    }

    /// Records that very many sessions have ended at once.
    pub(crate) fn some_ended(&self) {
        self.state.lock().ended.push(Ended::Some);
    }

    /// What a router was not told yet; nothing if it cannot have earlier circuits.
    pub(crate) fn untold(&self, router: &str) -> Vec<Ended> {
        let State { started, ended, told } = &*self.state.lock();
        let count = if started.contains(router) { ended.len() } else { told.get(router).copied().unwrap_or_default() };
        ended.get(count..).unwrap_or_default().to_vec()
    }

    /// Records that a router was told of so many more.
    pub(crate) fn told(&self, router: &str, more: usize) {
        *self.state.lock().told.entry(router.to_owned()).or_default() += more;
    }
}
