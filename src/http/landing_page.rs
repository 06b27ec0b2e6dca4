//! The landing page at `/` for browsers: what this is, and where to go next.
//!
//! Other clients get the recorded answer. Invariant: the page loads nothing and runs no script.

use super::{answer::Reply, media_type, openapi::operation::JSON};

const HTML: &str = "text/html";
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Whether a client with this `accept` header prefers HTML to JSON. A client that names neither gets JSON.
pub fn is_preferred(accept: &str) -> bool {
    media_type::best(accept, &[JSON, HTML]) == Some(HTML) && accept.split(',').any(|range| media_type::essence(range) == HTML)
}

/// The page.
pub fn page() -> Reply {
    let headers = vec![
        ("content-security-policy", POLICY.to_owned()),
        ("x-content-type-options", "nosniff".into()),
        ("referrer-policy", "no-referrer".into()),
        ("vary", "accept".into()),
    ];
    let body = actix_web::web::Bytes::from_static(include_bytes!("assets/welcome.html")).into();
    Reply { status: 200, media: "text/html; charset=utf-8", body, headers }
}
