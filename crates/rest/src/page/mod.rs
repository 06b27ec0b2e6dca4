//! The page for administrators: HTML at `/` for callers that prefer HTML to JSON, and its files
//! below `/page/`. All files are in the binary.
//!
//! The page is static. It calls the REST interfaces like every other client; no operation exists
//! for the page alone. Its libraries (`assets/vendor/`, with their licences) are unmodified copies
//! from npm packages; the step `page` of `.ci/run` compares them with these. Invariant: the content
//! security policy below lets the page load files and data from its own origin only, and allows no
//! inline script, no inline style and no `eval`.

mod files;

use actix_web::http::header::HeaderMap;

use self::files::{FILES, File, INDEX};
use super::{
    answer::Reply, api::overkeep::RETURN_PATH, body, conditional, header::Header, media_type,
    openapi::operation::JSON,
};

const HTML: &str = "text/html";
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The answer to a GET of this path, if it is one of the page's. At `/` only callers that prefer
/// HTML get the page.
pub(crate) fn answer(path: &str, headers: &HeaderMap) -> Option<Reply> {
    if path == RETURN_PATH {
        return Some(reply(&INDEX, headers, None));
    }
    if path != "/" {
        return FILES
            .iter()
            .find(|file| file.path == path)
            .map(|file| reply(file, headers, None));
    }
    is_preferred(&body::list(headers, "accept").unwrap_or_default())
        .then(|| reply(&INDEX, headers, Some("accept")))
}

/// Whether a caller with this `accept` header prefers HTML to JSON. A caller that names neither
/// gets JSON.
fn is_preferred(accept: &str) -> bool {
    media_type::best(accept, &[JSON, HTML]) == Some(HTML)
        && accept
            .split(',')
            .any(|range| media_type::essence(range) == HTML)
}

/// The file, or 304 where the caller has it already (RFC 9110, section 13.1.2).
fn reply(file: &File, asked: &HeaderMap, vary: Option<&str>) -> Reply {
    let mut headers = vec![
        ("content-security-policy", POLICY.to_owned()),
        ("cross-origin-opener-policy", "same-origin".into()),
        ("cross-origin-resource-policy", "same-origin".into()),
        ("referrer-policy", "no-referrer".into()),
        (Header::CacheControl.name(), "no-cache".into()),
        (Header::Tag.name(), file.tag.clone()),
    ];
    headers.extend(vary.map(|vary| ("vary", vary.to_owned())));
    conditional::unless_known(
        Reply {
            status: 200,
            media: file.media,
            body: file.text.clone().into(),
            headers,
        },
        asked,
    )
}
