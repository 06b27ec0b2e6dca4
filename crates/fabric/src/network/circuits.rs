//! The circuits of the network: what each depends on, and how it ends.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use super::{
    authorizing_record::{AuthorizingIndex, AuthorizingRecord},
    circuit::{Circuit, Established, bases_of_host},
    circuit_quota::CircuitPermit,
    owner_index::OwnerIndex,
    paths::Path,
    request_failure::RequestFailure,
};

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

    use model::{
        clock::Clock,
        config::RouterConfig,
        entity::{Id, PolicyType, Record, Session},
    };

    use super::*;
    use crate::network::{circuit::NewCircuit, circuit_quota::CircuitQuota};

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
