//! Tokens and those who hold them.

use super::*;

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
