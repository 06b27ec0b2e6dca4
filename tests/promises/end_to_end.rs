//! End-to-end scenarios, as an external client runs them.

use std::{collections::BTreeSet, thread, time::Duration};

use overkeep::testing::{clock::Clock, config::Span, pki::Certificate};
use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384};
use serde_json::json;
use uuid::Uuid;

use crate::harness::{Answer, Authority, Base, Caller, Key, PASSWORD, TestServer, fresh, shared};

fn updated(caller: &Caller) -> String {
    caller
        .get("/current-api-session/service-updates")
        .expect(200)
        .data()["lastChangeAt"]
        .as_str()
        .unwrap()
        .into()
}

#[test]
fn from_token_to_service_session() {
    let server = shared();
    let (role, name) = (fresh("role"), fresh("service"));
    let id = server.identity(
        &fresh("laptop"),
        json!({ "roleAttributes": [role], "enrollment": { "ott": true } }),
    );
    let token = server.token_of(&id);
    let service = server.service(&name, json!({}));
    server.service_policy("Dial", &[&format!("#{role}")], &[&format!("@{service}")]);

    let key = Key::of(&PKCS_ECDSA_P384_SHA384);
    let enroll = |token: &str, request: String| {
        server
            .anonymous()
            .ask("POST", &format!("/enroll?method=ott&token={token}"))
            .body("application/pkcs10", request)
            .send()
    };
    enroll(&token, "no request at all".into()).refused(400, "COULD_NOT_PROCESS_CSR", "");
    let issued = enroll(&token, key.request()).expect(200);
    enroll(&token, key.request()).refused(400, "INVALID_ENROLLMENT_TOKEN", "");
    let shown = server.admin.get(&format!("/identities/{id}")).expect(200);
    assert!(
        shown.data()["enrollment"].get("ott").is_none()
            && shown.data()["authenticators"]["cert"]["fingerprint"].is_string()
    );

    let laptop = server
        .with_certificate(issued.data()["cert"].as_str().unwrap(), &key)
        .log_in_by_certificate();
    assert_eq!(laptop.get("/current-identity").expect(200).id(), id);
    let services = laptop.get("/services").expect(200);
    assert_eq!(services.each("name"), [name.as_str()]);
    assert_eq!(services.data()[0]["permissions"], json!(["Dial"]));
    assert_eq!(services.data()[0]["postureQueries"][0]["isPassing"], true);
    assert_eq!(
        laptop
            .list("/services", &format!("name = \"{name}\""), "")
            .expect(200)
            .total(),
        1
    );

    fn named(session: &Answer) -> Vec<&str> {
        session.data()["edgeRouters"]
            .as_array()
            .unwrap()
            .iter()
            .map(|router| router["name"].as_str().unwrap())
            .collect()
    }
    let wanted = json!({ "serviceId": service, "type": "Dial" });
    laptop
        .post("/sessions", wanted.clone())
        .refused(400, "NO_EDGE_ROUTERS_AVAILABLE", "");
    let router = server.router_between(&id, &service);
    let session = laptop.post("/sessions", wanted.clone()).expect(201);
    assert_eq!(named(&session).len(), 1, "{}", session.text);
    assert_eq!(
        laptop.post("/sessions", wanted).expect(201).id(),
        session.id(),
        "the same request must return the same session"
    );
    laptop
        .post("/sessions", json!({ "serviceId": service, "type": "Bind" }))
        .expect(400);

    assert_eq!(
        laptop.get("/sessions").expect(200).each("id"),
        [session.id()]
    );
    let everybody = server
        .admin
        .get(&format!("/sessions/{}", session.id()))
        .expect(200);
    assert_eq!(everybody.data()["identityId"], id.as_str());
    let (router, session) = (
        format!("/edge-routers/{router}"),
        format!("/sessions/{}", session.id()),
    );
    let moved = fresh("moved");
    server
        .admin
        .patch(&router, json!({ "name": moved }))
        .expect(200);
    assert_eq!(named(&laptop.get(&session).expect(200)), [moved.as_str()]);
    server.admin.delete(&router).expect(200);
    assert!(named(&laptop.get(&session).expect(200)).is_empty());
    laptop.delete(&session).expect(200);
    assert_eq!(laptop.get("/sessions").expect(200).total(), 0);
}

#[test]
fn foreign_certificate_opens_nothing() {
    let server = shared();
    let key = Key::of(&PKCS_ECDSA_P256_SHA256);
    let stranger = server.with_certificate(&key.self_signed(), &key);
    stranger
        .ask("POST", "/authenticate?method=cert")
        .send()
        .refused(401, "INVALID_AUTH", "");
    server
        .anonymous()
        .ask("POST", "/authenticate?method=cert")
        .send()
        .refused(401, "INVALID_AUTH", "");

    // The certificate is valid and its key is proven, but the identity is deleted.
    let (id, bearer) = server.enrolled("former");
    bearer.log_in_by_certificate();
    server
        .admin
        .delete(&format!("/identities/{id}"))
        .expect(200);
    bearer
        .ask("POST", "/authenticate?method=cert")
        .send()
        .refused(401, "INVALID_AUTH", "");
}

#[test]
fn wrong_passwords_look_like_unknown_names() {
    let server = shared();
    let name = fresh("somebody");
    server.user(&name, json!({}));
    let refused = |name: &str, password: &str| {
        let body = json!({ "username": name, "password": password });
        let answer = server
            .anonymous()
            .post("/authenticate?method=password", body)
            .refused(401, "INVALID_AUTH", "");
        (
            answer.json["error"]["message"].clone(),
            answer.json["error"]["cause"].clone(),
        )
    };
    assert_eq!(
        refused(&name, "not the password"),
        refused("nobody-has-this-name", "not the password")
    );
}

#[test]
fn disabling_an_identity_ends_access() {
    let server = TestServer::with_manual_clock();
    let name = fresh("walter");
    let (id, walter) = server.user(&name, json!({}));
    walter.get("/current-identity").expect(200);
    server
        .admin
        .post(
            &format!("/identities/{id}/disable"),
            json!({ "durationMinutes": 10 }),
        )
        .expect(200);
    walter
        .get("/current-identity")
        .refused(401, "UNAUTHORIZED", "");
    assert_eq!(
        server
            .admin
            .list("/api-sessions", &format!("identity = \"{id}\""), "")
            .expect(200)
            .total(),
        0
    );
    let log_in = || {
        server
            .anonymous()
            .post(
                "/authenticate?method=password",
                json!({ "username": name, "password": PASSWORD }),
            )
            .status
    };
    assert_eq!(log_in(), 401);
    server.clock.advance(Duration::from_secs(601));
    assert_eq!(
        log_in(),
        200,
        "the identity must be enabled after ten minutes"
    );
    walter.get("/current-identity").expect(401);

    server
        .admin
        .post(
            &format!("/identities/{id}/disable"),
            json!({ "durationMinutes": 0 }),
        )
        .expect(200);
    server.clock.advance(Duration::from_secs(1_000_000));
    let admin = server
        .admin
        .at(Base::Management)
        .log_in("admin", &server.password);
    assert_eq!(
        log_in(),
        401,
        "the identity must stay disabled until it is enabled"
    );
    admin
        .post(&format!("/identities/{id}/enable"), json!({}))
        .expect(200);
    assert_eq!(log_in(), 200);
}

#[test]
fn deleting_an_identity_deletes_its_records() {
    let server = shared();
    let (id, bearer) = server.enrolled("leaver");
    server
        .admin
        .post(
            "/enrollments",
            json!({ "identityId": id, "method": "ott", "expiresAt": "2999-01-01T00:00:00Z" }),
        )
        .expect(201);
    server.give_password(&id, &fresh("leaver"));
    let service = server.service(&fresh("service"), json!({}));
    let policy = server.service_policy("Dial", &[&format!("@{id}")], &[&format!("@{service}")]);
    server.router_between(&id, &service);
    let leaver = bearer.log_in_by_certificate();
    let session = leaver
        .post("/sessions", json!({ "serviceId": service }))
        .expect(201)
        .id();
    let left = |list: &str| {
        server
            .admin
            .list(list, &format!("identity = \"{id}\""), "")
            .expect(200)
            .total()
    };
    assert_eq!(
        (
            left("/api-sessions"),
            left("/authenticators"),
            left("/enrollments")
        ),
        (1, 2, 1)
    );

    server
        .admin
        .delete(&format!("/identities/{id}"))
        .expect(200);
    leaver.get("/services").refused(401, "UNAUTHORIZED", "");
    assert_eq!(
        (
            left("/api-sessions"),
            left("/authenticators"),
            left("/enrollments")
        ),
        (0, 0, 0)
    );
    server
        .admin
        .get(&format!("/sessions/{session}"))
        .expect(404);
    assert_eq!(
        server
            .admin
            .get(&format!("/service-policies/{policy}"))
            .expect(200)
            .data()["identityRoles"],
        json!([])
    );
}

#[test]
fn service_updates_follow_own_changes() {
    let server = TestServer::with_manual_clock();
    let (role, tag) = (fresh("role"), fresh("tag"));
    let (_, eva) = server.user(&fresh("eva"), json!({ "roleAttributes": [role] }));
    let (_, other) = server.user(&fresh("other"), json!({}));
    let service = server.service(&fresh("service"), json!({ "roleAttributes": [tag] }));
    let mut known = updated(&eva);
    let mut step = |what: &str, moves: bool, change: &dyn Fn()| {
        server.clock.advance(Duration::from_secs(1));
        let others = updated(&other);
        change();
        let now = updated(&eva);
        assert_eq!(now > known, moves, "{what}: {known} then {now}");
        assert_eq!(updated(&other), others, "{what}, for an unrelated identity");
        known = now;
    };
    let policy = std::cell::RefCell::new(String::new());
    let seen = |count: u64| assert_eq!(eva.get("/services").expect(200).total(), count);
    step("an unrelated service", false, &|| {
        drop(server.service(&fresh("service"), json!({})))
    });
    step("a policy that grants", true, &|| {
        *policy.borrow_mut() =
            server.service_policy("Dial", &[&format!("#{role}")], &[&format!("#{tag}")]);
        seen(1);
    });
    let policy = policy.borrow().clone();
    step("a policy of others", false, &|| {
        drop(server.service_policy("Dial", &["#nobody-has-it"], &["#all"]))
    });
    step("a second policy that grants the same", false, &|| {
        server.service_policy("Dial", &[&format!("#{role}")], &[&format!("@{service}")]);
        seen(1);
    });
    step("the service itself", true, &|| {
        drop(
            server
                .admin
                .patch(
                    &format!("/services/{service}"),
                    json!({ "tags": { "a": 1 } }),
                )
                .expect(200),
        )
    });
    step("the right", true, &|| {
        drop(
            server
                .admin
                .patch(
                    &format!("/service-policies/{policy}"),
                    json!({ "type": "Bind" }),
                )
                .expect(200),
        )
    });
    assert_eq!(
        eva.get("/services").expect(200).data()[0]["permissions"],
        json!(["Bind", "Dial"])
    );
    step("the service gone", true, &|| {
        server
            .admin
            .delete(&format!("/services/{service}"))
            .expect(200);
        seen(0);
    });
}

#[test]
fn last_right_hides_the_service() {
    let server = shared();
    let (id, mia) = server.user(&fresh("mia"), json!({}));
    let service = server.service(&fresh("service"), json!({}));
    let policy = server.service_policy("Dial", &[&format!("@{id}")], &[&format!("@{service}")]);
    server.router_between(&id, &service);
    assert_eq!(
        mia.get(&format!("/services/{service}")).expect(200).id(),
        service
    );
    server
        .admin
        .delete(&format!("/service-policies/{policy}"))
        .expect(200);
    assert_eq!(mia.get("/services").expect(200).total(), 0);
    mia.get(&format!("/services/{service}"))
        .refused(404, "NOT_FOUND", "");
    mia.post("/sessions", json!({ "serviceId": service }))
        .expect(404);
}

#[test]
fn identities_override_service_configs() {
    let server = shared();
    let admin = &server.admin;
    let type_name = fresh("connect");
    let of = admin
        .post("/config-types", json!({ "name": type_name }))
        .expect(201)
        .id();
    let config = |port: u16| {
        admin
            .post(
                "/configs",
                json!({ "name": fresh("config"), "configTypeId": of, "data": { "port": port } }),
            )
            .expect(201)
            .id()
    };
    let (common, own) = (config(80), config(8080));
    let service = server.service(&fresh("service"), json!({ "configs": [common] }));
    let (id, ida) = server.user(&fresh("ida"), json!({}));
    server.service_policy("Dial", &[&format!("@{id}")], &[&format!("@{service}")]);
    let port = |query: &str| {
        ida.get(&format!("/services{query}")).expect(200).data()[0]["config"][&type_name]["port"]
            .clone()
    };
    let named = format!("?configTypes={type_name}");
    assert_eq!(
        (port(&named), port("?configTypes=all"), port("")),
        (json!(80), json!(80), json!(null))
    );

    let path = format!("/identities/{id}/service-configs");
    let pair = json!([{ "serviceId": service, "configId": own }]);
    admin.post(&path, pair.clone()).expect(200);
    assert_eq!(port(&named), 8080);
    assert_eq!(
        admin.get(&path).expect(200).data()[0]["configId"],
        own.as_str()
    );
    admin.ask("DELETE", &path).json(&pair).send().expect(200);
    assert_eq!(port(&named), 80);
    admin.post(&path, pair).expect(200);
    admin.delete(&format!("/configs/{own}")).expect(200);
    assert_eq!(
        (port(&named), admin.get(&path).expect(200).total()),
        (json!(80), 0)
    );
}

#[test]
fn sessions_end_after_idling() {
    let server = TestServer::with_manual_clock();
    let (_, tom) = server.user(&fresh("tom"), json!({}));
    let minutes = |count: u64| server.clock.advance(Duration::from_secs(60 * count));
    for _ in 0..3 {
        minutes(29);
        let answer = tom.get("/current-api-session").expect(200);
        assert_eq!(answer.header("expiration-seconds"), "1800");
        assert_eq!(answer.header("expires-at"), answer.data()["expiresAt"]);
    }
    minutes(31);
    tom.get("/current-api-session")
        .refused(401, "UNAUTHORIZED", "");
    minutes(0);
    tom.get("/version").expect(200);
}

#[test]
fn concurrent_requests_share_one_session() {
    let server = shared();
    let name = fresh("hasty");
    let (id, _) = server.user(&name, json!({}));
    let service = server.service(&fresh("db"), json!({}));
    server.service_policy("Dial", &[&format!("@{id}")], &[&format!("@{service}")]);
    server.router_between(&id, &service);
    for _ in 0..4 {
        let user = server.log_in_again(&name);
        let ask = || {
            user.post("/sessions", json!({ "serviceId": service }))
                .expect(201)
                .id()
        };
        let opened: BTreeSet<String> = thread::scope(|scope| {
            let asking: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            asking
                .into_iter()
                .map(|asked| asked.join().unwrap())
                .collect()
        });
        assert_eq!(opened.len(), 1, "{opened:?}");
    }
}

#[test]
fn logout_ends_one_session() {
    let server = shared();
    let name = fresh("lena");
    let (_, first) = server.user(&name, json!({}));
    let second = server.log_in_again(&name);
    first.delete("/current-api-session").expect(200);
    first
        .get("/current-api-session")
        .refused(401, "UNAUTHORIZED", "");
    second.get("/current-api-session").expect(200);
}

#[test]
fn login_flood_leaves_certificates_working() {
    let server = TestServer::with(Clock::system(), |config| {
        (
            config.passwords.slots,
            config.passwords.queue,
            config.passwords.cost,
        ) = (1, 1, 14);
    });
    let (_, bearer) = server.enrolled("phone");
    let flood = |_| {
        let anonymous = server.anonymous();
        let body = || json!({ "username": "nobody", "password": "wrong password" });
        thread::scope(|scope| {
            let guesses: Vec<_> = (0..12)
                .map(|_| scope.spawn(|| anonymous.post("/authenticate?method=password", body())))
                .collect();
            bearer.log_in_by_certificate();
            guesses
                .into_iter()
                .map(|guess| guess.join().unwrap())
                .find(|answer| answer.status == 429)
        })
    };
    let busy = (0..50)
        .find_map(flood)
        .expect("with room for two, one of twelve logins must be rejected");
    assert_eq!(
        (
            busy.code(),
            busy.header("retry-after").parse::<u32>().is_ok()
        ),
        ("SERVER_TOO_MANY_REQUESTS", true)
    );
    server
        .anonymous()
        .at(Base::Management)
        .log_in("admin", &server.password);
}

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
    server
        .admin
        .ask("POST", "/version")
        .send()
        .refused(405, "METHOD_NOT_ALLOWED", "");
    server
        .admin
        .ask("PUT", "/services")
        .json(&json!({}))
        .send()
        .refused(405, "METHOD_NOT_ALLOWED", "");
    server
        .anonymous()
        .delete("/protocols")
        .refused(405, "METHOD_NOT_ALLOWED", "");
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

#[test]
fn enrollments_expire_and_work_once() {
    let server = TestServer::with(Clock::manual(Clock::system().now()), |config| {
        config.enrollment.identity_duration = Span::minutes(5);
        config.sessions.timeout = Span::minutes(60);
    });
    let (late, early) = (
        server.identity(&fresh("late"), json!({ "enrollment": { "ott": true } })),
        server.enrolled("early").0,
    );
    let token = server.token_of(&late);
    server.clock.advance(Duration::from_secs(301));
    let enroll = |token: &str| {
        server
            .anonymous()
            .ask("POST", &format!("/enroll?method=ott&token={token}"))
            .body("text/plain", Key::new().request())
            .send()
    };
    enroll(&token).refused(400, "ENROLLMENT_EXPIRED", "");

    let outstanding = server
        .admin
        .get(&format!("/identities/{late}/enrollments"))
        .expect(200)
        .each("id")[0]
        .to_owned();
    let end = server.clock.now().plus_minutes(30).to_string();
    server
        .admin
        .post(
            &format!("/enrollments/{outstanding}/refresh"),
            json!({ "expiresAt": end }),
        )
        .expect(200);
    let renewed = server.token_of(&late);
    assert_ne!(renewed, token, "the refresh must issue a new token");
    enroll(&token).refused(400, "INVALID_ENROLLMENT_TOKEN", "");
    enroll(&renewed).expect(200);
    assert_ne!(late, early);
}

#[test]
fn authority_certificates_enroll_despite_any_token() {
    let (server, authority, key, name) = (
        shared(),
        Authority::new("partner"),
        Key::new(),
        fresh("newcomer"),
    );
    let ca = server.add_ca(&authority);
    let bearer = server.with_certificate(&authority.issue(&name, &key), &key);
    // The C SDK sends the id of the authority as a token.
    bearer
        .ask("POST", &format!("/enroll?method=ca&token={ca}"))
        .send()
        .expect(200);
    bearer.log_in_by_certificate();
    let shown = server.admin.get(&format!("/cas/{ca}")).expect(200);
    assert!(
        Uuid::try_parse(shown.data()["verificationToken"].as_str().unwrap()).is_ok(),
        "the verification token must be a UUID"
    );
}

#[test]
fn expired_enrollments_can_be_refreshed() {
    let server = TestServer::with(Clock::manual(Clock::system().now()), |config| {
        config.enrollment.identity_duration = Span::minutes(5);
        config.enrollment.keep_expired = Span::minutes(60);
        config.sessions.timeout = Span::minutes(24 * 60);
    });
    let [lost, found] = ["lost", "found"]
        .map(|name| server.identity(&fresh(name), json!({ "enrollment": { "ott": true } })));
    let kept = || {
        [&lost, &found].map(|id| {
            server
                .admin
                .get(&format!("/identities/{id}/enrollments"))
                .expect(200)
                .total()
        })
    };
    server.clock.advance(Duration::from_secs(64 * 60));
    server.run_due_jobs();
    assert_eq!(kept(), [1, 1]);
    let one = server
        .admin
        .get(&format!("/identities/{found}/enrollments"))
        .expect(200)
        .each("id")[0]
        .to_owned();
    let end = server.clock.now().plus_minutes(1).to_string();
    server
        .admin
        .post(
            &format!("/enrollments/{one}/refresh"),
            json!({ "expiresAt": end }),
        )
        .expect(200);
    let token = server.token_of(&lost);
    server.clock.advance(Duration::from_secs(2 * 60));
    server.run_due_jobs();
    assert_eq!(kept(), [0, 1], "the refreshed enrollment must be kept");
    server
        .anonymous()
        .ask("POST", &format!("/enroll?method=ott&token={token}"))
        .body("text/plain", Key::new().request())
        .send()
        .refused(400, "INVALID_ENROLLMENT_TOKEN", "");
    let end = server.clock.now().plus_minutes(5).to_string();
    server
        .admin
        .post(
            "/enrollments",
            json!({ "identityId": lost, "method": "ott", "expiresAt": end }),
        )
        .expect(201);
}

#[test]
fn a_user_sees_nothing_of_others() {
    let server = shared();
    let (first_id, first) = server.user(&fresh("first"), json!({}));
    let (_, second) = server.user(&fresh("second"), json!({}));
    let service = server.service(&fresh("service"), json!({}));
    server.service_policy(
        "Dial",
        &[&format!("@{first_id}")],
        &[&format!("@{service}")],
    );
    server.router_between(&first_id, &service);
    let session = first
        .post("/sessions", json!({ "serviceId": service }))
        .expect(201)
        .id();
    second
        .get(&format!("/sessions/{session}"))
        .refused(404, "NOT_FOUND", "");
    second
        .delete(&format!("/sessions/{session}"))
        .refused(404, "NOT_FOUND", "");
    second
        .get(&format!("/services/{service}"))
        .refused(404, "NOT_FOUND", "");
    second
        .get(&format!("/services/{service}/edge-routers"))
        .refused(404, "NOT_FOUND", "");
    assert_eq!(
        (
            second.get("/sessions").expect(200).total(),
            second.get("/services").expect(200).total()
        ),
        (0, 0)
    );
    assert_eq!(first.get("/sessions").expect(200).total(), 1);
}

#[test]
fn router_keeps_its_last_certificate() {
    let server = shared();
    for (kind, method) in [("edge-routers", "erott"), ("transit-routers", "trott")] {
        let id = server
            .admin
            .post(&format!("/{kind}"), json!({ "name": fresh("router") }))
            .expect(201)
            .id();
        let shown = || {
            server
                .admin
                .get(&format!("/{kind}/{id}"))
                .expect(200)
                .data()
                .clone()
        };
        let token = shown()["enrollmentToken"].as_str().unwrap().to_owned();
        let key = Key::new();
        let requests = json!({ "certCsr": key.request_as(&id), "serverCertCsr": key.request() });
        let enroll = || {
            server.anonymous().post(
                &format!("/enroll?method={method}&token={token}"),
                requests.clone(),
            )
        };
        let first = enroll().expect(200);
        enroll().refused(400, "INVALID_ENROLLMENT_TOKEN", "");
        let router = |issued: &Answer| {
            server.with_certificate(issued.data()["cert"].as_str().unwrap(), &key)
        };
        let fingerprint = |issued: &Answer| {
            Certificate::first(issued.data()["cert"].as_str().unwrap())
                .unwrap()
                .fingerprint()
        };
        // The renewed certificate is the router's own at once, without confirmation.
        let is = |issued: &Answer| {
            let shown = shown();
            assert_eq!(
                (&shown["fingerprint"], &shown["isVerified"]),
                (&fingerprint(issued).into(), &true.into())
            );
            assert!(
                shown["unverifiedFingerprint"].is_null()
                    && shown["unverifiedCertPem"].is_null()
                    && shown["enrollmentToken"].is_null()
            );
        };
        is(&first);
        let renew =
            |issued: &Answer| router(issued).post("/enroll/extend/router", requests.clone());
        let second = renew(&first).expect(200);
        assert_ne!(fingerprint(&first), fingerprint(&second));
        is(&second);
        renew(&first).refused(401, "UNAUTHORIZED", "");

        if kind == "edge-routers" {
            server
                .admin
                .post(&format!("/edge-routers/{id}/re-enroll"), json!({}))
                .expect(200);
            let shown = shown();
            assert!(
                shown["isVerified"] == false
                    && shown["certPem"].is_null()
                    && shown["fingerprint"].is_null(),
                "{shown}"
            );
            assert!(
                shown["enrollmentToken"].is_string() && shown["enrollmentToken"] != token.as_str()
            );
            renew(&second).refused(401, "UNAUTHORIZED", "");
        }
    }
}
