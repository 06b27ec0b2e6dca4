//! What endpoints have reported survives a restart, because clients report a value only when it
//! changes; it does not survive a restore, which they do not notice.

use std::{fs, path::Path, time::Duration};

use overkeep::testing::{
    clock::{Clock, Timestamp},
    config::{Config, Span},
    maintenance::{offline, restore},
    pki::Passphrase,
    store::Progress,
};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::{
    explain::verify,
    harness::{Base, Caller, TestServer, encoded, fresh},
    integrity, metrics,
};

const DIGITS: &str = "ab12";
const GRACE: u64 = 300;

/// A client like libziti 1.18: it reports each value once as long as its process runs, also to a
/// controller that was started again.
struct Client {
    name: String,
    id: String,
    caller: Caller,
    has_reported: bool,
}

impl Client {
    fn new(server: &TestServer) -> Self {
        let name = fresh("reporter");
        let (id, caller) = server.user(&name, json!({}));
        Self {
            name,
            id,
            caller,
            has_reported: false,
        }
    }

    /// Connects to a controller that was started again, with the same session.
    fn meets(&mut self, server: &TestServer) {
        self.caller = server
            .anonymous()
            .with_token(self.caller.token.clone().unwrap());
        self.caller.get("/version").expect(200);
        self.report_changes(&[]);
    }

    /// Reports everything that was not reported before.
    fn report_changes(&mut self, checks: &[Guarded]) {
        if std::mem::replace(&mut self.has_reported, true) {
            return;
        }
        let check = |of: &str| {
            checks
                .iter()
                .find(|guarded| guarded.of == of)
                .map_or("none", |guarded| guarded.check.as_str())
        };
        let process = |of: &str, path: &str| json!({ "typeId": "PROCESS", "id": check(of), "path": path, "isRunning": true, "hash": DIGITS, "signerFingerprints": [DIGITS] });
        let reports = json!([
            { "typeId": "OS", "id": check("OS"), "type": "Linux", "version": "6.1.0", "build": "7" },
            { "typeId": "MAC", "id": check("MAC"), "macAddresses": ["00:1b:44:11:3a:b7"] },
            { "typeId": "DOMAIN", "id": check("DOMAIN"), "domain": "reported-domain.example.org" },
            process("PROCESS", "/bin/guard"),
            process("PROCESS_MULTI", "/bin/one"),
            process("PROCESS_MULTI", "/bin/other"),
        ]);
        self.caller
            .post("/posture-response-bulk", reports)
            .expect(200);
    }

    fn restarted(&mut self, checks: &[Guarded]) {
        self.has_reported = false;
        self.report_changes(checks);
    }

    fn enter_first_code(&self) {
        self.caller
            .post("/current-identity/mfa", Json::Null)
            .expect(201);
        verify(&self.caller);
    }

    fn wakes(&self) {
        self.caller
            .post(
                "/posture-response",
                json!({ "typeId": "ENDPOINT_STATE", "id": "any", "woken": true }),
            )
            .expect(201);
    }

    /// Whether it may dial a service now: a session is opened for a new request, and the service
    /// passes.
    fn dials(&self, guarded: &Guarded) -> bool {
        let opened = self
            .caller
            .post("/sessions", json!({ "serviceId": guarded.service }));
        assert!(
            opened.status == 201 || opened.status == 200 || opened.status == 409,
            "{}",
            opened.text
        );
        let queries = self
            .caller
            .get(&format!("/services/{}", guarded.service))
            .expect(200);
        let passes = queries.data()["postureQueries"][0]["isPassing"] == true;
        assert_eq!(passes, opened.status != 409, "{}", queries.text);
        passes
    }
}

/// A service that a client may dial while a posture check passes.
struct Guarded {
    of: &'static str,
    check: String,
    service: String,
}

fn guarded(server: &TestServer, client: &Client, of: &'static str, demand: Json) -> Guarded {
    let mut body = json!({ "name": fresh("check"), "typeId": of });
    body.as_object_mut()
        .unwrap()
        .extend(demand.as_object().unwrap().clone());
    let check = server.admin.post("/posture-checks", body).expect(201).id();
    let service = server.service(&fresh("guarded"), json!({}));
    let policy = json!({
        "name": fresh("policy"), "type": "Dial", "semantic": "AnyOf", "identityRoles": [format!("@{}", client.id)],
        "serviceRoles": [format!("@{service}")], "postureCheckRoles": [format!("@{check}")]
    });
    server.admin.post("/service-policies", policy).expect(201);
    server.router_between(&client.id, &service);
    Guarded { of, check, service }
}

/// A service for every kind of check.
fn every_kind(server: &TestServer, client: &Client) -> Vec<Guarded> {
    let process = |path: &str| json!({ "osType": "Linux", "path": path, "hashes": [DIGITS] });
    let both = json!([process("/bin/one"), process("/bin/other")]);
    let mut single = process("/bin/guard");
    single["signerFingerprint"] = json!(DIGITS);
    let of = |of, demand| guarded(server, client, of, demand);
    vec![
        of(
            "OS",
            json!({ "operatingSystems": [{ "type": "Linux", "versions": [">=6.0.0"] }] }),
        ),
        of("MAC", json!({ "macAddresses": ["001b44113ab7"] })),
        of(
            "DOMAIN",
            json!({ "domains": ["reported-domain.example.org"] }),
        ),
        of("PROCESS", json!({ "process": single })),
        of(
            "PROCESS_MULTI",
            json!({ "semantic": "AllOf", "processes": both }),
        ),
        of("MFA", json!({})),
    ]
}

fn start() -> TestServer {
    TestServer::with(Clock::manual(Clock::system().now()), |config| {
        config.sessions.timeout = Span::minutes(365 * 24 * 60)
    })
}

/// The same settings, for a start on the file of another controller.
fn adapt(config: &mut Config) {
    config.sessions.timeout = Span::minutes(365 * 24 * 60);
}

fn posture_data(server: &TestServer, client: &Client) -> Json {
    server
        .admin
        .get(&format!("/identities/{}/posture-data", client.id))
        .expect(200)
        .data()
        .clone()
}

/// The stored reports, by API session.
fn stored(data: &Path) -> usize {
    integrity::rows(data)["records.endpointReport"].len()
}

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
