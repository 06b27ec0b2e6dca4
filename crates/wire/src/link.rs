//! The messages of circuits on a link: payloads, which carry data, and acknowledgements of
//! payloads.

use bytes::Bytes;

use crate::frame::{Builder, Frame};

/// Content types of links.
pub mod kind {
    pub const PAYLOAD: i32 = 1100;
    pub const ACKNOWLEDGEMENT: i32 = 1101;
    /// A trace route or its answer.
    pub const CONTROL: i32 = 1102;
}

/// Header keys of links.
pub mod key {
    /// Text, in a hello: the id of the router that dials.
    pub const ROUTER: i32 = 2;
    /// One byte, in a hello: 1 for payloads, 2 for acknowledgements; absent if the link has one
    /// connection for both.
    pub const CONNECTION_TYPE: i32 = 1;
    /// u32, in a hello.
    pub const ITERATION: i32 = 5;
    /// u32, in a control message: the hops that a trace route has left.
    pub const TRACE_HOPS: i32 = 20;
    /// Text, in the answer: what kind of node answers.
    pub const TRACE_HOP_TYPE: i32 = 21;
    /// Text, in the answer.
    pub const TRACE_HOP_ID: i32 = 22;
    /// u64; the clock of the SDK that asks.
    pub const TRACE_TIME: i32 = 23;
    /// u32; identifies the request for the SDK that asks.
    pub const TRACE_REQUEST: i32 = 24;
    /// Text, in the answer.
    pub const TRACE_ERROR: i32 = 25;
    /// The headers of a payload have this key and those after it, up to [`CIRCUIT`].
    pub const PAYLOAD_HEADERS: i32 = 2000;
    /// 16 bytes; the UUID of a data message.
    pub const UUID: i32 = PAYLOAD_HEADERS;
    /// u32; what the other end can do.
    pub const CAPABILITIES: i32 = PAYLOAD_HEADERS + 1;
    /// u32; the flags of a data message.
    pub const DATA_FLAGS: i32 = PAYLOAD_HEADERS + 0x10;
    /// Text.
    pub const CIRCUIT: i32 = 2256;
    /// u64.
    pub const SEQUENCE: i32 = 2257;
    /// u32.
    pub const FLAGS: i32 = 2258;
    /// u32; bytes that wait at the receiver.
    pub const BUFFERED: i32 = 2259;
    /// u16; the clock of the sender of a payload in milliseconds, which an acknowledgement repeats.
    pub const CLOCK: i32 = 2260;
}

/// Bits of [`key::FLAGS`].
pub mod flag {
    pub const END: u32 = 1;
    /// Sent by the router of the host.
    pub const FROM_HOST: u32 = 2;
    pub const START: u32 = 4;
    /// A part of a message that was too long for one payload.
    pub const PART: u32 = 8;
}

/// Why a message is not one of a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotOfCircuit {
    #[error("it names no circuit")]
    Circuit,
    #[error("a payload has no sequence number, or one that is too high")]
    Sequence,
    #[error("the acknowledged sequence numbers have {0} bytes, which is no multiple of 4")]
    Acknowledged(usize),
}

/// The circuit of a payload, an acknowledgement or a control message.
///
/// # Errors
/// The message is none of these, or malformed.
pub fn circuit(frame: &Frame) -> Result<&str, NotOfCircuit> {
    match frame.content_type() {
        kind::PAYLOAD => sequence(frame).and_then(|_| named(frame)),
        kind::ACKNOWLEDGEMENT if !frame.body().len().is_multiple_of(4) => {
            Err(NotOfCircuit::Acknowledged(frame.body().len()))
        }
        kind::ACKNOWLEDGEMENT => named(frame),
        // After a byte for its type.
        _ => frame
            .body()
            .get(1..)
            .and_then(|id| std::str::from_utf8(id).ok())
            .ok_or(NotOfCircuit::Circuit),
    }
}

fn named(frame: &Frame) -> Result<&str, NotOfCircuit> {
    frame.text(key::CIRCUIT).ok_or(NotOfCircuit::Circuit)
}

fn sequence(frame: &Frame) -> Result<u32, NotOfCircuit> {
    let sequence = frame
        .u64(key::SEQUENCE)
        .filter(|sequence| *sequence <= MAX_SEQUENCE);
    sequence
        .and_then(|sequence| u32::try_from(sequence).ok())
        .ok_or(NotOfCircuit::Sequence)
}

/// Data of a circuit, or its start or end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    pub sequence: u32,
    pub flags: u32,
    /// The clock of the sender; 0 if the acknowledgement need not repeat it.
    pub clock: u16,
    /// The UUID of the data message from which the payload was made; `data_flags` are its flags.
    pub uuid: Option<Bytes>,
    pub data_flags: Option<Bytes>,
    pub data: Bytes,
}

/// Highest sequence number: other routers count in 31 bits.
const MAX_SEQUENCE: u64 = i32::MAX as u64;

impl Payload {
    /// Decodes the circuit and the payload.
    ///
    /// # Errors
    /// The message is no payload of a circuit.
    pub fn decode(frame: &Frame) -> Result<(&str, Self), NotOfCircuit> {
        let bytes = |key| frame.header(key).map(Bytes::copy_from_slice);
        let payload = Self {
            sequence: sequence(frame)?,
            flags: frame.u32(key::FLAGS).unwrap_or_default(),
            clock: clock(frame),
            uuid: bytes(key::UUID),
            data_flags: bytes(key::DATA_FLAGS),
            data: Bytes::copy_from_slice(frame.body()),
        };
        Ok((named(frame)?, payload))
    }

    /// The message.
    pub fn encode(&self, circuit: &str, clock: u16) -> Frame {
        let builder = Builder::new(kind::PAYLOAD).text(key::CIRCUIT, circuit);
        let builder = if self.flags == 0 {
            builder
        } else {
            builder.u32(key::FLAGS, self.flags)
        };
        builder
            .u64(key::SEQUENCE, self.sequence.into())
            .u16(key::CLOCK, clock)
            .optional(key::UUID, self.uuid.as_ref())
            .optional(key::DATA_FLAGS, self.data_flags.as_ref())
            .body(&self.data)
    }

    pub fn is_from_host(&self) -> bool {
        self.flags & flag::FROM_HOST != 0
    }

    pub fn is_start(&self) -> bool {
        self.flags & flag::START != 0
    }

    pub fn is_end(&self) -> bool {
        self.flags & flag::END != 0
    }
}

/// The acknowledgement of payloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acknowledgement {
    pub flags: u32,
    /// The bytes that wait at its sender.
    pub buffered: u32,
    /// The clock of an acknowledged payload; 0 for none.
    pub clock: u16,
    pub sequences: Vec<u32>,
}

impl Acknowledgement {
    /// Decodes the circuit and the acknowledgement.
    ///
    /// # Errors
    /// The message is no acknowledgement of a circuit.
    pub fn decode(frame: &Frame) -> Result<(&str, Self), NotOfCircuit> {
        let circuit = circuit(frame)?;
        let (sequences, _) = frame.body().as_chunks();
        let acknowledgement = Self {
            flags: frame.u32(key::FLAGS).unwrap_or_default(),
            buffered: frame.u32(key::BUFFERED).unwrap_or(u32::MAX),
            clock: clock(frame),
            sequences: sequences
                .iter()
                .map(|sequence| u32::from_be_bytes(*sequence))
                .collect(),
        };
        Ok((circuit, acknowledgement))
    }

    /// The message.
    pub fn encode(&self, circuit: &str) -> Frame {
        let builder = Builder::new(kind::ACKNOWLEDGEMENT)
            .u16(key::CLOCK, self.clock)
            .text(key::CIRCUIT, circuit);
        let builder = if self.flags == 0 {
            builder
        } else {
            builder.u32(key::FLAGS, self.flags)
        };
        let body: Vec<u8> = self
            .sequences
            .iter()
            .flat_map(|sequence| sequence.to_be_bytes())
            .collect();
        builder.u32(key::BUFFERED, self.buffered).body(&body)
    }

    pub fn is_from_host(&self) -> bool {
        self.flags & flag::FROM_HOST != 0
    }
}

fn clock(frame: &Frame) -> u16 {
    frame
        .header(key::CLOCK)
        .and_then(|value| value.try_into().ok())
        .map(u16::from_le_bytes)
        .unwrap_or_default()
}
