//! A connection between TLS and HTTP: checks incoming bytes before the HTTP library reads them, and
//! limits how long outgoing bytes may wait.
//!
//! For HTTP/1.1 it encodes invalid characters in request targets that some clients send
//! (`connection/request_target.rs`); for HTTP/2 it rejects heads that do not end
//! (`connection/request_heads.rs`). Bytes buffered for a client that sends no complete head, or
//! reads nothing, are held in its account (`connection/memory_ledger.rs`).

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use actix_web::web::Bytes;
use listener::ConnectionGuard;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use super::{
    memory_ledger::{Account, Hold},
    request_heads::Heads,
    request_target::TargetGuard,
};

/// Time and size limits of connections.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// The time a client has to send the head of a request.
    pub head: Duration,
    /// How long a client may leave data unread or unacknowledged.
    pub unread: Duration,
    /// How long an idle connection is kept.
    pub keep_alive: Duration,
    /// Bytes of a head as sent.
    pub head_bytes: usize,
    /// Bytes of a target that is answered with something else than an error.
    pub target_bytes: usize,
    /// Concurrent requests on one HTTP/2 connection.
    pub streams: usize,
}

/// How long a client may read nothing after the listener stops.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(1);
/// Bytes in the buffers of a connection whose client reads nothing: those of HTTP, and of TLS as
/// set in `connection/acceptor.rs`.
const BUFFERED: usize = 64 << 10;
/// An incomplete head up to this size is not counted: every connection has such a buffer.
const SMALL: usize = 4096;

/// A guarded connection.
pub(crate) struct Guarded<T> {
    pub stream: T,
    pub account: Account,
    guard: Guard,
    /// The bytes of an incomplete head.
    head: Option<Hold>,
    pace: WriteTimeout,
}

enum Guard {
    /// The bytes were read and not yet passed on.
    Http1(TargetGuard, Bytes),
    Http2(Heads),
}

impl<T> Guarded<T> {
    /// An HTTP/1.1 connection. It fails when the client reads nothing for `patience`. `target` is
    /// the maximum bytes of a target.
    pub(crate) fn plain(
        stream: T,
        account: Account,
        connection: ConnectionGuard,
        patience: Duration,
        target: usize,
    ) -> Self {
        Self::new(
            stream,
            account,
            connection,
            patience,
            Guard::Http1(TargetGuard::new(target), Bytes::new()),
        )
    }

    /// An HTTP/2 connection. `head` is the maximum bytes of a head as sent.
    pub(crate) fn multiplexed(
        stream: T,
        account: Account,
        connection: ConnectionGuard,
        patience: Duration,
        head: usize,
    ) -> Self {
        Self::new(
            stream,
            account,
            connection,
            patience,
            Guard::Http2(Heads::new(head)),
        )
    }

    fn new(
        stream: T,
        account: Account,
        connection: ConnectionGuard,
        patience: Duration,
        guard: Guard,
    ) -> Self {
        let pace = WriteTimeout {
            patience,
            connection,
            waiting: None,
        };
        Self {
            stream,
            account,
            guard,
            head: None,
            pace,
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Guarded<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self {
            stream,
            guard,
            head,
            account,
            ..
        } = self.get_mut();
        if let Guard::Http1(_, rest) = guard
            && !rest.is_empty()
        {
            copy_part(rest, buf);
            return Poll::Ready(Ok(()));
        }
        let known = buf.filled().len();
        let unfinished = loop {
            ready!(Pin::new(&mut *stream).poll_read(cx, buf))?;
            let new = buf.filled().get(known..).unwrap_or_default();
            let is_end = new.is_empty();
            break match guard {
                Guard::Http1(targets, rest) => {
                    if let Some(encoded) = targets.take(new) {
                        *rest = encoded.into();
                        buf.set_filled(known);
                        copy_part(rest, buf);
                    }
                    if targets.is_endless() {
                        return Poll::Ready(Err(io::Error::new(
                            io::ErrorKind::ConnectionAborted,
                            "the target of a request is too long",
                        )));
                    }
                    // No bytes mean the end of the connection, so that the next ones are read if
                    // none of these are passed on.
                    if buf.filled().len() == known && !is_end {
                        continue;
                    }
                    targets.unfinished()
                }
                Guard::Http2(heads) => {
                    if !heads.take(new) {
                        return Poll::Ready(Err(io::Error::new(
                            io::ErrorKind::ConnectionAborted,
                            "the head of a request is too long",
                        )));
                    }
                    heads.unfinished()
                }
            };
        };
        match head {
            _ if unfinished <= SMALL => *head = None,
            Some(hold) => hold.keep(unfinished),
            None => *head = Some(account.hold(unfinished)),
        }
        Poll::Ready(Ok(()))
    }
}

/// Moves bytes from `rest` to `buf`, as many as fit.
fn copy_part(rest: &mut Bytes, buf: &mut ReadBuf<'_>) {
    buf.put_slice(&rest.split_to(rest.len().min(buf.remaining())));
}

/// The time limit for a client that reads nothing.
struct WriteTimeout {
    patience: Duration,
    connection: ConnectionGuard,
    waiting: Option<BlockedWrite>,
}

struct BlockedWrite {
    until: Pin<Box<Sleep>>,
    is_leaving: bool,
    _buffers: Hold,
}

impl WriteTimeout {
    /// Passes on the result of a write, or an error if the write has waited for too long.
    fn keep<R>(
        &mut self,
        account: &Account,
        cx: &mut Context<'_>,
        sent: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if sent.is_ready() {
            self.waiting = None;
            return sent;
        }
        let is_leaving = self.connection.has_to_end();
        let waiting = match self.waiting.take() {
            Some(waiting) if waiting.is_leaving == is_leaving => waiting,
            _ => {
                let time = if is_leaving {
                    self.patience.min(STOP_GRACE)
                } else {
                    self.patience
                };
                BlockedWrite {
                    until: Box::pin(sleep(time)),
                    is_leaving,
                    _buffers: account.hold(BUFFERED),
                }
            }
        };
        ready!(self.waiting.insert(waiting).until.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client reads nothing",
        )))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Guarded<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self {
            stream,
            account,
            pace,
            ..
        } = self.get_mut();
        let sent = Pin::new(stream).poll_write(cx, buf);
        pace.keep(account, cx, sent)
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self {
            stream,
            account,
            pace,
            ..
        } = self.get_mut();
        let sent = Pin::new(stream).poll_flush(cx);
        pace.keep(account, cx, sent)
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self {
            stream,
            account,
            pace,
            ..
        } = self.get_mut();
        let sent = Pin::new(stream).poll_shutdown(cx);
        pace.keep(account, cx, sent)
    }
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Self {
            stream,
            account,
            pace,
            ..
        } = self.get_mut();
        let sent = Pin::new(stream).poll_write_vectored(cx, bufs);
        pace.keep(account, cx, sent)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
