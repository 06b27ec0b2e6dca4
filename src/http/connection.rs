//! A connection between TLS and HTTP: what comes in is looked at before the library for HTTP gets it.
//!
//! With HTTP/1.1 for characters that nobody should send in a request's target and some do (`target.rs`), with HTTP/2 for what the library
//! does not bound (`line.rs`). What goes out is left as it is.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use actix_web::web::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    line::{Heads, Line, Patience},
    target::Targets,
};

/// A connection that is read so.
pub struct Guarded<T> {
    pub stream: T,
    guard: Guard,
}

enum Guard {
    /// With what was read and not handed out.
    Http1(Targets, Bytes),
    Http2(Line, Heads),
}

impl<T> Guarded<T> {
    /// A connection of HTTP/1.1.
    pub fn plain(stream: T) -> Self {
        Self { stream, guard: Guard::Http1(Targets::default(), Bytes::new()) }
    }

    /// A connection of HTTP/2, read only as long as nothing on it is too much.
    pub fn watched(stream: T, patience: Patience) -> Self {
        Self { stream, guard: Guard::Http2(Line::new(patience), Heads::new(patience.head)) }
    }

    /// What is on its way on it, if that is watched.
    pub fn line(&self) -> Option<&Line> {
        if let Guard::Http2(line, _) = &self.guard { Some(line) } else { None }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Guarded<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { stream, guard } = self.get_mut();
        let cut = |reason: &str| Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, reason)));
        match guard {
            Guard::Http1(_, rest) if !rest.is_empty() => {
                hand_out(rest, buf);
                return Poll::Ready(Ok(()));
            }
            Guard::Http2(line, _) if line.is_left() => return cut("answers are left unread"),
            _ => {}
        }
        let known = buf.filled().len();
        ready!(Pin::new(stream).poll_read(cx, buf))?;
        let new = buf.filled().get(known..).unwrap_or_default();
        match guard {
            Guard::Http1(targets, rest) => {
                if let Some(encoded) = targets.take(new) {
                    *rest = encoded.into();
                    buf.set_filled(known);
                    hand_out(rest, buf);
                }
            }
            Guard::Http2(_, heads) => {
                if !heads.take(new) {
                    return cut("the head of a request does not end");
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Hands out as much as there is room for.
fn hand_out(rest: &mut Bytes, buf: &mut ReadBuf<'_>) {
    buf.put_slice(&rest.split_to(rest.len().min(buf.remaining())));
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Guarded<T> {
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
