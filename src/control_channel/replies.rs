//! Messages that several files send, and decoding of bodies.

use prost::Message;

use super::{
    connection::RouterConnection,
    message::{content, edge, fabric, key},
};
use crate::frame::{Builder, Frame, content as common, key as common_key};

/// The generic answer.
pub(crate) fn result(to: &Frame, is_success: bool, text: &str) -> Frame {
    Builder::reply(common::RESULT, to).flag(common_key::SUCCESS, is_success).body(text.as_bytes())
}

/// Decodes the body of a message. A body that cannot be decoded is logged and ignored.
pub(crate) fn body<M: Message + Default>(connection: &RouterConnection, frame: &Frame) -> Option<M> {
    let read = M::decode(frame.body());
    let content_type = frame.content_type();
    read.inspect_err(|error| tracing::warn!(router = %connection.router, content_type, %error, "a message cannot be decoded")).ok()
}

/// The answer to a failed request.
pub(crate) fn error(to: &Frame, code: u32, text: &str) -> Frame {
    Builder::reply(content::ERROR, to).u32(key::ERROR_CODE, code).body(text.as_bytes())
}

/// Tells a router to remove a circuit: at once if `now`, else after its queued data was delivered.
pub(crate) fn unroute(circuit: &str, now: bool) -> Frame {
    Builder::new(content::UNROUTE).body(&fabric::Unroute { circuit_id: circuit.to_owned(), now }.encode_to_vec())
}

/// Tells a router that API sessions have ended.
pub(crate) fn api_sessions_removed(tokens: Vec<String>) -> Frame {
    Builder::new(content::API_SESSION_REMOVED).body(&edge::Removed { tokens, ids: Vec::new() }.encode_to_vec())
}
