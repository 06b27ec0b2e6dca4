//! Trace routes over links: an SDK asks which node is a number of hops away on its circuit. Each
//! router of the path is a hop, and the SDK at the other end is the last one.

use wire::{
    frame::{Builder, Frame},
    link::{key, kind},
    sdk::{key as sdk, kind as sdk_kind},
};

use crate::built_in_router::asked_traces::{ANSWER, REQUEST};

/// The message for a link made from a trace route of an SDK or its answer; `None` for other
/// messages.
pub(crate) fn to_link(circuit: &str, frame: &Frame) -> Option<Frame> {
    let (purpose, request) = match frame.content_type() {
        sdk_kind::TRACE_ROUTE => (REQUEST, frame.u32(sdk::TRACE_REQUEST)),
        sdk_kind::TRACE_ROUTE_RESPONSE => (ANSWER, frame.reply_for().map(i32::cast_unsigned)),
        _ => return None,
    };
    let builder = Builder::new(kind::CONTROL)
        .u32(
            key::TRACE_HOPS,
            frame.u32(sdk::TRACE_HOPS).unwrap_or_default(),
        )
        .optional(key::TRACE_TIME, frame.header(sdk::TRACE_TIME))
        .optional(key::TRACE_HOP_TYPE, frame.header(sdk::TRACE_HOP_TYPE))
        .optional(key::TRACE_HOP_ID, frame.header(sdk::TRACE_HOP_ID))
        .u32(key::TRACE_REQUEST, request?);
    Some(builder.body(&body(purpose, circuit)))
}

/// The message for the SDK at this router made from one that has arrived over a link; `None` if it
/// is no trace route.
pub(crate) fn to_sdk(connection: u32, frame: &Frame) -> Option<Frame> {
    let (hops, request) = (frame.u32(key::TRACE_HOPS)?, frame.u32(key::TRACE_REQUEST)?);
    let with_hops = |kind| {
        let builder = Builder::new(kind)
            .u32(sdk::CONNECTION, connection)
            .u32(sdk::TRACE_HOPS, hops);
        builder.optional(sdk::TRACE_TIME, frame.header(key::TRACE_TIME))
    };
    match *frame.body().first()? {
        REQUEST => Some(
            with_hops(sdk_kind::TRACE_ROUTE)
                .u32(sdk::TRACE_REQUEST, request)
                .empty(),
        ),
        ANSWER => {
            let builder = with_hops(sdk_kind::TRACE_ROUTE_RESPONSE)
                .optional(sdk::TRACE_HOP_TYPE, frame.header(key::TRACE_HOP_TYPE))
                .optional(sdk::TRACE_HOP_ID, frame.header(key::TRACE_HOP_ID))
                .optional(sdk::TRACE_ERROR, frame.header(key::TRACE_ERROR));
            Some(builder.empty().with_reply_for(request.cast_signed()))
        }
        _ => None,
    }
}

/// Counts this router as a hop. Returns the answer if it is the last one, whose type is `hop_type`.
pub(crate) fn count_hop(frame: &mut Frame, hop_type: &str, router: &str) -> Option<Frame> {
    let (&REQUEST, circuit) = frame.body().split_first()? else {
        return None;
    };
    let hops = frame
        .u32(key::TRACE_HOPS)
        .unwrap_or_default()
        .saturating_sub(1);
    if hops > 0 {
        frame.put_u32(key::TRACE_HOPS, hops);
        return None;
    }
    let circuit = std::str::from_utf8(circuit).ok()?;
    let builder = Builder::new(kind::CONTROL)
        .u32(key::TRACE_HOPS, 0)
        .optional(key::TRACE_TIME, frame.header(key::TRACE_TIME))
        .text(key::TRACE_HOP_TYPE, hop_type)
        .text(key::TRACE_HOP_ID, router)
        .optional(key::TRACE_REQUEST, frame.header(key::TRACE_REQUEST));
    Some(builder.body(&body(ANSWER, circuit)))
}

fn body(purpose: u8, circuit: &str) -> Vec<u8> {
    [&[purpose], circuit.as_bytes()].concat()
}
