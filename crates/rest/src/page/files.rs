//! The files of the page.

use std::sync::LazyLock;

use actix_web::web::Bytes;

use crate::gzip::Constant;

const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";
const TEXT: &str = "text/plain; charset=utf-8";

/// A file of the page.
pub(crate) struct File {
    pub path: &'static str,
    pub media: &'static str,
    /// Its weak entity tag: the same for the plain and the compressed form.
    pub tag: String,
    /// The content. It is compressed once, at the first request that accepts gzip.
    pub text: Constant,
}

impl File {
    fn new(path: &'static str, media: &'static str, text: &'static [u8]) -> Self {
        let tag = format!("W/\"{:x}-{:08x}\"", text.len(), crc32fast::hash(text));
        Self {
            path,
            media,
            tag,
            text: Constant::new(Bytes::from_static(text)),
        }
    }
}

pub(crate) static INDEX: LazyLock<File> = LazyLock::new(|| {
    File::new(
        "/",
        "text/html; charset=utf-8",
        include_bytes!("assets/index.html"),
    )
});

pub(crate) static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
    vec![
        File::new("/page/page.css", CSS, include_bytes!("assets/page.css")),
        File::new("/page/icon.svg", SVG, include_bytes!("assets/icon.svg")),
        File::new(
            "/page/access.js",
            JAVASCRIPT,
            include_bytes!("assets/access.js"),
        ),
        File::new(
            "/page/account.js",
            JAVASCRIPT,
            include_bytes!("assets/account.js"),
        ),
        File::new("/page/api.js", JAVASCRIPT, include_bytes!("assets/api.js")),
        File::new(
            "/page/care.js",
            JAVASCRIPT,
            include_bytes!("assets/care.js"),
        ),
        File::new(
            "/page/changes.js",
            JAVASCRIPT,
            include_bytes!("assets/changes.js"),
        ),
        File::new(
            "/page/command.js",
            JAVASCRIPT,
            include_bytes!("assets/command.js"),
        ),
        File::new(
            "/page/detail.js",
            JAVASCRIPT,
            include_bytes!("assets/detail.js"),
        ),
        File::new(
            "/page/editor.js",
            JAVASCRIPT,
            include_bytes!("assets/editor.js"),
        ),
        File::new(
            "/page/enrollment.js",
            JAVASCRIPT,
            include_bytes!("assets/enrollment.js"),
        ),
        File::new(
            "/page/expiring.js",
            JAVASCRIPT,
            include_bytes!("assets/expiring.js"),
        ),
        File::new(
            "/page/explain.js",
            JAVASCRIPT,
            include_bytes!("assets/explain.js"),
        ),
        File::new(
            "/page/fields.js",
            JAVASCRIPT,
            include_bytes!("assets/fields.js"),
        ),
        File::new(
            "/page/filter.js",
            JAVASCRIPT,
            include_bytes!("assets/filter.js"),
        ),
        File::new(
            "/page/finder.js",
            JAVASCRIPT,
            include_bytes!("assets/finder.js"),
        ),
        File::new(
            "/page/groups.js",
            JAVASCRIPT,
            include_bytes!("assets/groups.js"),
        ),
        File::new(
            "/page/history.js",
            JAVASCRIPT,
            include_bytes!("assets/history.js"),
        ),
        File::new(
            "/page/hosting.js",
            JAVASCRIPT,
            include_bytes!("assets/hosting.js"),
        ),
        File::new(
            "/page/hour.js",
            JAVASCRIPT,
            include_bytes!("assets/hour.js"),
        ),
        File::new(
            "/page/html.js",
            JAVASCRIPT,
            include_bytes!("assets/html.js"),
        ),
        File::new(
            "/page/invitation.js",
            JAVASCRIPT,
            include_bytes!("assets/invitation.js"),
        ),
        File::new(
            "/page/invite.js",
            JAVASCRIPT,
            include_bytes!("assets/invite.js"),
        ),
        File::new(
            "/page/kinds.js",
            JAVASCRIPT,
            include_bytes!("assets/kinds.js"),
        ),
        File::new(
            "/page/list.js",
            JAVASCRIPT,
            include_bytes!("assets/list.js"),
        ),
        File::new(
            "/page/live.js",
            JAVASCRIPT,
            include_bytes!("assets/live.js"),
        ),
        File::new(
            "/page/login.js",
            JAVASCRIPT,
            include_bytes!("assets/login.js"),
        ),
        File::new(
            "/page/machines.js",
            JAVASCRIPT,
            include_bytes!("assets/machines.js"),
        ),
        File::new(
            "/page/main.js",
            JAVASCRIPT,
            include_bytes!("assets/main.js"),
        ),
        File::new("/page/map.js", JAVASCRIPT, include_bytes!("assets/map.js")),
        File::new(
            "/page/member.js",
            JAVASCRIPT,
            include_bytes!("assets/member.js"),
        ),
        File::new(
            "/page/names.js",
            JAVASCRIPT,
            include_bytes!("assets/names.js"),
        ),
        File::new(
            "/page/news.js",
            JAVASCRIPT,
            include_bytes!("assets/news.js"),
        ),
        File::new(
            "/page/overview.js",
            JAVASCRIPT,
            include_bytes!("assets/overview.js"),
        ),
        File::new(
            "/page/pages.js",
            JAVASCRIPT,
            include_bytes!("assets/pages.js"),
        ),
        File::new(
            "/page/parts.js",
            JAVASCRIPT,
            include_bytes!("assets/parts.js"),
        ),
        File::new(
            "/page/picker.js",
            JAVASCRIPT,
            include_bytes!("assets/picker.js"),
        ),
        File::new(
            "/page/preview.js",
            JAVASCRIPT,
            include_bytes!("assets/preview.js"),
        ),
        File::new(
            "/page/publication.js",
            JAVASCRIPT,
            include_bytes!("assets/publication.js"),
        ),
        File::new(
            "/page/schemas.js",
            JAVASCRIPT,
            include_bytes!("assets/schemas.js"),
        ),
        File::new(
            "/page/scope.js",
            JAVASCRIPT,
            include_bytes!("assets/scope.js"),
        ),
        File::new(
            "/page/second_factor.js",
            JAVASCRIPT,
            include_bytes!("assets/second_factor.js"),
        ),
        File::new(
            "/page/secret.js",
            JAVASCRIPT,
            include_bytes!("assets/secret.js"),
        ),
        File::new(
            "/page/share.js",
            JAVASCRIPT,
            include_bytes!("assets/share.js"),
        ),
        File::new(
            "/page/since.js",
            JAVASCRIPT,
            include_bytes!("assets/since.js"),
        ),
        File::new(
            "/page/task.js",
            JAVASCRIPT,
            include_bytes!("assets/task.js"),
        ),
        File::new(
            "/page/texts.js",
            JAVASCRIPT,
            include_bytes!("assets/texts.js"),
        ),
        File::new(
            "/page/times.js",
            JAVASCRIPT,
            include_bytes!("assets/times.js"),
        ),
        File::new(
            "/page/unsaved.js",
            JAVASCRIPT,
            include_bytes!("assets/unsaved.js"),
        ),
        File::new(
            "/page/words.js",
            JAVASCRIPT,
            include_bytes!("assets/words.js"),
        ),
        File::new(
            "/page/vendor/htm-preact.js",
            JAVASCRIPT,
            include_bytes!("assets/vendor/htm-preact.js"),
        ),
        File::new(
            "/page/vendor/lean-qr.js",
            JAVASCRIPT,
            include_bytes!("assets/vendor/lean-qr.js"),
        ),
        File::new(
            "/page/vendor/LICENSE-htm",
            TEXT,
            include_bytes!("assets/vendor/LICENSE-htm"),
        ),
        File::new(
            "/page/vendor/LICENSE-lean-qr",
            TEXT,
            include_bytes!("assets/vendor/LICENSE-lean-qr"),
        ),
        File::new(
            "/page/vendor/LICENSE-preact",
            TEXT,
            include_bytes!("assets/vendor/LICENSE-preact"),
        ),
    ]
});
