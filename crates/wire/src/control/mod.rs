//! The messages of the control channel: content types, header keys, and their bodies.
//!
//! Bodies are proto3 messages of the packages `ctrl_pb` ([`fabric`]), `edge_ctrl_pb` ([`edge`],
//! [`tunnel`], [`model`]) and `metrics_pb` ([`metrics`]). The structs carry the field numbers;
//! there are no `.proto` files. Maps are lists of entries in the order of the wire, whose key and
//! value are always written, so that a decoded message is encoded to the same bytes.

pub mod content;
pub mod edge;
pub mod fabric;
pub mod key;
pub mod metrics;
pub mod model;
pub mod tunnel;

use std::iter;

/// The members of an encoded message that have a length, each with its number. Nothing is copied,
/// so that a message of many small members takes no more memory than its bytes. Ends at the first
/// byte that begins no member.
pub fn members(mut message: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    iter::from_fn(move || {
        loop {
            // The key of a member and a length have the same encoding.
            let key = prost::decode_length_delimiter(&mut message).ok()?;
            let length = match key & 7 {
                0 => {
                    prost::decode_length_delimiter(&mut message).ok()?;
                    0
                }
                1 => 8,
                2 => prost::decode_length_delimiter(&mut message).ok()?,
                5 => 4,
                _ => return None,
            };
            let (member, rest) = message.split_at_checked(length)?;
            message = rest;
            if key & 7 == 2 {
                return Some((key >> 3, member));
            }
        }
    })
}

/// An entry of `map<string, string>`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TextEntry {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

/// An entry of `map<uint32, bytes>` or `map<int32, bytes>` with keys that are not negative.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NumberedBytes {
    #[prost(uint32, optional, tag = "1")]
    pub key: Option<u32>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub value: Option<Vec<u8>>,
}

/// `google.protobuf.Timestamp`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Time {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

impl TextEntry {
    pub fn new(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            key: Some(key.into()),
            value: Some(value.into()),
        }
    }
}

impl NumberedBytes {
    pub fn new(key: u32, value: impl Into<Vec<u8>>) -> Self {
        Self {
            key: Some(key),
            value: Some(value.into()),
        }
    }
}
