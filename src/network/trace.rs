//! Trace routes: an SDK asks which node is a number of hops away on a circuit. The router is the first hop, the SDK at the other end the
//! second.

use std::sync::Arc;

use super::{
    channel::{Channel, Entry},
    circuit::CircuitSide,
    core::Core,
    message::{key, kind},
};
use crate::frame::{Builder, Frame};

/// Answers a trace route, or passes it on.
pub fn request(core: &Core, channel: &Channel, mut frame: Frame) {
    let Some((circuit, side)) = circuit_of(channel, &frame) else { return };
    let hops = frame.u32(key::TRACE_HOPS).unwrap_or_default().saturating_sub(1);
    let other = circuit.end(side.other()).filter(|_| hops > 0);
    let Some(other) = other else {
        let answer = Builder::reply(kind::TRACE_ROUTE_RESPONSE, &frame)
            .optional(key::CONNECTION, frame.header(key::CONNECTION))
            .optional(key::TRACE_TIME, frame.header(key::TRACE_TIME))
            .u32(key::TRACE_HOPS, hops)
            .text(key::TRACE_HOP_TYPE, "router")
            .text(key::TRACE_HOP_ID, core.parts.id.as_str());
        return channel.send(answer.empty());
    };
    let number = frame.sequence().cast_unsigned();
    frame.set_sequence(0);
    frame.put_u32(key::CONNECTION, other.connection);
    frame.put_u32(key::TRACE_HOPS, hops);
    frame.put_u32(key::TRACE_REQUEST, number);
    other.channel.send(frame);
}

/// Passes on the answer of the other end.
pub fn response(channel: &Channel, mut frame: Frame) {
    let Some((circuit, side)) = circuit_of(channel, &frame) else { return };
    let Some((end, number)) = circuit.end(side.other()).zip(frame.u32(key::TRACE_REQUEST)) else { return };
    frame.set_sequence(0);
    frame.put_u32(key::CONNECTION, end.connection);
    end.channel.send(frame.with_reply_for(number.cast_signed()));
}

fn circuit_of(channel: &Channel, frame: &Frame) -> Option<(Arc<super::circuit::Circuit>, CircuitSide)> {
    match frame.u32(key::CONNECTION).and_then(|connection| channel.entry(connection)) {
        Some(Entry::End(circuit, side)) if circuit.host().is_some() => Some((circuit, side)),
        _ => None,
    }
}
