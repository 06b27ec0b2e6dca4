//! Heads of requests.

use super::*;

const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";

/// A head that waits for `100 Continue`.
fn waiting(method: &str, path: &str, more: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: it\r\nexpect: 100-continue\r\ncontent-type: application/json\r\n{more}\r\n\r\n"
    )
}

#[test]
fn refused_heads_get_no_continue() {
    let (server, short) = (shared(), "content-length: 2");
    let token = token_of(&server.admin);
    let base = "/edge/management/v1";
    for (method, path, more, status) in [
        ("POST", format!("{base}/nowhere"), short.to_owned(), "404"),
        (
            "PUT",
            format!("{base}/services"),
            format!("{token}{short}"),
            "405",
        ),
        ("POST", format!("{base}/services"), short.to_owned(), "401"),
        (
            "POST",
            format!("{base}/services"),
            format!("zt-session: nobody\r\n{short}"),
            "401",
        ),
        (
            "POST",
            format!("{base}/services"),
            format!("{token}accept: text/plain\r\n{short}"),
            "400",
        ),
        (
            "POST",
            format!("{base}/services"),
            format!("{token}content-length: 2000000"),
            "413",
        ),
        (
            "POST",
            format!("{base}/services?filter={}", "x".repeat(70_000)),
            format!("{token}{short}"),
            "414",
        ),
        (
            "POST",
            format!("{base}/services"),
            "transfer-encoding: chunked".to_owned(),
            "401",
        ),
    ] {
        let mut wire = Wire::to(&server.admin);
        wire.send(waiting(method, &path, &more).as_bytes()).unwrap();
        let (told, is_closed) = told(&mut wire);
        assert!(
            told.starts_with(&format!("HTTP/1.1 {status} ")) && told.contains("\"error\""),
            "{method} {path:.60}: {told}"
        );
        // The client may send the body or leave it out, so that nothing that follows can be read.
        assert!(
            is_closed || told.to_lowercase().contains("connection: close"),
            "{method} {path:.60}: {told}"
        );
    }
}

#[test]
fn judged_heads_get_a_continue() {
    let server = shared();
    let name = fresh("service");
    let body = json!({ "name": name, "encryptionRequired": true }).to_string();
    for (more, body) in [
        (format!("content-length: {}", body.len()), body.clone()),
        (
            "transfer-encoding: chunked".to_owned(),
            format!(
                "{:x}\r\n{}\r\n0\r\n\r\n",
                body.len(),
                body.replace(&name, &fresh("service")[..name.len()])
            ),
        ),
    ] {
        let mut wire = Wire::to(&server.admin);
        let head = waiting(
            "POST",
            "/edge/management/v1/services",
            &format!("{}{more}", token_of(&server.admin)),
        );
        wire.send(head.as_bytes()).unwrap();
        let (first, _) = told(&mut wire);
        assert_eq!(first, CONTINUE);
        wire.send(body.as_bytes()).unwrap();
        let (second, _) = told(&mut wire);
        assert!(second.starts_with("HTTP/1.1 201 "), "{second}");
    }
    // A client that does not wait gets both.
    let mut wire = Wire::to(&server.admin);
    let head = waiting(
        "POST",
        "/edge/management/v1/services",
        &format!("{}content-length: 2", token_of(&server.admin)),
    );
    wire.send(format!("{head}{{}}").as_bytes()).unwrap();
    let (all, _) = told(&mut wire);
    assert!(
        all.starts_with(CONTINUE)
            && all.contains("HTTP/1.1 400 ")
            && all.contains("encryptionRequired"),
        "{all}"
    );
}

/// The header block of a request over HTTP/2 that waits for `100 Continue` (RFC 7541, literals
/// without indexing).
fn multiplexed_head(path: &str, token: &str) -> Vec<u8> {
    let literal = |name: &str, value: &str| {
        let text =
            |text: &str| [&[u8::try_from(text.len()).unwrap()][..], text.as_bytes()].concat();
        [&[0][..], &text(name), &text(value)].concat()
    };
    let fields = [
        ("content-type", "application/json"),
        ("expect", "100-continue"),
        ("zt-session", token),
    ];
    let fields: Vec<u8> = fields
        .iter()
        .flat_map(|(name, value)| literal(name, value))
        .collect();
    // POST, https
    [
        &b"\x83\x87"[..],
        &literal(":path", path),
        &literal(":authority", "it"),
        &fields,
    ]
    .concat()
}

#[test]
fn multiplexed_heads_get_a_continue() {
    let server = shared();
    let token = server.admin.token.clone().unwrap();
    let asked = |path: &str, token: &str| {
        let mut wire = Wire::multiplexed(&server.admin, 65_535);
        wire.socket()
            .set_read_timeout(Some(Duration::from_secs(1)))
            .unwrap();
        wire.send(&frame(1, 4, 1, &multiplexed_head(path, token)))
            .unwrap();
        let before = wire
            .frames()
            .into_iter()
            .filter(|(kind, stream)| (*kind, *stream) == (1, 1))
            .count();
        drop(wire.send(&frame(0, 1, 1, b"{}")));
        let after = wire
            .frames()
            .into_iter()
            .filter(|(kind, stream)| *kind < 2 && *stream == 1)
            .map(|(kind, _)| kind)
            .collect::<Vec<_>>();
        (before, after)
    };
    // One head before the body and one behind it, with the body of the error.
    assert_eq!(
        asked("/edge/management/v1/services", &token),
        (1, vec![1, 0])
    );
    // The answer comes before the body.
    assert_eq!(asked("/edge/management/v1/services", "nobody").0, 1);
}

#[test]
fn long_targets_are_answered() {
    let server = TestServer::start();
    let narrow = TestServer::with(Clock::system(), |config| config.http.max_head_bytes = 8192);
    for (server, length) in [
        (&server, 65_600),
        (&server, 131_100),
        (&server, 300_000),
        (&server, 2_000_000),
        (&narrow, 8300),
        (&narrow, 65_000),
    ] {
        for target in [
            format!("/{}", "a".repeat(length)),
            format!("/version?filter={}", "\"".repeat(length)),
            format!("https://it/{}", "%".repeat(length)),
        ] {
            let mut wire = Wire::to(&server.admin);
            let next = "GET /version HTTP/1.1\r\nhost: it\r\n\r\n";
            wire.send(format!("GET {target} HTTP/1.1\r\nhost: it\r\n\r\n{next}").as_bytes())
                .unwrap();
            let (told, _) = told(&mut wire);
            let (first, second) = told.split_at(told.rfind("HTTP/1.1 ").unwrap_or_default());
            assert!(
                first.starts_with("HTTP/1.1 414 ") && first.contains("\"URI_TOO_LONG\""),
                "{target:.40} {length}: {told:.300}"
            );
            assert!(
                second.starts_with("HTTP/1.1 200 "),
                "{target:.40} {length}: {told:.300}"
            );
        }
    }
    // The longest target that is not too long.
    let wide = TestServer::with(Clock::system(), |config| {
        config.http.max_head_bytes = 131_072
    });
    let filter = "x".repeat(65_500 - "/edge/management/v1/services?filter=".len());
    wide.admin
        .get(&format!("/services?filter={filter}"))
        .refused(400, "INVALID_FILTER", "");
    wide.admin
        .get(&format!("/services?filter={filter}x"))
        .refused(414, "URI_TOO_LONG", "");
    narrow
        .admin
        .get(&format!("/services?filter={}", "x".repeat(8192)))
        .refused(414, "URI_TOO_LONG", "");
    // Over HTTP/2 as well.
    let mut wire = Wire::multiplexed(&narrow.admin, 65_535);
    wire.socket()
        .set_read_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    let path = "/".repeat(9000);
    let literal = [
        &b"\x82\x87\x04\x7f"[..],
        &[0xa9, 0x45],
        path.as_bytes(),
        b"\x41\x02it",
    ]
    .concat();
    wire.send(&frame(1, 5, 1, &literal)).unwrap();
    wire.send(&asking_for("/version", 3)).unwrap();
    let answered = wire.frames();
    assert!(
        [(1, 1), (0, 1), (1, 3), (0, 3)]
            .iter()
            .all(|one| answered.contains(one)),
        "{answered:?}"
    );
}

#[test]
fn encoded_letters_are_letters() {
    let server = shared();
    let service = server.service(&fresh("service"), json!({}));
    for (path, status) in [
        ("/%65dge/management/v1/servic%65s".to_owned(), 200),
        (
            format!("/edge/m%61nagement/%761/services/{service}/c%6Fnfigs"),
            200,
        ),
        ("/edge/management/v1/identity%2dtypes".to_owned(), 200),
        (
            "/edge/management/v1/%63urrent%2Dapi-session".to_owned(),
            200,
        ),
        ("/overkeep/v%31/attention".to_owned(), 200),
        ("/%2Ewell-known/est/cacerts".to_owned(), 200),
        ("/%76ersion".to_owned(), 200),
        ("/he%61lth".to_owned(), 200),
        ("/d%6fcs".to_owned(), 200),
        // A character that has to be encoded is no other one.
        ("/edge%2Fmanagement/v1/services".to_owned(), 404),
        ("/edge/management/v1/services%3F".to_owned(), 404),
        ("/edge/management/v1/service%2573".to_owned(), 404),
        ("/edge/management/v1/service%zz".to_owned(), 404),
        ("/edge/management/v1/service%".to_owned(), 404),
        // Nor is it decoded twice, where a percent sign stands before an encoded letter.
        ("/edge/management/v1/servic%%36%35s".to_owned(), 404),
        ("/edge/management/v1/servic%6%35s".to_owned(), 404),
        ("/%%36%35dge/management/v1/services".to_owned(), 404),
        ("/overkeep/v%%33%31/attention".to_owned(), 404),
        ("/he%%36%31lth".to_owned(), 404),
    ] {
        let answer = server.admin.ask("GET", &format!("/{path}")).send();
        assert_eq!(answer.status, status, "{path}: {}", answer.text);
    }
    // Within an id nothing is decoded twice.
    for percent in ["%25", "%"] {
        let twice = |byte: u8| {
            format!(
                "{percent}{}",
                format!("{byte:02x}")
                    .bytes()
                    .map(|digit| format!("%{digit:02x}"))
                    .collect::<String>()
            )
        };
        let encoded: String = service.bytes().map(twice).collect();
        server
            .admin
            .ask("GET", &format!("//edge/management/v1/services/{encoded}"))
            .send()
            .expect(404);
    }
    let encoded: String = service.bytes().map(|byte| format!("%{byte:02x}")).collect();
    server
        .admin
        .ask("GET", &format!("//edge/management/v1/services/{encoded}"))
        .send()
        .expect(200);
    assert_eq!(
        server
            .admin
            .ask("POST", "//edge/management/v1/servic%65s")
            .json(&json!({}))
            .send()
            .status,
        400
    );
}
