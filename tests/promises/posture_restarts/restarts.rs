//! What endpoints reported, after a restart.

use super::*;

const GRACE: u64 = 300;

#[test]
fn reports_survive_a_restart() {
    let server = start();
    let mut client = Client::new(&server);
    let services = every_kind(&server, &client);
    client.enter_first_code();
    client.report_changes(&services);
    client.wakes();
    let open = |guarded: &Guarded| {
        client
            .caller
            .post("/sessions", json!({ "serviceId": guarded.service }))
            .expect(201)
            .id()
    };
    let sessions: Vec<String> = services.iter().map(open).collect();
    let before = posture_data(&server, &client);
    // The second start reads what the first one has read and not written again.
    let server = server.restarted(adapt).restarted(adapt);
    client.meets(&server);
    server.run_due_jobs();
    assert_eq!(posture_data(&server, &client), before);
    for (guarded, session) in services.iter().zip(&sessions) {
        assert_eq!(
            client.caller.get(&format!("/sessions/{session}")).status,
            200,
            "the session on {} has ended",
            guarded.of
        );
        assert!(client.dials(guarded), "{}", guarded.of);
        client
            .caller
            .delete(&format!("/sessions/{session}"))
            .expect(200);
        assert!(client.dials(guarded), "a new session, {}", guarded.of);
    }
    // A later report replaces what was read.
    client
        .caller
        .post(
            "/posture-response",
            json!({ "typeId": "DOMAIN", "id": "any", "domain": "elsewhere" }),
        )
        .expect(201);
    assert!(!client.dials(&services[2]));
    let server = server.restarted(adapt);
    client.meets(&server);
    assert!(!client.dials(&services[2]) && client.dials(&services[0]));
}

#[test]
fn times_count_over_a_restart() {
    let server = start();
    let mut client = Client::new(&server);
    let coded = guarded(&server, &client, "MFA", json!({ "timeoutSeconds": 600 }));
    let woken = guarded(
        &server,
        &client,
        "MFA",
        json!({ "timeoutSeconds": 6000, "promptOnWake": true }),
    );
    client.enter_first_code();
    let session = client
        .caller
        .post("/sessions", json!({ "serviceId": coded.service }))
        .expect(201)
        .id();
    let later = |server: TestServer, client: &mut Client, seconds: u64| {
        let clock = server.clock.clone();
        let server = server.restarted(|config| {
            adapt(config);
            clock.advance(Duration::from_secs(seconds));
        });
        client.meets(&server);
        server
    };
    let server = later(server, &mut client, 500);
    assert!(client.dials(&coded) && client.dials(&woken));
    let queries = client
        .caller
        .get(&format!("/services/{}", coded.service))
        .expect(200);
    assert_eq!(
        queries.data()["postureQueries"][0]["postureQueries"][0]["timeoutRemaining"],
        100
    );
    client.wakes();
    let server = later(server, &mut client, 101);
    server.run_due_jobs();
    assert_eq!(
        client.caller.get(&format!("/sessions/{session}")).status,
        404,
        "its time ended while no controller ran"
    );
    assert!(
        !client.dials(&coded) && client.dials(&woken),
        "the time after waking up is not over"
    );
    let server = later(server, &mut client, GRACE - 101 + 1);
    assert!(
        !client.dials(&woken),
        "the time after waking up ended while no controller ran"
    );
    drop(server);
}

#[test]
fn codes_end_with_their_factor() {
    let server = start();
    let mut client = Client::new(&server);
    let coded = guarded(&server, &client, "MFA", json!({}));
    client.enter_first_code();
    assert!(client.dials(&coded));
    server
        .admin
        .delete(&format!("/identities/{}/mfa", client.id))
        .expect(200);
    // As after a kill right after the removal.
    let killed = server.killed(adapt);
    client.meets(&killed);
    assert!(
        !client.dials(&coded),
        "the code of a removed factor counts again"
    );
    killed.clock.advance(Duration::from_secs(1));
    let other = killed.log_in_again(&client.name);
    other.post("/current-identity/mfa", Json::Null).expect(201);
    verify(&other);
    let server = killed.restarted(adapt);
    client.meets(&server);
    assert!(
        !client.dials(&coded),
        "the code of a removed factor counts for the next one"
    );
    client.caller = server.anonymous().with_token(other.token.unwrap());
    assert!(client.dials(&coded));
}

#[test]
fn a_kill_loses_one_interval() {
    let server = TestServer::with(Clock::system(), |config| {
        config.posture.write_interval = Span::seconds(1);
        config.sessions.sweep_interval = Span::minutes(60);
    });
    let mut client = Client::new(&server);
    let services = every_kind(&server, &client);
    client.report_changes(&services);
    std::thread::sleep(Duration::from_millis(2500));
    let killed = server.killed(|_| ());
    client.meets(&killed);
    assert!(
        services
            .iter()
            .filter(|guarded| guarded.of != "MFA")
            .all(|guarded| client.dials(guarded)),
        "written by itself after an interval"
    );
    // A report that ends sessions is on disk with their end.
    client
        .caller
        .post(
            "/posture-response",
            json!({ "typeId": "DOMAIN", "id": "any", "domain": "elsewhere" }),
        )
        .expect(201);
    let killed = killed.killed(|_| ());
    client.meets(&killed);
    assert!(!client.dials(&services[2]) && client.dials(&services[1]));
}

/// Explains why a client may not dial a service: the text about its endpoint.
fn told(server: &TestServer, client: &Client, guarded: &Guarded) -> String {
    let path = format!(
        "/explain?identity={}&service={}&type=Dial",
        encoded(&client.name),
        guarded.service
    );
    let why = server.admin.at(Base::Overkeep).get(&path).expect(200);
    let obstacles = why.data()["obstacles"].as_array().unwrap().clone();
    obstacles
        .iter()
        .find(|obstacle| obstacle["what"] == "posture")
        .map(|found| found["text"].as_str().unwrap().to_owned())
        .unwrap_or_default()
}

fn snapshot(server: &TestServer, directory: &TempDir) -> std::path::PathBuf {
    let path = directory.path().join(fresh("snapshot"));
    fs::copy(
        server
            .admin
            .post("/database/snapshot", Json::Null)
            .expect(200)
            .data()["path"]
            .as_str()
            .unwrap(),
        &path,
    )
    .unwrap();
    path
}

/// A controller on a copy of this data file.
fn started_on(file: &Path, server: &TestServer) -> TestServer {
    let started = TestServer::on_copy(file, &server.password, server.clock.clone(), adapt);
    // Sessions whose right is gone are ended after the start.
    started.run_due_jobs();
    started
}

/// What follows a restore: nothing counts until it is reported again, and then it survives restarts
/// as before.
fn fails_until_reported_again(restored: TestServer, client: &mut Client, services: &[Guarded]) {
    client.meets(&restored);
    for guarded in services {
        assert!(
            !client.dials(guarded),
            "{} passes after a restore",
            guarded.of
        );
        let text = told(&restored, client, guarded);
        let expected =
            "the posture reports of this session date from before the restore of the data file at ";
        assert!(text.contains(expected), "{}: {text}", guarded.of);
        let remedy = if guarded.of == "MFA" {
            "enters a one-time code in the client again"
        } else {
            "restart the client of "
        };
        assert!(text.contains(remedy), "{}: {text}", guarded.of);
    }
    assert_eq!(posture_data(&restored, client)["os"]["type"], Json::Null);
    // A later start knows it as well.
    let restored = restored.restarted(adapt);
    client.meets(&restored);
    assert!(services.iter().all(|guarded| !client.dials(guarded)));
    client.restarted(services);
    let (coded, others) = services.split_last().unwrap();
    assert!(others.iter().all(|guarded| client.dials(guarded)) && !client.dials(coded));
    assert!(told(&restored, client, &others[0]).is_empty());
    let restored = restored.restarted(adapt);
    client.meets(&restored);
    assert!(
        others.iter().all(|guarded| client.dials(guarded)) && !client.dials(coded),
        "a report after the restore survives a restart"
    );
}

#[test]
fn nothing_counts_after_a_restore() {
    let server = start();
    let mut client = Client::new(&server);
    let services = every_kind(&server, &client);
    client.enter_first_code();
    client.report_changes(&services);
    server.run_due_jobs();
    let directory = TempDir::new().unwrap();
    let made = snapshot(&server, &directory);
    // By the command, and by hand.
    let restored = directory.path().join("restored");
    restore::restore(
        &made,
        &restored,
        None,
        Timestamp::from_millis(0),
        &Progress::default(),
    )
    .unwrap();
    fails_until_reported_again(started_on(&restored, &server), &mut client, &services);
    client.has_reported = true;
    fails_until_reported_again(started_on(&made, &server), &mut client, &services);
    // A restore to a file that was restored before.
    client.has_reported = true;
    let once = started_on(&made, &server);
    client.meets(&once);
    client.restarted(&services);
    once.run_due_jobs();
    let again = snapshot(&once, &directory);
    fails_until_reported_again(started_on(&again, &once), &mut client, &services);
    // The controller that was not restored goes on.
    client.meets(&server);
    assert!(services.iter().all(|guarded| client.dials(guarded)));
}

#[test]
fn sealing_keys_is_no_restore() {
    let server = start();
    let mut client = Client::new(&server);
    let services = every_kind(&server, &client);
    client.enter_first_code();
    client.report_changes(&services);
    server.run_due_jobs();
    let snapshots = TempDir::new().unwrap();
    let made = snapshot(&server, &snapshots);
    let (password, clock) = (server.password.clone(), server.clock.clone());
    let directory = server.closed();
    let file = directory.path().join("data");
    let passphrase = Passphrase::new("a passphrase of a test");
    for sealed in [&file, &made] {
        offline::reseal(sealed, None, Some(&passphrase), &Progress::default()).unwrap();
        offline::reseal(sealed, Some(&passphrase), None, &Progress::default()).unwrap();
    }
    let opened = TestServer::on_copy(&file, &password, clock, adapt);
    client.meets(&opened);
    assert!(
        services.iter().all(|guarded| client.dials(guarded)),
        "the content is that of the file before"
    );
    // A snapshot stays one.
    fails_until_reported_again(started_on(&made, &opened), &mut client, &services);
}
