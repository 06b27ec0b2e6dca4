//! The answer of a host to a Dial, which the reader of its channel handles: the circuit is
//! completed before more is read, because data may follow directly.

use policy::hosting::DialFault;
use wire::{
    frame::{Builder, Frame, key as common},
    sdk::{self, key, kind},
};

use super::{
    circuit::{CircuitEnd, HostEnd},
    circuit_side::CircuitSide,
    connections::{ConnectionEntry, Connections},
    dial::{too_much_passed_on, with_flow_control},
    message,
    pending_dial::PendingDial,
    router_core::RouterCore,
};
use crate::network::{Established, PassedOn, RequestFailure};

/// Handles a host's DialSuccess.
pub(crate) fn succeeded(core: &RouterCore, connections: &Connections, frame: &Frame) {
    let host = &connections.channel;
    let given = frame.body().first_chunk().map(|id| u32::from_le_bytes(*id));
    let Some(dialing) = frame
        .reply_for()
        .and_then(|sequence| connections.take_dial(sequence))
    else {
        // The Dial was given up. The host must not keep its connection open.
        if let Some(given) = given.filter(|given| connections.entry(*given).is_none()) {
            host.send(sdk::ended(given, "the dial had timed out"));
        }
        return;
    };
    let connection = dialing.connection.or(given);
    let outcome = accept(core, connections, &dialing, given, frame);
    if let Err(failure) = &outcome {
        host.outbox.discard(dialing.queue);
        if let Some(connection) = connection {
            connections.forget_circuit(connection, &dialing.circuit);
            host.send(message::closed(connection, failure));
        }
    }
    drop(dialing.done.send(outcome));
}

fn accept(
    core: &RouterCore,
    connections: &Connections,
    dialing: &PendingDial,
    given: Option<u32>,
    frame: &Frame,
) -> Result<PassedOn, RequestFailure> {
    let PendingDial {
        circuit,
        binding,
        queue,
        has_sdk_flow_control,
        ..
    } = dialing;
    let host = &connections.channel;
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
            if connections.enter(
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
    let host_end = HostEnd {
        end: CircuitEnd::on_channel(host.clone(), connection, *queue),
        binding: Some(binding.clone()),
        has_sdk_flow_control: *has_sdk_flow_control,
    };
    let client = &circuit.client;
    let answer = Builder::new(kind::STATE_CONNECTED)
        .i32(common::REPLY_FOR, circuit.request)
        .u32(key::CONNECTION, client.connection())
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
        if client.channel().is_some() {
            client.push(answer.empty());
        }
    };
    let establish = || circuit.establish(host_end, answer_both).is_ok();
    let terminator = &binding.terminator;
    let is_open = match circuit.known() {
        Some(known) => {
            let end = Established {
                since: circuit.since,
                terminator: terminator.id().clone(),
                host: Some(terminator.clone()),
            };
            core.network.circuits.establish(known, end, establish)
        }
        // The network knows it from its client's router, which has not answered yet.
        None => !terminator.is_ended() && establish(),
    };
    if !is_open {
        return Err(RequestFailure::circuit_ended());
    }
    core.counters.circuits_opened.increment();
    // A channel that another thread ends at this moment has left out circuits without a host end.
    if connections.is_closed() {
        core.end_circuit(circuit, Some(CircuitSide::Host), |connection| {
            sdk::ended(connection, "the host has left")
        });
    }
    let host_key = host_key.map(<[u8]>::to_vec);
    Ok(u32::try_from(key::PUBLIC_KEY)
        .ok()
        .zip(host_key)
        .into_iter()
        .collect())
}

/// Handles a host's DialFailed.
pub(crate) fn failed(connections: &Connections, frame: &Frame) {
    let Some(dialing) = frame
        .reply_for()
        .and_then(|sequence| connections.take_dial(sequence))
    else {
        return;
    };
    connections.fail_dial(dialing, &String::from_utf8_lossy(frame.body()));
}
