//! A connection between TLS and HTTP: what comes in is looked at before the library for HTTP gets it, and what goes out may not wait for
//! ever.
//!
//! With HTTP/1.1 for characters that nobody should send in a request's target and some do (`connection/request_target.rs`), with HTTP/2 for heads that do not
//! end (`connection/request_heads.rs`). What is buffered for a client that sends no whole head, or takes nothing, is held in its account (`connection/memory_ledger.rs`).

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use actix_web::web::Bytes;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use super::{
    memory_ledger::{Account, Hold},
    request_heads::Heads,
    request_target::TargetGuard,
};
use crate::listener::ConnectionGuard;

/// How long clients are waited for, and how much of them.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// The time a client has to send the head of a request.
    pub head: Duration,
    /// How long a client may leave what it is sent unread, or unacknowledged.
    pub unread: Duration,
    /// How long an idle connection is kept.
    pub keep_alive: Duration,
    /// Bytes of a head as it is sent.
    pub head_bytes: usize,
    /// Requests at the same time on one connection of HTTP/2.
    pub streams: usize,
}

/// How long a client may take nothing once the listener ends.
pub const LEAVING: Duration = Duration::from_secs(1);
/// Bytes in the buffers of a connection whose client takes nothing: those of HTTP, and of TLS as they are set in `connection/acceptor.rs`.
const BUFFERED: usize = 64 << 10;
/// A part of a head up to so many bytes is no more than what any connection takes.
const SMALL: usize = 4096;

/// A connection that is read so.
pub struct Guarded<T> {
    pub stream: T,
    pub account: Account,
    guard: Guard,
    /// Of a head that has not come whole.
    head: Option<Hold>,
    pace: WriteTimeout,
}

enum Guard {
    /// With what was read and not handed out.
    Http1(TargetGuard, Bytes),
    Http2(Heads),
}

impl<T> Guarded<T> {
    /// A connection of HTTP/1.1. The client is cut off when it takes nothing for `patience`.
    pub fn plain(stream: T, account: Account, here: ConnectionGuard, patience: Duration) -> Self {
        Self::new(stream, account, here, patience, Guard::Http1(TargetGuard::default(), Bytes::new()))
    }

    /// A connection of HTTP/2. No head may have more than so many bytes as it is sent.
    pub fn multiplexed(stream: T, account: Account, here: ConnectionGuard, patience: Duration, head: usize) -> Self {
        Self::new(stream, account, here, patience, Guard::Http2(Heads::new(head)))
    }

    fn new(stream: T, account: Account, here: ConnectionGuard, patience: Duration, guard: Guard) -> Self {
        let pace = WriteTimeout { patience, here, waiting: None };
        Self { stream, account, guard, head: None, pace }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Guarded<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { stream, guard, head, account, .. } = self.get_mut();
        if let Guard::Http1(_, rest) = guard
            && !rest.is_empty()
        {
            hand_out(rest, buf);
            return Poll::Ready(Ok(()));
        }
        let known = buf.filled().len();
        ready!(Pin::new(stream).poll_read(cx, buf))?;
        let new = buf.filled().get(known..).unwrap_or_default();
        let unfinished = match guard {
            Guard::Http1(targets, rest) => {
                if let Some(encoded) = targets.take(new) {
                    *rest = encoded.into();
                    buf.set_filled(known);
                    hand_out(rest, buf);
                }
                targets.unfinished()
            }
            Guard::Http2(heads) => {
                if !heads.take(new) {
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the head of a request does not end")));
                }
                heads.unfinished()
            }
        };
        match head {
            _ if unfinished <= SMALL => *head = None,
            Some(hold) => hold.keep(unfinished),
            None => *head = Some(account.hold(unfinished)),
        }
        Poll::Ready(Ok(()))
    }
}

/// Hands out as much as there is room for.
fn hand_out(rest: &mut Bytes, buf: &mut ReadBuf<'_>) {
    buf.put_slice(&rest.split_to(rest.len().min(buf.remaining())));
}

/// How long the client may take nothing.
struct WriteTimeout {
    patience: Duration,
    here: ConnectionGuard,
    waiting: Option<Waiting>,
}

struct Waiting {
    until: Pin<Box<Sleep>>,
    is_leaving: bool,
    _buffers: Hold,
}

impl WriteTimeout {
    /// What became of sending something; an error if it has been waited for too long.
    fn keep<R>(&mut self, account: &Account, cx: &mut Context<'_>, sent: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if sent.is_ready() {
            self.waiting = None;
            return sent;
        }
        let is_leaving = self.here.has_to_end();
        let waiting = match self.waiting.take() {
            Some(waiting) if waiting.is_leaving == is_leaving => waiting,
            _ => {
                let time = if is_leaving { self.patience.min(LEAVING) } else { self.patience };
                Waiting { until: Box::pin(sleep(time)), is_leaving, _buffers: account.hold(BUFFERED) }
            }
        };
        ready!(self.waiting.insert(waiting).until.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Guarded<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let Self { stream, account, pace, .. } = self.get_mut();
        let sent = Pin::new(stream).poll_write(cx, buf);
        pace.keep(account, cx, sent)
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, account, pace, .. } = self.get_mut();
        let sent = Pin::new(stream).poll_flush(cx);
        pace.keep(account, cx, sent)
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, account, pace, .. } = self.get_mut();
        let sent = Pin::new(stream).poll_shutdown(cx);
        pace.keep(account, cx, sent)
    }
    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let Self { stream, account, pace, .. } = self.get_mut();
        let sent = Pin::new(stream).poll_write_vectored(cx, bufs);
        pace.keep(account, cx, sent)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
