//! How reports are stored.

use super::*;

/// The stored reports, by API session.
fn stored(data: &Path) -> usize {
    integrity::rows(data)["records.endpointReport"].len()
}

#[test]
fn reports_go_with_their_session() {
    let server = start();
    let mut client = Client::new(&server);
    let services = every_kind(&server, &client);
    client.report_changes(&services);
    let second = Client {
        caller: server.log_in_again(&client.name),
        has_reported: false,
        name: String::new(),
        id: client.id.clone(),
    };
    second
        .caller
        .post(
            "/posture-response",
            json!({ "typeId": "DOMAIN", "id": "any", "domain": "reported-domain.example.org" }),
        )
        .expect(201);
    server.run_due_jobs();
    let data = server.data();
    let copy = |name: &str| {
        let copy = data.with_file_name(name);
        fs::copy(&data, &copy).unwrap();
        stored(&copy)
    };
    assert_eq!(
        copy("two"),
        2,
        "each session has what was reported in it last"
    );
    client.caller.delete("/current-api-session").expect(200);
    assert_eq!(copy("one"), 1);
    let server = server.restarted(adapt);
    client.caller = server.log_in_again(&client.name);
    assert!(
        client.dials(&services[2]),
        "the other session reported the domain"
    );
    assert!(
        !client.dials(&services[0]),
        "the session that reported the system is gone"
    );
    server
        .admin
        .delete(&format!("/identities/{}", client.id))
        .expect(200);
    let directory = server.closed();
    assert_eq!(stored(&directory.path().join("data")), 0);
    assert!(
        offline::check(&directory.path().join("data"), None, &Progress::default())
            .unwrap()
            .report
            .findings
            .is_empty()
    );
}

#[test]
fn many_reports_share_a_commit() {
    let server = TestServer::with(Clock::manual(Clock::system().now()), |config| {
        config.metrics.listen = Some(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
        config.posture.write_interval = Span::minutes(60);
        config.sessions.sweep_interval = Span::minutes(60);
        config.sessions.activity_interval = Span::minutes(60);
    });
    let client = Client::new(&server);
    let jobs = || metrics::value(&metrics::text(&server), "overkeep_store_jobs_total").unwrap();
    let report = |n: usize| {
        let domain = json!({ "typeId": "DOMAIN", "id": "any", "domain": format!("domain-{n}") });
        client.caller.post("/posture-response", domain).expect(201);
    };
    let before = jobs();
    (0..50).for_each(report);
    assert_eq!(jobs(), before, "no report is a commit");
    let written = |name: &str| {
        server.run_due_jobs();
        let copy = server.data().with_file_name(name);
        fs::copy(server.data(), &copy).unwrap();
        integrity::rows(&copy)["records.endpointReport"].clone()
    };
    let first = written("first");
    assert_eq!(first.len(), 1);
    server.clock.advance(Duration::from_secs(20));
    report(49);
    assert!(
        written("repeated") == first,
        "an answer that is repeated is not written"
    );
    report(50);
    assert!(written("changed") != first);
}

#[test]
fn stored_reports_are_bounded() {
    let server = start();
    let mut client = Client::new(&server);
    let services = every_kind(&server, &client);
    client.report_changes(&services);
    let callers: Vec<Caller> = (0..3).map(|_| server.log_in_again(&client.name)).collect();
    let answer = |n: usize| {
        json!({
            "typeId": "PROCESS", "id": format!("{n:04000}"), "path": format!("/{n:04000}"), "isRunning": true,
            "hash": format!("{n:0256}"), "signerFingerprints": vec![format!("{n:0256}"); 32]
        })
    };
    for n in 0..200 {
        let responses: Vec<Json> = (0..5).map(|part| answer(5 * n + part)).collect();
        callers[n % 3]
            .post("/posture-response-bulk", json!(responses))
            .expect(200);
    }
    let addresses: Vec<String> = (0..256).map(|n| format!("{n:0256}")).collect();
    callers.iter().for_each(|caller| {
        drop(
            caller
                .post(
                    "/posture-response",
                    json!({ "typeId": "MAC", "id": "x", "macAddresses": addresses }),
                )
                .expect(201),
        )
    });
    let kept = posture_data(&server, &client)["processes"]
        .as_array()
        .unwrap()
        .len();
    assert!(
        (10..=32).contains(&kept),
        "{kept} answers of 12 KiB are kept"
    );
    let directory = server.closed();
    let rows = integrity::rows(&directory.path().join("data"));
    let bytes: usize = rows["records.endpointReport"].values().map(Vec::len).sum();
    assert!(bytes < 700 << 10, "{bytes} bytes of one identity");
}
