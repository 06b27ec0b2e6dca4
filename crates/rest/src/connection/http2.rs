//! An HTTP/2 connection (RFC 9113), with the library `h2`.
//!
//! One task reads requests, answers them and sends the answers, so that everything ends with the
//! connection. A request is processed once the client has read enough of the previous answers
//! (`connection/memory_ledger.rs`). If a client reads nothing of an answer for too long, the
//! connection is closed. Not here: sockets and TLS (the crate `listener`), the content of answers
//! (`serve.rs`). Invariant: data that was passed to `h2` and is not yet written is held in the
//! account of the connection.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use actix_http::{Request, Response, body::BoxBody};
use actix_service::Service;
use futures_util::{StreamExt, stream::FuturesUnordered};
use h2::{
    Reason, RecvStream,
    server::{Builder, Connection, SendResponse},
};
use listener::ConnectionGuard;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Notify,
    time::{Instant, Sleep, sleep, timeout},
};

use super::{
    answer_stream::{Part, send},
    connection_shared::{ConnectionClient, ConnectionShared, RequestInProgress},
    guard::{ConnectionLimits, STOP_GRACE},
    http2_request::{WINDOW, bytes_of, expects_continue, notified, send_continue, translated},
    memory_ledger::Hold,
    response_body::PART,
};

/// The number of malformed or excess requests that ends a connection, because each of them occupies
/// memory in `h2`. Known clients send at most 100 requests before they receive the limit of
/// concurrent requests.
const REFUSALS: usize = 128;
/// The memory of a request until its answer is sent, besides its head and the body of the answer.
/// The stream in `h2`, the task that answers it and the head of the answer take 7.2 KiB (measured
/// with 128 requests on each of 56 connections). The allocator keeps as much again for up to ten
/// seconds while connections are closed and others follow (measured with 2,000 and 19,000
/// connections).
const REQUEST: usize = 16 << 10;
/// The number of requests of a connection that are started before its task yields to other
/// connections.
const BATCH: usize = 8;
/// The memory of the connection itself. It counts while a request is in progress.
const OPEN: usize = 48 << 10;
/// The flow-control window for the request bodies of a connection, in bytes.
const WINDOWS: u32 = 65_535;

/// Answers the requests of a connection until it ends.
pub(crate) async fn serve<T, S>(
    stream: T,
    service: Rc<S>,
    client: ConnectionClient,
    limits: ConnectionLimits,
    mut guard: ConnectionGuard,
) where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request> + 'static,
    S::Error: Into<Response<BoxBody>>,
    S::Response: Into<Response<BoxBody>>,
{
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(u32::try_from(limits.streams).unwrap_or(u32::MAX))
        .max_header_list_size(u32::try_from(2 * limits.head_bytes).unwrap_or(u32::MAX))
        .max_local_error_reset_streams(Some(REFUSALS))
        .max_send_buffer_size(PART)
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOWS);
    let connection = tokio::select! {
        begun = timeout(limits.head, builder.handshake(stream)) => begun,
        () = guard.ends() => return,
    };
    match connection {
        Ok(Ok(connection)) => {
            Http2Connection::new(connection, service, client, limits)
                .run(guard)
                .await
        }
        Ok(Err(error)) => tracing::debug!(%error, "the HTTP/2 handshake failed"),
        Err(_) => tracing::debug!("the HTTP/2 handshake timed out"),
    }
}

/// A connection and its answers.
struct Http2Connection<T, S> {
    connection: Connection<T, Part>,
    service: Rc<S>,
    line: Rc<ConnectionShared>,
    accepted: VecDeque<Accepted>,
    answers: FuturesUnordered<Pin<Box<dyn Future<Output = ()>>>>,
    limits: ConnectionLimits,
    /// Expires when the connection is idle, or, while it ends, when nothing is read.
    rest: Pin<Box<Sleep>>,
    /// The memory of the connection itself, while a request is in progress.
    busy: Option<Hold>,
    /// Resolves when the total of all connections has room for another request.
    paused: Option<Pin<Box<dyn Future<Output = ()>>>>,
    is_leaving: bool,
    is_closing: bool,
}

/// A request that is not started yet.
struct Accepted {
    hold: Arc<Hold>,
    request: http::Request<RecvStream>,
    respond: SendResponse<Part>,
}

impl<T, S> Http2Connection<T, S>
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request> + 'static,
    S::Error: Into<Response<BoxBody>>,
    S::Response: Into<Response<BoxBody>>,
{
    fn new(
        connection: Connection<T, Part>,
        service: Rc<S>,
        client: ConnectionClient,
        limits: ConnectionLimits,
    ) -> Self {
        let line = ConnectionShared {
            client,
            patience: limits.unread,
            working: Cell::new(0),
            moved: Cell::new(Instant::now()),
            cut: RefCell::new(None),
        };
        let rest = Box::pin(sleep(limits.keep_alive));
        let answers = FuturesUnordered::new();
        let line = Rc::new(line);
        let accepted = VecDeque::new();
        Self {
            connection,
            service,
            line,
            accepted,
            answers,
            limits,
            rest,
            busy: None,
            paused: None,
            is_leaving: false,
            is_closing: false,
        }
    }

    async fn run(mut self, mut guard: ConnectionGuard) {
        let mut ends = pin!(guard.ends());
        let mut has_to_end = false;
        poll_fn(|cx| {
            if !has_to_end && ends.as_mut().poll(cx).is_ready() {
                has_to_end = true;
                self.line.moved.set(Instant::now());
                self.stop_accepting();
            }
            self.advance(cx)
        })
        .await;
    }

    /// Accepts no further requests.
    fn stop_accepting(&mut self) {
        if !self.is_leaving {
            self.is_leaving = true;
            self.connection.graceful_shutdown();
        }
    }

    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut begun = 0;
        // While there is no room, nothing is read: what the client sends stays in the socket.
        // Requests that were read are all accepted.
        let is_paused = !self.is_leaving && self.is_paused(cx);
        loop {
            match if is_paused {
                Poll::Pending
            } else {
                self.accept(cx)
            } {
                Poll::Ready(true) => continue,
                Poll::Ready(false) => return Poll::Ready(()),
                Poll::Pending => {}
            }
            while begun < BATCH && self.begin() {
                begun += 1;
            }
            let is_empty = self.answers.is_empty();
            if !is_empty && self.answers.poll_next_unpin(cx).is_ready() {
                continue;
            }
            if let Some(reason) = self.line.cut.borrow_mut().take() {
                tracing::debug!(reason, "an HTTP/2 connection is closed");
                return Poll::Ready(());
            }
            if !self.accepted.is_empty() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if is_paused {
                return Poll::Pending;
            }
            match self.wait(cx) {
                Poll::Ready(true) => return Poll::Ready(()),
                // There is something to send.
                Poll::Ready(false) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Accepts the next request. Returns false if the connection has ended. The memory of the
    /// request is held from now on, because `h2` has already read the request.
    fn accept(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let next = ready!(pin!(self.connection.accept()).poll(cx));
        match next {
            Some(Ok((request, respond))) => {
                let account = &self.line.client.account;
                self.busy.get_or_insert_with(|| account.hold(OPEN));
                let hold = Arc::new(account.hold(REQUEST + bytes_of(&request)));
                self.accepted.push_back(Accepted {
                    hold,
                    request,
                    respond,
                });
                return Poll::Ready(true);
            }
            Some(Err(error)) => tracing::debug!(%error, "an HTTP/2 connection ended with an error"),
            None => {}
        }
        Poll::Ready(false)
    }

    /// Starts to answer the next request. Returns false if there is none.
    fn begin(&mut self) -> bool {
        let Some(next) = self.accepted.pop_front() else {
            return false;
        };
        self.answers.push(Box::pin(answer(
            self.service.clone(),
            self.line.clone(),
            next,
        )));
        true
    }

    /// Whether the total of all connections has no room for another request.
    fn is_paused(&mut self, cx: &mut Context<'_>) -> bool {
        let account = &self.line.client.account;
        if self.paused.is_none() && account.has_total_room() {
            return false;
        }
        let paused = self.paused.get_or_insert_with(|| {
            let account = account.clone();
            Box::pin(async move { account.total_room().await })
        });
        if paused.as_mut().poll(cx).is_pending() {
            return true;
        }
        self.paused = None;
        false
    }

    /// Checks the timeouts. Returns true if the connection ends, false if it must be polled again.
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let is_busy = !self.answers.is_empty() || self.connection.has_streams();
        if !is_busy && self.is_leaving {
            if std::mem::replace(&mut self.is_closing, true) {
                return self.late(cx, STOP_GRACE);
            }
            // Nothing is outstanding: the connection closes without waiting for the client.
            self.line.moved.set(Instant::now());
            self.connection.abrupt_shutdown(Reason::NO_ERROR);
            return Poll::Ready(false);
        }
        if is_busy {
            return if self.is_leaving && self.line.working.get() == 0 {
                self.late(cx, STOP_GRACE.min(self.limits.unread))
            } else {
                Poll::Pending
            };
        }
        if self.busy.take().is_some() {
            self.rest
                .as_mut()
                .reset(Instant::now() + self.limits.keep_alive);
        }
        if self.rest.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.stop_accepting();
        Poll::Ready(false)
    }

    /// Ready if nothing was read for `time`.
    fn late(&mut self, cx: &mut Context<'_>, time: Duration) -> Poll<bool> {
        let until = self.line.moved.get() + time;
        if self.rest.deadline() != until {
            self.rest.as_mut().reset(until);
        }
        self.rest.as_mut().poll(cx).map(|()| true)
    }
}

/// Answers a request, unless the client cancels it.
async fn answer<S>(
    service: Rc<S>,
    line: Rc<ConnectionShared>,
    Accepted {
        hold,
        request,
        mut respond,
    }: Accepted,
) where
    S: Service<Request>,
    S::Error: Into<Response<BoxBody>>,
    S::Response: Into<Response<BoxBody>>,
{
    let is_head = request.method() == http::Method::HEAD;
    let awaited = expects_continue(&request).then(Rc::<Notify>::default);
    let work = async {
        line.client.account.room().await;
        let request = translated(request, &line.client.peer, hold.clone(), awaited.clone())?;
        let _working = RequestInProgress::on(&line);
        Some(
            service
                .call(request)
                .await
                .map_or_else(Into::into, Into::into),
        )
    };
    let reply: Option<Response<BoxBody>> = {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                reply = &mut work => break reply,
                () = notified(awaited.as_deref()) => send_continue(&mut respond),
                _ = poll_fn(|cx| respond.poll_reset(cx)) => return,
            }
        }
    };
    let Some(reply) = reply else {
        return respond.send_reset(Reason::PROTOCOL_ERROR);
    };
    hold.keep(REQUEST);
    if let Err(error) = send(&line, respond, reply, is_head, hold).await {
        tracing::debug!(%error, "an answer could not be sent completely");
    }
}
