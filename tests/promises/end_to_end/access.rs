//! From a token to a service, and how access ends.

use super::*;

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
