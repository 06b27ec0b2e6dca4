//! Messages between SDKs, routers and controllers: bytes to a message with typed headers and back.
//!
//! A frame is a head of 20 bytes (magic, content type, sequence, length of the header section, length of the body, all little endian), the
//! header section (`{key i32, length i32, value}`, any order, each key once) and the body. Not here: sockets, and what a content type or a
//! header key means beyond those that every channel has. Start reading at [`Frame`], then [`Builder`]; [`value`] holds the composite types
//! of headers.
//!
//! Invariant: the head and the headers of a [`Frame`] are well formed, and its body is no longer than the head says.
//! Whatever bytes arrive, decoding answers a frame or a [`Malformed`], allocates nothing in proportion to a length that was only announced,
//! and never panics.

mod build;
mod head;
mod headers;
mod malformed;
pub mod value;

use bytes::{BufMut, BytesMut, buf::Limit};

pub use build::Builder;
pub use head::{HEAD, Head, Limits, MAGIC};
use headers::HEADER;
pub use headers::{Headers, MOST_HEADERS};
pub use malformed::Malformed;

/// Content types that every channel has.
pub mod content {
    /// The first message of whoever connected.
    pub const HELLO: i32 = 0;
    pub const PING: i32 = 1;
    /// The generic answer, also to a hello: [`super::key::SUCCESS`] and a text as the body.
    pub const RESULT: i32 = 2;
    pub const LATENCY: i32 = 3;
    pub const HEARTBEAT: i32 = 5;
}

/// Header keys that every channel has.
pub mod key {
    /// Text that names the connection, in the answer to a hello.
    pub const CONNECTION_ID: i32 = 0;
    /// The sequence of the message that is answered (i32).
    pub const REPLY_FOR: i32 = 1;
    /// One byte, 1 for success.
    pub const SUCCESS: i32 = 2;
    /// Version, revision, build date, system and architecture, joined by `|`.
    pub const VERSION: i32 = 4;
    pub const HEARTBEAT: i32 = 5;
    pub const HEARTBEAT_ECHO: i32 = 6;
    pub const CHANNEL_TYPE: i32 = 7;
    /// Who answers a hello.
    pub const ID: i32 = 8;
    /// One byte, 1 if the connection is one of a group.
    pub const IS_GROUPED: i32 = 9;
    /// Keys that an answer repeats as they came.
    pub const REFLECTED: std::ops::RangeInclusive<i32> = 128..=255;
}

/// One message in one buffer, which can be changed where lengths stay as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    head: Head,
    bytes: BytesMut,
}

impl Frame {
    /// Reads bytes that hold exactly one message.
    ///
    /// # Errors
    /// They do not.
    pub fn decode(bytes: BytesMut, limits: Limits) -> Result<Self, Malformed> {
        let size = bytes.len();
        let head = Head::decode(bytes.first_chunk().ok_or(Malformed::Size(size))?, limits)?;
        if size != HEAD + head.headers + head.body {
            return Err(Malformed::Size(size));
        }
        let frame = Self { head, bytes };
        headers::check(frame.section())?;
        Ok(frame)
    }

    /// Reads the first part of a message, whose head was read from it before; the body may be yet to come.
    ///
    /// # Errors
    /// The header section is not whole, or there is more than one message.
    pub fn begin(head: Head, bytes: BytesMut) -> Result<Self, Malformed> {
        let size = bytes.len();
        if size < HEAD + head.headers || size > head.size() {
            return Err(Malformed::Size(size));
        }
        let frame = Self { head, bytes };
        headers::check(frame.section())?;
        Ok(frame)
    }

    /// Bytes of the body that are yet to come.
    pub fn missing(&self) -> usize {
        self.head.size().saturating_sub(self.bytes.len())
    }

    /// Where the bytes go that are yet to come; it takes no more than those.
    pub fn rest(&mut self) -> Limit<&mut BytesMut> {
        let missing = self.missing();
        self.bytes.reserve(missing);
        (&mut self.bytes).limit(missing)
    }

    pub fn content_type(&self) -> i32 {
        self.head.content_type
    }

    /// The number that its sender gave it.
    pub fn sequence(&self) -> i32 {
        self.head.sequence
    }

    /// All its bytes, head included.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// A frame has at least its head.
    pub fn is_empty(&self) -> bool {
        false
    }

    pub fn headers(&self) -> Headers<'_> {
        Headers::of(self.section())
    }

    /// The value of a header, if the message has it.
    pub fn header(&self, key: i32) -> Option<&[u8]> {
        self.headers().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// A header of exactly 4 bytes as a number.
    pub fn u32(&self, key: i32) -> Option<u32> {
        self.header(key).and_then(|value| value.try_into().ok()).map(u32::from_le_bytes)
    }

    /// A header of exactly 4 bytes as a signed number.
    pub fn i32(&self, key: i32) -> Option<i32> {
        self.header(key).and_then(|value| value.try_into().ok()).map(i32::from_le_bytes)
    }

    /// A header of exactly 8 bytes as a number.
    pub fn u64(&self, key: i32) -> Option<u64> {
        self.header(key).and_then(|value| value.try_into().ok()).map(u64::from_le_bytes)
    }

    /// Whether a header is there and its first byte is not 0.
    pub fn is_set(&self, key: i32) -> bool {
        self.header(key).and_then(<[u8]>::first).is_some_and(|byte| *byte != 0)
    }

    /// A header as text. What is no UTF-8 is no text.
    pub fn text(&self, key: i32) -> Option<&str> {
        self.header(key).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// The sequence of the message that this one answers.
    pub fn reply_for(&self) -> Option<i32> {
        self.i32(key::REPLY_FOR).filter(|sequence| *sequence != -1)
    }

    pub fn body(&self) -> &[u8] {
        self.bytes.get(HEAD + self.head.headers..).unwrap_or_default()
    }

    /// Gives the message another number.
    pub fn set_sequence(&mut self, sequence: i32) {
        self.head.sequence = sequence;
        if let Some(place) = self.bytes.get_mut(Head::SEQUENCE) {
            place.copy_from_slice(&sequence.to_le_bytes());
        }
    }

    /// Gives a header of 4 bytes another value, in place. Answers whether the message has such a header.
    pub fn set_u32(&mut self, key: i32, value: u32) -> bool {
        let Some(range) = headers::place(self.section(), key) else { return false };
        let place = self.bytes.get_mut(HEAD + range.start..HEAD + range.end);
        match place {
            Some(place) if place.len() == 4 => place.copy_from_slice(&value.to_le_bytes()),
            _ => return false,
        }
        true
    }

    /// Gives a header of 4 bytes this value, in place where the message has such a header, else as one more header.
    pub fn put_u32(&mut self, key: i32, value: u32) {
        if self.set_u32(key, value) || self.header(key).is_some() {
            return;
        }
        let body = self.bytes.split_off((HEAD + self.head.headers).min(self.bytes.len()));
        self.bytes.reserve(HEADER + body.len() + self.head.body);
        self.bytes.put_i32_le(key);
        self.bytes.put_i32_le(4);
        self.bytes.put_u32_le(value);
        self.bytes.unsplit(body);
        self.head.headers += HEADER;
        let length = i32::try_from(self.head.headers).unwrap_or(i32::MAX);
        if let Some(place) = self.bytes.get_mut(Head::HEADERS) {
            place.copy_from_slice(&length.to_le_bytes());
        }
    }

    /// The same message as the answer to the one with this sequence.
    #[must_use]
    pub fn with_reply_for(mut self, sequence: i32) -> Self {
        self.put_u32(key::REPLY_FOR, sequence.cast_unsigned());
        self
    }

    /// The message as it goes over the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same, given away.
    pub fn into_bytes(self) -> BytesMut {
        self.bytes
    }

    fn section(&self) -> &[u8] {
        self.bytes.get(HEAD..HEAD + self.head.headers).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
