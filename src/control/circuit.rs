//! Circuits over routers with a control channel: what each depends on, and how it ends.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::hosted::HostedTerminator;
use crate::{
    entity::{ApiSession, Id, Identity, Record, Service, Session},
    frame::Frame,
    network::{Basis, BasisIndex},
};

/// Maximum circuits over all routers.
const MAX_CIRCUITS: usize = 100_000;
/// Maximum ended circuits remembered for a router that is not connected.
const MAX_ENDED: usize = 10_000;

/// A circuit through one router.
pub struct Circuit {
    pub id: String,
    /// The router that forwards it.
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
    /// The attempt whose answer is expected, and its receiver.
    waiting: Option<(u32, oneshot::Sender<Frame>)>,
    /// The terminator at the host's end, once it is known.
    host: Option<Arc<HostedTerminator>>,
    /// Whether the circuit was established.
    is_open: bool,
}

/// A circuit at the start of a dial.
pub struct NewCircuit {
    pub id: String,
    pub router: String,
    pub session: Record<Session>,
    pub api_session: Id<ApiSession>,
    pub token: String,
}

impl Circuit {
    pub fn new(new: NewCircuit) -> Self {
        let NewCircuit { id, router, session, api_session, token } = new;
        let (client, service) = (session.spec.identity_id.clone(), session.spec.service_id.clone());
        Self { id, router, client, session, api_session, token, service, state: Mutex::default() }
    }

    /// The terminator at the host's end. None for a terminator that was created over REST, or before it is known.
    pub fn host(&self) -> Option<Arc<HostedTerminator>> {
        self.state.lock().host.clone()
    }

    /// Registers the receiver of the answer to an attempt.
    pub fn expect(&self, attempt: u32) -> oneshot::Receiver<Frame> {
        let (sender, answer) = oneshot::channel();
        self.state.lock().waiting = Some((attempt, sender));
        answer
    }

    /// Passes the answer to an attempt to its receiver. Returns whether there is one.
    pub fn answered(&self, attempt: u32, frame: Frame) -> bool {
        let waiting = self.state.lock().waiting.take_if(|(expected, _)| *expected == attempt);
        waiting.is_some_and(|(_, sender)| sender.send(frame).is_ok())
    }

    /// Drops the receiver of an expected answer. Returns the host's end if the circuit was established.
    pub fn close(&self) -> Option<Arc<HostedTerminator>> {
        let mut state = self.state.lock();
        state.waiting = None;
        if state.is_open { state.host.clone() } else { None }
    }

    fn bases(&self) -> Vec<Basis> {
        vec![
            Basis::Session(self.session.id.to_string()),
            Basis::ApiSession(self.api_session.to_string()),
            Basis::Identity(self.client.to_string()),
            Basis::Service(self.service.to_string()),
        ]
    }
}

/// What a circuit depends on at its host's end.
fn bases_of_host(host: &HostedTerminator) -> Vec<Basis> {
    vec![
        Basis::Session(host.session.to_string()),
        Basis::ApiSession(host.api_session.to_string()),
        Basis::Identity(host.identity.to_string()),
    ]
}

/// All circuits.
#[derive(Default)]
pub struct Circuits(Mutex<Open>);

#[derive(Default)]
struct Open {
    by_id: HashMap<String, Arc<Circuit>>,
    by_basis: BasisIndex<String>,
    /// Circuits that ended while their router was not connected, by router.
    ended: HashMap<String, Vec<String>>,
}

impl Circuits {
    /// Adds a circuit if the limit allows it.
    pub fn add(&self, circuit: &Arc<Circuit>) -> bool {
        let mut open = self.0.lock();
        if open.by_id.len() >= MAX_CIRCUITS {
            return false;
        }
        open.by_id.insert(circuit.id.clone(), circuit.clone());
        open.by_basis.add(circuit.id.clone(), circuit.bases());
        true
    }

    /// Records the host's end of a circuit. Returns whether the circuit still exists.
    pub fn establish(&self, circuit: &Arc<Circuit>, host: Option<Arc<HostedTerminator>>) -> bool {
        let mut open = self.0.lock();
        if !open.by_id.contains_key(&circuit.id) {
            return false;
        }
        if let Some(host) = &host {
            open.by_basis.add(circuit.id.clone(), bases_of_host(host));
        }
        let mut state = circuit.state.lock();
        (state.host, state.is_open) = (host, true);
        true
    }

    /// Removes a circuit. Returns whether it was there.
    pub fn remove(&self, circuit: &Circuit) -> bool {
        let mut open = self.0.lock();
        if open.by_id.remove(&circuit.id).is_none() {
            return false;
        }
        open.by_basis.remove(&circuit.id, circuit.bases());
        let state = circuit.state.lock();
        if let Some(host) = &state.host {
            open.by_basis.remove(&circuit.id, bases_of_host(host));
        }
        true
    }

    pub fn find(&self, id: &str) -> Option<Arc<Circuit>> {
        self.0.lock().by_id.get(id).cloned()
    }

    pub fn of_router(&self, router: &str) -> Vec<Arc<Circuit>> {
        self.0.lock().by_id.values().filter(|circuit| circuit.router == router).cloned().collect()
    }

    pub fn depending_on(&self, basis: &Basis) -> Vec<Arc<Circuit>> {
        let open = self.0.lock();
        open.by_basis.of(basis).filter_map(|id| open.by_id.get(id).cloned()).collect()
    }

    pub fn all(&self) -> Vec<Arc<Circuit>> {
        self.0.lock().by_id.values().cloned().collect()
    }

    /// Remembers a circuit that ended while its router was not connected.
    pub fn note_ended(&self, circuit: &Circuit) {
        let mut open = self.0.lock();
        let ended = open.ended.entry(circuit.router.clone()).or_default();
        if ended.len() < MAX_ENDED {
            ended.push(circuit.id.clone());
        }
    }

    /// Takes the circuits that ended while a router was not connected.
    pub fn take_ended(&self, router: &str) -> Vec<String> {
        self.0.lock().ended.remove(router).unwrap_or_default()
    }
}
