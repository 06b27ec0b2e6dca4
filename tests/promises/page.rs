//! The administration page is complete, small, and served with a strict content security policy.

use std::{fs, io::Read, path::Path};

use flate2::{Compression, read::GzEncoder};

use crate::harness::{Wire, shared};

/// Maximum size of all page files together, compressed, in bytes.
const MAX_BYTES: usize = 300_000;

/// Head and body of the answer to a GET with these additional headers.
fn get(path: &str, headers: &str) -> (String, String) {
    let mut wire = Wire::to(&shared().anonymous());
    wire.send(
        format!("GET {path} HTTP/1.1\r\nhost: a\r\n{headers}connection: close\r\n\r\n").as_bytes(),
    )
    .unwrap();
    let answer = wire.read().0;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// The files of the page: path below `assets`, and content.
fn assets() -> Vec<(String, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/rest/src/page/assets");
    let (mut open, mut found) = (vec![root.clone()], Vec::new());
    while let Some(directory) = open.pop() {
        for path in fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path
                    .strip_prefix(&root)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned();
                found.push((name, fs::read(&path).unwrap()));
            }
        }
    }
    found
}

/// The path that a file is served at. `SOURCES`, which lists the vendored files, is not served.
fn address(name: &str) -> Option<String> {
    match name {
        "index.html" => Some("/".into()),
        "vendor/SOURCES" => None,
        name => Some(format!("/page/{name}")),
    }
}

fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[test]
fn all_page_files_are_served() {
    for (name, content) in assets() {
        let Some(path) = address(&name) else { continue };
        let (head, body) = get(&path, "accept: text/html\r\n");
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
        assert_eq!(body, String::from_utf8(content).unwrap(), "{path}");
        let media = match name.rsplit('.').next().unwrap() {
            "html" => "text/html; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "svg" => "image/svg+xml",
            _ => "text/plain; charset=utf-8",
        };
        assert_eq!(header(&head, "content-type"), Some(media), "{path}");
    }
    assert!(get("/page/nothing.js", "").0.starts_with("HTTP/1.1 404"));
}

#[test]
fn page_runs_only_own_files() {
    for (name, content) in assets() {
        let Some(path) = address(&name) else { continue };
        let (head, _) = get(&path, "accept: text/html\r\n");
        let policy: Vec<&str> = header(&head, "content-security-policy")
            .unwrap()
            .split("; ")
            .collect();
        for directive in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
        ] {
            assert!(
                policy.contains(&directive),
                "{path}: {policy:?} lacks {directive}"
            );
        }
        for directive in ["form-action 'none'", "frame-ancestors 'none'"] {
            assert!(
                policy.contains(&directive),
                "{path}: {policy:?} lacks {directive}"
            );
        }
        assert!(
            policy
                .iter()
                .all(|directive| !directive.contains("unsafe") && !directive.contains("data:")),
            "{path}: {policy:?}"
        );
        assert_eq!(
            header(&head, "x-content-type-options"),
            Some("nosniff"),
            "{path}"
        );
        assert_eq!(
            header(&head, "referrer-policy"),
            Some("no-referrer"),
            "{path}"
        );
        assert_eq!(
            header(&head, "cross-origin-opener-policy"),
            Some("same-origin"),
            "{path}"
        );
        if !name.starts_with("vendor/LICENSE") {
            let text = String::from_utf8(content).unwrap();
            let elsewhere = text.replace("http://www.w3.org/", "").contains("://");
            assert!(!elsewhere, "{name} names an address elsewhere");
        }
    }
}

#[test]
fn known_files_are_not_resent() {
    for path in ["/", "/page/main.js"] {
        let (head, body) = get(path, "accept: text/html\r\n");
        let tag = header(&head, "etag").unwrap();
        assert!(
            !body.is_empty() && header(&head, "cache-control") == Some("no-cache"),
            "{head}"
        );
        let (again, nothing) = get(
            path,
            &format!("accept: text/html\r\nif-none-match: \"other\", {tag}\r\n"),
        );
        assert!(
            again.starts_with("HTTP/1.1 304")
                && nothing.is_empty()
                && header(&again, "etag") == Some(tag),
            "{again}"
        );
        assert!(
            get(path, "accept: text/html\r\nif-none-match: W/\"other\"\r\n")
                .0
                .starts_with("HTTP/1.1 200")
        );
    }
    let (head, _) = get("/page/page.css", "accept-encoding: gzip\r\n");
    assert!(
        header(&head, "content-encoding") == Some("gzip")
            && head.contains("\r\nvary: accept-encoding\r\n"),
        "{head}"
    );
}

#[test]
fn all_files_together_are_small() {
    let packed = |content: &[u8]| {
        let mut out = Vec::new();
        GzEncoder::new(content, Compression::fast())
            .read_to_end(&mut out)
            .unwrap();
        out.len()
    };
    let size: usize = assets().iter().map(|(_, content)| packed(content)).sum();
    assert!(
        (10_000..=MAX_BYTES).contains(&size),
        "{size} bytes compressed, {MAX_BYTES} at most"
    );
}
