//! API tokens: what their scope allows, when they end, and what nobody learns from them.

use std::time::Duration;

use overkeep::testing::http::{Permission, Row};
use serde_json::{Value as Json, json};

use crate::harness::{Authority, Base, Caller, TestServer, fresh, interface, shared};

/// A new API token: its id, and a caller with it.
fn made(server: &TestServer, more: Json) -> (String, Caller) {
    let mut body = json!({ "name": fresh("token") });
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let answer = server
        .admin
        .at(Base::Overkeep)
        .post("/api-tokens", body)
        .expect(201);
    let secret = answer.data()["token"].as_str().unwrap();
    assert!(secret.starts_with("ovk_") && secret.len() == 47, "{secret}");
    (
        answer.id(),
        server.anonymous().at(Base::Management).with_token(secret),
    )
}

/// Every operation that needs a caller, at its interface.
pub fn rows() -> impl Iterator<Item = (Base, &'static Row)> {
    let all = Base::ALL
        .into_iter()
        .flat_map(|base| interface(base).rows().map(move |row| (base, row)));
    all.filter(|(_, row)| row.permission != Permission::Open)
}

/// The path of a row, with an id in place of each parameter.
pub fn path(row: &Row, id: &str) -> String {
    row.path
        .split('/')
        .map(|part| if part.starts_with('{') { id } else { part })
        .collect::<Vec<_>>()
        .join("/")
}

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

#[test]
fn tokens_learn_no_credentials_of_themselves() {
    let server = TestServer::start();
    let identity = server.identity(
        &fresh("bot"),
        json!({ "isAdmin": true, "enrollment": { "ott": true } }),
    );
    for scope in [
        json!({ "selfService": true }),
        json!({ "kinds": ["current-identity"] }),
        json!({ "actions": ["read"] }),
    ] {
        let mut body = scope.clone();
        body["identityId"] = json!(identity);
        let (_, token) = made(&server, body);
        let shown = token.at(Base::Client).get("/current-identity").expect(200);
        assert_eq!(shown.data()["enrollment"]["ott"]["jwt"], "", "{scope}");
        for path in [
            "/current-identity/mfa",
            "/current-identity/mfa/qr-code",
            "/current-identity/mfa/recovery-codes",
        ] {
            token
                .at(Base::Client)
                .get(path)
                .refused(401, "UNAUTHORIZED", "");
        }
    }
    let (_, routers) = made(
        &server,
        json!({ "kinds": ["transit-routers"], "actions": ["delete"] }),
    );
    let router = server
        .admin
        .post("/edge-routers", json!({ "name": fresh("router") }))
        .expect(201)
        .id();
    routers
        .delete(&format!("/transit-routers/{router}"))
        .refused(401, "UNAUTHORIZED", "");
}

#[test]
fn restricted_tokens_make_no_tokens() {
    let server = shared();
    for scope in [
        json!({ "kinds": ["api-tokens"] }),
        json!({ "actions": ["create", "delete"] }),
        json!({ "selfService": true }),
    ] {
        let (id, token) = made(server, scope);
        token
            .at(Base::Overkeep)
            .post("/api-tokens", json!({ "name": fresh("more") }))
            .refused(401, "UNAUTHORIZED", "");
        token
            .at(Base::Overkeep)
            .delete(&format!("/api-tokens/{id}"))
            .refused(401, "UNAUTHORIZED", "");
    }
    let (_, token) = made(server, json!({}));
    token
        .at(Base::Overkeep)
        .post("/api-tokens", json!({ "name": fresh("more") }))
        .expect(201);
    for (method, path) in [
        ("DELETE", "/current-api-session"),
        ("POST", "/current-identity/mfa"),
    ] {
        token
            .ask(method, path)
            .send()
            .refused(401, "UNAUTHORIZED", "");
    }
}

#[test]
fn tokens_end_with_time_and_identity() {
    let server = TestServer::with_manual_clock();
    let end = server.clock.now().plus(Duration::from_secs(60));
    let (identity, _) = server.user(&fresh("owner"), json!({ "isAdmin": true }));
    let more = json!({ "identityId": identity, "expiresAt": end.to_string() });
    let (_, timed) = made(&server, more.clone());
    let (_, owned) = made(&server, json!({ "identityId": identity }));
    let (id, revoked) = made(&server, json!({}));
    let shown = timed.get("/current-api-session").expect(200);
    assert_eq!(
        (
            &shown.data()["expiresAt"],
            shown.header("expiration-seconds")
        ),
        (&json!(end.to_string()), "60")
    );
    for token in [&timed, &owned, &revoked] {
        token.get("/services").expect(200);
    }
    server
        .admin
        .at(Base::Overkeep)
        .delete(&format!("/api-tokens/{id}"))
        .expect(200);
    revoked.get("/services").refused(401, "UNAUTHORIZED", "");
    server.clock.advance(Duration::from_secs(60));
    timed.get("/services").refused(401, "UNAUTHORIZED", "");
    owned.get("/services").expect(200);
    server
        .admin
        .ask("POST", &format!("/identities/{identity}/disable"))
        .json(&json!({ "durationMinutes": 0 }))
        .send()
        .expect(200);
    owned.get("/services").refused(401, "UNAUTHORIZED", "");
    server
        .admin
        .delete(&format!("/identities/{identity}"))
        .expect(200);
    let left = server
        .admin
        .at(Base::Overkeep)
        .list("/api-tokens", &format!("identity = \"{identity}\""), "")
        .expect(200);
    assert_eq!(left.total(), 0);
}

#[test]
fn bearer_header_carries_api_tokens() {
    let server = TestServer::start();
    let (id, token) = made(&server, json!({ "tags": { "team": "ci" } }));
    let secret = token.token.clone().unwrap();
    let bearer = |secret: &str| {
        server
            .anonymous()
            .at(Base::Management)
            .ask("GET", "/services")
            .header("authorization", &format!("Bearer {secret}"))
            .send()
    };
    bearer(&secret).expect(200);
    // One secret in sixteen ends in 'A', because the last character carries four bits.
    let (start, last) = secret.split_at(secret.len() - 1);
    let other = if last == "A" { "E" } else { "A" };
    for wrong in [
        secret.replace("ovk_", "ovk_x"),
        format!("{start}{other}"),
        "ovk_".into(),
    ] {
        bearer(&wrong).refused(401, "UNAUTHORIZED", "");
        server
            .anonymous()
            .at(Base::Management)
            .with_token(wrong)
            .get("/services")
            .refused(401, "UNAUTHORIZED", "");
    }
    let shown = server
        .admin
        .at(Base::Overkeep)
        .get(&format!("/api-tokens/{id}"))
        .expect(200);
    assert!(
        !shown.text.contains(&secret) && !shown.text.contains("hash"),
        "{}",
        shown.text
    );
    let file = std::fs::read(server.data()).unwrap();
    assert!(
        !file
            .windows(secret.len())
            .any(|part| part == secret.as_bytes()),
        "the secret is in the data file"
    );
}

#[test]
fn history_names_the_token() {
    let server = shared();
    let name = fresh("robot");
    let made = server
        .admin
        .at(Base::Overkeep)
        .post("/api-tokens", json!({ "name": name }))
        .expect(201);
    let token = server
        .anonymous()
        .at(Base::Management)
        .with_token(made.data()["token"].as_str().unwrap());
    let service = token
        .post(
            "/services",
            json!({ "name": fresh("robotic"), "encryptionRequired": true }),
        )
        .expect(201)
        .id();
    let rows = server
        .admin
        .at(Base::Overkeep)
        .list("/history", &format!("by.token = \"{name}\""), "")
        .expect(200);
    let row = &rows.data()[0];
    assert_eq!(
        (&row["id"], &row["by"]["name"], &row["by"]["session"]),
        (&json!(service), &json!("Default Admin"), &json!(made.id()))
    );
    let created = server
        .admin
        .at(Base::Overkeep)
        .list("/history", &format!("id = \"{}\"", made.id()), "")
        .expect(200);
    assert!(created.text.contains("(secret)"), "{}", created.text);
}
