//! The builder of messages to send.

use bytes::{BufMut, BytesMut};

use super::{Frame, HEAD, Head, MAGIC, key};

/// A message under construction, header by header. Each key may be given once.
#[derive(Debug, Clone)]
pub struct Builder {
    content_type: i32,
    /// The head is filled in at the end.
    bytes: BytesMut,
}

impl Builder {
    /// A message without headers.
    pub fn new(content_type: i32) -> Self {
        let mut bytes = BytesMut::with_capacity(128);
        bytes.put_bytes(0, HEAD);
        Self {
            content_type,
            bytes,
        }
    }

    /// The answer to a message: [`key::REPLY_FOR`] holds its sequence, and its reflected headers
    /// are repeated.
    pub fn reply(content_type: i32, to: &Frame) -> Self {
        let builder = Self::new(content_type).i32(key::REPLY_FOR, to.sequence());
        to.headers()
            .filter(|(key, _)| key::REFLECTED.contains(key))
            .fold(builder, |builder, (key, value)| builder.bytes(key, value))
    }

    #[must_use]
    pub fn bytes(mut self, key: i32, value: &[u8]) -> Self {
        self.bytes.put_i32_le(key);
        self.bytes
            .put_i32_le(i32::try_from(value.len()).unwrap_or(i32::MAX));
        self.bytes.put_slice(value);
        self
    }

    /// A header that is left out for `None`.
    #[must_use]
    pub fn optional(self, key: i32, value: Option<impl AsRef<[u8]>>) -> Self {
        match value {
            Some(value) => self.bytes(key, value.as_ref()),
            None => self,
        }
    }

    #[must_use]
    pub fn text(self, key: i32, value: &str) -> Self {
        self.bytes(key, value.as_bytes())
    }

    #[must_use]
    pub fn flag(self, key: i32, value: bool) -> Self {
        self.bytes(key, &[u8::from(value)])
    }

    #[must_use]
    pub fn i32(self, key: i32, value: i32) -> Self {
        self.bytes(key, &value.to_le_bytes())
    }

    #[must_use]
    pub fn u16(self, key: i32, value: u16) -> Self {
        self.bytes(key, &value.to_le_bytes())
    }

    #[must_use]
    pub fn u32(self, key: i32, value: u32) -> Self {
        self.bytes(key, &value.to_le_bytes())
    }

    #[must_use]
    pub fn u64(self, key: i32, value: u64) -> Self {
        self.bytes(key, &value.to_le_bytes())
    }

    /// The message with this body. Its sequence is 0 until one is set.
    pub fn body(mut self, body: &[u8]) -> Frame {
        let headers = self.bytes.len() - HEAD;
        self.bytes.put_slice(body);
        self.framed(headers)
    }

    /// The message with a body of this length, which `write` fills in. It is zero before.
    ///
    /// # Errors
    /// That of `write`.
    pub fn body_with<E>(
        mut self,
        length: usize,
        write: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Frame, E> {
        let headers = self.bytes.len() - HEAD;
        let begin = self.bytes.len();
        self.bytes.put_bytes(0, length);
        write(self.bytes.get_mut(begin..).unwrap_or_default())?;
        Ok(self.framed(headers))
    }

    /// The message that `bytes` holds behind its head.
    fn framed(mut self, headers: usize) -> Frame {
        let head = Head {
            content_type: self.content_type,
            sequence: 0,
            headers,
            body: self.bytes.len() - HEAD - headers,
        };
        let length = |length: usize| i32::try_from(length).unwrap_or(i32::MAX).to_le_bytes();
        let written = [
            MAGIC,
            head.content_type.to_le_bytes(),
            head.sequence.to_le_bytes(),
            length(headers),
            length(head.body),
        ];
        if let Some(place) = self.bytes.get_mut(..HEAD) {
            place.copy_from_slice(written.as_flattened());
        }
        Frame {
            head,
            bytes: self.bytes,
        }
    }

    /// The message without a body.
    pub fn empty(self) -> Frame {
        self.body(&[])
    }
}
