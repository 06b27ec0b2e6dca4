//! Answers a request: admits it, takes it apart, and runs the function of its row.
//!
//! Not here: which row a request leads to (`dispatcher.rs`), and the sending of the answer
//! (`send.rs`).
//!
//! actix-web implements HTTP/1.1, `connection/http2.rs` HTTP/2.
//!
//! A request is rejected by the first of these checks that fails: number of running requests,
//! length of the head, path, method, session, `accept`, declared length of the body, arrival and
//! length of the body, `content-type`, arguments, permission. Clients that wait for `100 Continue`
//! get it, or the error, before they send the body.

use std::{sync::Arc, time::Instant};

use actix_web::{
    HttpMessage, HttpRequest, HttpResponse,
    http::{Method, header::HeaderMap},
    web,
};
use futures_util::{FutureExt, StreamExt};
use model::{
    error::{Error, Refusal, Result},
    metrics::{Metrics, OperationLabels, RequestLabels},
};
use policy::authentication::{Caller, RejectedCaller};
use tracing::Instrument;

use super::{
    answer::Reply,
    body::Incoming,
    call::{Call, Peer},
    change_mode, conditional,
    connection::memory_ledger::{Account, Hold},
    cors,
    dispatcher::{Dispatcher, Route},
    error,
    header::Header,
    health,
    limits::{RequestSlot, within},
    openapi::{self, operation::JSON},
    page, redaction,
    request_caller::{bearer, resolve},
    request_checks::{check_accept, check_content_type, check_permission, required_caller},
    route::normal_path,
    row::Row,
    send::{add_common_headers, send},
    state::AppState,
    token_scope, unknown_members,
};

/// The operation that shows the caller's session.
const OWN_SESSION: &str = "/current-api-session";
/// Bytes reserved for a running request, until the length of its answer is known.
const WORK: usize = 16 << 10;
/// The status of a head that was checked and that needs a body.
const CONTINUE: u16 = 100;

/// Marks a request of which only the head is checked, because its client waits for `100 Continue`
/// before it sends the body.
pub(crate) struct OnlyHead;

/// Answers any request.
pub(crate) async fn serve(
    request: HttpRequest,
    payload: web::Payload,
    dispatcher: web::Data<Dispatcher>,
) -> HttpResponse {
    let state = &dispatcher.state;
    if request.method() == Method::OPTIONS {
        let mut answer = cors::preflight(&request, &state.limits.load().origins);
        add_common_headers(&mut answer, state);
        return answer.finish();
    }
    let begun = Instant::now();
    let hold = hold_memory(&request).await;
    let id = dispatcher.request_id();
    let span =
        tracing::info_span!("request", id, method = %request.method(), path = request.path());
    let mut known = None;
    let path = normal_path(request.uri().path());
    // Like OpenZiti controllers, only the root answers HEAD. It has a row for GET only.
    let is_head_of_root = request.method() == Method::HEAD && path == "/";
    let method = if is_head_of_root {
        "GET"
    } else {
        request.method().as_str()
    };
    let route = dispatcher.find(method, &path);
    let measured = route
        .as_ref()
        .ok()
        .filter(|_| !is_head_of_root)
        .map(|route| (route.interface, route.row));
    let work = async {
        if let Some(reply) = plain(&request, &path, state) {
            return reply;
        }
        let place = dispatcher.admission.admit(&request)?;
        let bearer = bearer(&request);
        // This may wait for the download of the keys of an external signer.
        let shows_session = request.method() == Method::GET && path.ends_with(OWN_SESSION);
        let resolved = resolve(&request, bearer.as_deref(), state, shows_session);
        let caller = within(state.limits.load().time, Refusal::Timeout, resolved).await;
        known = caller.as_ref().ok().and_then(Option::as_ref).cloned();
        answer(
            &request,
            route,
            payload,
            &dispatcher,
            place,
            (caller, bearer),
            hold.as_deref(),
        )
        .await
    };
    let guarded = std::panic::AssertUnwindSafe(work).catch_unwind();
    let result = guarded.instrument(span.clone()).await.unwrap_or_else(|_| {
        Err(Error::Internal(
            "a panic occurred while a request was answered".into(),
        ))
    });
    if let Err(fault) = &result
        && let Some(refused) = RejectedCaller::of(fault, known.as_deref(), peer(&request).shown())
    {
        state
            .logins
            .refusals
            .note(&state.store, refused, state.clock.now())
            .await;
    }
    let reply = result.unwrap_or_else(|fault| span.in_scope(|| error::reply(&fault, &id)));
    span.in_scope(|| tracing::debug!(status = reply.status, "answered"));
    if reply.status != CONTINUE {
        measure(&state.metrics, measured, reply.status, begun);
    }
    send(&request, state, reply, known.as_deref(), hold)
}

/// Adds a request to the metrics of its interface and row, if it leads to one: its number, and the
/// time until its answer begins.
fn measure(metrics: &Metrics, route: Option<(&'static str, &Row)>, status: u16, begun: Instant) {
    let of = route.map_or_else(OperationLabels::default, |(interface, row)| {
        OperationLabels {
            interface,
            method: row.method,
            path: row.path.clone(),
        }
    });
    metrics
        .request_duration
        .get_or_create(&of)
        .observe(begun.elapsed().as_secs_f64());
    let OperationLabels {
        interface,
        method,
        path,
    } = of;
    metrics
        .requests
        .get_or_create(&RequestLabels {
            interface,
            method,
            path,
            status,
        })
        .inc();
}

/// Data attached to the request by the connection (HTTP/1.1) or the stream (HTTP/2).
fn beside<T: Clone + 'static>(request: &HttpRequest) -> Option<T> {
    request
        .conn_data::<T>()
        .cloned()
        .or_else(|| request.extensions().get::<T>().cloned())
}

/// The memory held for the client because of a request, at first for processing it. An HTTP/1.1
/// request waits here until the bound of all connections has room for it; an HTTP/2 connection
/// reads no request before that.
async fn hold_memory(request: &HttpRequest) -> Option<Arc<Hold>> {
    let hold = match (beside::<Arc<Hold>>(request), beside::<Account>(request)) {
        (Some(hold), _) => hold,
        (None, Some(account)) => {
            if !account.has_total_room() {
                account.total_room().await;
            }
            Arc::new(account.hold(0))
        }
        (None, None) => return None,
    };
    hold.answer(WORK);
    Some(hold)
}

fn peer(request: &HttpRequest) -> Peer {
    beside(request).unwrap_or(Peer {
        address: None,
        certificates: Arc::new([]),
    })
}

async fn answer(
    request: &HttpRequest,
    route: Result<Route<'_>>,
    payload: web::Payload,
    dispatcher: &Dispatcher,
    place: RequestSlot,
    (caller, bearer): (Result<Option<Arc<Caller>>>, Option<Arc<str>>),
    hold: Option<&Hold>,
) -> Result<Reply> {
    let Route { row, segments, .. } = route?;
    let caller = required_caller(row, caller)?;
    check_accept(request, row)?;
    let query = request.uri().query().unwrap_or_default();
    change_mode::refuse_unsupported_preview(row, query)?;
    let limits = dispatcher.state.limits.load();
    let limit = limits.body_of(row.permission);
    if row.operation.body.is_some()
        && declared_length(request.headers()).is_some_and(|length| length > limit as u64)
    {
        return Err(Error::Refused(Refusal::TooLarge));
    }
    if request.extensions().get::<OnlyHead>().is_some() {
        return Ok(Reply {
            status: CONTINUE,
            media: JSON,
            body: Vec::new().into(),
            headers: Vec::new(),
        });
    }
    let (body, _place) = dispatcher
        .admission
        .body(place, limits.time, payload_of(payload, row, limit, hold))
        .await?;
    run(
        row,
        segments,
        query,
        request.headers(),
        body,
        Call::new(&dispatcher.state, caller, peer(request), bearer),
    )
    .await
}

/// Answers the request of a row once its body has arrived.
///
/// # Errors
/// The request does not match the row, the caller lacks the permission, or the row's function
/// fails.
pub(super) async fn run(
    row: &Row,
    segments: Vec<String>,
    query: &str,
    headers: &HeaderMap,
    body: web::Bytes,
    call: Call,
) -> Result<Reply> {
    check_content_type(headers, row, &body)?;
    let (caller, time) = (call.caller.clone(), call.state.limits.load().time);
    let token = caller.as_ref().and_then(|caller| caller.token.as_ref());
    let is_own = token.is_some_and(|token| token_scope::is_own(row, &segments, token));
    let parameters = &row.operation.parameters;
    let mut incoming = Incoming {
        segments,
        query,
        headers,
        body,
        parameters,
        shape: row.operation.body.as_ref(),
        unknown: Vec::new(),
        hidden: Vec::new(),
    };
    let pending = (row.start)(call, &mut incoming)?;
    check_permission(row, is_own, query, caller.as_deref())?;
    let (mut unknown, hidden) = (incoming.unknown, incoming.hidden);
    unknown.extend(unknown_members::of_query(query, parameters)?);
    let mut reply = if row.has_no_time_limit {
        pending.await?
    } else {
        within(time, Refusal::Timeout, pending).await?
    };
    if row.method == "GET" {
        reply = conditional::unless_known(reply, headers);
    }
    if !unknown.is_empty() {
        tracing::debug!(members = ?unknown, "the request has unknown members");
        reply.headers.push((
            Header::UnknownMembers.name(),
            unknown_members::listed(&unknown),
        ));
    }
    if !hidden.is_empty() {
        reply.headers.push((
            Header::HiddenCharacters.name(),
            unknown_members::listed(&hidden),
        ));
    }
    let token = caller.and_then(|caller| caller.token.clone());
    if redaction::is_asked(headers)
        || token.is_some_and(|token| token_scope::hides_tokens(row, &token.spec))
    {
        reply = redaction::without_tokens(reply);
    }
    if row.charset && reply.media == JSON {
        reply.media = "application/json; charset=utf-8";
    }
    Ok(reply)
}

/// Answers paths outside the interfaces: the health checks, the page for administrators, and the
/// page that shows the OpenAPI documents. They are answered regardless of the number of running
/// requests. HEAD is answered like GET, without the body.
fn plain(request: &HttpRequest, path: &str, state: &AppState) -> Option<Result<Reply>> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return None;
    }
    health::answer(request, path, &state.store, &state.clock).or_else(|| {
        page::answer(path, request.headers())
            .or_else(|| openapi::page::file(path))
            .map(Ok)
    })
}

/// The length of the body, if the head declares it.
fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers
        .get("content-length")?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()
}

async fn payload_of(
    mut payload: web::Payload,
    row: &Row,
    limit: usize,
    hold: Option<&Hold>,
) -> Result<web::Bytes> {
    let mut body = Vec::new();
    if row.operation.body.is_none() {
        return Ok(web::Bytes::new());
    }
    while let Some(part) = payload.next().await {
        let part = part.map_err(|e| Error::Unparseable(e.to_string()))?;
        if body.len() + part.len() > limit {
            return Err(Error::Refused(Refusal::TooLarge));
        }
        body.extend_from_slice(&part);
        hold.inspect(|hold| hold.answer(WORK.max(body.len())));
    }
    Ok(body.into())
}
