//! A connection whose first bytes were already read: it yields them again, then the rest.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection and the bytes already read from it.
pub struct Rewind<S> {
    read: Vec<u8>,
    pub stream: S,
    /// How many bytes may still be read from the connection; `None` if there is no limit.
    left: Option<usize>,
}

impl<S> Rewind<S> {
    pub(crate) fn new(read: Vec<u8>, stream: S) -> Self {
        Self {
            read,
            stream,
            left: None,
        }
    }

    /// Lets so many more bytes be read from the connection; reading beyond them fails.
    pub(crate) fn limited(self, bytes: usize) -> Self {
        Self {
            left: Some(bytes),
            ..self
        }
    }

    /// Ends the limit.
    pub(crate) fn unlimited(&mut self) {
        self.left = None;
    }

    /// The bytes and the connection.
    pub(crate) fn into_parts(self) -> (Vec<u8>, S) {
        (self.read, self.stream)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewind<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { read, stream, left } = self.get_mut();
        if read.is_empty() {
            let before = buf.filled().len();
            ready!(Pin::new(stream).poll_read(cx, buf))?;
            if let Some(left) = left {
                let count = buf.filled().len() - before;
                let Some(rest) = left.checked_sub(count) else {
                    buf.set_filled(before);
                    return Poll::Ready(Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "the client sends too much before it is served",
                    )));
                };
                *left = rest;
            }
            return Poll::Ready(Ok(()));
        }
        let count = read.len().min(buf.remaining());
        buf.put_slice(read.get(..count).unwrap_or_default());
        read.drain(..count);
        if read.is_empty() {
            // Frees the buffer: it is not needed again.
            *read = Vec::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewind<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, bufs)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::io::AsyncReadExt;

    use super::*;

    fn rest(mut from: Rewind<&[u8]>) -> io::Result<Vec<u8>> {
        let mut read = Vec::new();
        from.read_to_end(&mut read).now_or_never().unwrap()?;
        Ok(read)
    }

    #[test]
    fn limit_counts_what_follows() {
        let given = || Rewind::new(b"hel".to_vec(), &b"lo"[..]);
        assert_eq!(rest(given()).unwrap(), b"hello");
        assert_eq!(rest(given().limited(2)).unwrap(), b"hello");
        assert_eq!(
            rest(given().limited(1)).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        let mut lifted = given().limited(1);
        lifted.unlimited();
        assert_eq!(rest(lifted).unwrap(), b"hello");
    }
}
