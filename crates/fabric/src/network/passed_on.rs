//! What passes from one end of a circuit to the other one: the header keys of each message.
//!
//! An end trusts its router. It takes a message with the key of an answer for the answer to its own
//! request with that number, whoever has put the key there, and others for the outcome of a dial or
//! a heartbeat. So only known keys pass, and only with the length that their type has: some SDKs
//! read values without a look at the length. The rest is dropped. In this file is every key that
//! passes.

use wire::{
    frame::Frame,
    link::key as link,
    sdk::{key, kind},
};

/// From a Connect to the Dial. The method of end-to-end encryption is not among them, because SDKs
/// send it in different forms and refuse those of the others; without it all of them use the same
/// method.
pub(crate) const TO_HOST: [i32; 3] = [key::PUBLIC_KEY, key::APP_DATA, key::MARKER];

/// From a DialSuccess to StateConnected.
pub(crate) const TO_CLIENT: [i32; 1] = [key::PUBLIC_KEY];

/// In the peer data of a route, from the router of a client to the router of a host: also the name
/// of the caller, the terminator that a sticky service should keep, and the id and name of the
/// identity that dials, as routers from version 2 on report them.
const IN_ROUTES: [i32; 7] = [
    key::PUBLIC_KEY,
    key::CALLER,
    key::APP_DATA,
    key::MARKER,
    1114,
    1115,
    1116,
];

/// Whether peer data with this key passes from the router of a client to the router of a host.
pub(crate) fn passes_to_host(key: u32) -> bool {
    i32::try_from(key).is_ok_and(|key| IN_ROUTES.contains(&key))
}

/// Whether peer data with this key passes from the router of a host to the router of a client.
pub(crate) fn passes_to_client(key: u32) -> bool {
    i32::try_from(key).is_ok_and(|key| TO_CLIENT.contains(&key))
}

/// Drops the headers of a message from an SDK that do not pass. A message that is not relayed stays
/// as it is.
pub(crate) fn strip(frame: &mut Frame) {
    let kind = frame.content_type();
    frame.retain_headers(|key, value| passes(kind, key, value.len()).unwrap_or(true));
}

/// The same of a message on a link, which names its circuit and no connection.
pub(crate) fn strip_on_link(frame: &mut Frame) {
    let kind = frame.content_type();
    frame.retain_headers(|key, value| {
        passes(kind, key, value.len()).is_none_or(|passes| passes && key != key::CONNECTION)
    });
}

/// Whether a header with a value of so many bytes passes in a message of this type; `None` for a
/// message that is not relayed: it ends at this router, or is made anew from what [`TO_HOST`] and
/// [`TO_CLIENT`] name.
fn passes(kind: i32, key: i32, bytes: usize) -> Option<bool> {
    let passes = match kind {
        kind::DATA => match key {
            key::CONNECTION | key::DATA_SEQUENCE | key::FLAGS => bytes == 4,
            key::UUID => bytes == 16,
            _ => false,
        },
        kind::STATE_CLOSED => match key {
            key::CONNECTION => bytes == 4,
            key::STRUCTURED_ERROR => true,
            _ => false,
        },
        kind::TRACE_ROUTE | kind::TRACE_ROUTE_RESPONSE => match key {
            key::CONNECTION | key::TRACE_HOPS | key::TRACE_REQUEST => bytes == 4,
            key::TRACE_TIME => bytes == 8,
            key::TRACE_HOP_TYPE | key::TRACE_HOP_ID | key::TRACE_ERROR => {
                kind == kind::TRACE_ROUTE_RESPONSE
            }
            _ => false,
        },
        // The same on links and, with flow control of SDKs, on channels.
        kind::XGRESS_PAYLOAD => match key {
            key::CONNECTION | link::FLAGS | link::CAPABILITIES | link::DATA_FLAGS => bytes == 4,
            link::SEQUENCE => bytes == 8,
            link::CLOCK => bytes == 2,
            link::UUID => bytes == 16,
            link::CIRCUIT => true,
            _ => false,
        },
        kind::XGRESS_ACK => match key {
            key::CONNECTION | link::FLAGS | link::BUFFERED => bytes == 4,
            link::CLOCK => bytes == 2,
            link::CIRCUIT => true,
            _ => false,
        },
        kind::XGRESS_CONTROL => match key {
            key::CONNECTION | link::FLAGS | link::TRACE_HOPS | link::TRACE_REQUEST => bytes == 4,
            link::TRACE_TIME => bytes == 8,
            link::TRACE_HOP_TYPE | link::TRACE_HOP_ID | link::TRACE_ERROR => true,
            _ => false,
        },
        _ => return None,
    };
    Some(passes)
}
