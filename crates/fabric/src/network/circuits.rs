//! The circuits of the network: what each depends on, and how it ends.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use model::{
    clock::Timestamp,
    entity::{ApiSession, Id, Identity, Record, Service, Session, Terminator},
};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::{
    authorizing_record::{AuthorizingIndex, AuthorizingRecord},
    circuit_quota::CircuitPermit,
    info::{CircuitInfo, EndInfo, SentInfo},
    live_terminators::LiveTerminator,
    owner_index::OwnerIndex,
    paths::Path,
    request_failure::RequestFailure,
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
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Counts it until it ends.
    permit: Option<CircuitPermit>,
    waiting: Option<PendingRoute>,
    /// The routers that have received its route.
    path: Arc<Path>,
    /// Its addresses at the client's router and at the host's router.
    ends: [String; 2],
    /// Where it ends; none before it was established.
    end: Option<Established>,
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

    fn bases(&self) -> Vec<AuthorizingRecord> {
        vec![
            AuthorizingRecord::Session(self.session.id.to_string()),
            AuthorizingRecord::ApiSession(self.api_session.to_string()),
            AuthorizingRecord::Identity(self.client.to_string()),
            AuthorizingRecord::Service(self.service.to_string()),
        ]
    }
}

/// What a circuit depends on at its host's end.
fn bases_of_host(host: &LiveTerminator) -> Vec<AuthorizingRecord> {
    vec![
        AuthorizingRecord::Session(host.hosted.session.to_string()),
        AuthorizingRecord::ApiSession(host.hosted.api_session.to_string()),
        AuthorizingRecord::Identity(host.hosted.identity.to_string()),
    ]
}

/// All circuits.
#[derive(Default)]
pub(crate) struct Circuits {
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    by_id: HashMap<Arc<str>, Arc<Circuit>>,
    by_authorizing_record: AuthorizingIndex<Arc<str>>,
    by_router: OwnerIndex,
    by_link: OwnerIndex,
}

impl Circuits {
    /// Sets the path of a circuit. Returns its former path; `None` if the circuit has ended.
    pub(crate) fn set_path(&self, circuit: &Arc<Circuit>, path: &Arc<Path>) -> Option<Arc<Path>> {
        let mut open = self.open.lock();
        open.by_id.get(&circuit.id)?;
        let before = std::mem::replace(&mut circuit.state.lock().path, path.clone());
        open.by_router.remove(&before.routers, &circuit.id);
        open.by_link.remove(&before.links, &circuit.id);
        open.by_router.add(&path.routers, &circuit.id);
        open.by_link.add(&path.links, &circuit.id);
        Some(before)
    }

    /// The number of circuits over a link.
    pub(crate) fn count_of_link(&self, link: &str) -> usize {
        self.open.lock().by_link.count(link)
    }

    /// The number of circuits over a router.
    pub(crate) fn count_of_router(&self, router: &str) -> usize {
        self.open.lock().by_router.count(router)
    }

    /// The circuits over a link.
    pub(crate) fn of_link(&self, link: &str) -> Vec<Arc<Circuit>> {
        let open = self.open.lock();
        open.by_link.of(link, &open.by_id).collect()
    }

    /// Adds a circuit, which is counted until it ends.
    ///
    /// # Errors
    /// Another has its id.
    pub(crate) fn add(
        &self,
        circuit: &Arc<Circuit>,
        permit: CircuitPermit,
    ) -> Result<(), RequestFailure> {
        let mut open = self.open.lock();
        if open.by_id.contains_key(&circuit.id) {
            return Err(RequestFailure::busy("a circuit with this id exists"));
        }
        circuit.state.lock().permit = Some(permit);
        open.by_id.insert(circuit.id.clone(), circuit.clone());
        open.by_authorizing_record
            .add(circuit.id.clone(), circuit.bases());
        Ok(())
    }

    /// Records the host's end of a circuit, after `answer` has queued the answer for the client.
    /// Returns whether the circuit and the host still exist and `answer` was possible. The lock is
    /// held during the call: a task that ends the circuit afterwards finds the answer queued, so
    /// that a router always gets the answer before the end.
    pub(crate) fn establish(
        &self,
        circuit: &Arc<Circuit>,
        end: Established,
        answer: impl FnOnce() -> bool,
    ) -> bool {
        let mut open = self.open.lock();
        let has_host_left = end.host.as_ref().is_some_and(|host| host.is_ended());
        if has_host_left || !open.by_id.contains_key(&circuit.id) || !answer() {
            return false;
        }
        if let Some(host) = &end.host {
            open.by_authorizing_record
                .add(circuit.id.clone(), bases_of_host(host));
            host.load.dial_succeeded();
        }
        circuit.state.lock().end = Some(end);
        true
    }

    /// Removes a circuit. Returns whether it was there.
    pub(crate) fn remove(&self, circuit: &Circuit) -> bool {
        let mut open = self.open.lock();
        let known = open.by_id.get(&circuit.id);
        if known.is_none_or(|known| !std::ptr::eq(&**known, circuit)) {
            return false;
        }
        open.by_id.remove(&circuit.id);
        open.by_authorizing_record
            .remove(&circuit.id, circuit.bases());
        let mut state = circuit.state.lock();
        let permit = state.permit.take();
        open.by_router.remove(&state.path.routers, &circuit.id);
        open.by_link.remove(&state.path.links, &circuit.id);
        if let Some(host) = state.end.as_ref().and_then(|end| end.host.as_ref()) {
            open.by_authorizing_record
                .remove(&circuit.id, bases_of_host(host));
        }
        drop((state, open, permit));
        true
    }

    pub(crate) fn find(&self, id: &str) -> Option<Arc<Circuit>> {
        self.open.lock().by_id.get(id).cloned()
    }

    pub(crate) fn of_router(&self, router: &str) -> Vec<Arc<Circuit>> {
        let open = self.open.lock();
        open.by_router.of(router, &open.by_id).collect()
    }

    pub(crate) fn depending_on(&self, record: &AuthorizingRecord) -> Vec<Arc<Circuit>> {
        let open = self.open.lock();
        open.by_authorizing_record
            .of(record)
            .filter_map(|id| open.by_id.get(id).cloned())
            .collect()
    }

    /// The number of established circuits whose path is counted.
    pub(crate) fn open_count(&self, is_counted: impl Fn(&Path) -> bool) -> u64 {
        let open = self.open.lock();
        let is_counted = |circuit: &Arc<Circuit>| {
            let state = circuit.state.lock();
            state.end.is_some() && is_counted(&state.path)
        };
        open.by_id
            .values()
            .map(|circuit| u64::from(is_counted(circuit)))
            .sum()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Circuit>> {
        self.open.lock().by_id.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc::channel, thread, time::Duration};

    use model::{clock::Clock, config::RouterConfig, entity::PolicyType};

    use super::*;
    use crate::network::circuit_quota::CircuitQuota;

    fn circuit() -> Arc<Circuit> {
        let session = Session {
            token: "token".into(),
            api_session_id: Id::from_text("api-session"),
            identity_id: Id::from_text("identity"),
            service_id: Id::from_text("service"),
            policy_type: PolicyType::Dial,
            service_policies: Vec::new(),
        };
        Arc::new(Circuit::new(NewCircuit {
            id: "circuit".into(),
            router: "router".into(),
            session: Record::new(Id::from_text("session"), Clock::system().now(), session),
            api_session: Id::from_text("api-session"),
            token: "token".into(),
        }))
    }

    fn established() -> Established {
        Established {
            since: Clock::system().now(),
            terminator: Id::from_text("terminator"),
            host: None,
        }
    }

    #[test]
    fn no_circuit_ends_before_its_answer() {
        let (circuits, circuit) = (Circuits::default(), circuit());
        let quota = CircuitQuota::new(&RouterConfig::default());
        let permit = quota.take(&circuit.client).unwrap();
        circuits.add(&circuit, permit).unwrap();
        let (ended, end) = channel();
        thread::scope(|scope| {
            let answer = || {
                scope.spawn(|| ended.send(circuits.remove(&circuit)));
                assert!(
                    end.recv_timeout(Duration::from_millis(100)).is_err(),
                    "the circuit ended before it was answered"
                );
                true
            };
            assert!(circuits.establish(&circuit, established(), answer));
            assert!(end.recv().unwrap(), "it ends after the answer");
        });
        assert!(!circuits.establish(&circuit, established(), || panic!(
            "a circuit that has ended is not answered"
        )));
    }
}
