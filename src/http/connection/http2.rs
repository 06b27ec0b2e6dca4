//! A connection of HTTP/2 (RFC 9113), over the library `h2`.
//!
//! One task reads requests, has them answered and sends the answers, so that all of it is gone when the connection is. A request is worked
//! on once the client has read enough of the answers before it (`connection/memory_ledger.rs`); an answer of which nothing is taken for too long ends the
//! connection. Not here: sockets and TLS (`server.rs`), what is asked and answered (`dispatch.rs`). Invariant: whatever is handed to the library
//! and not yet written is held in the account of the connection.

use std::{
    cell::{Cell, RefCell},
    error::Error as StdError,
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use actix_http::{
    BoxedPayloadStream, HttpMessage, Method, Payload, Request, Response, Uri,
    body::{BodySize, BoxBody, MessageBody},
    error::PayloadError,
    header::{CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE},
};
use actix_service::Service;
use actix_web::web::Bytes;
use futures_util::{StreamExt, stream, stream::FuturesUnordered};
use h2::{
    Reason, RecvStream, SendStream,
    server::{Builder, Connection, SendResponse},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, Sleep, sleep, timeout},
};

use super::{
    guard::{LEAVING, Patience},
    memory_ledger::{Account, Hold},
    response_body::PART,
};
use crate::http::call::Peer;
use crate::listener::ConnectionGuard;

/// So many requests that are wrong in themselves, or more than may be under way, end a connection: each costs the library memory. Clients
/// in use send no more than 100 before they know how many may be.
const REFUSALS: usize = 128;
/// What a request takes until its answer is gone, beside its head and the answer.
const REQUEST: usize = 8192;
/// What the connection itself takes. It counts while something is asked on it.
const OPEN: usize = 48 << 10;
/// Bytes that a client may send of the bodies of one request, and of all, before they are read.
const WINDOW: u32 = 32 << 10;
const WINDOWS: u32 = 65_535;

/// Who is at the other end, and what is held for them.
pub struct Client {
    pub peer: Peer,
    pub account: Account,
}

/// Answers the requests of a connection until it ends.
pub async fn serve<T, S>(stream: T, service: Rc<S>, client: Client, patience: Patience, mut here: ConnectionGuard)
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request> + 'static,
    S::Error: Into<Response<BoxBody>>,
    S::Response: Into<Response<BoxBody>>,
{
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(u32::try_from(patience.streams).unwrap_or(u32::MAX))
        .max_header_list_size(u32::try_from(2 * patience.head_bytes).unwrap_or(u32::MAX))
        .max_local_error_reset_streams(Some(REFUSALS))
        .max_send_buffer_size(PART)
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOWS);
    let connection = tokio::select! {
        begun = timeout(patience.head, builder.handshake(stream)) => begun,
        () = here.ends() => return,
    };
    match connection {
        Ok(Ok(connection)) => Http2Connection::new(connection, service, client, patience).run(here).await,
        Ok(Err(error)) => tracing::debug!(%error, "no HTTP/2"),
        Err(_) => tracing::debug!("a connection of HTTP/2 that does not begin"),
    }
}

/// A connection, and the answers on it.
struct Http2Connection<T, S> {
    connection: Connection<T, Part>,
    service: Rc<S>,
    line: Rc<ConnectionShared>,
    answers: FuturesUnordered<Pin<Box<dyn Future<Output = ()>>>>,
    patience: Patience,
    /// Runs out when nothing is asked, or, once it ends, when nothing is taken.
    rest: Pin<Box<Sleep>>,
    /// The connection itself, while something is asked on it.
    busy: Option<Hold>,
    is_leaving: bool,
    is_closing: bool,
}

/// What the answers on a connection share.
struct ConnectionShared {
    client: Client,
    patience: Duration,
    /// Requests that are worked on.
    working: Cell<usize>,
    /// When the client took something, or an answer began.
    moved: Cell<Instant>,
    /// Why the connection is to be cut off.
    cut: RefCell<Option<String>>,
}

impl<T, S> Http2Connection<T, S>
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request> + 'static,
    S::Error: Into<Response<BoxBody>>,
    S::Response: Into<Response<BoxBody>>,
{
    fn new(connection: Connection<T, Part>, service: Rc<S>, client: Client, patience: Patience) -> Self {
        let line = ConnectionShared {
            client,
            patience: patience.unread,
            working: Cell::new(0),
            moved: Cell::new(Instant::now()),
            cut: RefCell::new(None),
        };
        let rest = Box::pin(sleep(patience.keep_alive));
        let answers = FuturesUnordered::new();
        Self { connection, service, line: Rc::new(line), answers, patience, rest, busy: None, is_leaving: false, is_closing: false }
    }

    async fn run(mut self, mut here: ConnectionGuard) {
        let mut ends = pin!(here.ends());
        let mut has_to_end = false;
        poll_fn(|cx| {
            if !has_to_end && ends.as_mut().poll(cx).is_ready() {
                has_to_end = true;
                self.line.moved.set(Instant::now());
                self.leave();
            }
            self.go_on(cx)
        })
        .await;
    }

    /// Takes no further requests.
    fn leave(&mut self) {
        if !self.is_leaving {
            self.is_leaving = true;
            self.connection.graceful_shutdown();
        }
    }

    fn go_on(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match pin!(self.connection.accept()).poll(cx) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    let answer = answer(self.service.clone(), self.line.clone(), request, respond);
                    self.answers.push(Box::pin(answer));
                    continue;
                }
                Poll::Ready(Some(Err(error))) => {
                    tracing::debug!(%error, "a connection of HTTP/2 ended");
                    return Poll::Ready(());
                }
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => {}
            }
            let is_empty = self.answers.is_empty();
            if !is_empty && self.answers.poll_next_unpin(cx).is_ready() {
                continue;
            }
            if let Some(reason) = self.line.cut.borrow_mut().take() {
                tracing::debug!(reason, "a connection of HTTP/2 is cut off");
                return Poll::Ready(());
            }
            match self.wait(cx) {
                Poll::Ready(true) => return Poll::Ready(()),
                // There is something to send.
                Poll::Ready(false) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Looks at the time. Whether the connection ends, or is to be looked at again.
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let is_busy = !self.answers.is_empty() || self.connection.has_streams();
        if !is_busy && self.is_leaving {
            if std::mem::replace(&mut self.is_closing, true) {
                return self.late(cx, LEAVING);
            }
            // Nobody waits for anything any more: the library need not hear from the client before it closes.
            self.line.moved.set(Instant::now());
            self.connection.abrupt_shutdown(Reason::NO_ERROR);
            return Poll::Ready(false);
        }
        if is_busy {
            self.busy.get_or_insert_with(|| self.line.client.account.hold(OPEN));
            return if self.is_leaving && self.line.working.get() == 0 {
                self.late(cx, LEAVING.min(self.patience.unread))
            } else {
                Poll::Pending
            };
        }
        if self.busy.take().is_some() {
            self.rest.as_mut().reset(Instant::now() + self.patience.keep_alive);
        }
        if self.rest.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.leave();
        Poll::Ready(false)
    }

    /// Whether nothing has been taken for so long.
    fn late(&mut self, cx: &mut Context<'_>, time: Duration) -> Poll<bool> {
        let until = self.line.moved.get() + time;
        if self.rest.deadline() != until {
            self.rest.as_mut().reset(until);
        }
        self.rest.as_mut().poll(cx).map(|()| true)
    }
}

/// A request that is worked on, until it is dropped.
struct Working<'l>(&'l ConnectionShared);

impl<'l> Working<'l> {
    fn on(line: &'l ConnectionShared) -> Self {
        line.working.set(line.working.get() + 1);
        Self(line)
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.working.set(self.0.working.get().saturating_sub(1));
        self.0.moved.set(Instant::now());
    }
}

/// Answers a request, unless the client gives it up.
async fn answer<S>(service: Rc<S>, line: Rc<ConnectionShared>, request: http::Request<RecvStream>, mut respond: SendResponse<Part>)
where
    S: Service<Request>,
    S::Error: Into<Response<BoxBody>>,
    S::Response: Into<Response<BoxBody>>,
{
    let hold = Arc::new(line.client.account.hold(REQUEST + bytes_of(&request)));
    let is_head = request.method() == http::Method::HEAD;
    let work = async {
        line.client.account.room().await;
        let request = translated(request, &line.client.peer, hold.clone())?;
        let _working = Working::on(&line);
        Some(service.call(request).await.map_or_else(Into::into, Into::into))
    };
    let reply: Option<Response<BoxBody>> = tokio::select! {
        reply = work => reply,
        _ = poll_fn(|cx| respond.poll_reset(cx)) => return,
    };
    let Some(reply) = reply else { return respond.send_reset(Reason::PROTOCOL_ERROR) };
    hold.keep(REQUEST);
    if let Err(error) = send(&line, respond, reply, is_head, hold).await {
        tracing::debug!(%error, "an answer that was not taken");
    }
}

/// Bytes of the head of a request.
fn bytes_of(request: &http::Request<RecvStream>) -> usize {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    let body = if request.body().is_end_stream() { 0 } else { WINDOW as usize };
    request.headers().iter().fold(target + body, |sum, (name, value)| sum + name.as_str().len() + value.len() + 64)
}

/// The request as the front door takes it.
fn translated(request: http::Request<RecvStream>, peer: &Peer, hold: Arc<Hold>) -> Option<Request> {
    let (parts, body) = request.into_parts();
    let payload = if body.is_end_stream() { Payload::None } else { Payload::Stream { payload: incoming(body) } };
    let mut request = Request::with_payload(payload);
    let head = request.head_mut();
    head.method = Method::from_bytes(parts.method.as_str().as_bytes()).ok()?;
    head.uri = parts.uri.to_string().parse::<Uri>().ok()?;
    head.version = actix_http::Version::HTTP_2;
    for (name, value) in &parts.headers {
        head.headers.append(HeaderName::from_bytes(name.as_str().as_bytes()).ok()?, HeaderValue::from_bytes(value.as_bytes()).ok()?);
    }
    request.extensions_mut().insert(peer.clone());
    request.extensions_mut().insert(hold);
    Some(request)
}

/// The body of a request as it comes.
fn incoming(body: RecvStream) -> BoxedPayloadStream {
    Box::pin(stream::unfold(body, async |mut body| {
        let part = poll_fn(|cx| body.poll_data(cx)).await?;
        let taken = part.and_then(|part| body.flow_control().release_capacity(part.len()).map(|()| part));
        Some((taken.map_err(|error| PayloadError::Io(io::Error::other(error))), body))
    }))
}

/// Sends an answer, in parts as the client takes them.
async fn send(
    line: &ConnectionShared,
    mut respond: SendResponse<Part>,
    reply: Response<BoxBody>,
    is_head: bool,
    hold: Arc<Hold>,
) -> Result<(), Box<dyn StdError>> {
    let (reply, body) = reply.into_parts();
    let mut left = match body.size() {
        BodySize::None => Some(0),
        BodySize::Sized(bytes) => Some(bytes),
        BodySize::Stream => None,
    };
    let head = head(&reply, body.size())?;
    let is_whole = is_head || left == Some(0);
    let mut stream = respond.send_response(head, is_whole)?;
    if is_whole {
        return Ok(());
    }
    let mut body = pin!(body);
    loop {
        let next = tokio::select! {
            next = poll_fn(|cx| body.as_mut().poll_next(cx)) => next,
            _ = poll_fn(|cx| stream.poll_reset(cx)) => return Ok(()),
        };
        let Some(part) = next else { break };
        let part = part?;
        left = left.map(|left| left.saturating_sub(part.len() as u64));
        if timeout(line.patience, give(&mut stream, part, left == Some(0), &hold)).await.map_err(|_| line.cut_off())?? {
            return Ok(());
        }
        line.moved.set(Instant::now());
        hold.took();
    }
    stream.send_data(Part { bytes: Bytes::new(), _hold: hold }, true)?;
    Ok(())
}

impl ConnectionShared {
    /// Has the connection cut off because an answer is left unread.
    fn cut_off(&self) -> io::Error {
        *self.cut.borrow_mut() = Some("an answer is left unread".into());
        io::ErrorKind::TimedOut.into()
    }
}

/// Gives the client a part as it takes it; the stream ends with it if it is the last. Whether it has ended.
async fn give(stream: &mut SendStream<Part>, mut part: Bytes, is_last: bool, hold: &Arc<Hold>) -> Result<bool, h2::Error> {
    while !part.is_empty() {
        stream.reserve_capacity(part.len().min(PART));
        let Some(room) = poll_fn(|cx| stream.poll_capacity(cx)).await.transpose()? else { return Ok(true) };
        let bytes = part.split_to(room.min(part.len()));
        stream.send_data(Part { bytes, _hold: hold.clone() }, is_last && part.is_empty())?;
    }
    Ok(is_last)
}

/// The head of an answer as the library takes it, without what HTTP/2 has no room for (RFC 9113, section 8.2.2).
fn head(reply: &Response<()>, size: BodySize) -> Result<http::Response<()>, http::Error> {
    let mut head = http::Response::builder().status(reply.status().as_u16());
    let only_1 = [CONNECTION, TRANSFER_ENCODING, UPGRADE, CONTENT_LENGTH];
    for (name, value) in reply.headers() {
        if !only_1.contains(name) && name != "keep-alive" && name != "proxy-connection" {
            head = head.header(name.as_str(), value.as_bytes());
        }
    }
    if !reply.headers().contains_key("date") {
        head = head.header("date", httpdate::fmt_http_date(std::time::SystemTime::now()));
    }
    if let BodySize::Sized(bytes) = size {
        head = head.header("content-length", bytes);
    }
    head.body(())
}

/// A part of an answer that the library has not written yet.
struct Part {
    bytes: Bytes,
    _hold: Arc<Hold>,
}

impl bytes::Buf for Part {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }
    fn chunk(&self) -> &[u8] {
        &self.bytes
    }
    fn advance(&mut self, count: usize) {
        bytes::Buf::advance(&mut self.bytes, count);
    }
}
