//! Rights that checks give and take.

use super::*;

#[test]
fn new_sessions_trigger_reviews() {
    let server = server();
    let triggers = |work: fn(&Tx<'_>) -> Result<()>| {
        server.triggers.lock().unwrap().clear();
        server.store.write_blocking(work).unwrap();
        server.triggers.lock().unwrap().clone()
    };
    let of = |id: &str| Trigger::Session(id.into());
    server
        .store
        .write_blocking(|tx| {
            tx.insert(written::<Service>(
                "db",
                json!({ "name": "db", "encryptionRequired": false }),
            ))
        })
        .unwrap();
    assert_eq!(triggers(|tx| tx.insert(dialing("before"))), [of("before")]);
    server
        .store
        .write_blocking(|tx| tx.delete(&Id::<Session>::from_text("before")))
        .unwrap();

    let allow = |name: &str, checks: &[&str]| {
        let roles = json!({ "identityRoles": ["@ann"], "serviceRoles": ["@db"], "postureCheckRoles": checks });
        let mut grant = json!({ "name": name, "type": "Dial", "semantic": "AnyOf" });
        grant
            .as_object_mut()
            .unwrap()
            .extend(roles.as_object().unwrap().clone());
        let granted = written::<ServicePolicy>(name, grant);
        server
            .store
            .write_blocking(move |tx| tx.insert(granted))
            .unwrap();
    };
    allow("policy", &[]);
    assert_eq!(triggers(|tx| tx.insert(dialing("with it"))), []);
    // The right is taken away in the same transaction.
    let taken = triggers(|tx| {
        tx.delete(&Id::<Session>::from_text("with it"))?;
        tx.insert(dialing("too late"))?;
        tx.delete(&Id::<ServicePolicy>::from_text("policy"))
    });
    assert_eq!(taken, [of("too late"), Trigger::Everything]);

    let check = written::<PostureCheck>(
        "check",
        json!({ "name": "c", "typeId": "DOMAIN", "domains": ["corp"] }),
    );
    server.store.write_blocking(|tx| tx.insert(check)).unwrap();
    allow("asking", &["@check"]);
    let asked = triggers(|tx| {
        tx.delete(&Id::<Session>::from_text("too late"))?;
        tx.insert(dialing("with a check"))
    });
    assert_eq!(asked, [of("with a check")]);
    // One policy that grants the right is enough.
    allow("policy", &[]);
    let free = triggers(|tx| {
        tx.delete(&Id::<Session>::from_text("with a check"))?;
        tx.insert(dialing("without one"))
    });
    assert_eq!(free, []);
}

/// A service that these users may dial while their endpoint is in the domain `corp`, and the id of
/// its check.
fn guarded(server: &crate::harness::TestServer, users: &[&str]) -> (String, String) {
    let service = server.service(&fresh("guarded"), json!({}));
    let check = within(server, "corp");
    open_within(server, users, &service, &check);
    (service, check)
}

/// Creates a check for endpoints in a domain.
fn within(server: &crate::harness::TestServer, domain: &str) -> String {
    let body = json!({ "typeId": "DOMAIN", "name": fresh("check"), "domains": [domain] });
    server.admin.post("/posture-checks", body).expect(201).id()
}

fn is_in(domain: &str) -> Json {
    json!({ "typeId": "DOMAIN", "id": "any", "domain": domain })
}

/// Waits for an effect that follows a commit.
fn wait_for(what: &str, happened: impl Fn() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn endpoint_state_grants_and_revokes() {
    let server = shared();
    let ((ann_id, ann), (bob_id, bob)) = (
        server.user(&fresh("ann"), json!({})),
        server.user(&fresh("bob"), json!({})),
    );
    let (service, check) = guarded(server, &[&ann_id, &bob_id]);
    server.router_between(&ann_id, &service);
    let wanted = json!({ "serviceId": service });
    let refused = ann
        .post("/sessions", wanted.clone())
        .refused(409, "INVALID_POSTURE", "");
    let failing = refused.json["error"]["cause"]["data"]
        .as_object()
        .unwrap()
        .values()
        .next()
        .unwrap();
    assert_eq!(
        failing,
        &json!([{ "id": check, "typeId": "DOMAIN", "isPassing": false }])
    );
    let failures = |id: &str| {
        server
            .admin
            .get(&format!("/identities/{id}/failed-service-requests"))
            .expect(200)
    };
    assert_eq!(
        failures(&ann_id).data()[0]["policyFailures"][0]["checks"][0]["expectedValue"],
        json!(["corp"])
    );
    assert_eq!(failures(&bob_id).data(), &json!([]));

    let updated = || {
        ann.get("/current-api-session/service-updates")
            .expect(200)
            .data()["lastChangeAt"]
            .clone()
    };
    let before = updated();
    ann.post("/posture-response", is_in("corp")).expect(201);
    assert_ne!(
        updated(),
        before,
        "its clients are told to read their services again"
    );
    assert_eq!(
        ann.get(&format!("/services/{service}")).expect(200).data()["postureQueries"][0]["isPassing"],
        true
    );
    assert_eq!(
        bob.get(&format!("/services/{service}")).expect(200).data()["postureQueries"][0]["isPassing"],
        false
    );
    let session = ann.post("/sessions", wanted.clone()).expect(201).id();
    bob.post("/sessions", wanted)
        .refused(409, "INVALID_POSTURE", "");

    let open = || ann.get(&format!("/sessions/{session}")).status == 200;
    ann.post(
        "/posture-response-bulk",
        json!([is_in("home"), is_in("corp")]),
    )
    .expect(200);
    assert!(open(), "answers that come together are judged together");
    ann.post(
        "/posture-response-bulk",
        json!([is_in("home"), { "typeId": "MAC", "id": "x" }]),
    )
    .refused(400, "COULD_NOT_VALIDATE", "macAddresses");
    assert!(
        open(),
        "a list with one wrong response is rejected as a whole"
    );
    ann.post("/posture-response", is_in("home")).expect(201);
    assert!(!open());
}

#[test]
fn one_passing_policy_suffices() {
    // With the clock standing still no policy is removed from memory, and the policy that passes
    // comes last.
    let server = &crate::harness::TestServer::with_manual_clock();
    let (id, ann) = server.user(&fresh("ann"), json!({}));
    let service = server.service(&fresh("service"), json!({}));
    server.router_between(&id, &service);
    let (elsewhere, corp) = (within(server, "elsewhere"), within(server, "corp"));
    (0..40).for_each(|_| open_within(server, &[&id], &service, &elsewhere));
    open_within(server, &[&id], &service, &corp);
    let wanted = json!({ "serviceId": service });
    let refused = ann
        .post("/sessions", wanted.clone())
        .refused(409, "INVALID_POSTURE", "");
    assert_eq!(
        refused.json["error"]["cause"]["data"]
            .as_object()
            .unwrap()
            .len(),
        41,
        "each policy is named with what failed"
    );
    ann.post("/posture-response", is_in("corp")).expect(201);
    let session = ann.post("/sessions", wanted).expect(201).id();
    let is_open = || ann.get(&format!("/sessions/{session}")).status == 200;
    ann.post(
        "/posture-response-bulk",
        json!([is_in("home"), is_in("corp")]),
    )
    .expect(200);
    assert!(is_open());
    ann.post("/posture-response", is_in("home")).expect(201);
    assert!(!is_open());
}

#[test]
fn new_sessions_use_current_checks() {
    let server = shared();
    let (id, ann) = server.user(&fresh("ann"), json!({}));
    let service = server.service(&fresh("service"), json!({}));
    server.router_between(&id, &service);
    let check = within(server, "elsewhere");
    open_within(server, &[&id], &service, &check);
    ann.post("/posture-response", is_in("corp")).expect(201);
    let set_domain = |domain: &str| {
        let demand = json!({ "typeId": "DOMAIN", "domains": [domain] });
        server
            .admin
            .patch(&format!("/posture-checks/{check}"), demand)
            .expect(200);
    };
    let open = || ann.post("/sessions", json!({ "serviceId": service }));
    open().refused(409, "INVALID_POSTURE", "");
    set_domain("corp");
    let session = open().expect(201).id();
    ann.delete(&format!("/sessions/{session}")).expect(200);
    set_domain("elsewhere");
    open().refused(409, "INVALID_POSTURE", "");
    server
        .admin
        .delete(&format!("/posture-checks/{check}"))
        .expect(200);
    open().expect(201);
}

#[test]
fn sessions_end_with_their_right() {
    let server = shared();
    let (id, boss) = server.user(&fresh("boss"), json!({ "isAdmin": true }));
    let (service, check) = guarded(server, &[&id]);
    server.router_between(&id, &service);
    let bind = server.service_policy("Bind", &[&format!("@{id}")], &[&format!("@{service}")]);
    boss.post("/posture-response", is_in("corp")).expect(201);
    let opened = |of: &str| {
        boss.post("/sessions", json!({ "serviceId": service, "type": of }))
            .expect(201)
            .id()
    };
    let (dial, host) = (opened("Dial"), opened("Bind"));
    let is_open = |session: &str| boss.get(&format!("/sessions/{session}")).status == 200;

    server
        .admin
        .patch(
            &format!("/posture-checks/{check}"),
            json!({ "typeId": "DOMAIN", "domains": ["other"] }),
        )
        .expect(200);
    wait_for("the check asks for another domain", || !is_open(&dial));
    assert!(is_open(&host), "nothing is asked of those who host");
    server
        .admin
        .patch(
            &format!("/posture-checks/{check}"),
            json!({ "typeId": "MAC", "macAddresses": ["00"] }),
        )
        .refused(400, "COULD_NOT_VALIDATE", "typeId");
    server
        .admin
        .delete(&format!("/service-policies/{bind}"))
        .expect(200);
    wait_for("an administrator's right is gone like anybody's", || {
        !is_open(&host)
    });
}
