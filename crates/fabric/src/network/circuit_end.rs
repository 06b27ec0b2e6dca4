//! How a circuit ends: it leaves the table, and its routers are told to remove it.

use std::{sync::Arc, time::Duration};

use model::entity::EdgeRouter;
use tokio::{runtime::Handle, time::sleep};

use super::{
    circuit::Circuit, paths::Path, request_failure::RequestFailure, shared_state::Network,
};

/// How long the built-in router has to pass the end of a circuit on.
const PASSING_ON: Duration = Duration::from_millis(300);

impl Network {
    /// Ends a circuit and tells its routers to remove it: at once if `now`, else after its queued
    /// data was delivered.
    pub(crate) fn end_circuit(&self, circuit: &Arc<Circuit>, now: bool, reason: &str) {
        self.fail_circuit(circuit, now, &RequestFailure::access_denied(reason));
    }

    /// [`Network::end_circuit`] with the failure that both ends are told if they are at one router
    /// of this process.
    pub(crate) fn fail_circuit(&self, circuit: &Arc<Circuit>, now: bool, failure: &RequestFailure) {
        if !self.circuits.remove(circuit) {
            return;
        }
        let host = circuit.close();
        self.unroute_all(circuit, now, failure);
        if let Some(host) = host {
            host.load.circuit_ended();
            self.show_cost(&host);
        }
        tracing::debug!(circuit = %circuit.id, router = %circuit.router, reason = failure.text, "circuit ended");
    }

    /// Ends a circuit on behalf of an administrator. An end in this process is told by the words of
    /// `failure`, and gets what was sent before.
    pub(crate) fn close_circuit(&self, circuit: &Arc<Circuit>, failure: &RequestFailure) {
        let host = circuit.host();
        let ends = [
            Some(circuit.router.as_str()),
            host.as_ref().map(|host| host.hosted.router.as_str()),
        ];
        let is_told = ends.into_iter().flatten().any(|router| {
            let router = self.routers.find(router);
            router.is_some_and(|router| router.fail(&circuit.id, failure))
        });
        self.fail_circuit(circuit, !is_told, failure);
    }

    /// Ends a circuit because its end at a router was closed there, after its queued data was
    /// delivered. Ignored if the circuit has no end at the router.
    pub(crate) fn end_closed(&self, circuit: &str, router: &str) {
        let found = self.circuits.find(circuit);
        if let Some(circuit) = found.filter(|circuit| circuit.path().ends_at(router)) {
            self.end_circuit(&circuit, false, "an end has closed it");
        }
    }

    /// Tells the routers of a circuit to remove it. An end at the built-in router is passed on over
    /// its link, and the others are told a moment later, so that the SDK there learns of it at
    /// once: a router of version 1.1 that removes a circuit leaves it waiting for half a minute.
    fn unroute_all(&self, circuit: &Circuit, now: bool, failure: &RequestFailure) {
        let path = circuit.path();
        let is_here = |router: &String| router == EdgeRouter::BUILT_IN;
        let has_time = now && path.ends_at(EdgeRouter::BUILT_IN);
        for id in &path.routers {
            let later = if has_time && !is_here(id) {
                self.routers.find(id).zip(Handle::try_current().ok())
            } else {
                None
            };
            match later {
                Some((router, runtime)) => {
                    let (id, circuit, removals) =
                        (id.clone(), circuit.id.clone(), self.removals.clone());
                    let failure = failure.clone();
                    // A router that connects again meanwhile is told on its new connection.
                    removals.add(&id, &circuit, now, || ());
                    runtime.spawn(async move {
                        sleep(PASSING_ON).await;
                        removals.add(&id, &circuit, now, || {
                            router.unroute(&circuit, now, &failure);
                        });
                    });
                }
                None => self.unroute_for(circuit, id, now, failure),
            }
        }
    }

    /// Tells the routers of a former path that are not on the present one to remove a circuit at
    /// once.
    pub(crate) fn leave_path(&self, circuit: &Circuit, former: &Path, present: &Path) {
        for router in former
            .routers
            .iter()
            .filter(|router| !present.has_router(router))
        {
            self.unroute(circuit, router, true);
        }
    }

    /// Tells every router of a path to remove a circuit at once.
    pub(crate) fn unroute_path(&self, circuit: &Circuit, path: &Path) {
        for router in &path.routers {
            self.unroute(circuit, router, true);
        }
    }

    /// Tells one router to remove a circuit; also on its next connection, unless it confirms the
    /// message by a heartbeat.
    pub(crate) fn unroute(&self, circuit: &Circuit, router: &str, now: bool) {
        let failure = RequestFailure::access_denied("the circuit was ended by the controller");
        self.unroute_for(circuit, router, now, &failure);
    }

    fn unroute_for(&self, circuit: &Circuit, router: &str, now: bool, failure: &RequestFailure) {
        let tell = || {
            if let Some(router) = self.routers.find(router) {
                router.unroute(&circuit.id, now, failure);
            }
        };
        if router == EdgeRouter::BUILT_IN {
            return tell();
        }
        self.removals.add(router, &circuit.id, now, tell);
    }
}
