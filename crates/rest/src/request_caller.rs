//! The caller of a request: whose session token or API token it carries.
//!
//! Not here: whether the row accepts the caller (`request_checks.rs`).

use std::sync::Arc;

use actix_web::HttpRequest;
use model::error::{Error, Result};
use policy::authentication::{ApiTokens, Caller};

use super::state::AppState;

/// The token of the only `Authorization` header (RFC 6750, section 2.1).
pub(super) fn bearer(request: &HttpRequest) -> Option<Arc<str>> {
    let mut headers = request.headers().get_all("authorization");
    let only = headers.next().filter(|_| headers.next().is_none())?;
    only.to_str().ok()?.strip_prefix("Bearer ").map(Into::into)
}

/// The caller of the request's session token or API token. A malformed token is rejected like an
/// unknown one. `shows_session`: the request only asks for its session, which may have ended with
/// its external signer.
pub(super) async fn resolve(
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
    let AppState {
        store,
        logins,
        clock,
        ..
    } = state;
    let open = logins.caller(store, clock.now(), token, bearer).await?;
    let caller = if open.is_none() && shows_session {
        logins.sessions.ended_with_signer(store, token)?
    } else {
        open
    };
    caller
        .map(Some)
        .ok_or(Error::Unauthorized { anonymous: false })
}
