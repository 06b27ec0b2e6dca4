//! What a token may do.

use super::*;

/// A body that a row can read, so that its permission decides.
fn sent(caller: &Caller, base: Base, row: &Row, id: &str) -> u16 {
    let caller = caller.at(base);
    let asking = caller.ask(row.method, &path(row, id));
    let Some(shape) = &row.operation.body else {
        return asking.send().status;
    };
    let body = if shape.checker.is_some() {
        let forms = crate::schema_bodies::forms(&shape.schema);
        forms
            .first()
            .map_or(Json::Null, |form| {
                crate::schema_bodies::minimal_body(form, true)
            })
            .to_string()
    } else {
        "-----BEGIN CERTIFICATE REQUEST-----".to_owned()
    };
    asking.body(shape.media[0], body).send().status
}

#[test]
fn reading_tokens_write_by_no_operation() {
    let server = TestServer::start();
    let (_, reader) = made(&server, json!({ "actions": ["read"] }));
    let (_, writer) = made(&server, json!({}));
    let history = || {
        server
            .admin
            .at(Base::Overkeep)
            .list("/history", "action != \"refusal\"", "&limit=1")
            .expect(200)
            .data()
            .clone()
    };
    let before = history();
    let (mut refused, mut open) = (0, Vec::new());
    for (base, row) in rows().filter(|(_, row)| row.method != "GET") {
        let status = sent(&reader, base, row, "nothing-has-this-id");
        // A body that the row cannot read is refused before the permission is looked at.
        match status {
            401 => refused += 1,
            400 if row.operation.body.is_some() => open.push(row.path.clone()),
            _ => panic!("{} {}: {status}", row.method, row.path),
        }
    }
    assert!(refused > 100, "{refused}, unread: {open:?}");
    assert_eq!(history(), before);
    // The same request is not refused for what it is.
    writer
        .post(
            "/services",
            json!({ "name": fresh("written"), "encryptionRequired": true }),
        )
        .expect(201);
    reader
        .post(
            "/services",
            json!({ "name": fresh("unwritten"), "encryptionRequired": true }),
        )
        .refused(401, "UNAUTHORIZED", "");
    // A preview writes nothing.
    reader
        .post(
            "/services?preview=true",
            json!({ "name": fresh("foreseen"), "encryptionRequired": true }),
        )
        .expect(200);
}

#[test]
fn reading_tokens_see_no_secrets() {
    let server = TestServer::start();
    let name = fresh("enrolling");
    let identity = server.identity(&name, json!({ "enrollment": { "ott": true } }));
    let router = server
        .admin
        .post("/edge-routers", json!({ "name": fresh("router") }))
        .expect(201)
        .id();
    let transit = server
        .admin
        .post("/transit-routers", json!({ "name": fresh("transit") }))
        .expect(201)
        .id();
    let authority = server.add_ca(&Authority::new("of a partner"));
    let (token, reader) = made(&server, json!({ "actions": ["read"] }));
    let mut secrets = vec![server.admin.token.clone().unwrap()];
    secrets.push(
        server
            .admin
            .get(&format!("/cas/{authority}"))
            .expect(200)
            .data()["verificationToken"]
            .as_str()
            .unwrap()
            .to_owned(),
    );
    for enrollment in server
        .admin
        .get("/enrollments?limit=500")
        .expect(200)
        .data()
        .as_array()
        .unwrap()
    {
        secrets
            .extend(["token", "jwt"].map(|member| enrollment[member].as_str().unwrap().to_owned()));
    }
    assert!(secrets.len() >= 8, "{}", secrets.len());
    let mut answered = 0;
    for (base, row) in rows().filter(|(_, row)| row.method == "GET" && row.path != "/events") {
        for id in [&identity, &router, &transit, &token, &authority] {
            let answer = reader.at(base).ask("GET", &path(row, id)).send();
            answered += usize::from(answer.status == 200);
            let told = secrets
                .iter()
                .find(|secret| answer.text.contains(secret.as_str()));
            assert_eq!(told, None, "{} {}", row.method, row.path);
        }
    }
    assert!(answered > 100, "{answered}");
    for path in [
        "/api-sessions",
        "/sessions",
        "/enrollments",
        "/enrollments?filter=token%3D%22x%22",
    ] {
        reader.get(path).refused(401, "UNAUTHORIZED", "");
    }
    let shown = reader.get(&format!("/identities/{identity}")).expect(200);
    assert_eq!(
        (
            &shown.data()["enrollment"]["ott"]["jwt"],
            &shown.data()["name"]
        ),
        (&json!(""), &json!(name))
    );
    let (_, creator) = made(
        &server,
        json!({ "kinds": ["identities"], "actions": ["read", "create"] }),
    );
    let shown = creator.get(&format!("/identities/{identity}")).expect(200);
    assert_eq!(
        shown.data()["enrollment"]["ott"]["jwt"]
            .as_str()
            .map(|jwt| jwt.starts_with("ey")),
        Some(true)
    );
}

#[test]
fn scopes_limit_kinds_and_actions() {
    let server = shared();
    let identity = server.identity(&fresh("scoped"), json!({}));
    let (_, token) = made(
        server,
        json!({ "kinds": ["identities", "services"], "actions": ["read", "disable"] }),
    );
    token.get("/services").expect(200);
    token
        .get(&format!("/identities/{identity}/services"))
        .expect(200);
    token
        .post(
            &format!("/identities/{identity}/disable"),
            json!({ "durationMinutes": 1 }),
        )
        .expect(200);
    for path in [
        "/configs",
        &format!("/identities/{identity}/service-policies"),
        "/current-identity",
    ] {
        token.get(path).refused(401, "UNAUTHORIZED", "");
    }
    token
        .ask("POST", &format!("/identities/{identity}/enable"))
        .send()
        .refused(401, "UNAUTHORIZED", "");
    token
        .delete(&format!("/identities/{identity}"))
        .refused(401, "UNAUTHORIZED", "");
    let (_, own) = made(server, json!({ "selfService": true }));
    own.get("/services").refused(401, "UNAUTHORIZED", "");
    own.at(Base::Client).get("/services").expect(200);
    let admin = server.admin.at(Base::Overkeep);
    for (member, word) in [("kinds", "service"), ("actions", "write")] {
        admin
            .post(
                "/api-tokens",
                json!({ "name": fresh("wrong"), member: [word] }),
            )
            .refused(400, "COULD_NOT_VALIDATE", &format!("{member}.0"));
    }
    admin
        .post(
            "/api-tokens",
            json!({ "name": fresh("past"), "expiresAt": "2020-01-01T00:00:00Z" }),
        )
        .refused(400, "COULD_NOT_VALIDATE", "expiresAt");
}

#[test]
fn every_token_reads_own_scope() {
    let server = shared();
    let (other, _) = made(server, json!({}));
    for scope in [
        json!({ "actions": ["create"] }),
        json!({ "kinds": ["services"] }),
        json!({ "kinds": ["services"], "actions": ["delete"] }),
    ] {
        let (id, token) = made(server, scope.clone());
        let own = token
            .at(Base::Overkeep)
            .get(&format!("/api-tokens/{id}"))
            .expect(200);
        for (member, words) in scope.as_object().unwrap() {
            assert_eq!(&own.data()[member], words);
        }
        assert_eq!(
            token
                .at(Base::Overkeep)
                .get(&format!("/api-tokens/{other}"))
                .status,
            401,
            "{scope}"
        );
        assert_eq!(
            token
                .at(Base::Overkeep)
                .delete(&format!("/api-tokens/{id}"))
                .status,
            401,
            "{scope}"
        );
    }
    let (id, token) = made(server, json!({ "selfService": true }));
    assert_eq!(
        token
            .at(Base::Overkeep)
            .get(&format!("/api-tokens/{id}"))
            .status,
        401,
        "it has no rights of administrators"
    );
}

#[test]
fn network_documents_need_every_action() {
    let server = TestServer::start();
    let document = server
        .admin
        .at(Base::Overkeep)
        .get("/network")
        .expect(200)
        .data()
        .clone();
    let status = |scope: Json, query: &str| {
        let (_, token) = made(&server, scope);
        token
            .at(Base::Overkeep)
            .put(&format!("/network{query}"), document.clone())
            .status
    };
    for scope in [
        json!({ "actions": ["read", "update"] }),
        json!({ "kinds": ["services"] }),
        json!({ "selfService": true }),
    ] {
        assert_eq!(status(scope.clone(), ""), 401, "{scope}");
    }
    assert_eq!(status(json!({ "actions": ["read"] }), "?preview=true"), 200);
    assert_eq!(
        status(json!({ "actions": ["create", "update", "delete"] }), ""),
        200
    );
}
