//! Reading messages from a connection.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt};
use wire::frame::{Frame, FrameLimits, HEAD, Head};

/// The most bytes of a message: routers accept no longer ones.
const LIMITS: FrameLimits = FrameLimits {
    headers: 1 << 20,
    body: 16 << 20,
};
/// For how many bytes there is room before a read.
const ROOM: usize = 32 << 10;

/// Reads messages. A message takes memory as it arrives, not as it is announced.
pub(crate) struct FrameReader<S> {
    stream: S,
    buffer: BytesMut,
}

impl<S: AsyncRead + Unpin> FrameReader<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self {
            stream,
            buffer: BytesMut::new(),
        }
    }

    /// The next message; `None` at the end of the stream. A call that is cancelled loses nothing.
    ///
    /// # Errors
    /// The stream fails, ends within a message, or holds no message.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.take()? {
                return Ok(Some(frame));
            }
            self.buffer.reserve(ROOM);
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return if self.buffer.is_empty() {
                    Ok(None)
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                };
            }
        }
    }

    /// The first message in the buffer, once it is whole.
    fn take(&mut self) -> io::Result<Option<Frame>> {
        let Some(head) = self.buffer.first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let size = Head::decode(head, LIMITS).map_err(io::Error::other)?.size();
        if self.buffer.len() < size {
            return Ok(None);
        }
        Frame::decode(self.buffer.split_to(size), LIMITS)
            .map(Some)
            .map_err(io::Error::other)
    }
}
