//! A circuit of the network: its ends, its path, and what is awaited of its routers.

use std::{collections::HashSet, sync::Arc};

use model::{
    clock::Timestamp,
    entity::{ApiSession, Id, Identity, Record, Service, Session, Terminator},
};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::{
    authorizing_record::AuthorizingRecord,
    circuit_quota::CircuitPermit,
    info::{CircuitInfo, EndInfo, SentInfo},
    live_terminators::LiveTerminator,
    paths::Path,
    route_answer::RouteAnswer,
};

/// A circuit over one or several routers.
pub(crate) struct Circuit {
    pub id: Arc<str>,
    /// The router where the client is.
    pub router: String,
    pub client: Id<Identity>,
    pub session: Record<Session>,
    pub api_session: Id<ApiSession>,
    /// The token of the API session.
    pub token: String,
    pub service: Id<Service>,
    pub(super) state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    /// Counts it until it ends.
    pub(super) permit: Option<CircuitPermit>,
    waiting: Option<PendingRoute>,
    /// The routers that have received its route.
    pub(super) path: Arc<Path>,
    /// Its addresses at the client's router and at the host's router.
    ends: [String; 2],
    /// Where it ends; none before it was established.
    pub(super) end: Option<Established>,
    is_rerouting: bool,
    /// Bytes from its client and from its host, as their routers report them.
    bytes: [Option<u64>; 2],
}

/// The host's end of an established circuit.
#[derive(Clone)]
pub(crate) struct Established {
    pub since: Timestamp,
    pub terminator: Id<Terminator>,
    /// None for a terminator that was created over REST.
    pub host: Option<Arc<LiveTerminator>>,
}

/// The routers whose answers to a route are awaited.
struct PendingRoute {
    attempt: u32,
    routers: HashSet<String>,
    answers: mpsc::UnboundedSender<(String, RouteAnswer)>,
}

/// A circuit at the start of a dial.
pub(crate) struct NewCircuit {
    pub id: Arc<str>,
    pub router: String,
    pub session: Record<Session>,
    pub api_session: Id<ApiSession>,
    pub token: String,
}

impl Circuit {
    pub(crate) fn new(new: NewCircuit) -> Self {
        let NewCircuit {
            id,
            router,
            session,
            api_session,
            token,
        } = new;
        let (client, service) = (
            session.spec.identity_id.clone(),
            session.spec.service_id.clone(),
        );
        Self {
            id,
            router,
            client,
            session,
            api_session,
            token,
            service,
            state: Mutex::default(),
        }
    }

    /// The terminator at the host's end. None for a terminator that was created over REST, or
    /// before it is known.
    pub(crate) fn host(&self) -> Option<Arc<LiveTerminator>> {
        self.state.lock().end.as_ref()?.host.clone()
    }

    /// The routers that have received its route; none before the first one.
    pub(crate) fn path(&self) -> Arc<Path> {
        self.state.lock().path.clone()
    }

    /// Its addresses at the client's router and at the host's router.
    pub(crate) fn ends(&self) -> [String; 2] {
        self.state.lock().ends.clone()
    }

    pub(crate) fn set_ends(&self, ends: [String; 2]) {
        self.state.lock().ends = ends;
    }

    /// Whether it was established.
    pub(crate) fn is_open(&self) -> bool {
        self.state.lock().end.is_some()
    }

    /// The circuit as administrators see it; none until it was established.
    pub(crate) fn info(&self) -> Option<CircuitInfo> {
        let state = self.state.lock();
        let Established {
            since,
            terminator,
            host,
        } = state.end.clone()?;
        let [client_bytes, host_bytes] = state.bytes;
        let end = |identity: &Id<Identity>,
                   api_session: &Id<ApiSession>,
                   session: &Id<Session>,
                   bytes: Option<u64>| EndInfo {
            identity_id: identity.to_string(),
            api_session_id: api_session.to_string(),
            session_id: session.to_string(),
            channel: None,
            sent: bytes.map(|bytes| SentInfo {
                bytes,
                bytes_per_second: None,
            }),
        };
        Some(CircuitInfo {
            id: self.id.to_string(),
            service_id: self.service.to_string(),
            terminator_id: terminator.into_text(),
            since,
            routers: state.path.routers.clone(),
            links: state.path.links.clone(),
            client: end(
                &self.client,
                &self.api_session,
                &self.session.id,
                client_bytes,
            ),
            host: host.map(|host| {
                let host = &host.hosted;
                end(&host.identity, &host.api_session, &host.session, host_bytes)
            }),
        })
    }

    /// Adds to the bytes from its client and from its host what their routers report.
    pub(crate) fn count_bytes(&self, more: [Option<u64>; 2]) {
        let mut state = self.state.lock();
        for (bytes, more) in state.bytes.iter_mut().zip(more) {
            *bytes = more.map_or(*bytes, |more| {
                Some(bytes.unwrap_or_default().saturating_add(more))
            });
        }
    }

    /// Notes that it is being rerouted. Returns whether it was not before.
    pub(crate) fn begin_reroute(&self) -> bool {
        let mut state = self.state.lock();
        let begins = state.end.is_some() && !state.is_rerouting;
        state.is_rerouting |= begins;
        begins
    }

    pub(crate) fn end_reroute(&self) {
        self.state.lock().is_rerouting = false;
    }

    /// Waits for the answers of routers to an attempt, one of each.
    pub(crate) fn expect(
        &self,
        attempt: u32,
        routers: &[String],
    ) -> mpsc::UnboundedReceiver<(String, RouteAnswer)> {
        let (answers, receiver) = mpsc::unbounded_channel();
        self.state.lock().waiting = Some(PendingRoute {
            attempt,
            routers: routers.iter().cloned().collect(),
            answers,
        });
        receiver
    }

    /// Passes the answer of a router to the task that waits for it.
    pub(crate) fn answered(&self, router: &str, attempt: u32, answer: RouteAnswer) {
        let mut state = self.state.lock();
        let Some(waiting) = state
            .waiting
            .as_mut()
            .filter(|waiting| waiting.attempt == attempt)
        else {
            return;
        };
        if waiting.routers.remove(router) {
            // The task may have given up.
            drop(waiting.answers.send((router.to_owned(), answer)));
        }
    }

    /// Gives up the attempt in progress, because a router or a link of its path was lost.
    pub(crate) fn give_up(&self) {
        self.state.lock().waiting = None;
    }

    /// Stops waiting for answers of routers. Returns the host's end if the circuit was established.
    pub(crate) fn close(&self) -> Option<Arc<LiveTerminator>> {
        let mut state = self.state.lock();
        state.waiting = None;
        state.end.as_ref()?.host.clone()
    }

    pub(super) fn bases(&self) -> Vec<AuthorizingRecord> {
        vec![
            AuthorizingRecord::Session(self.session.id.to_string()),
            AuthorizingRecord::ApiSession(self.api_session.to_string()),
            AuthorizingRecord::Identity(self.client.to_string()),
            AuthorizingRecord::Service(self.service.to_string()),
        ]
    }
}

/// What a circuit depends on at its host's end.
pub(crate) fn bases_of_host(host: &LiveTerminator) -> Vec<AuthorizingRecord> {
    vec![
        AuthorizingRecord::Session(host.hosted.session.to_string()),
        AuthorizingRecord::ApiSession(host.hosted.api_session.to_string()),
        AuthorizingRecord::Identity(host.hosted.identity.to_string()),
    ]
}
