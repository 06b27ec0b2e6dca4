//! Sends a reply: the headers of every answer, compression, and the memory that the body holds.
//!
//! Not here: what the reply says (`answer.rs`, `error.rs`). Start with `send`.

use std::sync::Arc;

use actix_web::{
    HttpRequest, HttpResponse, HttpResponseBuilder,
    body::{BodyStream, BoxBody},
    http::StatusCode,
    web,
};
use futures_util::StreamExt;
use policy::authentication::Caller;

use super::{
    answer::{Content, Reply},
    body,
    connection::{memory_ledger::Hold, response_body::Outgoing},
    cors, gzip,
    header::{Header, OF_EVERY_ANSWER},
    state::AppState,
};

const SERVER: &str = concat!("overkeep/", env!("CARGO_PKG_VERSION"));
/// The address that clients of libziti move to and store, if they use another one.
const MOVED: &str = "ziti-ctrl-address";

/// Adds the headers of every answer. A widely used client library fails without the instance id.
pub(super) fn add_common_headers(answer: &mut HttpResponseBuilder, state: &AppState) {
    answer.insert_header(("server", SERVER));
    for header in OF_EVERY_ANSWER {
        answer.insert_header(header);
    }
    answer.insert_header((Header::Instance.name(), state.instance.id.as_str()));
    // Listening addresses may be for some clients only. Of those that are advertised, all clients
    // reach the first.
    if state.config.advertise.len() > 1 {
        answer.insert_header((MOVED, format!("https://{}", state.instance.address)));
    }
}

/// The response to a request. Its body holds memory of `hold` until it is sent.
pub(super) fn send(
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
        let (ends, left) = state.logins.ends(caller, state.clock.now());
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
    if let Some(hold) = &hold {
        hold.answer(held);
    }
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
