//! A connection whose first bytes were already read: it yields them again, then the rest.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection and the bytes already read from it.
pub(crate) struct Rewind<S> {
    read: Vec<u8>,
    pub stream: S,
}

impl<S> Rewind<S> {
    pub(crate) fn new(read: Vec<u8>, stream: S) -> Self {
        Self { read, stream }
    }

    /// The bytes and the connection.
    pub(crate) fn into_parts(self) -> (Vec<u8>, S) {
        (self.read, self.stream)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewind<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { read, stream } = self.get_mut();
        if read.is_empty() {
            return Pin::new(stream).poll_read(cx, buf);
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
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, bufs)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
