//! Circuits over a router elsewhere: what each rests on, and how it ends.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::hosted::HostedTerminator;
use crate::{
    entity::{ApiSession, Id, Identity, Record, Service, Session},
    frame::Frame,
    network::{Basis, BasisIndex},
};

/// So many circuits there may be in all.
const MOST_CIRCUITS: usize = 100_000;
/// So many ended circuits are remembered of a router that is not connected.
const MOST_ENDED: usize = 10_000;

/// A circuit through one router.
pub struct Circuit {
    pub id: String,
    /// The router that forwards it.
    pub router: String,
    pub client: Id<Identity>,
    pub session: Record<Session>,
    pub api_session: Id<ApiSession>,
    /// Of the API session.
    pub token: String,
    pub service: Id<Service>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The attempt whose answer is waited for, and who waits for it.
    waiting: Option<(u32, oneshot::Sender<Frame>)>,
    /// Where it ends, once that is known.
    host: Option<Arc<HostedTerminator>>,
    /// Whether it was established.
    is_open: bool,
}

/// What is known of a circuit when it is asked for.
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

    /// Where it ends. None for a terminator that no connection made, or while it is not known.
    pub fn host(&self) -> Option<Arc<HostedTerminator>> {
        self.state.lock().host.clone()
    }

    /// Waits for the answer to an attempt.
    pub fn expect(&self, attempt: u32) -> oneshot::Receiver<Frame> {
        let (give, answer) = oneshot::channel();
        self.state.lock().waiting = Some((attempt, give));
        answer
    }

    /// Hands the answer to an attempt to whoever waits for it. Answers whether somebody does.
    pub fn answered(&self, attempt: u32, frame: Frame) -> bool {
        let waiting = self.state.lock().waiting.take_if(|(expected, _)| *expected == attempt);
        waiting.is_some_and(|(_, give)| give.send(frame).is_ok())
    }

    /// Lets nobody wait for an answer any more. Answers where it ended, if it was established.
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

/// What a circuit rests on at its host's side.
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
    /// Takes a circuit in, if there is room.
    pub fn add(&self, circuit: &Arc<Circuit>) -> bool {
        let mut open = self.0.lock();
        if open.by_id.len() >= MOST_CIRCUITS {
            return false;
        }
        open.by_id.insert(circuit.id.clone(), circuit.clone());
        open.by_basis.add(circuit.id.clone(), circuit.bases());
        true
    }

    /// Notes where a circuit ends. Answers whether the circuit still stands.
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

    /// Takes a circuit out. Answers whether it was there.
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

    pub fn resting_on(&self, basis: &Basis) -> Vec<Arc<Circuit>> {
        let open = self.0.lock();
        open.by_basis.of(basis).filter_map(|id| open.by_id.get(id).cloned()).collect()
    }

    pub fn all(&self) -> Vec<Arc<Circuit>> {
        self.0.lock().by_id.values().cloned().collect()
    }

    /// Notes a circuit that ended while its router was not connected.
    pub fn note_ended(&self, circuit: &Circuit) {
        let mut open = self.0.lock();
        let ended = open.ended.entry(circuit.router.clone()).or_default();
        if ended.len() < MOST_ENDED {
            ended.push(circuit.id.clone());
        }
    }

    /// Takes the circuits that ended while a router was not connected.
    pub fn take_ended(&self, router: &str) -> Vec<String> {
        self.0.lock().ended.remove(router).unwrap_or_default()
    }
}
