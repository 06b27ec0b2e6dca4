//! Bodies of requests and answers.

use super::*;

#[test]
fn declared_lengths_are_refused_at_once() {
    let server = shared();
    let (token, anonymous) = (token_of(&server.admin), String::new());
    for (path, token, length) in [
        ("/edge/management/v1/services", &token, 1_048_577_u64),
        ("/edge/management/v1/services", &token, u64::MAX),
        (
            "/edge/client/v1/authenticate?method=password",
            &anonymous,
            65_537,
        ),
    ] {
        let mut wire = Wire::to(&server.admin);
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: it\r\ncontent-type: application/json\r\n{token}content-length: {length}\r\n\r\n"
        );
        wire.send(head.as_bytes()).unwrap();
        let (told, is_closed) = told(&mut wire);
        assert!(
            told.starts_with("HTTP/1.1 413 ") && told.contains("REQUEST_ENTITY_TOO_LARGE"),
            "{path} {length}: {told}"
        );
        assert!(
            is_closed || told.to_lowercase().contains("connection: close"),
            "{told}"
        );
    }
    // An operation without a body reads none.
    let mut wire = Wire::to(&server.admin);
    wire.send(b"GET /version HTTP/1.1\r\nhost: it\r\ncontent-length: 9999999\r\n\r\n")
        .unwrap();
    assert!(told(&mut wire).0.starts_with("HTTP/1.1 200 "));
}

#[test]
fn requests_behind_chunks_are_read() {
    let server = shared();
    let quoted = "GET /edge/client/v1/version?filter=name=\"<a|b>\" HTTP/1.1\r\nhost: it\r\n\r\n";
    let first = |more: &str, body: &str| {
        format!(
            "POST /edge/client/v1/authenticate?method=password HTTP/1.1\r\nhost: it\r\ncontent-type: application/json\r\n{more}\r\n\r\n{body}"
        )
    };
    let body = r#"{"username":"nobody","password":"\"none"}"#;
    let chunks = |extension: &str, trailer: &str| {
        let (one, other) = body.split_at(7);
        format!(
            "{:x}{extension}\r\n{one}\r\n{:X}\r\n{other}\r\n0\r\n{trailer}\r\n",
            one.len(),
            other.len()
        )
    };
    for sent in [
        first(&format!("content-length: {}", body.len()), body),
        first("transfer-encoding: chunked", &chunks("", "")),
        first(
            "Transfer-Encoding: CHUNKED",
            &chunks(";name=\"value\"", "x-trailer: \"<y>\"\r\n"),
        ),
        first(
            "upgrade: h2c\r\ntransfer-encoding: chunked",
            &chunks(" ", ""),
        ),
    ] {
        for step in [1, 5, 100_000] {
            let mut wire = Wire::to(&server.admin);
            let all = format!("{sent}{quoted}{quoted}");
            all.as_bytes()
                .chunks(step)
                .for_each(|part| wire.send(part).unwrap());
            let (told, _) = told(&mut wire);
            let statuses: Vec<&str> = told
                .split("HTTP/1.1 ")
                .skip(1)
                .map(|answer| &answer[..3])
                .collect();
            assert_eq!(
                statuses,
                ["401", "200", "200"],
                "{sent:?}, {step} bytes at a time: {told}"
            );
        }
    }
}

#[test]
fn known_records_are_not_sent_again() {
    let server = TestServer::start();
    let admin = &server.admin;
    let id = server.identity(&fresh("somebody"), json!({}));
    let path = format!("/identities/{id}");
    let tag = |path: &str| admin.get(path).expect(200).header("etag").to_owned();
    let asked =
        |path: &str, known: &str| admin.ask("GET", path).header("if-none-match", known).send();
    let known = tag(&path);
    for known in [
        known.clone(),
        format!("W/{known}"),
        format!("\"x\", {known}"),
        "*".into(),
    ] {
        let answer = asked(&path, &known).expect(304);
        assert_eq!(
            (answer.text.as_str(), answer.raw, answer.header("etag")),
            ("", 0, tag(&path).as_str()),
            "{known}"
        );
    }
    for other in [
        "\"x\"",
        "",
        "W/\"x\"",
        known.trim_matches('"'),
        &known.to_uppercase().replace('"', "\"\""),
    ] {
        asked(&path, other).expect(200);
    }
    // A change of the record, and one of what is shown with it.
    admin
        .patch(&path, json!({ "name": fresh("somebody") }))
        .expect(200);
    asked(&path, &known).expect(200);
    let known = tag(&path);
    server.give_password(&id, &fresh("user"));
    asked(&path, &known).expect(200);
    // The tag still protects writes.
    admin
        .ask("PATCH", &path)
        .header("if-match", &known)
        .json(&json!({ "name": fresh("a") }))
        .send()
        .expect(200);
    admin
        .ask("PATCH", &path)
        .header("if-match", &known)
        .json(&json!({ "name": fresh("b") }))
        .send()
        .refused(412, "PRECONDITION_FAILED", "");
    admin
        .ask("PATCH", &path)
        .header("if-match", &format!("W/{}", tag(&path)))
        .json(&json!({}))
        .send()
        .refused(412, "PRECONDITION_FAILED", "");

    let router = admin
        .post("/edge-routers", json!({ "name": fresh("router") }))
        .expect(201)
        .id();
    let service = server.service(&fresh("service"), json!({}));
    let check = admin
        .post(
            "/posture-checks",
            json!({ "name": fresh("check"), "typeId": "MFA" }),
        )
        .expect(201)
        .id();
    for path in [
        format!("/edge-routers/{router}"),
        format!("/transit-routers/{router}"),
        format!("/services/{service}"),
        format!("/posture-checks/{check}"),
        "/auth-policies/default".into(),
    ] {
        asked(&path, &tag(&path)).expect(304);
    }
    let client = admin.at(Base::Client);
    let tag = client
        .get(&format!("/services/{service}"))
        .expect(200)
        .header("etag")
        .to_owned();
    client
        .ask("GET", &format!("/services/{service}"))
        .header("if-none-match", &tag)
        .send()
        .expect(304);
    // Only a GET of a record is conditional, and only for those who may see it.
    asked("/identities", "*").expect(200);
    asked("/identities/none", "*").expect(404);
    server
        .anonymous()
        .at(Base::Management)
        .ask("GET", &path)
        .header("if-none-match", "*")
        .send()
        .expect(401);
    admin
        .ask("PATCH", &path)
        .header("if-none-match", "*")
        .json(&json!({ "name": fresh("c") }))
        .send()
        .expect(200);
}

#[test]
fn dates_have_one_separator() {
    let server = shared();
    for (separator, status) in [
        ("T", 201),
        ("t", 201),
        (" ", 201),
        ("x", 400),
        ("_", 400),
        ("0", 400),
        ("\u{a0}", 400),
        ("", 400),
    ] {
        let id = server.identity(&fresh("invited"), json!({}));
        let ends = format!("2099-12-31{separator}23:59:59Z");
        let answer = server.admin.post(
            "/enrollments",
            json!({ "identityId": id, "method": "ott", "expiresAt": ends }),
        );
        assert_eq!(answer.status, status, "{ends}: {}", answer.text);
    }
}
