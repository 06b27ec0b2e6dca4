//! CORS: which origins are allowed, and preflight requests.

use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder, http::StatusCode};

use super::header::Header;

const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";
const HEADERS: [&str; 8] = [
    "content-type",
    "accept",
    "authorization",
    "if-match",
    "if-none-match",
    "last-event-id",
    "mfa-validation-code",
    "zt-session",
];

fn header<'r>(request: &'r HttpRequest, name: &str) -> Option<&'r str> {
    request
        .headers()
        .get(name)
        .and_then(|value| value.to_str().ok())
}

/// The value of `access-control-allow-origin`; `None` if the page's origin is not allowed.
pub(crate) fn allowed(request: &HttpRequest, origins: &[String]) -> Option<String> {
    let origin = header(request, "origin")?;
    if origins.iter().any(|allowed| allowed == "*") {
        return Some("*".into());
    }
    origins.iter().find(|allowed| *allowed == origin).cloned()
}

/// The answer to an OPTIONS request. It allows credentials because some clients check for that
/// header. A session token is not a credential of the browser: the page must set it in a header. If
/// the allowed origin is `*`, browsers reject the answer to a request with credentials.
pub(crate) fn preflight(request: &HttpRequest, origins: &[String]) -> HttpResponseBuilder {
    let Some(method) = header(request, "access-control-request-method") else {
        return HttpResponse::Ok();
    };
    let status = if !METHODS.split(", ").any(|allowed| allowed == method) {
        StatusCode::METHOD_NOT_ALLOWED
    } else if wanted(request).any(|name| !HEADERS.contains(&name.as_str()))
        || allowed(request, origins).is_none()
    {
        StatusCode::FORBIDDEN
    } else {
        StatusCode::OK
    };
    let mut answer = HttpResponse::build(status);
    if status == StatusCode::OK {
        // Pages may set `accept` without permission (Fetch, CORS-safelisted), and clients do not
        // expect it in the list.
        let names: Vec<String> = wanted(request).filter(|name| name != "accept").collect();
        answer.insert_header(("access-control-allow-methods", METHODS));
        if !names.is_empty() {
            answer.insert_header(("access-control-allow-headers", names.join(", ")));
        }
        mark(request, origins, &mut answer);
    }
    answer
}

/// The header names that a preflight asks for, in lower case.
fn wanted(request: &HttpRequest) -> impl Iterator<Item = String> + '_ {
    let list = header(request, "access-control-request-headers").unwrap_or_default();
    list.split(',')
        .map(|name| name.trim().to_lowercase())
        .filter(|name| !name.is_empty())
}

/// Adds the headers that allow the page to read the answer and its headers. Every answer tells
/// caches that it depends on the origin, also the answer to a page that is not allowed and to a
/// request without an origin: a cache must not give it to a page that is allowed.
pub(crate) fn mark(request: &HttpRequest, origins: &[String], answer: &mut HttpResponseBuilder) {
    if !origins.is_empty() {
        answer.append_header(("vary", "origin"));
    }
    if let Some(origin) = allowed(request, origins) {
        answer.insert_header(("access-control-allow-origin", origin));
        answer.insert_header(("access-control-allow-credentials", "true"));
        answer.insert_header(("access-control-expose-headers", Header::exposed()));
    }
}
