//! Snapshots that are tried, overdue or taken away.

use super::*;

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
    assert_eq!(drilled.unwrap_err().to_string(), "the run was cancelled");
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
