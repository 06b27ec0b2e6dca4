//! The route of a circuit: the part of each router of its path, and the answers of the routers.

use std::sync::Arc;

use policy::hosting::DialFault;
use tokio::time::timeout;

use super::{
    circuit::Circuit,
    paths::Path,
    request_failure::RequestFailure,
    route_answer::{PassedOn, RouteFailure},
    router::{Egress, RouteOrder},
    shared_state::Network,
};

/// The attempt number of routes for circuits that are established. Later failures of such a route
/// do not end the circuit at a router.
pub(crate) const REROUTE: u32 = 99_969_996;

/// Tells the routers of a path to forward a circuit, and waits until all have answered. Returns
/// what the host passes on. After a failure, every router has been told to remove the circuit; a
/// failed reroute leaves it.
///
/// # Errors
/// A router is not connected, does not answer in time, or refuses.
pub(crate) async fn send(
    network: &Network,
    circuit: &Arc<Circuit>,
    path: &Arc<Path>,
    attempt: u32,
    egress: Option<Egress>,
    tags: &[(&'static str, String)],
) -> Result<PassedOn, RouteFailure> {
    let Some(before) = network.circuits.set_path(circuit, path) else {
        return Err(RouteFailure::of_path(RequestFailure::circuit_ended()));
    };
    network.leave_path(circuit, &before, path);
    let outcome = ask(network, circuit, path, attempt, egress, tags).await;
    if outcome.is_err() && attempt != REROUTE {
        network.unroute_path(circuit, path);
    }
    outcome
}

/// Passes a route on and waits until all routers have answered it. Returns what the host passes on.
///
/// # Errors
/// A router is not connected, does not answer in time, or refuses.
pub(crate) async fn ask(
    network: &Network,
    circuit: &Arc<Circuit>,
    path: &Path,
    attempt: u32,
    mut egress: Option<Egress>,
    tags: &[(&'static str, String)],
) -> Result<PassedOn, RouteFailure> {
    let mut answers = circuit.expect(attempt, &path.routers);
    let last = path.routers.len().saturating_sub(1);
    for (place, id) in path.routers.iter().enumerate() {
        let router = network.routers.find(id).ok_or_else(|| {
            RouteFailure::on_path(format!("router {id} is not connected"), DialFault::Path)
        })?;
        router.route(RouteOrder {
            circuit,
            attempt,
            path,
            place,
            egress: if place == last { egress.take() } else { None },
            timeout: network.times.route,
            tags,
        });
    }
    let all = async {
        let mut of_host = None;
        for _ in &path.routers {
            let (router, answer) = answers.recv().await.ok_or_else(|| {
                RouteFailure::on_path(
                    "a router or link of the path was lost, or the circuit has ended",
                    DialFault::Path,
                )
            })?;
            let is_last = path.routers.last() == Some(&router);
            let passed_on = answer.map_err(|refusal| RouteFailure::of_refusal(refusal, is_last))?;
            if is_last {
                of_host = Some(passed_on);
            }
        }
        of_host.ok_or_else(|| RouteFailure::on_path("the path is empty", DialFault::Path))
    };
    timeout(network.times.route, all).await.unwrap_or_else(|_| {
        Err(RouteFailure::on_path(
            "a router did not answer in time",
            DialFault::Timeout,
        ))
    })
}
