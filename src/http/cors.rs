//! Requests of web pages of other origins: which are let in, and the preflights they send first.

use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder, http::StatusCode};

const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";
const HEADERS: [&str; 7] = ["content-type", "accept", "authorization", "if-match", "last-event-id", "mfa-validation-code", "zt-session"];

fn header<'r>(request: &'r HttpRequest, name: &str) -> Option<&'r str> {
    request.headers().get(name).and_then(|value| value.to_str().ok())
}

/// What `access-control-allow-origin` says to the page that sent the request, if it is let in.
pub fn allowed(request: &HttpRequest, origins: &[String]) -> Option<String> {
    let origin = header(request, "origin")?;
    if origins.iter().any(|allowed| allowed == "*") {
        return Some("*".into());
    }
    origins.iter().find(|allowed| *allowed == origin).cloned()
}

/// The answer to an OPTIONS request. That credentials are allowed is said for the sake of clients that look for it: sessions travel in
/// a header that a page must set itself, and browsers send nothing of their own to an origin of `*`.
pub fn preflight(request: &HttpRequest, origins: &[String]) -> HttpResponseBuilder {
    let Some(method) = header(request, "access-control-request-method") else { return HttpResponse::Ok() };
    let status = if !METHODS.split(", ").any(|allowed| allowed == method) {
        StatusCode::METHOD_NOT_ALLOWED
    } else if wanted(request).any(|name| !HEADERS.contains(&name.as_str())) || allowed(request, origins).is_none() {
        StatusCode::FORBIDDEN
    } else {
        StatusCode::OK
    };
    let mut answer = HttpResponse::build(status);
    if status == StatusCode::OK {
        // Pages may always set `accept`; naming it is neither needed nor what clients have been told so far.
        let names: Vec<String> = wanted(request).filter(|name| name != "accept").collect();
        answer.insert_header(("access-control-allow-methods", METHODS));
        if !names.is_empty() {
            answer.insert_header(("access-control-allow-headers", names.join(", ")));
        }
        mark(request, origins, &mut answer);
    }
    answer
}

/// The names of the headers that a preflight asks for, in lower case.
fn wanted(request: &HttpRequest) -> impl Iterator<Item = String> + '_ {
    let list = header(request, "access-control-request-headers").unwrap_or_default();
    list.split(',').map(|name| name.trim().to_lowercase()).filter(|name| !name.is_empty())
}

/// Tells a browser whether the page may read the answer, and which headers of it.
pub fn mark(request: &HttpRequest, origins: &[String], answer: &mut HttpResponseBuilder) {
    if let Some(origin) = allowed(request, origins) {
        answer.insert_header(("access-control-allow-origin", origin));
        answer.insert_header(("access-control-allow-credentials", "true"));
        answer.insert_header((
            "access-control-expose-headers",
            "zt-session, ziti-instance-id, expiration-seconds, expires-at, etag, retry-after, overkeep-unknown-members",
        ));
        answer.insert_header(("vary", "origin"));
    }
}
