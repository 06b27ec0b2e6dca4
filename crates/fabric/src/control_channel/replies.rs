//! Messages that several files send, and decoding of bodies.
//!
//! An empty entry of a list has two bytes in a message and up to two hundred in memory. Therefore
//! lists are decoded entry by entry, and a body that is decoded as a whole is short.

use prost::Message;
use wire::{
    control::{content, edge, fabric, key, members},
    frame::{Builder, Frame, content as common, key as common_key},
};

use super::connection::RouterConnection;
use crate::peer_lines::may_log;

/// The generic answer.
pub(crate) fn result(to: &Frame, is_success: bool, text: &str) -> Frame {
    Builder::reply(common::RESULT, to)
        .flag(common_key::SUCCESS, is_success)
        .body(text.as_bytes())
}

/// Maximum length of a body and of an entry of a list that is decoded as a whole, in bytes.
const MAX_WHOLE: usize = 64 << 10;

/// Decodes the body of a message. A body that is too long or cannot be decoded is logged and
/// ignored.
pub(crate) fn body<M: Message + Default>(
    connection: &RouterConnection,
    frame: &Frame,
) -> Option<M> {
    if frame.body().len() > MAX_WHOLE {
        let (content_type, length) = (frame.content_type(), frame.body().len());
        if may_log(&connection.router) {
            tracing::warn!(router = %connection.router, content_type, length, "a message is longer than {MAX_WHOLE} bytes and is ignored");
        }
        return None;
    }
    decoded(connection, frame)
}

/// Decodes the body of a message without lists, of any length.
pub(crate) fn decoded<M: Message + Default>(
    connection: &RouterConnection,
    frame: &Frame,
) -> Option<M> {
    let read = M::decode(frame.body());
    let content_type = frame.content_type();
    let warn = |error: &prost::DecodeError| {
        if may_log(&connection.router) {
            tracing::warn!(router = %connection.router, content_type, %error, "a message cannot be decoded");
        }
    };
    read.inspect_err(warn).ok()
}

/// The lists in the body of a message.
#[derive(Clone, Copy)]
pub(crate) struct Lists<'f>(&'f [u8]);

impl<'f> Lists<'f> {
    /// The body of a message. One that is malformed is logged and ignored.
    pub(crate) fn of(connection: &RouterConnection, frame: &'f Frame) -> Option<Self> {
        // Decoding as a message without members checks the encoding and takes no memory.
        decoded::<()>(connection, frame).map(|()| Self(frame.body()))
    }

    /// The same for a message without a connection.
    pub(crate) fn new(body: &'f [u8]) -> Option<Self> {
        <()>::decode(body).ok().map(|()| Self(body))
    }

    /// The texts of the list with this number. What is not UTF-8 is left out.
    pub(crate) fn texts(self, number: usize) -> impl Iterator<Item = &'f str> {
        self.members(number)
            .filter_map(|member| std::str::from_utf8(member).ok())
    }

    /// The messages of the list with this number. Those that are too long or malformed are left
    /// out.
    pub(crate) fn messages<M: Message + Default>(self, number: usize) -> impl Iterator<Item = M> {
        self.members(number)
            .filter(|member| member.len() <= MAX_WHOLE)
            .filter_map(|member| M::decode(member).ok())
    }

    /// The messages of the list with this number that have no lists themselves. They may have any
    /// length.
    pub(crate) fn plain_messages<M: Message + Default>(
        self,
        number: usize,
    ) -> impl Iterator<Item = M> {
        self.members(number)
            .filter_map(|member| M::decode(member).ok())
    }

    fn members(self, number: usize) -> impl Iterator<Item = &'f [u8]> {
        members(self.0)
            .filter(move |(found, _)| *found == number)
            .map(|(_, member)| member)
    }
}

/// The second member of messages with a list: whether the list is complete.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct IsComplete {
    #[prost(bool, tag = "2")]
    pub is_complete: bool,
}

/// The answer to a failed request.
pub(crate) fn error(to: &Frame, code: u32, text: &str) -> Frame {
    Builder::reply(content::ERROR, to)
        .u32(key::ERROR_CODE, code)
        .body(text.as_bytes())
}

/// Tells a router to remove a circuit: at once if `now`, else after its queued data was delivered.
pub(crate) fn unroute(circuit: &str, now: bool) -> Frame {
    Builder::new(content::UNROUTE).body(
        &fabric::Unroute {
            circuit_id: circuit.to_owned(),
            now,
        }
        .encode_to_vec(),
    )
}

/// Tells a router that API sessions have ended.
pub(crate) fn api_sessions_removed(tokens: Vec<String>) -> Frame {
    Builder::new(content::API_SESSION_REMOVED).body(
        &edge::Removed {
            tokens,
            ids: Vec::new(),
        }
        .encode_to_vec(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_decoded_entry_by_entry() {
        let links = ["one", "two"].map(|id| fabric::RouterLink {
            id: id.into(),
            iteration: 7,
            ..fabric::RouterLink::default()
        });
        let too_long = fabric::RouterLink {
            id: "x".repeat(MAX_WHOLE),
            ..fabric::RouterLink::default()
        };
        let all = [vec![too_long], links.to_vec()].concat();
        let body = fabric::RouterLinks {
            links: all,
            full_refresh: true,
        }
        .encode_to_vec();
        let lists = Lists::new(&body).unwrap();
        assert_eq!(
            lists.messages::<fabric::RouterLink>(1).collect::<Vec<_>>(),
            links
        );
        assert!(IsComplete::decode(&body[..]).unwrap().is_complete);
        let body = [
            &[10, 1, b'a', 10, 0, 10, 1, 0xff, 18, 1, b'b'][..],
            &[10, 1, b'c'],
        ]
        .concat();
        assert_eq!(
            Lists::new(&body).unwrap().texts(1).collect::<Vec<_>>(),
            ["a", "", "c"]
        );
        assert!(Lists::new(&body[..body.len() - 1]).is_none(), "malformed");
    }

    #[test]
    fn long_bodies_are_not_decoded() {
        let connection = RouterConnection::unconnected("router");
        let message = |length: usize| {
            let request = fabric::VerifyRouter {
                router_id: "r".repeat(length),
                fingerprints: Vec::new(),
            };
            Builder::new(content::VERIFY_ROUTER).body(&request.encode_to_vec())
        };
        let is_read = |frame: &Frame| body::<fabric::VerifyRouter>(&connection, frame).is_some();
        assert!(is_read(&message(MAX_WHOLE - 4)) && !is_read(&message(MAX_WHOLE)));
        assert!(decoded::<fabric::VerifyRouter>(&connection, &message(MAX_WHOLE)).is_some());
    }
}
