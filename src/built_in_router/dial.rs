//! From a Connect to a circuit: checks, the choice of a host, the Dial and its answer.
//!
//! Each Connect runs in its own task. The host's answer arrives at the reader of the host's
//! channel, which completes the circuit before it reads on, because data may follow directly.

use std::sync::Arc;

use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};
use wire::{
    frame::{Builder, Frame, key as common},
    sdk::{self, Retry, key, kind},
};

use super::{
    binding::Binding,
    channel::{Channel, ConnectionEntry},
    circuit::{Circuit, CircuitBasis, CircuitEnd, HostEnd},
    circuit_side::CircuitSide,
    core::RouterCore,
    links::relay,
    message,
    passed_on::{TO_CLIENT, TO_HOST},
    pending_dial::PendingDial,
    remote_routers::RemoteDial,
    requests::RequestGuard,
};
use crate::{
    access::Right,
    authentication::DIAL,
    entity::{Record, Session},
    fabric::{Grant, LiveTerminator, RequestFailure, Strategy, choose},
    hosting::{DialFault, HostKey},
};

/// The maximum bytes that a client passes on to a host with a Dial, and a host to a client with its
/// answer: application data, key and marker together. These messages are not subject to the limits
/// of the queue of the circuit.
const MAX_PASSED_ON: usize = 16 << 10;
/// The maximum number of unanswered Dials of one host.
const MAX_DIALS: usize = 1024;
/// The number of hosts tried for one Connect.
const ATTEMPTS: usize = 2;

/// Starts the task that handles a Connect.
pub(crate) fn connect(core: &Arc<RouterCore>, channel: &Arc<Channel>, frame: Frame) {
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
    let client = CircuitEnd {
        channel: channel.clone(),
        connection,
        queue,
    };
    let circuit = Arc::new(Circuit::new(
        core.network.ids.circuit_id(),
        core.network.now(),
        client,
        frame.sequence(),
    ));
    if !channel.enter(
        connection,
        ConnectionEntry::End(circuit.clone(), CircuitSide::Client),
    ) {
        channel.outbox.discard(queue);
        return refuse(RequestFailure::internal(format!(
            "connection id {connection} is in use"
        )));
    }
    tokio::spawn(run(core.clone(), circuit, frame, request));
}

/// The failure of a Connect or of a host's answer that passes on too many bytes; `None` if they are
/// within the limit.
fn too_much_passed_on(frame: &Frame) -> Option<RequestFailure> {
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

async fn run(core: Arc<RouterCore>, circuit: Arc<Circuit>, frame: Frame, request: RequestGuard) {
    let outcome = establish(&core, &circuit, &frame).await;
    if let Err(failure) = &outcome {
        let identity = &circuit.client.channel.identity;
        tracing::debug!(circuit = %circuit.id, %identity, reason = %failure.text, "dial failed");
        core.counters.dial_without_circuit(failure);
        core.fail_circuit(&circuit, failure);
    }
    drop(request);
    if let Err(failure) = outcome {
        core.note_refusal(
            DIAL,
            &circuit.client.channel,
            circuit.basis().map(|basis| &basis.service),
            &failure,
        )
        .await;
    }
}

async fn establish(
    core: &Arc<RouterCore>,
    circuit: &Arc<Circuit>,
    frame: &Frame,
) -> Result<(), RequestFailure> {
    let channel = &circuit.client.channel;
    let session = core.session_of(channel, frame.body()).await?;
    circuit.set_basis(CircuitBasis {
        session: session.id.clone(),
        service: session.spec.service_id.clone(),
    });
    // From here on the review of a change finds the circuit. The check covers changes before this
    // point.
    let permit = core.network.circuit_quota.take(&channel.identity)?;
    core.registry.add_circuit(circuit, Some(permit))?;
    let grant = core.check(channel, &session, Right::Dial)?;
    if grant.service.spec.encryption_required && frame.header(key::PUBLIC_KEY).is_none() {
        return Err(RequestFailure::encryption(
            "encryption required on service, initiator did not send public header",
        ));
    }
    let (mut tried, mut last) = (Vec::new(), None);
    for _ in 0..ATTEMPTS {
        let Some(chosen) = choose_host(core, &grant, frame, &tried) else {
            break;
        };
        let outcome = match &chosen {
            Chosen::Here(host) => match core.registry.binding(host.id().as_str()) {
                Some(binding) => dial(core, circuit, frame, &grant, &binding).await,
                None => Err(host_left()),
            },
            Chosen::Remote(terminator) => {
                dial_remote(
                    core,
                    circuit,
                    frame,
                    &grant,
                    (&session, terminator.as_deref()),
                )
                .await
            }
        };
        match outcome {
            Ok(()) => return Ok(()),
            Err(failure) => last = Some(failure),
        }
        if circuit.is_closed() {
            break;
        }
        if let (Chosen::Here(host), Some(failure)) = (&chosen, &last) {
            host.load.dial_failed();
            core.network.show_cost(host);
            core.note_failed_dial(host, failure);
        }
        tried.push(chosen);
    }
    Err(last.unwrap_or_else(|| {
        let failure = no_terminators(&grant, frame);
        if frame.text(key::INSTANCE).is_none_or(str::is_empty) {
            core.network.hosting.dial_failed(
                grant.service.id.as_str(),
                None,
                core.context.id.as_str(),
                failure.fault,
                &failure.text,
            );
        } else {
            // The client has named an instance that may never have existed.
            core.network.hosting.count_failure(failure.fault);
        }
        failure
    }))
}

impl RouterCore {
    /// Records that a host was not reached.
    fn note_failed_dial(&self, host: &LiveTerminator, failure: &RequestFailure) {
        let key = HostKey::Identity(host.hosted.identity.as_str().into());
        self.network.hosting.dial_failed(
            host.hosted.service.as_str(),
            Some(key),
            self.context.id.as_str(),
            failure.fault,
            &failure.text,
        );
    }
}

fn no_terminators(grant: &Grant, frame: &Frame) -> RequestFailure {
    let service = &grant.service.id;
    RequestFailure::internal(
        match frame
            .text(key::INSTANCE)
            .filter(|instance| !instance.is_empty())
        {
            Some(instance) => {
                format!("service {service} has no terminators for instanceId {instance}")
            }
            None => format!("service {service} has no terminators"),
        },
    )
    .because(DialFault::NoHost)
}

/// A host to dial.
enum Chosen {
    Here(Arc<LiveTerminator>),
    /// At another router: a terminator. Without one the control channel says why there is none.
    Remote(Option<String>),
}

/// The host to dial next.
fn choose_host(
    core: &RouterCore,
    grant: &Grant,
    frame: &Frame,
    tried: &[Chosen],
) -> Option<Chosen> {
    let wanted = frame.header(key::INSTANCE).unwrap_or_default();
    let was_tried = |host: &Arc<LiveTerminator>| {
        tried
            .iter()
            .any(|tried| matches!(tried, Chosen::Here(tried) if Arc::ptr_eq(tried, host)))
    };
    let mut here = core
        .network
        .terminators
        .of_service(grant.service.id.as_str());
    here.retain(|host| {
        host.is_open()
            && host.hosted.router == core.context.id.as_str()
            && host.hosted.instance.as_bytes() == wanted
            && !was_tried(host)
    });
    let remote = core
        .remote_routers
        .get()
        .filter(|remote| remote.has_routers());
    let remote = remote.filter(|_| !tried.iter().any(|tried| matches!(tried, Chosen::Remote(_))));
    let wanted = std::str::from_utf8(wanted).unwrap_or_default();
    let others = remote
        .map(|remote| remote.hosts(grant.service.id.as_str(), wanted))
        .unwrap_or_default();
    if here.is_empty() && others.is_empty() {
        return remote
            .filter(|_| tried.is_empty())
            .map(|_| Chosen::Remote(None));
    }
    let weights: Vec<_> = here
        .iter()
        .map(|host| host.weight())
        .chain(others.iter().map(|(_, weight)| *weight))
        .collect();
    let mut ids = here
        .iter()
        .map(|host| host.id().as_str())
        .chain(others.iter().map(|(id, _)| id.as_str()));
    let sticky = frame.header(key::STICKINESS);
    let sticky = ids.position(|id| Some(id.as_bytes()) == sticky);
    let chosen = choose(
        Strategy::named(&grant.service.spec.terminator_strategy),
        &weights,
        sticky,
        core.random(),
    )?;
    Some(match chosen.checked_sub(here.len()) {
        Some(remote) => Chosen::Remote(others.into_iter().nth(remote).map(|(id, _)| id)),
        None => Chosen::Here(here.swap_remove(chosen)),
    })
}

/// Dials a host at another router.
async fn dial_remote(
    core: &Arc<RouterCore>,
    circuit: &Arc<Circuit>,
    frame: &Frame,
    grant: &Grant,
    (session, terminator): (&Record<Session>, Option<&str>),
) -> Result<(), RequestFailure> {
    let ended = || RequestFailure::access_denied("the circuit has ended in the meantime");
    let remote = core.remote_routers.get().ok_or_else(ended)?;
    let client = &circuit.client;
    let passed_on = TO_HOST
        .into_iter()
        .filter_map(|key| Some((key, frame.header(key)?)));
    let numbered = |(key, value): (i32, &[u8])| Some((u32::try_from(key).ok()?, value.to_vec()));
    let dial = RemoteDial {
        circuit: circuit.id.to_string(),
        session: session.clone(),
        api_session: client.channel.api_session.clone(),
        instance: frame.text(key::INSTANCE).unwrap_or_default().to_owned(),
        terminator: terminator.map(str::to_owned),
        sticky: frame.header(key::STICKINESS).map(<[u8]>::to_vec),
        peer_data: passed_on
            .chain([(key::CALLER, grant.identity.spec.name.as_bytes())])
            .filter_map(numbered)
            .collect(),
    };
    let answer = tokio::select! {
        answer = remote.dial(dial) => answer?,
        () = circuit.closed() => {
            remote.circuit_ended(&circuit.id, false);
            return Err(ended());
        }
    };
    let endpoint = core.endpoints.find(&circuit.id).ok_or_else(ended)?;
    let of_key = |key: i32| {
        answer
            .iter()
            .find(|(known, _)| i32::try_from(*known) == Ok(key))
            .map(|(_, value)| value)
    };
    let connected = Builder::new(kind::STATE_CONNECTED)
        .i32(common::REPLY_FOR, circuit.request)
        .u32(key::CONNECTION, client.connection)
        .text(key::CIRCUIT, &circuit.id)
        .optional(key::STICKINESS, of_key(key::STICKINESS));
    let connected = TO_CLIENT.iter().fold(connected, |builder, key| {
        builder.optional(*key, of_key(*key))
    });
    let end = CircuitEnd {
        channel: endpoint.channel.clone(),
        connection: 0,
        queue: endpoint.channel.outbox.open(),
    };
    let host_end = HostEnd {
        end,
        binding: None,
        has_sdk_flow_control: false,
    };
    let established = core.registry.establish(circuit, host_end, || {
        client.channel.outbox.push(client.queue, connected.empty())
    });
    if established.is_err() {
        core.endpoints.remove(&endpoint.circuit, &endpoint);
        remote.circuit_ended(&circuit.id, false);
        return Err(ended());
    }
    core.counters.circuits_opened.increment();
    relay::start(core, circuit, endpoint, (Vec::new(), 0));
    Ok(())
}

fn host_left() -> RequestFailure {
    RequestFailure::internal("the host has left").because(DialFault::Left)
}

/// Dials a host and waits for its answer.
pub(crate) async fn dial(
    core: &Arc<RouterCore>,
    circuit: &Arc<Circuit>,
    frame: &Frame,
    grant: &Grant,
    binding: &Arc<Binding>,
) -> Result<(), RequestFailure> {
    let host = binding.channel();
    let connection = match binding.request.gives_ids {
        true => Some(
            host.enter_ours(ConnectionEntry::End(circuit.clone(), CircuitSide::Host))
                .ok_or_else(host_left)?,
        ),
        false => None,
    };
    let (queue, sequence) = (host.outbox.open(), host.next_sequence());
    let (done, mut answer) = oneshot::channel();
    let has_sdk_flow_control =
        binding.request.wants_sdk_flow_control && frame.is_set(key::SDK_FLOW_CONTROL);
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
        connection
            .iter()
            .for_each(|connection| host.forget_circuit(*connection, circuit));
        host.outbox.discard(queue);
        Err(failure)
    };
    if !host.expect(sequence, dialing, MAX_DIALS) {
        return give_up(
            RequestFailure::busy("the host has too many dials to answer").because(DialFault::Busy),
        );
    }
    let mut message = request(
        core,
        circuit,
        frame,
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
        drop(host.answered(sequence));
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
        None => match host.answered(sequence) {
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
    frame: &Frame,
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
        builder.optional(*key, frame.header(*key))
    });
    let builder = if has_sdk_flow_control {
        with_flow_control(builder, core, circuit)
    } else {
        builder
    };
    builder.body(&binding.request.token)
}

/// Adds the headers that tell an SDK that both ends perform flow control.
fn with_flow_control(builder: Builder, core: &RouterCore, circuit: &Circuit) -> Builder {
    let router = core.context.id.as_str();
    builder
        .flag(key::SDK_FLOW_CONTROL, true)
        .text(key::CONTROLLER, router)
        .text(key::ADDRESS, &circuit.id)
}

/// Handles a host's DialSuccess.
pub(crate) fn succeeded(core: &RouterCore, host: &Arc<Channel>, frame: &Frame) {
    let given = frame.body().first_chunk().map(|id| u32::from_le_bytes(*id));
    let Some(dialing) = frame
        .reply_for()
        .and_then(|sequence| host.answered(sequence))
    else {
        // The Dial was given up. The host must not keep its connection open.
        if let Some(given) = given.filter(|given| host.entry(*given).is_none()) {
            host.send(sdk::ended(given, "the dial had timed out"));
        }
        return;
    };
    let connection = dialing.connection.or(given);
    let outcome = accept(core, host, &dialing, given, frame);
    if let Err(failure) = &outcome {
        host.outbox.discard(dialing.queue);
        if let Some(connection) = connection {
            host.forget_circuit(connection, &dialing.circuit);
            host.send(message::closed(connection, failure));
        }
    }
    drop(dialing.done.send(outcome));
}

fn accept(
    core: &RouterCore,
    host: &Arc<Channel>,
    dialing: &PendingDial,
    given: Option<u32>,
    frame: &Frame,
) -> Result<(), RequestFailure> {
    let PendingDial {
        circuit,
        binding,
        queue,
        has_sdk_flow_control,
        ..
    } = dialing;
    let host_key = frame.header(key::PUBLIC_KEY).or(binding.public_key());
    if dialing.needs_key && host_key.is_none() {
        let failure = RequestFailure::encryption(
            "encryption required on service, terminator did not send public header",
        );
        return Err(failure.because(DialFault::Encryption));
    }
    if let Some(failure) = too_much_passed_on(frame) {
        return Err(failure);
    }
    let connection = match (dialing.connection, given) {
        (Some(ours), given) if given.is_none_or(|given| given == ours) => ours,
        (None, Some(given))
            if host.enter(
                given,
                ConnectionEntry::End(circuit.clone(), CircuitSide::Host),
            ) =>
        {
            given
        }
        _ => {
            return Err(RequestFailure::internal(
                "the host answered with a connection id that it cannot use",
            ));
        }
    };
    let end = CircuitEnd {
        channel: host.clone(),
        connection,
        queue: *queue,
    };
    let host_end = HostEnd {
        end,
        binding: Some(binding.clone()),
        has_sdk_flow_control: *has_sdk_flow_control,
    };
    let client = &circuit.client;
    let answer = Builder::new(kind::STATE_CONNECTED)
        .i32(common::REPLY_FOR, circuit.request)
        .u32(key::CONNECTION, client.connection)
        .text(key::CIRCUIT, &circuit.id)
        .optional(key::PUBLIC_KEY, host_key)
        .optional(
            key::STICKINESS,
            dialing.is_sticky.then(|| binding.id().as_str()),
        );
    let answer = if *has_sdk_flow_control {
        with_flow_control(answer, core, circuit)
    } else {
        answer
    };
    let answer_both = || {
        if dialing.connection.is_none() {
            host.send(sdk::connected(frame, binding.request.connection).empty());
        }
        client.channel.outbox.push(client.queue, answer.empty());
    };
    let ended = |_| RequestFailure::access_denied("the circuit has ended in the meantime");
    core.registry
        .establish(circuit, host_end, answer_both)
        .map_err(ended)?;
    core.counters.circuits_opened.increment();
    binding.terminator.load.dial_succeeded();
    core.network.show_cost(&binding.terminator);
    core.network.hosting.dial_succeeded(
        binding.terminator.hosted.service.as_str(),
        &HostKey::Identity(binding.terminator.hosted.identity.as_str().into()),
    );
    tracing::debug!(circuit = %circuit.id, client = %client.channel.identity, host = %host.identity, service = %binding.terminator.hosted.service, "circuit");
    Ok(())
}

/// Handles a host's DialFailed.
pub(crate) fn failed(host: &Arc<Channel>, frame: &Frame) {
    let Some(dialing) = frame
        .reply_for()
        .and_then(|sequence| host.answered(sequence))
    else {
        return;
    };
    dialing.fail(host, &String::from_utf8_lossy(frame.body()));
}
