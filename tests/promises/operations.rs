//! What an operator asks of a controller beside its records: health, doctor, drills, snapshots off
//! site, the service manager.

use std::{
    fs,
    os::unix::net::UnixDatagram,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use overkeep::testing::{
    admin_socket::socket,
    change::{KINDS, SealedKeys},
    clock::{Clock, Timestamp},
    config::{Config, Snapshots, Span},
    controller,
    maintenance::{Maintenance, Schedule, overdue},
    store::Progress,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::{
    command_line::{on_host, on_host_with},
    harness::{TestServer, command, fresh, stores},
};

#[test]
fn health_tells_why() {
    let server = TestServer::start();
    let checks = server.admin.get("//health-checks").expect(200).json;
    assert_eq!(
        (&checks["data"]["healthy"], &checks["meta"]),
        (&json!(true), &json!({}))
    );
    let ids: Vec<&Json> = checks["data"]["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| &check["id"])
        .collect();
    assert_eq!(ids, [&json!("store.write"), &json!("store.file")]);
    let short = server
        .admin
        .get("//health-checks?type=short")
        .expect(200)
        .json;
    assert_eq!(
        short["data"]["checks"][0],
        json!({ "id": "store.write", "healthy": true })
    );
    fs::rename(server.data(), server.data().with_extension("moved")).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let answer = loop {
        let answer = server.admin.get("//ready");
        if answer.status == 503 || Instant::now() > until {
            break answer;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(
        (answer.status, &answer.json["reason"]),
        (503, &json!("the data file is no longer at its path"))
    );
    let checks = server.admin.get("//health-checks").expect(200).json;
    assert_eq!(
        (
            &checks["data"]["healthy"],
            &checks["data"]["checks"][1]["healthy"]
        ),
        (&json!(false), &json!(false))
    );
}

/// The findings of `overkeep doctor` about a controller that listens at an address.
fn doctor(server: &TestServer, listen: &str, more: &[(&str, &str)]) -> (i32, Vec<Json>) {
    let variables: Vec<(&str, &str)> = [("OVERKEEP_LISTEN", listen)]
        .into_iter()
        .chain(more.iter().copied())
        .collect();
    let ran = on_host_with(server, &variables, &["doctor", "-o", "json"]);
    let findings: Vec<Json> = serde_json::from_str(&ran.out)
        .unwrap_or_else(|error| panic!("{error}: {} {}", ran.out, ran.err));
    (ran.status, findings)
}

/// The finding of a check.
fn of<'f>(findings: &'f [Json], check: &str) -> &'f Json {
    findings
        .iter()
        .find(|finding| finding["check"] == check)
        .unwrap_or_else(|| panic!("no {check} in {findings:#?}"))
}

#[test]
fn doctor_finds_what_troubles() {
    let server = TestServer::start();
    let listen = server.bound().to_string();
    let snapshots = TempDir::new().unwrap();
    let (status, findings) = doctor(&server, &listen, &[]);
    assert_eq!(status, 3);
    for check in [
        "controller",
        "port",
        "advertised address",
        "certificates",
        "key sets",
        "data file",
        "disk",
    ] {
        assert_eq!(of(&findings, check)["healthy"], true, "{findings:#?}");
    }
    assert_eq!(of(&findings, "snapshots")["healthy"], false);
    assert!(
        findings
            .iter()
            .all(|finding| finding["healthy"] == (finding["mend"] == "")),
        "{findings:#?}"
    );
    let name = fresh("unreachable");
    let signer = json!({
        "name": name, "issuer": fresh("https://idp.test"), "audience": "a", "enabled": true, "jwksEndpoint": "https://127.0.0.1:9/keys",
        "useExternalId": true, "claimsProperty": "sub"
    });
    server
        .admin
        .post("/external-jwt-signers", signer)
        .expect(201);
    let directory = snapshots.path().to_str().unwrap();
    let more = [
        ("OVERKEEP_ADVERTISE", "name.invalid:1280"),
        ("OVERKEEP_SNAPSHOTS_DIRECTORY", directory),
    ];
    let (_, findings) = doctor(&server, &listen, &more);
    assert_eq!(of(&findings, "advertised address")["healthy"], false);
    assert!(
        of(&findings, "key sets")["detail"]
            .as_str()
            .unwrap()
            .contains(&name),
        "{findings:#?}"
    );
    assert!(
        of(&findings, "snapshots")["detail"]
            .as_str()
            .unwrap()
            .contains("there is none"),
        "{findings:#?}"
    );
    // Another controller is at the advertised address.
    let other = TestServer::start();
    let (_, findings) = doctor(
        &server,
        &listen,
        &[("OVERKEEP_ADVERTISE", &other.bound().to_string())],
    );
    assert_eq!(
        of(&findings, "advertised address")["healthy"],
        false,
        "{findings:#?}"
    );
    let lines = on_host_with(&server, &[("OVERKEEP_LISTEN", &listen)], &["doctor"]);
    assert!(
        lines.out.contains("ok   controller") && lines.out.contains("FAIL snapshots"),
        "{}",
        lines.out
    );
}

#[test]
fn open_policies_are_found() {
    let server = TestServer::start();
    let listen = server.bound().to_string();
    let found = || {
        let served = server.admin.get("/overkeep/v1/doctor").expect(200);
        let (_, told) = doctor(&server, &listen, &[]);
        let finding = of(served.data().as_array().unwrap(), "signers").clone();
        assert_eq!(&finding, of(&told, "signers"));
        (
            finding["healthy"] == true,
            finding["detail"].as_str().unwrap().to_owned(),
        )
    };
    assert!(found().0, "there is no signer");
    let signer = json!({
        "name": "hr", "issuer": fresh("https://idp.test"), "audience": "a", "enabled": false, "jwksEndpoint": "https://127.0.0.1:9/keys"
    });
    let signer = server
        .admin
        .post("/external-jwt-signers", signer)
        .expect(201)
        .id();
    assert!(found().0, "it is disabled");
    let path = format!("/external-jwt-signers/{signer}");
    server
        .admin
        .patch(&path, json!({ "enabled": true }))
        .expect(200);
    let (is_good, detail) = found();
    assert!(
        !is_good
            && ["(hr)", "(Default)", "1 administrators"]
                .iter()
                .all(|part| detail.contains(part)),
        "{detail}"
    );
    let policy = |ext_jwt: Json| {
        server
            .admin
            .patch(
                "/auth-policies/default",
                json!({ "primary": { "extJwt": ext_jwt } }),
            )
            .expect(200)
    };
    policy(json!({ "allowedSigners": [signer] }));
    assert!(found().0, "the policy lists it");
    policy(json!({ "allowedSigners": [], "allowed": false }));
    assert!(found().0, "the policy allows no tokens");
    // Another open policy counts as soon as an identity has it.
    let other = crate::explain::auth_policy(
        &server,
        json!({ "primary": { "extJwt": { "allowed": true } } }),
    );
    assert!(found().0);
    server.identity(&fresh("member"), json!({ "authPolicyId": other }));
    let (is_good, detail) = found();
    assert!(
        !is_good && detail.contains("0 administrators") && !detail.contains("(Default)"),
        "{detail}"
    );
}

#[test]
fn doctor_needs_no_configuration() {
    let server = TestServer::start();
    let ran = on_host(&server, &["doctor", "-o", "json"]);
    let findings: Vec<Json> = serde_json::from_str(&ran.out)
        .unwrap_or_else(|error| panic!("{error}: {} {}", ran.out, ran.err));
    for check in [
        "controller",
        "advertised address",
        "certificates",
        "key sets",
        "data file",
        "disk",
    ] {
        assert_eq!(of(&findings, check)["healthy"], true, "{findings:#?}");
    }
    // The address of the running controller, not the default one.
    assert!(
        of(&findings, "advertised address")["detail"]
            .as_str()
            .unwrap()
            .starts_with(&server.bound().to_string()),
        "{findings:#?}"
    );
    assert!(
        findings.iter().all(|finding| finding["check"] != "port"),
        "{findings:#?}"
    );
}

#[test]
fn findings_of_host_are_served() {
    let server = TestServer::start();
    let served = server.admin.get("/overkeep/v1/doctor").expect(200);
    let findings = served.data().as_array().unwrap();
    let healthy: Vec<bool> = ["data file", "disk", "snapshots"]
        .map(|check| of(findings, check)["healthy"] == true)
        .into();
    assert_eq!(healthy, [true, true, false], "{}", served.text);
    let (_, told) = doctor(&server, &server.bound().to_string(), &[]);
    assert_eq!(of(findings, "snapshots"), of(&told, "snapshots"));
}

#[test]
fn findings_of_network_are_served() {
    // The port is free until the controller takes it.
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let server = TestServer::with(Clock::system(), |config| {
        config.listen = free.into();
        config.advertise = vec![free.into(), "name.invalid:1280".parse().unwrap()];
    });
    assert!(
        !server
            .admin
            .get("/overkeep/v1/doctor")
            .expect(200)
            .text
            .contains("advertised address")
    );
    let name = fresh("unreachable");
    let signer = json!({
        "name": name, "issuer": fresh("https://idp.test"), "audience": "a", "enabled": true, "jwksEndpoint": "https://127.0.0.1:9/keys"
    });
    server
        .admin
        .post("/external-jwt-signers", signer)
        .expect(201);
    let served = server
        .admin
        .get("/overkeep/v1/doctor?network=true")
        .expect(200);
    let findings = served.data().as_array().unwrap();
    let advertised: Vec<&Json> = findings
        .iter()
        .filter(|finding| finding["check"] == "advertised address")
        .collect();
    assert_eq!(
        [&advertised[0]["healthy"], &advertised[1]["healthy"]],
        [true, false],
        "{}",
        served.text
    );
    assert_eq!(
        (
            &of(findings, "port")["healthy"],
            &of(findings, "certificates")["healthy"]
        ),
        (&json!(true), &json!(true)),
        "{}",
        served.text
    );
    assert!(
        of(findings, "key sets")["detail"]
            .as_str()
            .unwrap()
            .contains(&name),
        "{}",
        served.text
    );
}

#[test]
fn doctor_fetches_no_plain_keys() {
    let server = TestServer::with(Clock::system(), |config| config.key_sets.allow_http = true);
    let signer = json!({
        "name": fresh("plain"), "issuer": fresh("https://idp.test"), "audience": "a", "enabled": true, "jwksEndpoint": "http://idp.invalid/keys"
    });
    server
        .admin
        .post("/external-jwt-signers", signer)
        .expect(201);
    let detail = |server: &TestServer| {
        let served = server
            .admin
            .get("/overkeep/v1/doctor?network=true")
            .expect(200);
        of(served.data().as_array().unwrap(), "key sets")["detail"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(!detail(&server).contains("allow-http"));
    let server = server.restarted(|_| ());
    assert!(
        detail(&server).contains("must be an https address; key-sets.allow-http"),
        "{}",
        detail(&server)
    );
}

#[test]
fn last_hour_counts_logins() {
    let server = TestServer::start();
    let (_, alice) = server.user(&fresh("alice"), json!({}));
    let refused = server.admin.post(
        "/authenticate?method=password",
        json!({ "username": "admin", "password": "not the password" }),
    );
    refused.refused(401, "INVALID_AUTH", "");
    alice.get("/overkeep/v1/last-hour").expect(401);
    let until = Instant::now() + Duration::from_secs(60);
    let sums = loop {
        let hour = server.admin.get("/overkeep/v1/last-hour").expect(200);
        let steps = hour.data()["steps"].as_array().unwrap();
        let sum = |member: &str| {
            steps
                .iter()
                .map(|step| step[member].as_u64().unwrap())
                .sum::<u64>()
        };
        let sums = (sum("logins"), sum("refusals"));
        if sums.0 >= 2 && sums.1 >= 1 || Instant::now() > until {
            break (
                sums,
                steps
                    .windows(2)
                    .all(|pair| pair[0]["at"].as_str() < pair[1]["at"].as_str()),
            );
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    assert!(sums.0.0 >= 2 && sums.0.1 >= 1 && sums.1, "{sums:?}");
}

#[test]
fn attention_counts_all_records() {
    let clock = Clock::manual(Clock::system().now());
    let server = TestServer::with(clock.clone(), |_| ());
    let prefix = fresh("attended");
    let ids: Vec<String> = (0..7)
        .map(|n| {
            server.identity(
                &format!("{prefix}-{n}"),
                json!({ "enrollment": { "ott": true } }),
            )
        })
        .collect();
    let disable = |id: &str, minutes: u64| {
        server
            .admin
            .post(
                &format!("/identities/{id}/disable"),
                json!({ "durationMinutes": minutes }),
            )
            .expect(200);
    };
    ids.iter().take(6).for_each(|id| disable(id, 0));
    disable(&ids[6], 1);
    let asked = |member: &str| {
        let answer = server.admin.get("/overkeep/v1/attention").expect(200);
        let of = |member: &str| {
            (
                answer.data()[member]["total"].as_u64().unwrap(),
                answer.data()[member]["first"].clone(),
            )
        };
        of(member)
    };
    let named = |first: &Json| {
        first
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let (total, first) = asked("disabledIdentities");
    assert_eq!(
        (total, named(&first)),
        (7, (0..5).map(|n| format!("{prefix}-{n}")).collect())
    );
    assert_eq!(first[0]["id"], json!(ids[0]));
    let (total, first) = asked("outstandingEnrollments");
    assert_eq!(
        (
            total,
            first.as_array().unwrap().len(),
            asked("expiredEnrollments").0
        ),
        (7, 5, 0)
    );
    assert!(
        ids.contains(&first[0]["identityId"].as_str().unwrap().to_owned())
            && named(&first)[0].starts_with(&prefix),
        "{first}"
    );
    clock.advance(Duration::from_secs(61));
    assert_eq!(
        asked("disabledIdentities").0,
        6,
        "one was disabled for a minute"
    );
    clock.advance(Duration::from_secs(30 * 24 * 60 * 60));
    let server = server.restarted(|_| ());
    let answer = server.admin.get("/overkeep/v1/attention").expect(200);
    assert_eq!(
        (
            &answer.data()["outstandingEnrollments"]["total"],
            &answer.data()["expiredEnrollments"]["total"]
        ),
        (&json!(0), &json!(7))
    );
    server.anonymous().get("/overkeep/v1/attention").expect(401);
}

#[test]
fn drills_prove_a_snapshot() {
    let server = TestServer::with_router();
    for _ in 0..3 {
        server.service(&fresh("drilled"), json!({}));
    }
    let snapshots = TempDir::new().unwrap();
    let made = snapshots
        .path()
        .join("overkeep-20260101T000000.000Z.snapshot");
    on_host(&server, &["snapshot", made.to_str().unwrap()]).good();
    // A drill that was interrupted, and one that still runs.
    let [abandoned, running] =
        ["1", "2"].map(|process| snapshots.path().join(format!("overkeep-drill-{process}")));
    for left in [&abandoned, &running] {
        fs::create_dir(left).unwrap();
        fs::write(left.join("overkeep.redb"), "a copy").unwrap();
    }
    let lock = fs::File::open(&running).unwrap();
    lock.try_lock().unwrap();
    let directory = (
        "OVERKEEP_SNAPSHOTS_DIRECTORY",
        snapshots.path().to_str().unwrap(),
    );
    let told = on_host_with(&server, &[directory], &["drill"]).good();
    for words in [
        "log-in: done",
        "as in the snapshot",
        "check: nothing is wrong",
    ] {
        assert!(told.contains(words), "{told}");
    }
    assert!(!abandoned.exists() && running.join("overkeep.redb").exists());
    drop(lock);
    fs::remove_dir_all(&running).unwrap();
    assert_eq!(
        fs::read_dir(snapshots.path()).unwrap().count(),
        1,
        "the copy is left"
    );
    let mut bytes = fs::read(&made).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 512].fill(0x5a);
    bytes[4096..8192].fill(0x5a);
    fs::write(&made, bytes).unwrap();
    let ran = on_host_with(&server, &[directory], &["drill"]);
    assert_ne!(ran.status, 0, "{}", ran.out);
    assert_eq!(
        fs::read_dir(snapshots.path()).unwrap().count(),
        1,
        "the copy is left"
    );
    on_host(&server, &["drill"]).bad(1, &["snapshots.directory"]);
}

/// The result of a trial of a snapshot by request.
fn tried(server: &TestServer, method: &str, snapshot: &str) -> Json {
    server
        .admin
        .post(
            "/overkeep/v1/snapshot-trials",
            json!({ "method": method, "snapshot": snapshot }),
        )
        .expect(202);
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let state = server
            .admin
            .get("/overkeep/v1/snapshot-trials")
            .expect(200)
            .data()
            .clone();
        if state["inProgress"] == false || Instant::now() > until {
            assert_eq!(
                (&state["method"], &state["snapshot"]),
                (&json!(method), &json!(snapshot))
            );
            return state;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn snapshots_are_tried_by_request() {
    let snapshots = TempDir::new().unwrap();
    let directory = snapshots.path().to_owned();
    let server = TestServer::with(Clock::system(), |config| {
        config.snapshots.directory = Some(directory)
    });
    assert_eq!(
        *server
            .admin
            .get("/overkeep/v1/snapshot-trials")
            .expect(200)
            .data(),
        Json::Null
    );
    let until = Instant::now() + Duration::from_secs(60);
    let known = loop {
        let known = server
            .admin
            .get("/overkeep/v1/snapshots")
            .expect(200)
            .data()
            .clone();
        if known[0]["name"].is_string() || Instant::now() > until {
            break known;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let name = known[0]["name"].as_str().unwrap();
    assert_eq!(
        known[0]["directory"].as_str(),
        snapshots.path().to_str(),
        "{known}"
    );
    for elsewhere in ["../data", "/etc/hostname", "data", "data.snapshot/../data"] {
        let body = json!({ "method": "proof", "snapshot": elsewhere });
        server
            .admin
            .post("/overkeep/v1/snapshot-trials", body)
            .refused(400, "COULD_NOT_VALIDATE", "snapshot");
    }
    let proof = tried(&server, "proof", name);
    assert_eq!(
        (&proof["passed"], &proof["error"]),
        (&json!(true), &Json::Null),
        "{proof}"
    );
    let drill = tried(&server, "drill", name);
    assert_eq!(drill["passed"], true, "{drill}");
    let told = drill["results"].to_string();
    assert!(
        [
            "log-in: done",
            "as in the snapshot",
            "check: nothing is wrong"
        ]
        .iter()
        .all(|words| told.contains(words)),
        "{told}"
    );
    assert_eq!(
        fs::read_dir(snapshots.path()).unwrap().count(),
        1,
        "the copy is left"
    );
    let path = snapshots.path().join(name);
    let mut bytes = fs::read(&path).unwrap();
    bytes[4096..8192].fill(0x5a);
    fs::write(&path, bytes).unwrap();
    for method in ["proof", "drill"] {
        let state = tried(&server, method, name);
        assert_ne!(state["passed"], true, "{state}");
        assert!(
            state["error"] != Json::Null || !state["results"].as_array().unwrap().is_empty(),
            "{state}"
        );
    }
    let (_, alice) = server.user(&fresh("alice"), json!({}));
    alice.get("/overkeep/v1/snapshots").expect(401);
}

#[test]
fn drills_add_no_built_in_router() {
    let server = TestServer::start();
    let snapshots = TempDir::new().unwrap();
    let made = snapshots.path().join("made.snapshot");
    on_host(&server, &["snapshot", made.to_str().unwrap()]).good();
    let told = on_host(&server, &["drill", made.to_str().unwrap()]).good();
    assert!(told.contains("as in the snapshot"), "{told}");
}

#[test]
fn drills_can_be_cancelled_late() {
    let server = TestServer::start();
    let snapshots = TempDir::new().unwrap();
    let made = snapshots.path().join("made.snapshot");
    on_host(&server, &["snapshot", made.to_str().unwrap()]).good();
    let progress = Arc::new(Progress::default());
    let started = socket::beside(&snapshots.path().join(format!(
        "overkeep-drill-{}/overkeep.redb",
        std::process::id()
    )));
    let drilled = thread::scope(|scope| {
        scope.spawn(|| {
            // The restored controller has a socket while it runs.
            let until = Instant::now() + Duration::from_secs(60);
            while !started.exists() && Instant::now() < until {
                thread::sleep(Duration::from_millis(1));
            }
            progress.stop();
        });
        controller::drill(&Config::default(), &made, snapshots.path(), &progress)
    });
    assert_eq!(drilled.unwrap_err(), "the run was cancelled");
    assert_eq!(
        fs::read_dir(snapshots.path()).unwrap().count(),
        1,
        "the copy is left"
    );
}

/// A schedule of snapshots with these settings.
fn scheduled(place: &Path, adapt: impl FnOnce(&mut Snapshots)) -> (Schedule, Maintenance, Clock) {
    let data = place.join("data");
    let store = stores::of(KINDS).start(&data);
    store
        .write_blocking(|tx| tx.set_setting("something", Some(b"to copy")))
        .unwrap();
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_123));
    let maintenance = Maintenance::new(store, SealedKeys::default(), clock.clone(), &data);
    let mut settings = Snapshots {
        directory: Some(place.join("made")),
        interval: Span::minutes(60),
        ..Config::default().snapshots
    };
    adapt(&mut settings);
    (
        Schedule::of(&settings, maintenance.clone(), clock.clone()).unwrap(),
        maintenance,
        clock,
    )
}

#[test]
fn late_snapshots_are_overdue() {
    let place = TempDir::new().unwrap();
    let mut settings = Snapshots::clone(&Config::default().snapshots);
    (settings.directory, settings.interval) = (Some(place.path().join("made")), Span::minutes(60));
    let (schedule, _, clock) = scheduled(place.path(), |_| ());
    let started = clock.now();
    let late =
        |since: Timestamp, minutes: i64| overdue(&settings, since, started.plus_minutes(minutes));
    // Without a snapshot, the first one was due at the start.
    assert!(late(started, 60).is_none());
    let first = late(started, 61).unwrap();
    assert_eq!((first.due, first.newest), (started, None));
    let made = schedule.round(&Progress::default()).unwrap().unwrap();
    // One of a wrong clock says nothing.
    fs::write(
        place
            .path()
            .join("made/overkeep-29991231T235959.999Z.snapshot"),
        "",
    )
    .unwrap();
    assert!(late(started, 120).is_none());
    let next = late(started, 121).unwrap();
    assert_eq!(
        (next.due, next.newest),
        (started.plus_minutes(60), Some(made))
    );
    // A controller that was stopped for long catches up first.
    assert!(late(started.plus_minutes(1000), 1010).is_none());
    assert!(late(started.plus_minutes(1000), 1011).is_some());
    assert!(
        overdue(
            &Config::default().snapshots,
            started,
            started.plus_minutes(1000)
        )
        .is_none()
    );
}

#[test]
fn snapshots_are_taken_away() {
    let place = TempDir::new().unwrap();
    let away = place.path().join("away");
    fs::create_dir(&away).unwrap();
    let command = ["cp", "-t", away.to_str().unwrap()]
        .map(str::to_owned)
        .to_vec();
    let (schedule, maintenance, clock) = scheduled(place.path(), |settings| {
        settings.after = command;
        settings.keep_for = Span::minutes(90);
    });
    let progress = Progress::default();
    let first = schedule.round(&progress).unwrap().unwrap();
    assert_eq!(
        fs::read(away.join(first.file_name().unwrap())).unwrap(),
        fs::read(&first).unwrap()
    );
    assert_eq!(maintenance.metrics().after_failures.get(), 0);
    clock.advance(Duration::from_secs(3600));
    let second = schedule.round(&progress).unwrap().unwrap();
    assert!(first.exists());
    clock.advance(Duration::from_secs(3600));
    let third = schedule.round(&progress).unwrap().unwrap();
    assert_eq!(
        [&first, &second, &third].map(|path| path.exists()),
        [false, true, true]
    );
}

#[test]
fn failed_commands_keep_the_snapshot() {
    let programs: [&[&str]; 2] = [&["false"], &["/does/not/exist"]];
    for command in programs {
        let place = TempDir::new().unwrap();
        let (schedule, maintenance, _) = scheduled(place.path(), |settings| {
            settings.after = command.iter().map(|word| (*word).to_owned()).collect()
        });
        let made = schedule.round(&Progress::default()).unwrap().unwrap();
        assert!(made.exists());
        assert_eq!(maintenance.metrics().after_failures.get(), 1);
    }
}

/// The next message of the controller to the service manager that contains these words.
fn told(socket: &UnixDatagram, words: &str) -> String {
    let mut buffer = [0; 4096];
    loop {
        let length = socket
            .recv(&mut buffer)
            .unwrap_or_else(|error| panic!("{words}: {error}"));
        let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
        if message.contains(words) {
            return message;
        }
    }
}

#[test]
fn service_manager_is_told() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(120)))
        .unwrap();
    let mut process = command(directory.path())
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "200000")
        .spawn()
        .unwrap();
    let pid = Pid::from_child(&process);
    assert!(told(&socket, "READY=1").contains("STATUS=reached at https://"));
    told(&socket, "WATCHDOG=1");
    kill_process(pid, Signal::HUP).unwrap();
    assert!(told(&socket, "RELOADING=1").contains("MONOTONIC_USEC="));
    told(&socket, "READY=1");
    kill_process(pid, Signal::TERM).unwrap();
    told(&socket, "STOPPING=1");
    assert!(process.wait().unwrap().success());
}
