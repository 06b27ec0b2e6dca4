//! Routes of circuits over links, as the controller orders them.

use std::{sync::Arc, time::Duration};

use policy::hosting::DialFault;
use tokio::time::{Instant, sleep};

use super::{
    endpoint::LinkEndpoint,
    relay,
    transit::{Transit, Way},
};
use crate::{
    built_in_router::{
        circuit::{Circuit, CircuitEnd},
        dial::dial_host,
        router_core::RouterCore,
        send_queue::SendQueue,
    },
    network::{self, Egress, RefusalCause, RequestFailure, RouteAnswer, RouteRefusal},
};

/// A circuit that the controller has ended ends at this router after this time without a message.
const QUIET: Duration = Duration::from_secs(5);
/// A circuit that passes through is removed at the latest after this time.
const MAX_CLOSING: Duration = Duration::from_secs(30);

/// A route to or from an SDK at this router.
pub(crate) struct LinkRoute<'r> {
    pub circuit: &'r network::Circuit,
    /// The link to the next router.
    pub link: &'r str,
    /// Whether the host of the circuit is at this router, and not the client.
    pub is_of_host: bool,
}

/// The refusal of a route over a link that is not open.
fn no_link() -> RouteRefusal {
    RouteRefusal {
        text: "a link of the route is not open".into(),
        cause: RefusalCause::Link,
    }
}

/// The refusal of a route because of the host or this router.
fn refusal(failure: RequestFailure) -> RouteRefusal {
    RouteRefusal {
        text: failure.text,
        cause: RefusalCause::Other(failure.fault),
    }
}

/// Prepares the end of a circuit at this router, or moves an existing end to another link. `None`
/// if no host has to be dialed.
///
/// # Errors
/// The link is not open.
pub(crate) fn prepare(
    core: &RouterCore,
    route: LinkRoute<'_>,
) -> Result<Option<Arc<LinkEndpoint>>, RouteRefusal> {
    let LinkRoute {
        circuit,
        link,
        is_of_host,
    } = route;
    let link = core.links.find(link).ok_or_else(no_link)?;
    if let Some(endpoint) = core.endpoints.find(&circuit.id) {
        endpoint.move_to(link);
        return Ok(None);
    }
    // What waits in both directions counts as the client's, like the circuit: its identity is known
    // at both ends.
    let account = core.budget.account(circuit.client.as_str());
    let outbox = SendQueue::new(core.room, account);
    let endpoint = Arc::new(LinkEndpoint::new(
        circuit.id.clone(),
        is_of_host,
        link,
        outbox,
    ));
    core.endpoints.add(&endpoint.circuit, &endpoint);
    // The endpoint of a client is taken by its dial in progress.
    Ok(is_of_host.then_some(endpoint))
}

/// Dials the host of a route. Returns what the host passes on to the client.
///
/// # Errors
/// The host cannot be reached.
pub(crate) async fn dial_host_of_route(
    core: &Arc<RouterCore>,
    endpoint: Arc<LinkEndpoint>,
    egress: Egress,
) -> RouteAnswer {
    let outcome = to_host(core, &endpoint, &egress).await;
    if outcome.is_err() {
        core.endpoints.remove(&endpoint.circuit, &endpoint);
    }
    outcome
}

async fn to_host(
    core: &Arc<RouterCore>,
    endpoint: &Arc<LinkEndpoint>,
    egress: &Egress,
) -> RouteAnswer {
    let binding = core
        .registry
        .binding(&egress.destination)
        .filter(|binding| binding.terminator.is_open())
        .ok_or_else(|| RouteRefusal {
            text: format!("terminator {} is not hosted here", egress.destination),
            cause: RefusalCause::Terminator,
        })?;
    if let Some(stopping) = core.refusal() {
        return Err(refusal(stopping));
    }
    let client = CircuitEnd::over_link(endpoint.outbox.clone());
    let circuit = Arc::new(Circuit::new(
        endpoint.circuit.clone(),
        core.network.now(),
        client,
        0,
    ));
    let dialed = async {
        core.registry.add_circuit(&circuit)?;
        dial_host(core, &circuit, &egress.passed_on, &egress.grant, &binding).await
    };
    let answered = dialed.await.map_err(|failure| {
        core.fail_circuit(&circuit, &failure);
        refusal(failure)
    })?;
    let held = core
        .endpoints
        .find(&endpoint.circuit)
        .is_some_and(|known| Arc::ptr_eq(&known, endpoint));
    if !held {
        let failure = RequestFailure::circuit_ended();
        core.fail_circuit(&circuit, &failure);
        return Err(refusal(failure));
    }
    relay::start(core, &circuit, endpoint.clone());
    Ok(answered)
}

/// Ends a circuit that the controller has ended: at once if `now`, else after the data on the way
/// was delivered.
pub(crate) fn unroute(core: &Arc<RouterCore>, id: &str, now: bool) {
    let Some(endpoint) = core.endpoints.find(id) else {
        return unroute_passing(core, id, now);
    };
    if now || !endpoint.is_running() {
        return end(core, &endpoint);
    }
    let core = core.clone();
    tokio::spawn(async move {
        loop {
            let before = endpoint.arrived();
            sleep(QUIET).await;
            if endpoint.is_stopped() || endpoint.is_cut() {
                return;
            }
            if endpoint.arrived() == before && !endpoint.has_end() {
                return end(&core, &endpoint);
            }
        }
    });
}

/// Forwards a circuit between the links to the next router on the way to the client and on the way
/// to the host.
///
/// # Errors
/// A link is not open, or the router starts nothing new.
pub(crate) fn pass_through(
    core: &RouterCore,
    circuit: &str,
    [to_client, to_host]: [&String; 2],
) -> Result<(), RouteRefusal> {
    if let Some(stopping) = core.refusal() {
        return Err(refusal(stopping.because(DialFault::Busy)));
    }
    let way = |link: &str| {
        core.links
            .find(link)
            .and_then(Way::over)
            .ok_or_else(no_link)
    };
    let ways = [way(to_client)?, way(to_host)?];
    // A new one also after a reroute, because the former one may be closing.
    let transit = Arc::new(match core.transits.find(circuit) {
        Some(former) => former.over(ways),
        None => Transit::new(circuit.into(), ways),
    });
    core.transits.replace(&transit.circuit, &transit);
    Ok(())
}

/// Removes a circuit that passes through: at once if `now`, else after the data on the way was
/// forwarded.
fn unroute_passing(core: &Arc<RouterCore>, id: &str, now: bool) {
    let Some(transit) = core.transits.find(id) else {
        return;
    };
    if now {
        transit.discard();
        core.transits.remove(id, &transit);
        return;
    }
    let core = core.clone();
    tokio::spawn(async move {
        let end = Instant::now() + MAX_CLOSING;
        loop {
            let before = transit.arrived();
            sleep(QUIET).await;
            if transit.arrived() == before || Instant::now() >= end {
                break;
            }
        }
        core.transits.remove(&transit.circuit, &transit);
    });
}

fn end(core: &RouterCore, endpoint: &Arc<LinkEndpoint>) {
    let failure = RequestFailure::access_denied("the circuit was ended by the controller");
    let circuit = core.registry.circuit(&endpoint.circuit);
    endpoint.cut();
    // The client of a dial in progress waits for the next attempt.
    if (endpoint.is_running() || endpoint.is_of_host)
        && let Some(circuit) = &circuit
    {
        core.fail_circuit(circuit, &failure);
    }
    if !endpoint.is_running() {
        core.endpoints.remove(&endpoint.circuit, endpoint);
    }
}
