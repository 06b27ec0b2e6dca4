//! A request of an HTTP/2 connection as actix-web takes it.

use std::{future::poll_fn, io, rc::Rc, sync::Arc};

use actix_http::{
    BoxedPayloadStream, HttpMessage, Method, Payload, Request, Uri,
    error::PayloadError,
    header::{HeaderName, HeaderValue},
};
use futures_util::stream;
use h2::{RecvStream, server::SendResponse};
use tokio::sync::Notify;

use super::{answer_stream::Part, memory_ledger::Hold};
use crate::call::Peer;

/// The flow-control window for the body of a request, in bytes.
pub(super) const WINDOW: u32 = 32 << 10;

/// Whether the client waits for `100 Continue` before it sends the body (RFC 9110 section 10.1.1).
pub(super) fn expects_continue(request: &http::Request<RecvStream>) -> bool {
    let expected = request.headers().get(http::header::EXPECT);
    expected.is_some_and(|value| {
        value
            .as_bytes()
            .trim_ascii()
            .eq_ignore_ascii_case(b"100-continue")
    })
}

/// Resolves when the body is asked for, once.
pub(super) async fn notified(awaited: Option<&Notify>) {
    match awaited {
        Some(awaited) => awaited.notified().await,
        None => std::future::pending().await,
    }
}

pub(super) fn send_continue(respond: &mut SendResponse<Part>) {
    let mut interim = http::Response::new(());
    *interim.status_mut() = http::StatusCode::CONTINUE;
    if let Err(error) = respond.send_informational(interim) {
        tracing::debug!(%error, "100 Continue could not be sent");
    }
}

/// The bytes of a request's head.
pub(super) fn bytes_of(request: &http::Request<RecvStream>) -> usize {
    let target = request
        .uri()
        .path_and_query()
        .map_or(0, |target| target.as_str().len());
    let body = if request.body().is_end_stream() {
        0
    } else {
        WINDOW as usize
    };
    request
        .headers()
        .iter()
        .fold(target + body, |sum, (name, value)| {
            sum + name.as_str().len() + value.len() + 64
        })
}

/// Converts the request for the dispatcher. `awaited` is notified when the body is first asked for.
pub(super) fn translated(
    request: http::Request<RecvStream>,
    peer: &Peer,
    hold: Arc<Hold>,
    awaited: Option<Rc<Notify>>,
) -> Option<Request> {
    let (parts, body) = request.into_parts();
    let payload = if body.is_end_stream() {
        Payload::None
    } else {
        Payload::Stream {
            payload: incoming(body, awaited),
        }
    };
    let mut request = Request::with_payload(payload);
    let head = request.head_mut();
    head.method = Method::from_bytes(parts.method.as_str().as_bytes()).ok()?;
    head.uri = parts.uri.to_string().parse::<Uri>().ok()?;
    head.version = actix_http::Version::HTTP_2;
    for (name, value) in &parts.headers {
        head.headers.append(
            HeaderName::from_bytes(name.as_str().as_bytes()).ok()?,
            HeaderValue::from_bytes(value.as_bytes()).ok()?,
        );
    }
    request.extensions_mut().insert(peer.clone());
    request.extensions_mut().insert(hold);
    Some(request)
}

/// The body of a request as a stream.
fn incoming(body: RecvStream, awaited: Option<Rc<Notify>>) -> BoxedPayloadStream {
    Box::pin(stream::unfold(
        (body, awaited),
        async |(mut body, mut awaited)| {
            awaited.take().inspect(|awaited| awaited.notify_one());
            let part = poll_fn(|cx| body.poll_data(cx)).await?;
            let taken = part.and_then(|part| {
                body.flow_control()
                    .release_capacity(part.len())
                    .map(|()| part)
            });
            Some((
                taken.map_err(|error| PayloadError::Io(io::Error::other(error))),
                (body, awaited),
            ))
        },
    ))
}
