//! Dials of SDKs at a router: checks, the choice of a terminator, the route and its answer.

use std::sync::Arc;

use prost::Message;
use tokio::time::timeout;

use super::{
    answers::{error, unroute},
    circuit::{Circuit, NewCircuit},
    connection::RouterConnection,
    core::Core,
    hosted::HostedTerminator,
    message::{NumberedBytes, TextEntry, content, fabric, key},
    sessions::SdkCredentials,
};
use crate::{
    access::Right,
    authentication::{DIAL, Refused},
    entity::{FactsExt, Record, Terminator},
    frame::{Builder, Frame, value},
    network::{Failure, Grant, Holder, Strategy, Weight, choose, unreadable},
};

/// Terminators that are tried for one dial.
const ATTEMPTS: u32 = 2;
/// The router does not know the terminator.
const INVALID_TERMINATOR: u8 = 1;
/// Maximum length of a router's failure text that is passed on, in characters.
const MAX_TEXT: usize = 1024;
/// Highest code that routers of every version know.
const MAX_CODE: u32 = 11;

/// A dial request.
struct DialRequest<'f> {
    credentials: SdkCredentials<'f>,
    instance: &'f str,
    peer_data: Vec<NumberedBytes>,
}

impl<'f> DialRequest<'f> {
    fn of(frame: &'f Frame) -> Result<Self, Failure> {
        let malformed = |what: &str| Failure::internal(format!("{what}: the header cannot be read"));
        let text = |key, what| match frame.header(key) {
            Some(value) => std::str::from_utf8(value).map(Some).map_err(|_| malformed(what)),
            None => Ok(None),
        };
        let token = text(key::SESSION_TOKEN, "session token")?.ok_or_else(|| malformed("session token"))?;
        let fingerprints = value::texts(frame.header(key::FINGERPRINTS).unwrap_or_default()).map_err(|_| malformed("fingerprints"))?;
        let api_session_token = text(key::API_SESSION_TOKEN, "API session token")?.filter(|token| !token.is_empty());
        let peer_data = value::bytes_by_number(frame.header(key::PEER_DATA).unwrap_or_default()).map_err(|_| malformed("peer data"))?;
        Ok(Self {
            credentials: SdkCredentials { token, api_session_token, fingerprints },
            instance: text(key::INSTANCE, "instance id")?.unwrap_or_default(),
            peer_data: peer_data.into_iter().map(|(number, bytes)| NumberedBytes::new(number, bytes)).collect(),
        })
    }

    fn has_public_key(&self) -> bool {
        self.peer_data.iter().any(|entry| entry.key == Some(key::PUBLIC_KEY))
    }

    /// The terminator that a sticky service should return to.
    fn sticky(&self) -> Option<&[u8]> {
        self.peer_data.iter().find(|entry| entry.key == Some(key::STICKINESS)).and_then(|entry| entry.value.as_deref())
    }
}

/// Handles a dial.
pub fn create(core: &Arc<Core>, connection: &Arc<RouterConnection>, frame: Frame) {
    let Some(counted) = connection.begin_request() else {
        return connection.send(error(&frame, 1, "too many requests at the same time"));
    };
    let (core, connection) = (core.clone(), connection.clone());
    tokio::spawn(async move {
        match establish(&core, &connection, &frame).await {
            Ok(answer) => connection.send(answer),
            Err(failure) => {
                tracing::debug!(router = %connection.router, reason = %failure.text, "dial failed");
                connection.send(error(&frame, if failure.code <= MAX_CODE { failure.code } else { 1 }, &failure.text));
            }
        }
        drop(counted);
    });
}

async fn establish(core: &Arc<Core>, connection: &Arc<RouterConnection>, frame: &Frame) -> Result<Frame, Failure> {
    let request = DialRequest::of(frame)?;
    let found = core.session_of(&request.credentials)?;
    let circuit = Arc::new(Circuit::new(NewCircuit {
        id: core.numbers.circuit_id().to_string(),
        router: connection.router.clone(),
        api_session: found.api_session.id.clone(),
        token: found.api_session.spec.token.clone(),
        session: found.session,
    }));
    // From here on a change that removes the right finds the circuit; the check covers changes before.
    if !core.circuits.add(&circuit) {
        return Err(Failure::busy("too many circuits"));
    }
    let outcome = permitted(core, &circuit, &request).await;
    match outcome {
        Ok(Established { attempt, host, address, peer_data }) => {
            tracing::debug!(circuit = %circuit.id, router = %circuit.router, attempt, client = %circuit.client, service = %circuit.service, "circuit");
            Ok(answer(frame, &circuit, &address, &peer_data, host.as_deref()))
        }
        Err(failure) => {
            core.end_circuit(&circuit, true, &failure.text);
            Err(failure)
        }
    }
}

/// An established circuit.
struct Established {
    attempt: u32,
    host: Option<Arc<HostedTerminator>>,
    /// The address of the client's end at its router.
    address: String,
    peer_data: Vec<(u32, Vec<u8>)>,
}

async fn permitted(core: &Arc<Core>, circuit: &Arc<Circuit>, request: &DialRequest<'_>) -> Result<Established, Failure> {
    let holder = Holder { api_session: &circuit.api_session, token: &circuit.token };
    let judged = core.parts.rights.judge(holder, &circuit.session, Right::Dial, &circuit.router).map_err(unreadable)?;
    let grant = match judged {
        Ok(grant) => grant,
        Err(failure) => {
            count_refusal(core, circuit, &failure).await;
            return Err(failure);
        }
    };
    if grant.service.spec.encryption_required && !request.has_public_key() {
        return Err(Failure::encryption("encryption required on service, initiator did not send public header"));
    }
    let (mut tried, mut last) = (Vec::new(), None);
    for attempt in 0..ATTEMPTS {
        let candidate = match choose_terminator(core, circuit, &grant, request, &tried)? {
            Ok(candidate) => candidate,
            // The failure of an attempt is more specific.
            Err(none) => return Err(last.unwrap_or(none)),
        };
        match route(core, circuit, request, &grant, &candidate, attempt).await {
            Ok(established) => return Ok(established),
            Err(failure) => last = Some(failure),
        }
        if core.circuits.find(&circuit.id).is_none() {
            break;
        }
        if let Some(host) = &candidate.host {
            host.load.dial_failed();
            core.show_cost(host);
        }
        tried.push(candidate.record.id.to_string());
    }
    let reason = last.map_or_else(String::new, |failure| failure.text);
    Err(Failure::internal(format!("exceeded maximum [{ATTEMPTS}] retries creating circuit [c/{}]: {reason}", circuit.id)))
}

/// A terminator where a circuit may end.
struct Candidate {
    record: Record<Terminator>,
    host: Option<Arc<HostedTerminator>>,
    weight: Weight,
}

/// Chooses the next terminator to dial; the inner error says why there is none.
fn choose_terminator(
    core: &Core,
    circuit: &Circuit,
    grant: &Grant,
    request: &DialRequest<'_>,
    tried: &[String],
) -> Result<Result<Candidate, Failure>, Failure> {
    let service = grant.service.id.as_str();
    let mut records = core.parts.rights.store.read(|tx| tx.linked::<Terminator>("service", service)).map_err(unreadable)?;
    records.retain(|record| record.spec.identity == request.instance);
    let instance = if request.instance.is_empty() { String::new() } else { format!(" for instanceId {}", request.instance) };
    if records.is_empty() {
        return Ok(Err(Failure::internal(format!("service {service} has no terminators{instance}"))));
    }
    records.retain(|record| record.spec.router == circuit.router && !tried.iter().any(|tried| *tried == record.id.as_str()));
    let candidates = records.into_iter().filter_map(|record| {
        let host = core.hosted.find(record.id.as_str());
        if record.is_of_a_connection() {
            host.as_ref().filter(|host| host.is_listed() && host.router == circuit.router)?;
        }
        let (precedence, cost) = (record.spec.precedence, record.spec.cost);
        let weight = host.as_ref().map_or(Weight { precedence, cost, dynamic_cost: 0 }, |host| host.weight());
        Some(Candidate { record, host, weight })
    });
    let mut candidates: Vec<Candidate> = candidates.collect();
    let weights: Vec<_> = candidates.iter().map(|candidate| candidate.weight).collect();
    let sticky = candidates.iter().position(|candidate| Some(candidate.record.id.as_str().as_bytes()) == request.sticky());
    let strategy = Strategy::named(&grant.service.spec.terminator_strategy);
    Ok(match choose(strategy, &weights, sticky, core.numbers.random()) {
        Some(chosen) => Ok(candidates.swap_remove(chosen)),
        None => Err(Failure::internal(format!("service {service} has no online terminators{instance}"))),
    })
}

/// Sends the route of a circuit to a terminator, and waits for the router's answer.
async fn route(
    core: &Arc<Core>,
    circuit: &Arc<Circuit>,
    request: &DialRequest<'_>,
    grant: &Grant,
    candidate: &Candidate,
    attempt: u32,
) -> Result<Established, Failure> {
    // A router reuses an address that it knows without dialling, so that each attempt has its own.
    let [ingress, egress] = ["i", "e"].map(|end| format!("{}.{end}{attempt}", circuit.id));
    let spec = &candidate.record.spec;
    let forward = |source: &str, destination: &str, kind: fabric::DestinationType| fabric::Forward {
        source: source.to_owned(),
        destination: destination.to_owned(),
        destination_type: kind.into(),
    };
    let message = fabric::Route {
        circuit_id: circuit.id.clone(),
        attempt,
        egress: Some(fabric::Egress {
            binding: spec.binding.clone(),
            address: egress.clone(),
            destination: spec.address.clone(),
            peer_data: request.peer_data.clone(),
        }),
        forwards: vec![
            forward(&ingress, &egress, fabric::DestinationType::End),
            forward(&egress, &ingress, fabric::DestinationType::Start),
        ],
        context: None,
        timeout: u64::try_from(core.times.route.as_nanos()).unwrap_or(u64::MAX),
        tags: tags(circuit, candidate.host.as_deref()).into_iter().map(|(name, id)| TextEntry::new(name, id)).collect(),
    };
    let answer = circuit.expect(attempt);
    if !core.send(&circuit.router, Builder::new(content::ROUTE).body(&message.encode_to_vec())) {
        return Err(Failure::internal("the router is not connected"));
    }
    let outcome = match timeout(core.times.route, answer).await {
        Ok(Ok(result)) => accept(core, circuit, grant, candidate, &result),
        Ok(Err(_)) => Err(Failure::access_denied("the circuit has ended in the meantime")),
        Err(_) => Err(Failure::internal("the router did not answer in time")),
    };
    match outcome {
        Ok(peer_data) => Ok(Established { attempt, host: candidate.host.clone(), address: ingress, peer_data }),
        Err(failure) => {
            core.send(&circuit.router, unroute(&circuit.id, true));
            Err(failure)
        }
    }
}

/// Processes the answer of a router. Returns the peer data for the dialling SDK.
fn accept(
    core: &Core,
    circuit: &Arc<Circuit>,
    grant: &Grant,
    candidate: &Candidate,
    result: &Frame,
) -> Result<Vec<(u32, Vec<u8>)>, Failure> {
    if !result.is_set(key::ROUTE_SUCCESS) {
        if result.header(key::ROUTE_ERROR_CODE) == Some(&[INVALID_TERMINATOR])
            && let Some(host) = &candidate.host
        {
            core.end_hosted(host);
        }
        let text: String = result.text(key::ROUTE_ERROR).unwrap_or("the router refused the route").chars().take(MAX_TEXT).collect();
        return Err(Failure::internal(text));
    }
    let mut peer_data: Vec<(u32, Vec<u8>)> = Vec::new();
    let stored = candidate.host.iter().flat_map(|host| &host.peer_data).filter_map(|entry| Some((entry.key?, entry.value.clone()?)));
    let received = result.headers().filter_map(|(key, value)| Some((u32::try_from(key).ok()?, value.to_vec())));
    for (key, value) in stored.chain(received.filter(|(key, _)| is_peer_data(*key))) {
        peer_data.retain(|(known, _)| *known != key);
        peer_data.push((key, value));
    }
    if grant.service.spec.encryption_required && !peer_data.iter().any(|(number, _)| *number == key::PUBLIC_KEY) {
        return Err(Failure::encryption("encryption required on service, terminator did not send public header"));
    }
    if Strategy::named(&grant.service.spec.terminator_strategy) == Strategy::Sticky {
        peer_data.push((key::STICKINESS, candidate.record.id.as_str().into()));
    }
    if !core.circuits.establish(circuit, candidate.host.clone()) {
        return Err(Failure::access_denied("the circuit has ended in the meantime"));
    }
    if let Some(host) = &candidate.host {
        host.load.dial_succeeded();
        core.show_cost(host);
    }
    Ok(peer_data)
}

/// Whether a header of a result is for the dialling SDK and not for the controller.
fn is_peer_data(key: u32) -> bool {
    !(1..=999).contains(&key) && key != 0 && !(1100..=1104).contains(&key) && !(1110..=1114).contains(&key)
}

fn tags(circuit: &Circuit, host: Option<&HostedTerminator>) -> [(&'static str, String); 3] {
    let host = host.map_or_else(String::new, |host| host.identity.to_string());
    [("serviceId", circuit.service.to_string()), ("clientId", circuit.client.to_string()), ("hostId", host)]
}

fn answer(to: &Frame, circuit: &Circuit, address: &str, peer_data: &[(u32, Vec<u8>)], host: Option<&HostedTerminator>) -> Frame {
    Builder::reply(content::CREATE_CIRCUIT_RESPONSE, to)
        .text(key::CIRCUIT_ID, &circuit.id)
        .text(key::INGRESS_ADDRESS, address)
        .bytes(key::PEER_DATA, &value::of_bytes_by_number(peer_data))
        .bytes(key::TAGS, &value::of_texts_by_text(&tags(circuit, host)))
        .empty()
}

/// The answer of a router to a route. A circuit that no dial waits for is removed again.
pub fn result(core: &Core, connection: &RouterConnection, frame: Frame) {
    let Ok(id) = std::str::from_utf8(frame.body()).map(str::to_owned) else { return };
    let attempt = frame.u32(key::ROUTE_ATTEMPT).unwrap_or_default();
    let own = core.circuits.find(&id).filter(|circuit| circuit.router == connection.router);
    let is_success = frame.is_set(key::ROUTE_SUCCESS);
    match own {
        Some(circuit) => drop(circuit.answered(attempt, frame)),
        None if is_success => connection.send(unroute(&id, true)),
        None => {}
    }
}

/// Counts a dial that was refused for lack of a right, for the history.
async fn count_refusal(core: &Core, circuit: &Circuit, failure: &Failure) {
    let Some(reason) = failure.reason.text() else { return };
    let (identity, service) = (Some(circuit.client.to_string()), Some(circuit.service.to_string()));
    let refused = Refused { what: DIAL, identity, address: None, service, reason };
    core.parts.refusals.note(&core.parts.rights.store, refused, core.parts.rights.clock.now()).await;
}
