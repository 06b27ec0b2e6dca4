//! Messages between SDKs, routers and controllers: decoding to typed headers and encoding.
//!
//! A frame is a head of 20 bytes (magic, content type, sequence, length of the header section,
//! length of the body, all little endian), the header section (`{key i32, length i32, value}`, any
//! order, each key once) and the body. Not here: sockets, and the meaning of content types and
//! header keys beyond those of every channel. Start reading at [`Frame`], then [`Builder`];
//! [`value`] holds the composite types of headers.
//!
//! Invariant: the head and the headers of a [`Frame`] are well formed, and its body is no longer
//! than the head says. Decoding any bytes returns a frame or a [`Malformed`], allocates nothing in
//! proportion to a length that was only announced, and never panics.

mod build;
mod head;
mod headers;
mod malformed;
pub mod value;

use std::ops::Range;

use bytes::{BufMut, BytesMut, buf::Limit};

pub use build::Builder;
pub(crate) use head::MAGIC;
pub use head::{FrameLimits, HEAD, Head};
use headers::HEADER;
pub use headers::Headers;
pub use malformed::Malformed;

/// Content types of every channel.
pub mod content {
    /// The first message of the connecting peer.
    pub const HELLO: i32 = 0;
    pub const PING: i32 = 1;
    /// The generic answer, also to a hello: [`super::key::SUCCESS`] and a text as the body.
    pub const RESULT: i32 = 2;
    pub const LATENCY: i32 = 3;
    pub const HEARTBEAT: i32 = 5;
}

/// Header keys of every channel.
pub mod key {
    /// The name of the connection (text), in the answer to a hello.
    pub const CONNECTION_ID: i32 = 0;
    /// The sequence of the answered message (i32).
    pub const REPLY_FOR: i32 = 1;
    /// One byte, 1 for success.
    pub const SUCCESS: i32 = 2;
    /// Version, revision, build date, system and architecture, joined by `|`.
    pub const VERSION: i32 = 4;
    pub const HEARTBEAT: i32 = 5;
    pub const HEARTBEAT_ECHO: i32 = 6;
    pub const CHANNEL_TYPE: i32 = 7;
    /// The id of the peer that answers a hello.
    pub const ID: i32 = 8;
    /// One byte, 1 if the connection is one of a group.
    pub const IS_GROUPED: i32 = 9;
    /// Keys that an answer repeats unchanged.
    pub const REFLECTED: std::ops::RangeInclusive<i32> = 128..=255;
}

/// One message in one buffer. Values can be changed in place if their length stays the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    head: Head,
    bytes: BytesMut,
}

impl Frame {
    /// Decodes exactly one message.
    ///
    /// # Errors
    /// The bytes are not exactly one well-formed message.
    pub fn decode(bytes: BytesMut, limits: FrameLimits) -> Result<Self, Malformed> {
        let size = bytes.len();
        let head = Head::decode(bytes.first_chunk().ok_or(Malformed::Size(size))?, limits)?;
        if size != HEAD + head.headers + head.body {
            return Err(Malformed::Size(size));
        }
        let frame = Self { head, bytes };
        headers::check(frame.section())?;
        Ok(frame)
    }

    /// Decodes the first part of a message whose head was already decoded; the body may be
    /// incomplete.
    ///
    /// # Errors
    /// The header section is incomplete or malformed, or there are more bytes than one message has.
    pub fn begin(head: Head, bytes: BytesMut) -> Result<Self, Malformed> {
        let size = bytes.len();
        if size < HEAD + head.headers || size > head.size() {
            return Err(Malformed::Size(size));
        }
        let frame = Self { head, bytes };
        headers::check(frame.section())?;
        Ok(frame)
    }

    /// The number of body bytes still missing.
    pub fn missing(&self) -> usize {
        self.head.size().saturating_sub(self.bytes.len())
    }

    /// The buffer for the missing bytes; accepts no more than those.
    pub fn rest(&mut self) -> Limit<&mut BytesMut> {
        let missing = self.missing();
        self.bytes.reserve(missing);
        (&mut self.bytes).limit(missing)
    }

    pub fn content_type(&self) -> i32 {
        self.head.content_type
    }

    /// The sequence number that the sender gave it.
    pub fn sequence(&self) -> i32 {
        self.head.sequence
    }

    /// The number of bytes present, including the head.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Always false: a frame has at least its head.
    pub fn is_empty(&self) -> bool {
        false
    }

    pub fn headers(&self) -> Headers<'_> {
        Headers::of(self.section())
    }

    /// The value of a header; `None` if the message lacks it.
    pub fn header(&self, key: i32) -> Option<&[u8]> {
        self.headers()
            .find(|(known, _)| *known == key)
            .map(|(_, value)| value)
    }

    /// The value of a header with exactly 4 bytes, as an unsigned number.
    pub fn u32(&self, key: i32) -> Option<u32> {
        self.header(key)
            .and_then(|value| value.try_into().ok())
            .map(u32::from_le_bytes)
    }

    /// The value of a header with exactly 4 bytes, as a signed number.
    pub fn i32(&self, key: i32) -> Option<i32> {
        self.header(key)
            .and_then(|value| value.try_into().ok())
            .map(i32::from_le_bytes)
    }

    /// The value of a header with exactly 8 bytes, as an unsigned number.
    pub fn u64(&self, key: i32) -> Option<u64> {
        self.header(key)
            .and_then(|value| value.try_into().ok())
            .map(u64::from_le_bytes)
    }

    /// Whether a header is present and its first byte is not 0.
    pub fn is_set(&self, key: i32) -> bool {
        self.header(key)
            .and_then(<[u8]>::first)
            .is_some_and(|byte| *byte != 0)
    }

    /// The value of a header as text; `None` if it is not UTF-8.
    pub fn text(&self, key: i32) -> Option<&str> {
        self.header(key)
            .and_then(|value| std::str::from_utf8(value).ok())
    }

    /// The sequence of the message that this one answers.
    pub fn reply_for(&self) -> Option<i32> {
        self.i32(key::REPLY_FOR).filter(|sequence| *sequence != -1)
    }

    pub fn body(&self) -> &[u8] {
        self.bytes
            .get(HEAD + self.head.headers..)
            .unwrap_or_default()
    }

    /// Sets the sequence number.
    pub fn set_sequence(&mut self, sequence: i32) {
        self.head.sequence = sequence;
        if let Some(place) = self.bytes.get_mut(Head::SEQUENCE) {
            place.copy_from_slice(&sequence.to_le_bytes());
        }
    }

    /// Changes the value of a header of 4 bytes in place. Returns whether the message has such a
    /// header.
    pub(crate) fn set_u32(&mut self, key: i32, value: u32) -> bool {
        let Some(range) = headers::place(self.section(), key) else {
            return false;
        };
        let place = self.bytes.get_mut(HEAD + range.start..HEAD + range.end);
        match place {
            Some(place) if place.len() == 4 => place.copy_from_slice(&value.to_le_bytes()),
            _ => return false,
        }
        true
    }

    /// Sets a header of 4 bytes: in place if the message has one, otherwise as an additional
    /// header. Does nothing for a header of another length.
    pub fn put_u32(&mut self, key: i32, value: u32) {
        if self.set_u32(key, value) || self.header(key).is_some() {
            return;
        }
        let body = self
            .bytes
            .split_off((HEAD + self.head.headers).min(self.bytes.len()));
        self.bytes.reserve(HEADER + self.head.body);
        self.bytes.put_i32_le(key);
        self.bytes.put_i32_le(4);
        self.bytes.put_u32_le(value);
        self.bytes.unsplit(body);
        self.set_headers(self.head.headers + HEADER);
    }

    /// Sets the length of the header section.
    fn set_headers(&mut self, length: usize) {
        self.head.headers = length;
        if let Some(place) = self.bytes.get_mut(Head::HEADERS) {
            place.copy_from_slice(&i32::try_from(length).unwrap_or(i32::MAX).to_le_bytes());
        }
    }

    /// Drops the headers for which `keeps` does not hold, given their key and value. Moves the rest
    /// to a buffer of its length, so that what is dropped takes no memory; the body is copied as
    /// far as it is present.
    pub fn retain_headers(&mut self, keeps: impl Fn(i32, &[u8]) -> bool) {
        if self.headers().all(|(key, value)| keeps(key, value)) {
            return;
        }
        let places = headers::kept(self.section(), keeps);
        let length = places.iter().map(Range::len).sum::<usize>();
        let mut bytes = BytesMut::with_capacity(HEAD + length + self.body().len());
        bytes.extend_from_slice(self.bytes.get(..HEAD).unwrap_or_default());
        for place in places {
            bytes.extend_from_slice(self.section().get(place).unwrap_or_default());
        }
        bytes.extend_from_slice(self.body());
        self.bytes = bytes;
        self.set_headers(length);
    }

    /// The same message, as the answer to the one with this sequence.
    #[must_use]
    pub fn with_reply_for(mut self, sequence: i32) -> Self {
        self.put_u32(key::REPLY_FOR, sequence.cast_unsigned());
        self
    }

    /// The encoded message.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The encoded message, by value.
    pub fn into_bytes(self) -> BytesMut {
        self.bytes
    }

    fn section(&self) -> &[u8] {
        self.bytes
            .get(HEAD..HEAD + self.head.headers)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
