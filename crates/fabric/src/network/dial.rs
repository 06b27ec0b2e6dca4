//! From a dial to a circuit: checks, the choice of a terminator, the route and its answer, and the
//! answer to the client.

use std::{sync::Arc, time::Duration};

use model::entity::{EdgeRouter, Id, Terminator};
use policy::{access::Right, hosting::DialFault};
use tokio::time::sleep;
use wire::{control, sdk::key};

use super::{
    candidates::{self, Candidate, CandidateTerminator, DialTarget},
    circuit::{Circuit, Established},
    live_terminators::LiveTerminator,
    passed_on::{passes_to_client, passes_to_host},
    request_failure::{Refusal, RequestFailure, unreadable},
    reroute, route,
    route_answer::{FailurePlace, PassedOn, RouteFailure},
    router::{Egress, LocalDial},
    select::Strategy,
    session_authorizer::{Grant, PresentedSession},
    shared_state::Network,
};

/// Terminators that are tried for one dial.
const ATTEMPTS: u32 = 2;
/// Additional attempts over a link that its router does not know yet. With the pauses before them
/// they take three seconds.
const EARLY_ATTEMPTS: u32 = 5;
/// The first of these pauses; each is twice the one before.
const EARLY: Duration = Duration::from_millis(100);

/// What a client asks for.
pub(crate) struct DialRequest<'f> {
    /// The instance id; empty for none.
    pub instance: &'f str,
    /// The terminator that a sticky service should keep.
    pub sticky: Option<&'f [u8]>,
    pub passed_on: PassedOn,
    /// Whether the host's router is told the name of the client and the sticky terminator, which
    /// `passed_on` does not have.
    pub adds_caller: bool,
    /// Whether the client is still there.
    pub is_wanted: &'f (dyn Fn() -> bool + Sync),
    /// Queues the answer for the client. Returns false if the client has left. Not called if a
    /// router has connected both ends.
    pub answer: &'f (dyn Fn(&Circuit, &DialAnswer<'_>) -> bool + Sync),
}

/// The contents of the answer to a dial.
pub(crate) struct DialAnswer<'o> {
    /// The address of the client's end at its router.
    pub address: &'o str,
    pub passed_on: &'o PassedOn,
    /// The terminator, for a sticky service.
    pub sticky: Option<&'o Id<Terminator>>,
    pub tags: [(&'static str, String); 3],
}

/// Why a dial failed.
#[derive(Debug)]
pub(crate) struct DialFailure {
    pub failure: RequestFailure,
    /// The number of terminators that were tried in vain, if that was the reason.
    pub attempts: Option<u32>,
}

impl From<RequestFailure> for DialFailure {
    fn from(failure: RequestFailure) -> Self {
        Self {
            failure,
            attempts: None,
        }
    }
}

/// The encryption that a service requires, and one side does not offer.
fn missing_key(side: &str) -> RequestFailure {
    RequestFailure::encryption(&format!(
        "encryption required on service, {side} did not send public header"
    ))
}

fn has_key(passed_on: &PassedOn) -> bool {
    passed_on
        .iter()
        .any(|(known, _)| i32::try_from(*known) == Ok(key::PUBLIC_KEY))
}

/// Connects a new circuit with a host, and answers the client unless it fails.
///
/// # Errors
/// The session has no right to it, there are too many circuits, or no host can be reached.
pub(crate) async fn connect_circuit(
    network: &Arc<Network>,
    circuit: &Arc<Circuit>,
    request: &DialRequest<'_>,
) -> Result<(), DialFailure> {
    let permit = network.circuit_quota.take(&circuit.client)?;
    // From here on a change that removes the right finds the circuit; the check covers changes
    // before.
    network.circuits.add(circuit, permit)?;
    let outcome = if (request.is_wanted)() {
        attempt_all(network, circuit, request).await
    } else {
        // It left before its end could find the circuit.
        Err(RequestFailure::access_denied("the client has left").into())
    };
    outcome.inspect_err(|failed| network.fail_circuit(circuit, true, &failed.failure))
}

async fn attempt_all(
    network: &Arc<Network>,
    circuit: &Arc<Circuit>,
    request: &DialRequest<'_>,
) -> Result<(), DialFailure> {
    let presented = PresentedSession {
        api_session: &circuit.api_session,
        token: &circuit.token,
    };
    let grant = network
        .authorizer
        .authorize(presented, &circuit.session, Right::Dial, &circuit.router)
        .map_err(RequestFailure::from)?;
    if grant.service.spec.encryption_required && !has_key(&request.passed_on) {
        return Err(missing_key("initiator").into());
    }
    let grant = Arc::new(grant);
    let (mut tried, mut last) = (Vec::new(), None);
    let (mut attempt, mut attempts, mut pause) = (0, ATTEMPTS, EARLY);
    while attempt < attempts {
        let wanted = DialTarget {
            instance: request.instance,
            sticky: request.sticky,
            tried: &tried,
        };
        let candidate = match candidates::choose(network, circuit, &grant, &wanted) {
            Ok(candidate) => candidate,
            Err(Refusal::Unreadable(error)) => return Err(unreadable(error).into()),
            Err(Refusal::Refused(none)) => {
                if last.is_none() {
                    note_no_host(network, circuit, request.instance, &none);
                }
                // The failure of an attempt is more specific.
                return Err(last.unwrap_or(none).into());
            }
        };
        let Err(failed) = connect(network, circuit, request, &grant, &candidate, attempt).await
        else {
            return Ok(());
        };
        let is_over = network.circuits.find(&circuit.id).is_none();
        note_host(network, &candidate, &failed, is_over);
        if is_over {
            last = Some(failed.failure);
            break;
        }
        // After a failure of the path, the next attempt may choose the same terminator: it takes
        // another path only if a router or link was lost.
        let mut links = candidate
            .path
            .links
            .iter()
            .filter_map(|link| network.links.find(link));
        if failed.place == FailurePlace::Link
            && links.any(|link| link.is_new())
            && attempts < ATTEMPTS + EARLY_ATTEMPTS
        {
            attempts += 1;
            sleep(pause).await;
            pause *= 2;
        } else {
            note_failed(network, circuit, &candidate, &failed.failure);
            if failed.place.is_of_host() || candidate.path.links.is_empty() {
                tried.push(candidate.id().clone());
            }
        }
        last = Some(failed.failure);
        attempt += 1;
    }
    let failure = last.unwrap_or_else(|| RequestFailure::internal(""));
    Err(DialFailure {
        failure,
        attempts: Some(ATTEMPTS),
    })
}

/// Records at a terminator that it was not reached.
fn note_host(network: &Network, candidate: &Candidate, failed: &RouteFailure, is_over: bool) {
    let Some(host) = candidate.host() else { return };
    if failed.place.is_of_host() && !is_over {
        host.load.dial_failed();
        network.show_cost(host);
    }
    // A router in this process ends its own terminators, with what hangs on them.
    if failed.place == FailurePlace::Terminator && host.hosted.router != EdgeRouter::BUILT_IN {
        network.end_terminator(host);
    }
}

/// Records that a host was not reached.
fn note_failed(
    network: &Network,
    circuit: &Circuit,
    candidate: &Candidate,
    failure: &RequestFailure,
) {
    network.hosting.dial_failed(
        circuit.service.as_str(),
        Some(candidate.host_key()),
        candidate.router(),
        failure.fault,
        &failure.text,
    );
}

/// Records that no host was found. An instance that the client names may never have existed.
fn note_no_host(network: &Network, circuit: &Circuit, instance: &str, failure: &RequestFailure) {
    if instance.is_empty() {
        network.hosting.dial_failed(
            circuit.service.as_str(),
            None,
            &circuit.router,
            failure.fault,
            &failure.text,
        );
    } else {
        network.hosting.count_failure(failure.fault);
    }
}

/// Connects a circuit with a terminator: without a route if both ends are at one router of this
/// process, else over the routers of the path.
async fn connect(
    network: &Arc<Network>,
    circuit: &Arc<Circuit>,
    request: &DialRequest<'_>,
    grant: &Arc<Grant>,
    candidate: &Candidate,
    attempt: u32,
) -> Result<(), RouteFailure> {
    match &candidate.terminator {
        CandidateTerminator::Here(host) => {
            connect_here(network, circuit, request, grant, (candidate, host)).await?;
        }
        CandidateTerminator::Recorded(record, host) => {
            // A router reuses an address that it knows without dialing, so that each attempt has
            // its own.
            let ends = ["i", "e"].map(|end| format!("{}.{end}{attempt}", circuit.id));
            circuit.set_ends(ends.clone());
            let tags = tags(circuit, host.as_deref());
            let egress = Egress {
                binding: record.spec.binding.clone(),
                destination: record.spec.address.clone(),
                passed_on: passed_on_to_host(request, grant),
                grant: grant.clone(),
            };
            let path = &candidate.path;
            let answer = route::send(network, circuit, path, attempt, Some(egress), &tags).await?;
            let answered = accept(
                network, circuit, request, grant, candidate, &ends[0], answer,
            );
            answered.map_err(|failure| {
                network.unroute_path(circuit, path);
                RouteFailure::of_host(failure)
            })?;
        }
    }
    if let Some(host) = candidate.host() {
        network.show_cost(host);
    }
    network
        .hosting
        .dial_succeeded(circuit.service.as_str(), &candidate.host_key());
    tracing::debug!(circuit = %circuit.id, router = %circuit.router, attempt, client = %circuit.client, service = %circuit.service, "circuit");
    Ok(())
}

async fn connect_here(
    network: &Network,
    circuit: &Arc<Circuit>,
    request: &DialRequest<'_>,
    grant: &Grant,
    (candidate, host): (&Candidate, &Arc<LiveTerminator>),
) -> Result<(), RouteFailure> {
    let ended = || RouteFailure::of_path(RequestFailure::circuit_ended());
    // From here on the end of the circuit reaches its router, also before the host has answered.
    let before = network
        .circuits
        .set_path(circuit, &candidate.path)
        .ok_or_else(ended)?;
    network.leave_path(circuit, &before, &candidate.path);
    let router = network.routers.find(&circuit.router).ok_or_else(ended)?;
    let dial = LocalDial {
        circuit,
        grant,
        host,
        passed_on: &request.passed_on,
    };
    router.connect(dial).await
}

fn passed_on_to_host(request: &DialRequest<'_>, grant: &Grant) -> PassedOn {
    let caller = request.adds_caller.then(|| {
        let key = u32::try_from(key::CALLER).unwrap_or_default();
        (key, grant.identity.spec.name.clone().into_bytes())
    });
    let sticky = request.sticky.filter(|_| request.adds_caller);
    let sticky = sticky.map(|terminator| (control::key::STICKINESS, terminator.to_vec()));
    let passed_on = request
        .passed_on
        .iter()
        .cloned()
        .chain(caller)
        .chain(sticky);
    passed_on.filter(|(key, _)| passes_to_host(*key)).collect()
}

/// Processes the answer of the host's router, and answers the dial. `address` is the client's end
/// at its router.
fn accept(
    network: &Arc<Network>,
    circuit: &Arc<Circuit>,
    request: &DialRequest<'_>,
    grant: &Grant,
    candidate: &Candidate,
    address: &str,
    received: PassedOn,
) -> Result<(), RequestFailure> {
    let host = candidate.host();
    let mut passed_on = PassedOn::new();
    let stored = host
        .into_iter()
        .flat_map(|host| host.hosted.peer_data.iter().cloned());
    for (key, value) in stored
        .chain(received)
        .filter(|(key, _)| passes_to_client(*key))
    {
        passed_on.retain(|(known, _)| *known != key);
        passed_on.push((key, value));
    }
    if grant.service.spec.encryption_required && !has_key(&passed_on) {
        return Err(missing_key("terminator").because(DialFault::Encryption));
    }
    let is_sticky = Strategy::named(&grant.service.spec.terminator_strategy) == Strategy::Sticky;
    let opened = DialAnswer {
        address,
        passed_on: &passed_on,
        sticky: is_sticky.then(|| candidate.id()),
        tags: tags(circuit, host.map(|host| &**host)),
    };
    let end = Established {
        since: network.now(),
        terminator: candidate.id().clone(),
        host: host.cloned(),
    };
    if !network
        .circuits
        .establish(circuit, end, || (request.answer)(circuit, &opened))
    {
        return Err(RequestFailure::circuit_ended());
    }
    if !network.has_links_of(&candidate.path) {
        reroute::begin(network, vec![circuit.clone()], "its link was lost");
    }
    Ok(())
}

fn tags(circuit: &Circuit, host: Option<&LiveTerminator>) -> [(&'static str, String); 3] {
    let host = host.map_or_else(String::new, |host| host.hosted.identity.to_string());
    [
        ("serviceId", circuit.service.to_string()),
        ("clientId", circuit.client.to_string()),
        ("hostId", host),
    ]
}
