//! What a browser and a proxy see: origins, paths, compression and bodies.

use super::*;

#[test]
fn cors_admits_allowed_origins_only() {
    let server = TestServer::with(Clock::system(), |config| {
        config.http.cors_origins = vec!["https://console.example.org".into()]
    });
    let preflight = |origin: &str, method: &str, headers: &str| {
        let page = server.anonymous().at(Base::Management);
        let asking = page
            .ask("OPTIONS", "/services")
            .header("origin", origin)
            .header("access-control-request-method", method);
        asking
            .header("access-control-request-headers", headers)
            .send()
    };
    let good = preflight(
        "https://console.example.org",
        "PATCH",
        "content-type, zt-session",
    )
    .expect(200);
    assert_eq!(
        good.header("access-control-allow-origin"),
        "https://console.example.org"
    );
    assert!(
        good.header("access-control-allow-methods")
            .contains("PATCH")
            && good
                .header("access-control-allow-headers")
                .contains("zt-session")
    );
    preflight(
        "https://console.example.org",
        "GET",
        "if-match, last-event-id, mfa-validation-code",
    )
    .expect(200);
    preflight("https://evil.example.org", "GET", "").expect(403);
    preflight("https://console.example.org", "GET", "x-other").expect(403);
    preflight("https://console.example.org", "TRACE", "").expect(405);

    let called = |origin: &str| {
        server
            .admin
            .ask("GET", "/version")
            .header("origin", origin)
            .send()
            .expect(200)
    };
    assert_eq!(
        called("https://console.example.org").header("access-control-allow-origin"),
        "https://console.example.org"
    );
    assert_eq!(
        called("https://evil.example.org").header("access-control-allow-origin"),
        ""
    );
    let without = server.admin.get("/version").expect(200);
    let answers = [
        called("https://console.example.org"),
        called("https://evil.example.org"),
        without,
    ];
    assert_eq!(
        answers.map(|answer| answer.header("vary").to_owned()),
        ["origin"; 3],
        "no cache may answer one page with the answer to another"
    );
    let closed = TestServer::with(Clock::system(), |config| {
        config.http.cors_origins = Vec::new()
    });
    assert_eq!(
        closed
            .admin
            .ask("GET", "/version")
            .header("origin", "https://console.example.org")
            .send()
            .header("vary"),
        ""
    );
    let everybody = shared()
        .admin
        .ask("GET", "/version")
        .header("origin", "https://anywhere.example.org")
        .send()
        .expect(200);
    assert_eq!(everybody.header("access-control-allow-origin"), "*");
    assert!(
        everybody
            .header("access-control-expose-headers")
            .contains("ziti-instance-id")
    );
}

#[test]
fn paths_are_normalized_methods_are_not() {
    let server = shared();
    for path in [
        "//version",
        "//edge/client/v1/version",
        "//edge/v1/version",
        "//edge/client/v1//version/",
        "//edge/management/v1/version",
    ] {
        assert!(
            server.anonymous().get(path).expect(200).data()["version"].is_string(),
            "{path}"
        );
    }
    for path in [
        "//nothing",
        "//edge/other/v1/version",
        "//edge/management/v2/version",
        "//metrics",
        "//oidc/x",
        "//docs/x",
    ] {
        server.anonymous().get(path).refused(404, "NOT_FOUND", "");
    }
    let kept = TestServer::start();
    for path in ["//health", "//ready"] {
        kept.anonymous().get(path).expect(200);
    }
}

#[test]
fn long_answers_are_gzipped_on_request() {
    let server = shared();
    (0..20).for_each(|_| drop(server.service(&fresh("packed"), json!({}))));
    let ask = || {
        server.admin.ask(
            "GET",
            "/services?filter=name%20contains%20%22packed%22%20sort%20by%20name%20limit%20none",
        )
    };
    let (plain, packed) = (
        ask().send().expect(200),
        ask().header("accept-encoding", "gzip").send().expect(200),
    );
    assert_eq!(
        (
            plain.header("content-encoding"),
            packed.header("content-encoding")
        ),
        ("", "gzip")
    );
    assert!(
        packed.raw * 3 < plain.raw,
        "{} bytes of {}",
        packed.raw,
        plain.raw
    );
    assert_eq!(plain.json, packed.json);
}

#[test]
fn large_or_foreign_bodies_are_refused() {
    let server = TestServer::with(Clock::system(), |config| {
        config.http.max_body_bytes = 16_384
    });
    let large = json!({ "name": "x".repeat(20_000), "encryptionRequired": true });
    server
        .admin
        .post("/services", large)
        .refused(413, "REQUEST_ENTITY_TOO_LARGE", "");
    server
        .admin
        .ask("POST", "/services")
        .body("text/plain", "{}")
        .send()
        .refused(400, "COULD_NOT_VALIDATE", "Content-Type");
    server
        .admin
        .ask("GET", "/services")
        .header("accept", "text/html")
        .send()
        .refused(400, "COULD_NOT_VALIDATE", "Accept");
    server
        .admin
        .post(
            "/services",
            json!({ "name": "fits", "encryptionRequired": true }),
        )
        .expect(201);
}
