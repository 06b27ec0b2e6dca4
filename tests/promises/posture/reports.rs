//! What endpoints report, and for how long it is kept.

use super::*;

#[test]
fn an_endpoint_cannot_fill_the_memory() {
    let mut endpoint = IdentityPosture::default();
    for n in 0..10_000 {
        endpoint.take(
            "session",
            response(process(
                &format!("c{n}"),
                &format!("/bin/{n}"),
                true,
                "",
                &[],
            )),
            CalendarTime::at(NOW),
            300,
        );
    }
    assert_eq!(endpoint.processes.len(), 300);
    assert!(endpoint.process_for("c9999").is_some() && endpoint.process_at("/bin/9999").is_some());
    assert!(endpoint.process_for("c0").is_none() && endpoint.process_at("/bin/0").is_none());
    let long = "x".repeat(5000);
    assert!(
        response(json!({ "typeId": "DOMAIN", "id": "x", "domain": long }))
            .check(4999)
            .is_err()
    );
    assert!(
        response(json!({ "typeId": "DOMAIN", "id": "x", "domain": long }))
            .check(5000)
            .is_ok()
    );
    assert!(
        response(json!({ "typeId": "MAC", "id": "x", "macAddresses": vec!["00"; 300] }))
            .check(5000)
            .is_err()
    );
    assert!(
        response(json!({ "typeId": "MAC", "id": "x", "macAddresses": ["00".repeat(200)] }))
            .check(5000)
            .is_err()
    );
    assert!(
        response(process("x", "/bin/x", true, "", &["00"; 33]))
            .check(5000)
            .is_err()
    );
    assert!(
        response(process("x", "/bin/x", true, &"00".repeat(200), &[]))
            .check(5000)
            .is_err()
    );
    assert!(
        response(process(
            "x",
            "/bin/x",
            true,
            &"00".repeat(64),
            &["00:11"; 32]
        ))
        .check(5000)
        .is_ok()
    );
}

#[test]
fn what_goes_is_forgotten() {
    let server = server();
    server.answer();
    server.pass();
    let known = server.posture.evidence("ann", Some("session"));
    assert!(
        known.endpoint.os.is_some()
            && known.mfa_state.woken_at.is_some()
            && known.mfa_state.passed_at.is_some()
    );
    server
        .store
        .write_blocking(|tx| tx.delete(&session()))
        .unwrap();
    let endpoint = server.posture.endpoint("ann");
    assert!(endpoint.os.is_some() && endpoint.sessions.is_empty());
    server
        .store
        .write_blocking(|tx| tx.delete(&identity()))
        .unwrap();
    assert!(server.posture.endpoint("ann").os.is_none());
}

#[test]
fn code_age_ignores_clock_changes() {
    let server = server();
    server.pass();
    let passes = || {
        evaluate(
            &code(600, false, false),
            "check",
            &server.posture.evidence("ann", Some("session")),
        )
        .passes
    };
    for put in [NOW.plus_minutes(10_000), NOW.plus_minutes(-10_000)] {
        server.clock.set(put);
        assert!(passes());
    }
    server.clock.advance(Duration::from_secs(601));
    assert!(!passes());
    server.pass();
    let shown = server
        .posture
        .evidence("ann", Some("session"))
        .mfa_state
        .passed_at
        .unwrap()
        .shown;
    assert_eq!(
        shown,
        server.clock.now(),
        "the shown time follows the clock as it was set"
    );
}

#[test]
fn late_responses_are_dropped() {
    let server = server();
    server
        .store
        .write_blocking(|tx| tx.delete(&session()))
        .unwrap();
    server.answer();
    assert!(server.posture.endpoint("ann").sessions.is_empty());
    server
        .store
        .write_blocking(|tx| tx.delete(&identity()))
        .unwrap();
    server.answer();
    assert!(server.posture.endpoint("ann").os.is_none());
}

#[test]
fn codes_go_with_their_factor() {
    let server = server();
    server.pass();
    let factor = Mfa {
        identity_id: identity(),
        sealed: Vec::new(),
        is_verified: true,
    };
    let id = Id::<Mfa>::from_text("factor");
    let record = Record::new(id.clone(), NOW, factor);
    server
        .store
        .write_blocking(move |tx| tx.insert(record))
        .unwrap();
    assert!(
        server
            .posture
            .evidence("ann", Some("session"))
            .mfa_state
            .passed_at
            .is_some()
    );
    let of_ann = [Trigger::Identity("ann".into())];
    assert_eq!(
        std::mem::take(&mut *server.triggers.lock().unwrap()),
        of_ann,
        "the time in which the code counts begins"
    );
    server
        .store
        .write_blocking(move |tx| tx.delete(&id))
        .unwrap();
    assert!(
        server
            .posture
            .evidence("ann", Some("session"))
            .mfa_state
            .passed_at
            .is_none()
    );
    assert_eq!(
        *server.triggers.lock().unwrap(),
        of_ann,
        "its sessions are reviewed again"
    );
}

#[test]
fn session_state_comes_from_the_store() {
    let server = server();
    server
        .store
        .write_blocking(|tx| {
            tx.insert(written::<Service>(
                "db",
                json!({ "name": "db", "encryptionRequired": false }),
            ))
        })
        .unwrap();
    server
        .store
        .write_blocking(|tx| tx.insert(dialing("first")))
        .unwrap();
    let refused = server
        .store
        .write_blocking(|tx| tx.insert(dialing("second")))
        .unwrap_err();
    assert!(
        matches!(&refused, Error::Duplicate { field, .. } if field == "key"),
        "{refused}"
    );
    server
        .store
        .write_blocking(|tx| tx.delete(&session()))
        .unwrap();
    let refused = server
        .store
        .write_blocking(|tx| tx.insert(dialing("third")))
        .unwrap_err();
    assert!(
        matches!(&refused, Error::NotFound { field: Some(field), .. } if field == "apiSession"),
        "{refused}"
    );
}

#[test]
fn failed_requests_take_bounded_memory() {
    let server = shared();
    let (id, ann) = server.user(&fresh("ann"), json!({}));
    let service = server.service(&fresh("service"), json!({}));
    for _ in 0..3 {
        let body =
            json!({ "typeId": "MAC", "name": fresh("check"), "macAddresses": ["0203040506ff"] });
        let check = server.admin.post("/posture-checks", body).expect(201).id();
        open_within(server, &[&id], &service, &check);
    }
    let kept = || {
        server
            .admin
            .get(&format!("/identities/{id}/failed-service-requests"))
            .expect(200)
    };
    let ask = || {
        ann.post("/sessions", json!({ "serviceId": service }))
            .refused(409, "INVALID_POSTURE", "")
    };
    ask();
    assert_eq!(
        kept().data()[0]["policyFailures"].as_array().unwrap().len(),
        3
    );
    let addresses: Vec<String> = (0..256).map(|number| format!("{number:0>250}")).collect();
    ann.post(
        "/posture-response",
        json!({ "typeId": "MAC", "id": "any", "macAddresses": addresses }),
    )
    .expect(201);
    for _ in 0..30 {
        ask();
    }
    let kept = kept();
    let of_last = &kept.data().as_array().unwrap().last().unwrap()["policyFailures"];
    assert!(
        kept.text.len() < 300 << 10 && kept.text.len() > 100 << 10,
        "{} bytes",
        kept.text.len()
    );
    assert!(
        (1..3).contains(&of_last.as_array().unwrap().len()),
        "policies beyond the limit are left out"
    );
}
