//! Dials of SDKs at a router: checks, the choice of a terminator, the route and its answer.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;
use wire::{
    control::{NumberedBytes, content, fabric, key},
    frame::{Builder, Frame, value},
    sdk::Retry,
};

use super::{
    candidates::{self, Candidate, DialTarget},
    circuit::{self, Circuit, NewCircuit},
    connection::RouterConnection,
    core::ControlCore,
    replies::{error, unroute},
    reroute,
    route::{self, RouteFailure},
    sessions::{FoundSession, SdkCredentials},
};
use crate::{
    access::Right,
    authentication::{DIAL, RejectedCaller},
    built_in_router::{passes_to_client, passes_to_host},
    entity::EdgeRouter,
    fabric::{Grant, LiveTerminator, PresentedSession, RequestFailure, Strategy, unreadable},
    hosting::DialFault,
};

/// Terminators that are tried for one dial.
const ATTEMPTS: u32 = 2;
/// Additional attempts over a link that its router does not know yet. With the pauses before them
/// they take three seconds.
const EARLY_ATTEMPTS: u32 = 5;
/// The first of these pauses; each is twice the one before.
const EARLY: Duration = Duration::from_millis(100);
/// Maximum bytes of the data of an SDK that are passed on to the host with a route.
const MAX_PEER_DATA: usize = 32 << 10;
/// The bytes that the key and the length of each entry add to this data.
const PEER_DATA_HEAD: usize = 8;
/// Highest code that routers of every version know.
const MAX_CODE: u32 = 11;

/// A dial request.
pub(crate) struct DialRequest<'f> {
    /// The router of the client.
    pub router: &'f str,
    /// The id of the circuit, if it has one.
    pub circuit: Option<String>,
    /// The instance id; empty for none.
    pub instance: &'f str,
    /// The terminator to try first.
    pub terminator: Option<&'f str>,
    pub peer_data: Vec<NumberedBytes>,
    /// Sends the answer.
    pub answer: &'f (dyn Fn(&Circuit, &DialAnswer<'_>) + Sync),
}

/// The contents of the answer to a dial.
pub(crate) struct DialAnswer<'o> {
    /// The address of the client's end at its router.
    pub address: &'o str,
    pub peer_data: &'o [(u32, Vec<u8>)],
    pub tags: [(&'static str, String); 3],
}

/// The dial of an SDK, as its router passes it on.
struct SdkDial<'f> {
    credentials: SdkCredentials<'f>,
    instance: &'f str,
    peer_data: Vec<NumberedBytes>,
}

impl<'f> SdkDial<'f> {
    fn of(frame: &'f Frame) -> Result<Self, RequestFailure> {
        let malformed =
            |what: &str| RequestFailure::internal(format!("{what}: the header cannot be read"));
        let text = |key, what| match frame.header(key) {
            Some(value) => std::str::from_utf8(value)
                .map(Some)
                .map_err(|_| malformed(what)),
            None => Ok(None),
        };
        let token =
            text(key::SESSION_TOKEN, "session token")?.ok_or_else(|| malformed("session token"))?;
        let fingerprints = value::texts(frame.header(key::FINGERPRINTS).unwrap_or_default())
            .map_err(|_| malformed("fingerprints"))?;
        let api_session_token =
            text(key::API_SESSION_TOKEN, "API session token")?.filter(|token| !token.is_empty());
        let peer_data = value::bytes_by_number(frame.header(key::PEER_DATA).unwrap_or_default())
            .map_err(|_| malformed("peer data"))?;
        Ok(Self {
            credentials: SdkCredentials {
                token,
                api_session_token,
                fingerprints,
            },
            instance: text(key::INSTANCE, "instance id")?.unwrap_or_default(),
            peer_data: peer_data
                .into_iter()
                .map(|(number, bytes)| NumberedBytes::new(number, bytes))
                .collect(),
        })
    }
}

impl DialRequest<'_> {
    fn has_public_key(&self) -> bool {
        self.peer_data
            .iter()
            .any(|entry| entry.key == Some(key::PUBLIC_KEY))
    }

    /// The terminator that a sticky service should return to.
    fn sticky(&self) -> Option<&[u8]> {
        self.peer_data
            .iter()
            .find(|entry| entry.key == Some(key::STICKINESS))
            .and_then(|entry| entry.value.as_deref())
    }
}

/// Handles a dial.
pub(crate) fn create(core: &Arc<ControlCore>, connection: &Arc<RouterConnection>, frame: Frame) {
    let Some(counted) = connection.begin_request(frame.len()) else {
        return connection.send(error(&frame, 1, "too many requests at the same time"));
    };
    let (core, connection) = (core.clone(), connection.clone());
    tokio::spawn(async move {
        if let Err(failure) = establish(&core, &connection, &frame).await {
            tracing::debug!(router = %connection.router, reason = %failure.text, "dial failed");
            connection.send(error(
                &frame,
                if failure.code <= MAX_CODE {
                    failure.code
                } else {
                    1
                },
                &failure.text,
            ));
        }
        drop(counted);
    });
}

/// Opens a circuit and answers the dial, unless it fails.
async fn establish(
    core: &Arc<ControlCore>,
    connection: &Arc<RouterConnection>,
    frame: &Frame,
) -> Result<(), RequestFailure> {
    let SdkDial {
        credentials,
        instance,
        peer_data,
    } = SdkDial::of(frame)?;
    let found = core.session_of(&credentials)?;
    core.seen(connection, &found.api_session);
    let answer = |circuit: &Circuit, opened: &DialAnswer<'_>| {
        connection.send(answer(frame, circuit, opened))
    };
    let request = DialRequest {
        router: &connection.router,
        circuit: None,
        instance,
        terminator: None,
        peer_data,
        answer: &answer,
    };
    let circuit = dial(core, found, &request).await?;
    end_unless_answered(core, connection, &circuit);
    Ok(())
}

/// Ends a circuit whose dial was answered on a connection that has ended.
pub(crate) fn end_unless_answered(
    core: &ControlCore,
    connection: &RouterConnection,
    circuit: &Arc<Circuit>,
) {
    if connection.is_closed() {
        core.end_circuit(circuit, true, "its router could not be answered");
    }
}

/// Dials for a session, and answers unless it fails. Returns the circuit.
///
/// # Errors
/// The session has no right to it, its data for the host are too long, or no host can be reached.
pub(crate) async fn dial(
    core: &Arc<ControlCore>,
    found: FoundSession,
    request: &DialRequest<'_>,
) -> Result<Arc<Circuit>, RequestFailure> {
    let bytes: usize = request
        .peer_data
        .iter()
        .map(|entry| PEER_DATA_HEAD + entry.value.as_ref().map_or(0, Vec::len))
        .sum();
    if bytes > MAX_PEER_DATA {
        let text = format!(
            "the data for the host has {bytes} bytes; at most {MAX_PEER_DATA} are passed on"
        );
        return Err(RequestFailure::new(1, Retry::Never, text));
    }
    // A circuit of the built-in router has its id and its permit there.
    let permit = match request.circuit {
        None => Some(
            core.network
                .circuit_quota
                .take(&found.session.spec.identity_id)?,
        ),
        Some(_) => None,
    };
    let circuit = Arc::new(Circuit::new(NewCircuit {
        id: request
            .circuit
            .clone()
            .unwrap_or_else(|| core.network.ids.circuit_id().to_string()),
        router: request.router.to_owned(),
        api_session: found.api_session.id.clone(),
        token: found.api_session.spec.token.clone(),
        session: found.session,
    }));
    // From here on a change that removes the right finds the circuit; the check covers changes
    // before.
    core.circuits.add(&circuit, permit)?;
    permitted(core, &circuit, request)
        .await
        .inspect_err(|failure| core.end_circuit(&circuit, true, &failure.text))?;
    Ok(circuit)
}

async fn permitted(
    core: &Arc<ControlCore>,
    circuit: &Arc<Circuit>,
    request: &DialRequest<'_>,
) -> Result<(), RequestFailure> {
    let presented = PresentedSession {
        api_session: &circuit.api_session,
        token: &circuit.token,
    };
    let authorized = core
        .network
        .authorizer
        .authorize(presented, &circuit.session, Right::Dial, &circuit.router)
        .map_err(unreadable)?;
    let grant = match authorized {
        Ok(grant) => grant,
        Err(failure) => {
            count_refusal(core, circuit, &failure).await;
            return Err(failure);
        }
    };
    if grant.service.spec.encryption_required && !request.has_public_key() {
        return Err(RequestFailure::encryption(
            "encryption required on service, initiator did not send public header",
        ));
    }
    let (mut tried, mut last) = (Vec::new(), None);
    let (mut attempt, mut attempts, mut pause) = (0, ATTEMPTS, EARLY);
    while attempt < attempts {
        let wanted = DialTarget {
            instance: request.instance,
            chosen: request.terminator,
            sticky: request.sticky(),
            tried: &tried,
        };
        let candidate = match candidates::choose(core, circuit, &grant, &wanted)? {
            Ok(candidate) => candidate,
            Err(none) => {
                if last.is_none() {
                    note_no_host(core, circuit, request.instance, &none);
                }
                // The failure of an attempt is more specific.
                return Err(last.unwrap_or(none));
            }
        };
        match route(core, circuit, request, &grant, &candidate, attempt).await {
            Ok(()) => return Ok(()),
            Err(failed) => {
                let is_over = core.circuits.find(&circuit.id).is_none();
                if let Some(host) = candidate
                    .host
                    .as_ref()
                    .filter(|_| failed.is_of_host && !is_over)
                {
                    host.load.dial_failed();
                    core.network.show_cost(host);
                }
                if let Some(host) = candidate
                    .host
                    .as_ref()
                    // The built-in router ends its own terminators, with what hangs on them.
                    .filter(|host| {
                        failed.is_invalid_terminator && host.hosted.router != EdgeRouter::BUILT_IN
                    })
                {
                    core.network.end_terminator(host);
                }
                // After a failure of the path, the next attempt may choose the same terminator: it
                // takes another path only if a router or link was lost.
                let mut links = candidate
                    .path
                    .links
                    .iter()
                    .filter_map(|link| core.links.find(link));
                if failed.is_invalid_link
                    && links.any(|link| link.is_new())
                    && attempts < ATTEMPTS + EARLY_ATTEMPTS
                {
                    attempts += 1;
                    sleep(pause).await;
                    pause *= 2;
                } else {
                    if !is_over {
                        note_failed(core, circuit, &candidate, &failed.failure);
                    }
                    if failed.is_of_host || candidate.path.links.is_empty() {
                        tried.push(candidate.record.id.to_string());
                    }
                }
                last = Some(failed.failure);
                if is_over {
                    break;
                }
            }
        }
        attempt += 1;
    }
    let reason = last.map_or_else(String::new, |failure: RequestFailure| failure.text);
    Err(RequestFailure::internal(format!(
        "exceeded maximum [{ATTEMPTS}] retries creating circuit [c/{}]: {reason}",
        circuit.id
    )))
}

/// Records that a host was not reached.
fn note_failed(
    core: &ControlCore,
    circuit: &Circuit,
    candidate: &Candidate,
    failure: &RequestFailure,
) {
    let (service, router) = (
        circuit.service.as_str(),
        candidate.record.spec.router.as_str(),
    );
    core.network.hosting.dial_failed(
        service,
        Some(candidate.host_key()),
        router,
        failure.fault,
        &failure.text,
    );
}

/// Records that no host was found. An instance that the client names may never have existed.
fn note_no_host(core: &ControlCore, circuit: &Circuit, instance: &str, failure: &RequestFailure) {
    if instance.is_empty() {
        core.network.hosting.dial_failed(
            circuit.service.as_str(),
            None,
            &circuit.router,
            failure.fault,
            &failure.text,
        );
    } else {
        core.network.hosting.count_failure(failure.fault);
    }
}

/// Sends the route of a circuit to a terminator, waits for the answers of the routers, and answers
/// the dial.
async fn route(
    core: &Arc<ControlCore>,
    circuit: &Arc<Circuit>,
    request: &DialRequest<'_>,
    grant: &Grant,
    candidate: &Candidate,
    attempt: u32,
) -> Result<(), RouteFailure> {
    // A router reuses an address that it knows without dialing, so that each attempt has its own.
    let [ingress, egress] = ["i", "e"].map(|end| format!("{}.{end}{attempt}", circuit.id));
    circuit.set_ends([ingress.clone(), egress.clone()]);
    let spec = &candidate.record.spec;
    let passed_on = request
        .peer_data
        .iter()
        .filter(|entry| entry.key.is_some_and(passes_to_host));
    let (binding, destination, peer_data) = (
        spec.binding.clone(),
        spec.address.clone(),
        passed_on.cloned().collect(),
    );
    let egress = fabric::Egress {
        binding,
        address: egress,
        destination,
        peer_data,
    };
    let tags = tags(circuit, candidate.host.as_deref());
    let answer = route::send(core, circuit, &candidate.path, attempt, Some(egress), &tags).await?;
    accept(core, circuit, request, grant, candidate, &ingress, &answer).map_err(|failure| {
        candidate
            .path
            .routers
            .iter()
            .for_each(|router| core.unroute(circuit, router, true));
        RouteFailure {
            failure,
            is_of_host: true,
            is_invalid_terminator: false,
            is_invalid_link: false,
        }
    })?;
    tracing::debug!(circuit = %circuit.id, router = %circuit.router, attempt, client = %circuit.client, service = %circuit.service, "circuit");
    Ok(())
}

/// Processes the answer of the host's router, and answers the dial. `address` is the client's end
/// at its router.
fn accept(
    core: &Arc<ControlCore>,
    circuit: &Arc<Circuit>,
    request: &DialRequest<'_>,
    grant: &Grant,
    candidate: &Candidate,
    address: &str,
    result: &Frame,
) -> Result<(), RequestFailure> {
    let mut peer_data: Vec<(u32, Vec<u8>)> = Vec::new();
    let stored = candidate
        .host
        .iter()
        .flat_map(|host| host.hosted.peer_data.iter().cloned());
    let received = result
        .headers()
        .filter_map(|(key, value)| Some((u32::try_from(key).ok()?, value.to_vec())));
    for (key, value) in stored
        .chain(received)
        .filter(|(key, _)| passes_to_client(*key))
    {
        peer_data.retain(|(known, _)| *known != key);
        peer_data.push((key, value));
    }
    if grant.service.spec.encryption_required
        && !peer_data
            .iter()
            .any(|(number, _)| *number == key::PUBLIC_KEY)
    {
        let failure = RequestFailure::encryption(
            "encryption required on service, terminator did not send public header",
        );
        return Err(failure.because(DialFault::Encryption));
    }
    if Strategy::named(&grant.service.spec.terminator_strategy) == Strategy::Sticky {
        peer_data.push((key::STICKINESS, candidate.record.id.as_str().into()));
    }
    let host = candidate.host.as_deref();
    let opened = DialAnswer {
        address,
        peer_data: &peer_data,
        tags: tags(circuit, host),
    };
    let (since, terminator) = (core.network.now(), candidate.record.id.clone());
    let end = circuit::Established {
        since,
        terminator,
        host: candidate.host.clone(),
    };
    if !core
        .circuits
        .establish(circuit, end, || (request.answer)(circuit, &opened))
    {
        return Err(RequestFailure::access_denied(
            "the circuit has ended in the meantime",
        ));
    }
    if !core.has_links_of(&candidate.path) {
        reroute::begin(core, vec![circuit.clone()], "its link was lost");
    }
    if let Some(host) = host {
        // The built-in router counts the circuits of its hosts itself.
        if host.hosted.router != EdgeRouter::BUILT_IN {
            host.load.dial_succeeded();
            core.network.show_cost(host);
        }
    }
    core.network
        .hosting
        .dial_succeeded(circuit.service.as_str(), &candidate.host_key());
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

fn answer(to: &Frame, circuit: &Circuit, opened: &DialAnswer<'_>) -> Frame {
    Builder::reply(content::CREATE_CIRCUIT_RESPONSE, to)
        .text(key::CIRCUIT_ID, &circuit.id)
        .text(key::INGRESS_ADDRESS, opened.address)
        .bytes(key::PEER_DATA, &value::of_bytes_by_number(opened.peer_data))
        .bytes(key::TAGS, &value::of_texts_by_text(&opened.tags))
        .empty()
}

/// The answer of a router to a route. A circuit that does not exist here is removed from the router
/// again.
pub(crate) fn result(core: &ControlCore, connection: &RouterConnection, frame: Frame) {
    let Ok(id) = std::str::from_utf8(frame.body()).map(str::to_owned) else {
        return;
    };
    let attempt = frame.u32(key::ROUTE_ATTEMPT).unwrap_or_default();
    let own = core
        .circuits
        .find(&id)
        .filter(|circuit| circuit.path().has_router(&connection.router));
    let is_success = frame.is_set(key::ROUTE_SUCCESS);
    match own {
        Some(circuit) => circuit.answered(&connection.router, attempt, frame),
        None if is_success => connection.send(unroute(&id, true)),
        None => {}
    }
}

/// Counts a dial that was refused for lack of a right, for the history.
async fn count_refusal(core: &ControlCore, circuit: &Circuit, failure: &RequestFailure) {
    let Some(reason) = failure.reason.text() else {
        return;
    };
    let (identity, service) = (
        Some(circuit.client.to_string()),
        Some(circuit.service.to_string()),
    );
    let refused = RejectedCaller {
        what: DIAL,
        identity,
        address: None,
        service,
        reason,
    };
    core.network.note_refusal(refused).await;
}
