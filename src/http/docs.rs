//! The documents of the interfaces as a page to read, at `/docs`. Everything it needs is in the binary.
//!
//! The viewer is Swagger UI (Apache-2.0, `docs/LICENSE-swagger-ui`), kept as it was released, compressed. The policy below lets the page load
//! nothing from elsewhere and run no script but its own; styles may be inline because the viewer sets them so.

use actix_web::web::Bytes;

use super::answer::Reply;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const GZIP: &str = "gzip";

/// The file behind a path, if it is one of the page's.
pub fn file(path: &str) -> Option<Reply> {
    let (media, encoding, body): (_, _, &'static [u8]) = match path.strip_suffix('/').unwrap_or(path) {
        "/docs" => ("text/html; charset=utf-8", None, include_bytes!("docs/index.html")),
        "/docs/page.css" => ("text/css; charset=utf-8", None, include_bytes!("docs/page.css")),
        "/docs/page.js" => ("text/javascript; charset=utf-8", None, include_bytes!("docs/page.js")),
        "/docs/swagger-ui.css" => ("text/css; charset=utf-8", Some(GZIP), include_bytes!("docs/swagger-ui.css.gz")),
        "/docs/swagger-ui-bundle.js" => ("text/javascript; charset=utf-8", Some(GZIP), include_bytes!("docs/swagger-ui-bundle.js.gz")),
        _ => return None,
    };
    let mut headers = vec![
        ("content-security-policy", POLICY.to_owned()),
        ("x-content-type-options", "nosniff".into()),
        ("referrer-policy", "no-referrer".into()),
    ];
    headers.extend(encoding.map(|encoding| ("content-encoding", encoding.to_owned())));
    Some(Reply { status: 200, media, body: Bytes::from_static(body).into(), headers })
}
