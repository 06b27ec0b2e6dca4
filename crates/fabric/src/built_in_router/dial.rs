//! From a Connect to a circuit: checks, the choice of a host, and the Dial. What the host answers:
//! `dial_answer.rs`.
//!
//! Each Connect runs in its own task. The host's answer arrives at the reader of the host's
//! channel, which completes the circuit before it reads on, because data may follow directly.

use std::sync::Arc;

use model::entity::Id;
use policy::{authentication::DIAL, hosting::DialFault};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};
use wire::{
    frame::{Builder, Frame, key as common},
    sdk::{Retry, key, kind},
};

use super::{
    binding::Binding,
    channel::Channel,
    circuit::{Circuit, CircuitEnd, HostEnd},
    circuit_side::CircuitSide,
    connections::{ConnectionEntry, Connections, NotExpected},
    links::relay,
    message,
    pending_dial::PendingDial,
    requests::RequestGuard,
    router_core::RouterCore,
};
use crate::network::{
    self, DialAnswer, DialRequest, Grant, LocalDial, NewCircuit, PassedOn, RequestFailure,
    RouteFailure, Strategy, TO_CLIENT, TO_HOST,
};

/// The maximum bytes that a client passes on to a host with a Dial, and a host to a client with its
/// answer: application data, key and marker together. These messages are not subject to the limits
/// of the queue of the circuit.
const MAX_PASSED_ON: usize = 16 << 10;
/// The maximum number of unanswered Dials of one host.
const MAX_DIALS: usize = 1024;

/// Starts the task that handles a Connect.
pub(crate) fn connect(core: &Arc<RouterCore>, connections: &Connections, frame: Frame) {
    let channel = &connections.channel;
    let Some(connection) = frame.u32(key::CONNECTION) else {
        let failure = RequestFailure::internal("a Connect must carry a connection id");
        core.counters.dial_without_circuit(&failure);
        return channel.send(message::refused(&frame, 0, &failure));
    };
    let refuse = |failure: RequestFailure| {
        core.counters.dial_without_circuit(&failure);
        channel.send(message::refused(&frame, connection, &failure));
    };
    if let Some(failure) = core.refusal().or_else(|| too_much_passed_on(&frame)) {
        return refuse(failure);
    }
    let Some(request) = core.requests.begin(channel, &frame) else {
        return refuse(RequestFailure::busy(
            "too many dials and binds of the identity are in progress",
        ));
    };
    let queue = channel.outbox.open();
    let client = CircuitEnd::on_channel(channel.clone(), connection, queue);
    let mut circuit = Circuit::new(
        core.network.ids.circuit_id(),
        core.network.now(),
        client,
        frame.sequence(),
    );
    circuit.wants_sdk_flow_control = frame.is_set(key::SDK_FLOW_CONTROL);
    let circuit = Arc::new(circuit);
    if !connections.enter(
        connection,
        ConnectionEntry::End(circuit.clone(), CircuitSide::Client),
    ) {
        channel.outbox.discard(queue);
        return refuse(RequestFailure::internal(format!(
            "connection id {connection} is in use"
        )));
    }
    tokio::spawn(run(core.clone(), circuit, channel.clone(), frame, request));
}

/// The failure of a Connect or of a host's answer that passes on too many bytes; `None` if they are
/// within the limit.
pub(crate) fn too_much_passed_on(frame: &Frame) -> Option<RequestFailure> {
    let bytes: usize = TO_HOST
        .iter()
        .filter_map(|key| frame.header(*key))
        .map(<[u8]>::len)
        .sum();
    let text = || {
        format!(
            "application data, key and marker have {bytes} bytes; at most {MAX_PASSED_ON} are passed on"
        )
    };
    (bytes > MAX_PASSED_ON).then(|| RequestFailure::new(1, Retry::Never, text()))
}

async fn run(
    core: Arc<RouterCore>,
    circuit: Arc<Circuit>,
    channel: Arc<Channel>,
    frame: Frame,
    request: RequestGuard,
) {
    let outcome = establish(&core, &circuit, &channel, &frame).await;
    if let Err(failure) = &outcome {
        let identity = &channel.login.identity;
        tracing::debug!(circuit = %circuit.id, %identity, reason = %failure.text, "dial failed");
        core.counters.dial_without_circuit(failure);
        core.fail_circuit(&circuit, failure);
    }
    drop(request);
    if let Err(failure) = outcome {
        core.note_refusal(
            DIAL,
            &channel,
            circuit.known().map(|known| &known.service),
            &failure,
        )
        .await;
    }
}

async fn establish(
    core: &Arc<RouterCore>,
    circuit: &Arc<Circuit>,
    channel: &Channel,
    frame: &Frame,
) -> Result<(), RequestFailure> {
    let session = core.session_of(channel, frame.body()).await?;
    let known = Arc::new(network::Circuit::new(NewCircuit {
        id: circuit.id.clone(),
        router: core.context.id.to_string(),
        session,
        api_session: channel.login.api_session.clone(),
        token: channel.login.token.clone(),
    }));
    circuit.set_known(known.clone());
    core.registry.add_circuit(circuit)?;
    // An id that is no text is that of no host.
    let instance = String::from_utf8_lossy(frame.header(key::INSTANCE).unwrap_or_default());
    let request = DialRequest {
        instance: &instance,
        sticky: frame.header(key::STICKINESS),
        passed_on: passed_on(frame),
        adds_caller: true,
        is_wanted: &|| !circuit.is_closed(),
        answer: &|_, opened| answer_over_link(core, circuit, opened),
    };
    network::connect_circuit(&core.network, &known, &request)
        .await
        .map_err(|failed| failed.failure)
}

/// What a client passes on to its host.
fn passed_on(frame: &Frame) -> PassedOn {
    TO_HOST
        .into_iter()
        .filter_map(|key| Some((u32::try_from(key).ok()?, frame.header(key)?.to_vec())))
        .collect()
}

fn of_key(passed_on: &PassedOn, key: i32) -> Option<&Vec<u8>> {
    passed_on
        .iter()
        .find(|(known, _)| i32::try_from(*known) == Ok(key))
        .map(|(_, value)| value)
}

/// Completes a circuit whose host is at another router, and queues the answer to its client.
/// Returns false if the circuit or its link has ended.
fn answer_over_link(
    core: &Arc<RouterCore>,
    circuit: &Arc<Circuit>,
    opened: &DialAnswer<'_>,
) -> bool {
    let Some(endpoint) = core.endpoints.find(&circuit.id) else {
        return false;
    };
    let client = &circuit.client;
    let connected = Builder::new(kind::STATE_CONNECTED)
        .i32(common::REPLY_FOR, circuit.request)
        .u32(key::CONNECTION, client.connection())
        .text(key::CIRCUIT, &circuit.id)
        .optional(key::STICKINESS, opened.sticky.map(Id::as_str));
    let connected = TO_CLIENT.iter().fold(connected, |builder, key| {
        builder.optional(*key, of_key(opened.passed_on, *key))
    });
    let host_end = HostEnd {
        end: CircuitEnd::over_link(endpoint.outbox.clone()),
        binding: None,
        has_sdk_flow_control: false,
    };
    let established = circuit.establish(host_end, || client.push(connected.empty()));
    if established.is_err() {
        core.endpoints.remove(&endpoint.circuit, &endpoint);
        return false;
    }
    core.counters.circuits_opened.increment();
    relay::start(core, circuit, endpoint);
    true
}

/// Connects a client with a host at this router.
///
/// # Errors
/// The circuit has ended, or the host cannot be reached.
pub(crate) async fn dial_host_here(
    core: &Arc<RouterCore>,
    wanted: LocalDial<'_>,
) -> Result<(), RouteFailure> {
    let LocalDial {
        circuit,
        grant,
        host,
        passed_on,
    } = wanted;
    let known = circuit;
    let ended = || {
        // Its end may still be on the way to the network, which must not count it against the host.
        core.network
            .end_circuit(known, false, "an end has closed it");
        RouteFailure::of_path(RequestFailure::circuit_ended())
    };
    let circuit = core.registry.circuit(&known.id).ok_or_else(ended)?;
    let binding = core
        .registry
        .binding(host.id().as_str())
        .filter(|binding| Arc::ptr_eq(&binding.terminator, host))
        .ok_or_else(|| RouteFailure::of_host(host_left()))?;
    dial_host(core, &circuit, passed_on, grant, &binding)
        .await
        .map(drop)
        .map_err(|failure| match circuit.is_closed() {
            true => ended(),
            false => RouteFailure::of_host(failure),
        })
}

fn host_left() -> RequestFailure {
    RequestFailure::internal("the host has left").because(DialFault::Left)
}

/// Dials a host and waits for its answer. Returns what the host passes on to the client, which is
/// told so if it is at this router.
///
/// # Errors
/// The host does not take the circuit, or the circuit has ended.
pub(crate) async fn dial_host(
    core: &Arc<RouterCore>,
    circuit: &Arc<Circuit>,
    passed_on: &PassedOn,
    grant: &Grant,
    binding: &Arc<Binding>,
) -> Result<PassedOn, RequestFailure> {
    let host = binding.channel();
    let connections = core.connections(host).ok_or_else(host_left)?;
    let connection = match binding.request.gives_ids {
        true => Some(
            connections
                .enter_ours(ConnectionEntry::End(circuit.clone(), CircuitSide::Host))
                .ok_or_else(host_left)?,
        ),
        false => None,
    };
    let (queue, sequence) = (host.outbox.open(), host.next_sequence());
    let (done, mut answer) = oneshot::channel();
    let has_sdk_flow_control =
        binding.request.wants_sdk_flow_control && circuit.wants_sdk_flow_control;
    let dialing = PendingDial {
        circuit: circuit.clone(),
        binding: binding.clone(),
        connection,
        queue,
        needs_key: grant.service.spec.encryption_required,
        is_sticky: Strategy::named(&grant.service.spec.terminator_strategy) == Strategy::Sticky,
        has_sdk_flow_control,
        done,
    };
    let give_up = |failure| {
        if let Some(connection) = connection {
            connections.forget_circuit(connection, circuit);
        }
        host.outbox.discard(queue);
        Err(failure)
    };
    match connections.expect(sequence, dialing, MAX_DIALS) {
        Ok(()) => {}
        Err(NotExpected::Closed) => return give_up(host_left()),
        Err(NotExpected::TooMany) => {
            return give_up(
                RequestFailure::busy("the host has too many dials to answer")
                    .because(DialFault::Busy),
            );
        }
    }
    let mut message = request(
        core,
        circuit,
        passed_on,
        grant,
        binding,
        connection,
        has_sdk_flow_control,
    );
    message.set_sequence(sequence);
    let end = Instant::now() + core.times.dial;
    let sent = tokio::select! {
        sent = timeout_at(end, host.outbox.control_with_room(message)) => sent.unwrap_or(false),
        () = circuit.closed() => false,
    };
    if !sent {
        drop(connections.take_dial(sequence));
        return give_up(RequestFailure::busy("the host does not read").because(DialFault::Timeout));
    }
    let waited = tokio::select! {
        answer = timeout_at(end, &mut answer) => answer.ok(),
        () = circuit.closed() => None,
    };
    match waited {
        // The task that answered has also cleaned up.
        Some(Ok(answer)) => answer,
        Some(Err(_)) => give_up(host_left()),
        None => match connections.take_dial(sequence) {
            Some(_) => give_up(
                RequestFailure::internal("the host did not answer in time")
                    .because(DialFault::Timeout),
            ),
            // The answer is being processed at this moment.
            None => answer.await.unwrap_or_else(|_| give_up(host_left())),
        },
    }
}

/// The Dial message for a host.
fn request(
    core: &RouterCore,
    circuit: &Circuit,
    passed_on: &PassedOn,
    grant: &Grant,
    binding: &Binding,
    connection: Option<u32>,
    has_sdk_flow_control: bool,
) -> Frame {
    let caller = &grant.identity;
    let builder = Builder::new(kind::DIAL)
        .u32(key::CONNECTION, binding.request.connection)
        .text(key::CALLER, &caller.spec.name)
        .text(key::CIRCUIT, &circuit.id)
        .text(key::DIALER_ID, caller.id.as_str())
        .text(key::DIALER_NAME, &caller.spec.name)
        .optional(key::ROUTER_CONNECTION, connection.map(u32::to_le_bytes));
    let builder = TO_HOST.iter().fold(builder, |builder, key| {
        builder.optional(*key, of_key(passed_on, *key))
    });
    let builder = if has_sdk_flow_control {
        with_flow_control(builder, core, circuit)
    } else {
        builder
    };
    builder.body(&binding.request.token)
}

/// Adds the headers that tell an SDK that both ends perform flow control.
pub(crate) fn with_flow_control(builder: Builder, core: &RouterCore, circuit: &Circuit) -> Builder {
    let router = core.context.id.as_str();
    builder
        .flag(key::SDK_FLOW_CONTROL, true)
        .text(key::CONTROLLER, router)
        .text(key::ADDRESS, &circuit.id)
}
