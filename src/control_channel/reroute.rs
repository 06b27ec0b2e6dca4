//! Circuits whose path has lost a link or a router: they get another path, or end.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use super::{
    circuit::Circuit,
    core::Core,
    route::{self, REROUTE},
};

/// The interval between two searches for another path.
const AGAIN: Duration = Duration::from_millis(100);

/// Reroutes circuits that are established. A dial in progress gives up its attempt.
pub(crate) fn begin(core: &Arc<Core>, circuits: Vec<Arc<Circuit>>, reason: &str) {
    for circuit in circuits {
        if circuit.begin_reroute() {
            tokio::spawn(reroute(core.clone(), circuit, reason.to_owned()));
        } else {
            // A reroute in progress looks for another path as well.
            circuit.give_up();
        }
    }
}

async fn reroute(core: Arc<Core>, circuit: Arc<Circuit>, reason: String) {
    // The search for a path goes on until then: routers dial a lost link again at once, so a path may come back.
    let end = Instant::now() + core.times.reroute;
    while core.circuits.find(&circuit.id).is_some() {
        let last = circuit.path().routers.last().cloned().unwrap_or_default();
        let found = core.paths_from(&circuit.router).get(&last).cloned();
        if let Some(path) = found {
            match route::send(&core, &circuit, &path, REROUTE, None, &[]).await {
                Ok(_) => {
                    circuit.end_reroute();
                    // A link may have been lost meanwhile.
                    if path.links.iter().all(|link| core.links.find(link).is_some()) {
                        tracing::debug!(circuit = %circuit.id, path = ?path.routers, reason, "circuit rerouted");
                        return;
                    }
                    if !circuit.begin_reroute() {
                        return;
                    }
                }
                Err(failed) => tracing::debug!(circuit = %circuit.id, reason = %failed.failure.text, "reroute failed"),
            }
        }
        if Instant::now() >= end {
            core.end_circuit(&circuit, true, &reason);
            return;
        }
        sleep(AGAIN).await;
    }
}
