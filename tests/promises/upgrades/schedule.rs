//! Scheduled snapshots and their rotation.

use super::*;

#[test]
fn scheduled_snapshots_are_rotated() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let store = stores::of(KINDS).start(&data);
    store
        .write_blocking(|tx| tx.set_setting("something", Some(b"to copy")))
        .unwrap();
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_123));
    let directory = directory.path().join("made").join("here");
    let settings = Snapshots {
        directory: Some(directory.clone()),
        interval: Span::minutes(60),
        keep: 2,
        ..Config::default().snapshots
    };
    let schedule = || {
        Schedule::of(
            &settings,
            Maintenance::new(store.clone(), SealedKeys::default(), clock.clone(), &data),
            clock.clone(),
        )
        .unwrap()
    };
    let watch = Progress::default();
    let first = schedule().round(&watch).unwrap().unwrap();
    assert!(
        snapshot_proof::verify(&first, None, &watch)
            .unwrap()
            .report
            .findings
            .is_empty()
    );
    let others = [
        "overkeep-2020.snapshot",
        "overkeep-20200101T000000.000Z.snapshot.mine",
        "overkeep-20209901T000000.000Z.snapshot",
        "notes",
    ];
    others
        .iter()
        .for_each(|name| fs::write(directory.join(name), "").unwrap());
    fs::write(
        directory.join("overkeep-20200101T000000.000Z.snapshot.unfinished"),
        "cut off",
    )
    .unwrap();
    // The schedule survives a restart.
    clock.advance(Duration::from_secs(3599));
    assert_eq!(schedule().round(&watch).unwrap(), None);
    clock.advance(Duration::from_secs(1));
    let second = schedule().round(&watch).unwrap().unwrap();
    assert!(first.exists() && second.exists());
    clock.advance(Duration::from_secs(3600));
    let third = schedule().round(&watch).unwrap().unwrap();
    let with = |kept: [&PathBuf; 2]| {
        let kept = kept.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
        let mut expected: Vec<String> = others
            .iter()
            .map(|name| (*name).to_owned())
            .chain(kept)
            .collect();
        expected.sort();
        expected
    };
    assert_eq!(names(&directory), with([&second, &third]));

    // Snapshots dated in the future by a wrong clock do not displace newer ones made with the right
    // clock.
    clock.set(Timestamp::from_millis(1_600_000_000_000));
    let fourth = schedule().round(&watch).unwrap().unwrap();
    let expected = with([&third, &fourth]);
    assert_eq!(names(&directory), expected);
    assert_eq!(schedule().round(&watch).unwrap(), None);

    // If no snapshot can be created, none is deleted, and an incomplete one leaves no file.
    clock.advance(Duration::from_secs(3600));
    fs::write(
        directory.join("overkeep-20200101T000000.000Z.snapshot.unfinished"),
        "cut off",
    )
    .unwrap();
    watch.stop();
    assert!(schedule().round(&watch).is_err());
    assert_eq!(names(&directory), expected);
}

#[test]
fn a_controller_keeps_its_schedule() {
    let directory = TempDir::new().unwrap();
    let directory = directory.path().join("snapshots");
    let server = TestServer::with(Clock::system(), |config| {
        config.snapshots.directory = Some(directory.clone())
    });
    let write_part = Instant::now();
    while !directory.exists()
        || !names(&directory)
            .iter()
            .any(|name| name.ends_with(".snapshot"))
    {
        assert!(
            write_part.elapsed() < Duration::from_secs(30),
            "no snapshot is made"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(server);
}

#[test]
fn slow_snapshots_are_not_interrupted() {
    let directory = TempDir::new().unwrap();
    let mut config = configuration(&directory.path().join("data"));
    let first = controller::start(&config, Clock::system()).unwrap();
    let password = first.generated_password().unwrap().to_owned();
    let url = |controller: &Controller| format!("https://{}", controller.bound());
    let token = trusting(&url(&first))
        .log_in("admin", &password)
        .token
        .unwrap();
    first.stop();
    config.http.request_timeout = "1s".parse().unwrap();
    let store = stores::of(KINDS).start(&config.data);
    // Large enough for a copy to take longer than a request may.
    let write_part = |part: u32| {
        store
            .write_blocking(move |tx| {
                tx.set_setting(&format!("ballast {part}"), Some(&vec![7; 8 << 20]))
            })
            .unwrap();
        Instant::now()
    };
    let slow = (0..64).map(write_part).any(|write_part| {
        store
            .snapshot(&directory.path().join("copy"), &Progress::default())
            .unwrap();
        write_part.elapsed() > 2 * config.http.request_timeout.duration()
    });
    assert!(slow);
    store.close();
    let controller = controller::start(&config, Clock::system()).unwrap();
    trusting(&url(&controller))
        .with_token(token)
        .post("/database/snapshot", json!({}))
        .expect(200);
}
