//! Trace routes: an SDK asks which node is a number of hops away on a circuit. The router is the
//! first hop, the SDK at the other end the second. Messages for the other end wait in the queue of
//! the circuit, like data, so that they cannot overtake the data of other clients.

use std::sync::Arc;

use wire::{
    frame::{Builder, Frame},
    sdk::{key, kind},
};

use super::{
    circuit::Circuit,
    circuit_side::CircuitSide,
    connections::{ConnectionEntry, Connections},
    router_core::RouterCore,
};

/// A message to be relayed to the other end of a circuit, and the side it comes from.
pub(crate) type Relayed = (Frame, Arc<Circuit>, CircuitSide);

/// Answers a trace route, or returns it for the other end.
pub(crate) fn request(
    core: &RouterCore,
    connections: &Connections,
    mut frame: Frame,
) -> Option<Relayed> {
    let (circuit, side) = circuit_of(connections, &frame)?;
    let hops = frame
        .u32(key::TRACE_HOPS)
        .unwrap_or_default()
        .saturating_sub(1);
    if hops == 0 || circuit.end(side.other()).is_none() {
        let answer = Builder::reply(kind::TRACE_ROUTE_RESPONSE, &frame)
            .optional(key::CONNECTION, frame.header(key::CONNECTION))
            .optional(key::TRACE_TIME, frame.header(key::TRACE_TIME))
            .u32(key::TRACE_HOPS, hops)
            .text(key::TRACE_HOP_TYPE, "router")
            .text(key::TRACE_HOP_ID, core.context.id.as_str());
        connections.channel.send(answer.empty());
        return None;
    }
    let number = frame.sequence().cast_unsigned();
    frame.put_u32(key::TRACE_HOPS, hops);
    frame.put_u32(key::TRACE_REQUEST, number);
    circuit.traces.asked(side, number);
    Some((frame, circuit, side))
}

/// Turns the answer of the other end into the answer for the end that asked; `None` if it has not
/// asked.
pub(crate) fn response(connections: &Connections, frame: Frame) -> Option<Relayed> {
    let (circuit, side) = circuit_of(connections, &frame)?;
    let number = frame
        .u32(key::TRACE_REQUEST)
        .filter(|number| circuit.traces.answered(side.other(), *number))?;
    Some((frame.with_reply_for(number.cast_signed()), circuit, side))
}

fn circuit_of(connections: &Connections, frame: &Frame) -> Option<(Arc<Circuit>, CircuitSide)> {
    match frame
        .u32(key::CONNECTION)
        .and_then(|connection| connections.entry(connection))
    {
        Some(ConnectionEntry::End(circuit, side)) if circuit.host().is_some() => {
            Some((circuit, side))
        }
        _ => None,
    }
}
