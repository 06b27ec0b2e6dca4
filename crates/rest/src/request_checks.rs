//! What a request must fulfil for the row that it found: the session, the permission, and the media
//! types of body and answer.
//!
//! Not here: the order of the checks (`serve.rs`), and the arguments of the row's function
//! (`extractor.rs`).

use std::sync::Arc;

use actix_web::{HttpRequest, http::header::HeaderMap};
use model::error::{Error, Result};
use policy::authentication::Caller;

use super::{
    body, media_type, openapi::operation::JSON, permission::Permission, row::Row, token_scope,
};

/// The caller. Rows that need no session ignore an invalid token. They also ignore an API token,
/// because its scope covers no such row.
pub(super) fn required_caller(
    row: &Row,
    caller: Result<Option<Arc<Caller>>>,
) -> Result<Option<Arc<Caller>>> {
    if row.permission == Permission::Open {
        return Ok(caller
            .ok()
            .flatten()
            .filter(|caller| caller.token.is_none()));
    }
    caller?
        .ok_or(Error::Unauthorized { anonymous: true })
        .map(Some)
}

/// Checks the row's permission and the scope of an API token. `is_own`: the operation shows this
/// token. This is the last check, because clients expect a caller with a session to get the error
/// about an invalid request first.
pub(super) fn check_permission(
    row: &Row,
    is_own: bool,
    query: &str,
    caller: Option<&Caller>,
) -> Result<()> {
    let held = match caller.map(|caller| (caller.queries.is_empty(), caller.is_admin())) {
        None => Permission::Open,
        Some((false, _)) => Permission::Partial,
        Some((true, false)) => Permission::User,
        Some((true, true)) => Permission::Admin,
    };
    let token = caller.and_then(|caller| caller.token.as_ref());
    let is_in_scope =
        is_own || token.is_none_or(|token| token_scope::permits(row, query, &token.spec));
    if held >= row.permission && is_in_scope {
        Ok(())
    } else {
        Err(Error::Unauthorized { anonymous: false })
    }
}

/// Checks that the client accepts a media type that the row answers.
pub(super) fn check_accept(request: &HttpRequest, row: &Row) -> Result<()> {
    let accept = body::list(request.headers(), "accept").unwrap_or_default();
    let accept = accept.trim();
    let offered = row
        .operation
        .answer
        .iter()
        .flat_map(|answer| answer.content.iter().map(|(media, _)| *media));
    let offered: Vec<&str> = offered.chain(std::iter::once(JSON)).collect();
    if !accept.is_empty()
        && !row.operation.any_accept
        && !accept
            .split(',')
            .any(|range| offered.iter().any(|media| media_type::covers(range, media)))
    {
        let mut words = offered;
        words.dedup();
        return Err(Error::invalid(
            "Accept",
            format!("the answer is {}", words.join(" or ")),
            accept,
        ));
    }
    Ok(())
}

/// Checks that the row accepts the media type of the body. An empty body has no media type,
/// whatever the header says.
pub(super) fn check_content_type(headers: &HeaderMap, row: &Row, body: &[u8]) -> Result<()> {
    let Some(shape) = row
        .operation
        .body
        .as_ref()
        .filter(|shape| !shape.judged_by_function && !body.is_empty())
    else {
        return Ok(());
    };
    let sent = headers
        .get("content-type")
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    if shape.media.contains(&media_type::essence(sent).as_str()) {
        Ok(())
    } else {
        Err(media_type::not_taken(sent, shape.media))
    }
}
