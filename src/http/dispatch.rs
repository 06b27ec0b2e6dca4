//! The dispatcher: finds the row of a request and sends the answer of the row's function.
//!
//! actix-web implements HTTP/1.1, `connection/http2.rs` HTTP/2. Each interface has a radix tree of
//! its paths. The default service of actix-web uses these trees, because actix-web itself would try
//! its resources one after the other.
//!
//! A request is rejected by the first of these checks that fails: number of running requests,
//! length of the head, path, method, session, `accept`, declared length of the body, arrival and
//! length of the body, `content-type`, arguments, permission. Clients that wait for `100 Continue`
//! get it, or the error, before they send the body.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use actix_web::{
    HttpMessage, HttpRequest, HttpResponse, HttpResponseBuilder,
    body::{BodyStream, BoxBody},
    http::{Method, StatusCode, header::HeaderMap},
    web,
};
use futures_util::{FutureExt, StreamExt};
use tracing::Instrument;

use super::{
    Interfaces,
    answer::{Content, Reply},
    body::{self, Incoming},
    call::{Call, Peer},
    conditional,
    connection::{
        memory_ledger::{Account, Hold},
        response_body::Outgoing,
    },
    cors, error, gzip,
    header::{Header, OF_EVERY_ANSWER},
    health,
    limits::{Admission, RequestSlot, within},
    openapi::{self, operation::JSON},
    page, preview, redaction,
    request_checks::{check_accept, check_content_type, check_permission, required_caller},
    route::{Interface, RouteMatch, normal_path},
    row::Row,
    state::AppState,
    token_scope, unknown_members,
};
use crate::{
    authentication::{ApiTokens, Caller, RejectedCaller},
    entity::{Id, Identity},
    error::{Error, Refusal, Result},
    listener::Shutdown,
    metrics::{OperationLabels, RequestLabels},
};

/// First path segments that belong to no interface.
const RESERVED: [&str; 3] = ["docs", "metrics", "oidc"];
/// The operation that shows the caller's session.
const OWN_SESSION: &str = "/current-api-session";
/// Bytes reserved for a running request, until the length of its answer is known.
const WORK: usize = 16 << 10;
/// The status of a head that was checked and that needs a body.
const CONTINUE: u16 = 100;

/// Marks a request of which only the head is checked, because its client waits for `100 Continue`
/// before it sends the body.
pub(crate) struct OnlyHead;
const SERVER: &str = concat!("overkeep/", env!("CARGO_PKG_VERSION"));
/// The address that clients of libziti move to and store, if they use another one.
const MOVED: &str = "ziti-ctrl-address";

/// The interfaces and their state.
pub struct Dispatcher {
    pub state: Arc<AppState>,
    pub interfaces: Interfaces,
    admission: Admission,
    requests: AtomicU64,
    /// The default administrator, who is the caller of requests over the admin socket; set by the
    /// first such request.
    pub(super) administrator: OnceLock<Id<Identity>>,
}

impl Dispatcher {
    /// A dispatcher for these interfaces.
    pub fn new(state: Arc<AppState>, interfaces: Interfaces) -> Self {
        let admission = Admission::new(&state.limits.load());
        Self {
            state,
            interfaces,
            admission,
            requests: AtomicU64::new(0),
            administrator: OnceLock::new(),
        }
    }

    /// Sets the shutdown after which requests no longer wait for their bodies.
    pub(crate) fn end_with(&self, stopping: Shutdown) {
        self.admission.end_with(stopping);
    }

    /// The interface of a path, and the path below its base. The path is one of [`normal_path`].
    fn locate(&self, path: &str) -> Option<(&Interface, String)> {
        let Interfaces {
            management,
            client,
            overkeep,
            fabric,
        } = &self.interfaces;
        let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
        let below = |parts: &mut dyn Iterator<Item = &str>| {
            parts.fold(String::new(), |path, part| path + "/" + part)
        };
        let whole = |path: String| {
            if path.is_empty() {
                "/".to_owned()
            } else {
                path
            }
        };
        match parts.peek().copied() {
            Some("edge") => {
                parts.next();
                let interface = match (parts.next()?, parts.peek().copied()) {
                    ("v1", _) => client,
                    ("client", Some("v1")) => parts.next().map(|_| client)?,
                    ("management", Some("v1")) => parts.next().map(|_| management)?,
                    _ => return None,
                };
                Some((interface, whole(below(&mut parts))))
            }
            Some(name @ ("overkeep" | "fabric")) => {
                parts.next();
                let interface = if name == "fabric" { fabric } else { overkeep };
                (parts.next()? == "v1").then(|| (interface, whole(below(&mut parts))))
            }
            Some(".well-known") => Some((client, below(&mut parts))),
            Some(first) if RESERVED.contains(&first) || health::PATHS.contains(&first) => None,
            _ => Some((client, whole(below(&mut parts)))),
        }
    }

    /// The row of a request, and the values of its path parameters. The path is one of
    /// [`normal_path`].
    ///
    /// # Errors
    /// [`Refusal::UnknownPath`] or [`Refusal::MethodNotAllowed`].
    pub(super) fn find(&self, method: &str, path: &str) -> Result<(&Row, Vec<String>)> {
        let (interface, below) = self
            .locate(path)
            .ok_or(Error::Refused(Refusal::UnknownPath))?;
        match interface.find(method, &below) {
            RouteMatch::Row(row, segments) => Ok((row, segments)),
            RouteMatch::OtherMethod => Err(Error::Refused(Refusal::MethodNotAllowed)),
            RouteMatch::Nothing => Err(Error::Refused(Refusal::UnknownPath)),
        }
    }

    pub(super) fn request_id(&self) -> String {
        format!(
            "{}-{}",
            self.state.instance,
            self.requests.fetch_add(1, Ordering::Relaxed)
        )
    }
}

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
            &path,
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
            .refusals
            .note(&state.store, refused, state.clock.now())
            .await;
    }
    let reply = result.unwrap_or_else(|fault| span.in_scope(|| error::reply(&fault, &id)));
    span.in_scope(|| tracing::debug!(status = reply.status, "answered"));
    if reply.status != CONTINUE {
        measure(&dispatcher, request.method(), &path, reply.status, begun);
    }
    send(&request, state, reply, known.as_deref(), hold)
}

/// Adds a request to the metrics of its row: its number, and the time until its answer begins.
fn measure(dispatcher: &Dispatcher, method: &Method, path: &str, status: u16, begun: Instant) {
    let interface = dispatcher
        .locate(path)
        .map(|(interface, _)| interface.name)
        .unwrap_or_default();
    let of = match dispatcher.find(method.as_str(), path) {
        Ok((row, _)) => OperationLabels {
            interface,
            method: row.method,
            path: row.path.clone(),
        },
        Err(_) => OperationLabels::default(),
    };
    let metrics = &dispatcher.state.metrics;
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

/// The token of the only `Authorization` header (RFC 6750, section 2.1).
fn bearer(request: &HttpRequest) -> Option<Arc<str>> {
    let mut headers = request.headers().get_all("authorization");
    let only = headers.next().filter(|_| headers.next().is_none())?;
    only.to_str().ok()?.strip_prefix("Bearer ").map(Into::into)
}

/// The caller of the request's session token or API token. A malformed token is rejected like an
/// unknown one. `shows_session`: the request only asks for its session, which may have ended with
/// its external signer.
async fn resolve(
    request: &HttpRequest,
    bearer: Option<&str>,
    state: &AppState,
    shows_session: bool,
) -> Result<Option<Arc<Caller>>> {
    let token = match request
        .headers()
        .get("zt-session")
        .filter(|token| !token.is_empty())
    {
        Some(token) => token
            .to_str()
            .map_err(|_| Error::Unauthorized { anonymous: false })?,
        None => match bearer.filter(|bearer| ApiTokens::is_one(bearer)) {
            Some(bearer) => bearer,
            None => return Ok(None),
        },
    };
    let open = state.caller(token, bearer).await?;
    let caller = if open.is_none() && shows_session {
        state.sessions.ended_with_signer(&state.store, token)?
    } else {
        open
    };
    caller
        .map(Some)
        .ok_or(Error::Unauthorized { anonymous: false })
}

async fn answer(
    request: &HttpRequest,
    path: &str,
    payload: web::Payload,
    dispatcher: &Dispatcher,
    place: RequestSlot,
    (caller, bearer): (Result<Option<Arc<Caller>>>, Option<Arc<str>>),
    hold: Option<&Hold>,
) -> Result<Reply> {
    // Like OpenZiti controllers, only the root answers HEAD. It has a row for GET only.
    let method = if request.method() == Method::HEAD && path == "/" {
        "GET"
    } else {
        request.method().as_str()
    };
    let (row, segments) = dispatcher.find(method, path)?;
    let caller = required_caller(row, caller)?;
    check_accept(request, row)?;
    let query = request.uri().query().unwrap_or_default();
    preview::refuse_unsupported(row, query)?;
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
    health::answer(request, path, state).or_else(|| {
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

/// Adds the headers of every answer. A widely used client library fails without the instance id.
fn add_common_headers(answer: &mut HttpResponseBuilder, state: &AppState) {
    answer.insert_header(("server", SERVER));
    for header in OF_EVERY_ANSWER {
        answer.insert_header(header);
    }
    answer.insert_header((Header::Instance.name(), state.instance.as_str()));
    // Listening addresses may be for some clients only. Of those that are advertised, all clients
    // reach the first.
    if state.config.advertise.len() > 1 {
        answer.insert_header((MOVED, format!("https://{}", state.address)));
    }
}

fn send(
    request: &HttpRequest,
    state: &AppState,
    reply: Reply,
    caller: Option<&Caller>,
    hold: Option<Arc<Hold>>,
) -> HttpResponse {
    let mut answer = HttpResponse::build(
        StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
    );
    add_common_headers(&mut answer, state);
    if let Some(caller) = caller {
        let (ends, left) = state.ends(caller);
        answer.insert_header((Header::ExpirationSeconds.name(), left.as_secs()));
        answer.insert_header((Header::ExpiresAt.name(), ends.to_string()));
    }
    let is_packed = reply
        .headers
        .iter()
        .any(|(name, _)| *name == "content-encoding");
    for (name, value) in reply.headers {
        answer.insert_header((name, value));
    }
    cors::mark(request, &state.limits.load().origins, &mut answer);
    // An answer that has not changed has no body whose type could be named.
    if reply.status != StatusCode::NOT_MODIFIED {
        answer.content_type(reply.media);
    }
    let accepted = body::list(request.headers(), "accept-encoding").unwrap_or_default();
    let takes_gzip = !is_packed && gzip::is_taken(&accepted);
    let (body, held) = outgoing(reply.body, takes_gzip, &mut answer);
    hold.iter().for_each(|hold| hold.answer(held));
    answer.body(Outgoing::new(body, hold))
}

/// The body to send and the memory that it holds. Constant bodies hold none.
fn outgoing(
    content: Content,
    takes_gzip: bool,
    answer: &mut HttpResponseBuilder,
) -> (BoxBody, usize) {
    let whole = |plain: web::Bytes,
                 packed: Option<web::Bytes>,
                 answer: &mut HttpResponseBuilder| match packed {
        Some(packed) => {
            mark_packed(answer);
            packed
        }
        None => plain,
    };
    match content {
        Content::Whole(body) => {
            let packed = takes_gzip.then(|| gzip::whole(&body)).flatten();
            let body = whole(body, packed, answer);
            let held = body.len();
            (BoxBody::new(body), held)
        }
        Content::Constant(text) => {
            let packed = takes_gzip.then(|| text.packed()).flatten();
            (BoxBody::new(whole(text.plain(), packed, answer)), 0)
        }
        Content::Pieces(pieces, held) if takes_gzip => {
            mark_packed(answer);
            (BoxBody::new(BodyStream::new(gzip::stream(pieces))), held)
        }
        Content::Pieces(pieces, held) => (
            BoxBody::new(BodyStream::new(
                pieces.map(|piece| piece.map(web::Bytes::from)),
            )),
            held,
        ),
    }
}

fn mark_packed(answer: &mut HttpResponseBuilder) {
    answer.insert_header(("content-encoding", gzip::GZIP));
    answer.append_header(("vary", "accept-encoding"));
}
