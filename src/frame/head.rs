//! The head of a message: the part whose length is known before anything else.

use super::malformed::Malformed;

/// What every message begins with.
pub const MAGIC: [u8; 4] = [0x03, 0x06, 0x09, 0x0c];
/// Bytes of a head.
pub const HEAD: usize = 20;

/// How long the sections of a message may be, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub headers: usize,
    pub body: usize,
}

/// What a head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub content_type: i32,
    pub sequence: i32,
    /// Bytes of the header section.
    pub headers: usize,
    /// Bytes of the body.
    pub body: usize,
}

impl Head {
    /// Where the sequence stands.
    pub(super) const SEQUENCE: std::ops::Range<usize> = 8..12;
    /// Where the length of the header section stands.
    pub(super) const HEADERS: std::ops::Range<usize> = 12..16;

    /// Reads a head.
    ///
    /// # Errors
    /// The magic number is another one, or a section has a length that is not allowed.
    pub fn decode(bytes: &[u8; HEAD], limits: Limits) -> Result<Self, Malformed> {
        let [m0, m1, m2, m3, c0, c1, c2, c3, s0, s1, s2, s3, h0, h1, h2, h3, b0, b1, b2, b3] = *bytes;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(Malformed::Magic);
        }
        let length = |bytes, section, limit| {
            let length = i32::from_le_bytes(bytes);
            let fits = usize::try_from(length).ok().filter(|length| *length <= limit);
            fits.ok_or(Malformed::Length { section, length, limit })
        };
        Ok(Self {
            content_type: i32::from_le_bytes([c0, c1, c2, c3]),
            sequence: i32::from_le_bytes([s0, s1, s2, s3]),
            headers: length([h0, h1, h2, h3], "header section", limits.headers)?,
            body: length([b0, b1, b2, b3], "body", limits.body)?,
        })
    }

    /// Bytes of the whole message.
    pub fn size(&self) -> usize {
        HEAD + self.headers + self.body
    }
}
