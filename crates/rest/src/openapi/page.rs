//! The page at `/docs` that shows the OpenAPI documents. All its files are in the binary.
//!
//! The viewer is Swagger UI (Apache-2.0, `assets/LICENSE-swagger-ui`), unmodified and compressed.
//! The content security policy below lets the page load nothing from other origins and run only its
//! own scripts. Inline styles are allowed because Swagger UI needs them.

use std::sync::LazyLock;

use actix_web::web::Bytes;

use crate::{
    answer::Reply,
    gzip::{Constant, GZIP},
};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the page.
struct File {
    path: &'static str,
    media: &'static str,
    /// Set for files that are stored compressed.
    encoding: Option<&'static str>,
    text: Constant,
}

impl File {
    fn new(
        path: &'static str,
        media: &'static str,
        encoding: Option<&'static str>,
        text: &'static [u8],
    ) -> Self {
        Self {
            path,
            media,
            encoding,
            text: Constant::new(Bytes::from_static(text)),
        }
    }
}

static FILES: LazyLock<[File; 5]> = LazyLock::new(|| {
    [
        File::new(
            "/docs",
            "text/html; charset=utf-8",
            None,
            include_bytes!("../assets/index.html"),
        ),
        File::new(
            "/docs/page.css",
            "text/css; charset=utf-8",
            None,
            include_bytes!("../assets/page.css"),
        ),
        File::new(
            "/docs/page.js",
            "text/javascript; charset=utf-8",
            None,
            include_bytes!("../assets/page.js"),
        ),
        File::new(
            "/docs/swagger-ui.css",
            "text/css; charset=utf-8",
            Some(GZIP),
            include_bytes!("../assets/swagger-ui.css.gz"),
        ),
        File::new(
            "/docs/swagger-ui-bundle.js",
            "text/javascript; charset=utf-8",
            Some(GZIP),
            include_bytes!("../assets/swagger-ui-bundle.js.gz"),
        ),
    ]
});

/// The file at a path; `None` if the page has no such file.
pub(crate) fn file(path: &str) -> Option<Reply> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let File {
        media,
        encoding,
        text,
        ..
    } = FILES.iter().find(|file| file.path == path)?;
    let mut headers = vec![
        ("content-security-policy", POLICY.to_owned()),
        ("referrer-policy", "no-referrer".into()),
        ("cache-control", "no-cache".into()),
    ];
    headers.extend(encoding.map(|encoding| ("content-encoding", encoding.to_owned())));
    Some(Reply {
        status: 200,
        media,
        body: text.clone().into(),
        headers,
    })
}
