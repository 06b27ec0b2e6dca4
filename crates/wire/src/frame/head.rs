//! The head of a message, which has a fixed length.

use super::malformed::Malformed;

/// The first bytes of every message.
pub(crate) const MAGIC: [u8; 4] = [0x03, 0x06, 0x09, 0x0c];
/// Bytes of a head.
pub const HEAD: usize = 20;

/// The maximum lengths of the sections of a message, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLimits {
    pub headers: usize,
    pub body: usize,
}

/// The decoded head of a message.
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
    /// The position of the sequence.
    pub(super) const SEQUENCE: std::ops::Range<usize> = 8..12;
    /// The position of the length of the header section.
    pub(super) const HEADERS: std::ops::Range<usize> = 12..16;

    /// Decodes a head.
    ///
    /// # Errors
    /// The magic number is wrong, or the length of a section exceeds its limit.
    pub fn decode(bytes: &[u8; HEAD], limits: FrameLimits) -> Result<Self, Malformed> {
        let [
            m0,
            m1,
            m2,
            m3,
            c0,
            c1,
            c2,
            c3,
            s0,
            s1,
            s2,
            s3,
            h0,
            h1,
            h2,
            h3,
            b0,
            b1,
            b2,
            b3,
        ] = *bytes;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(Malformed::Magic);
        }
        let length = |bytes, section, limit| {
            let length = i32::from_le_bytes(bytes);
            let fits = usize::try_from(length)
                .ok()
                .filter(|length| *length <= limit);
            fits.ok_or(Malformed::Length {
                section,
                length,
                limit,
            })
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
