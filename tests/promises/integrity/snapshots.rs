//! Snapshots, and copies of the file.

use super::*;

#[test]
fn snapshot_has_the_same_rows() {
    let file = Closed::filled();
    let copy = file.path.with_extension("copy");
    std::fs::write(&copy, "something older").unwrap();
    file.with(|store| drop(store.snapshot(&copy, &Progress::default()).unwrap()));
    assert_eq!(
        std::fs::metadata(&copy).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(rows(&copy), file.rows());
    let reopened = stores::of(KINDS).start(&copy);
    assert!(!reopened.is_new());
    assert_eq!(
        reopened.check(&Progress::default()).unwrap(),
        Report::default()
    );
    let left: Vec<String> = std::fs::read_dir(file.path.parent().unwrap())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        left.iter()
            .all(|name| ["data", "data.copy"].contains(&name.as_str())),
        "{left:?}"
    );
}

#[test]
fn snapshots_are_compact() {
    let file = Closed::filled();
    let copy = file.path.with_extension("copy");
    file.with(|store| {
        store
            .write_blocking(|tx| {
                (0..4_000).try_for_each(|n| tx.insert(ship(&format!("raft {n:04}"))))
            })
            .unwrap();
        drop(store.snapshot(&copy, &Progress::default()).unwrap());
    });
    let held: usize = rows(&copy)
        .values()
        .flatten()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    let size = std::fs::metadata(&copy).unwrap().len() as usize;
    assert!(size < held * 5 / 4, "{size} bytes for {held}");
}

#[test]
fn failed_snapshot_leaves_old_file() {
    let file = Closed::filled();
    assert!(
        file.with(|store| store.snapshot(
            &file.path.with_file_name("no such place").join("copy"),
            &Progress::default()
        ))
        .is_err()
    );
    let occupied = file.path.with_file_name("occupied");
    std::fs::create_dir(&occupied).unwrap();
    std::fs::write(occupied.join("kept"), "").unwrap();
    assert!(
        file.with(|store| store.snapshot(&occupied, &Progress::default()))
            .is_err()
    );
    assert!(occupied.join("kept").exists());
    assert!(!file.path.with_file_name("occupied.unfinished").exists());
}

#[test]
fn snapshot_is_consistent_without_blocking() {
    let file = Closed::filled();
    let large = |n: u32| {
        let mut large = ship(&format!("large {n}"));
        large.spec.flag = "stripes and ".repeat(8_000);
        large
    };
    file.with(|store| {
        store
            .write_blocking(move |tx| (0..50).try_for_each(|n| tx.insert(large(n))))
            .unwrap();
        let (over, pairs) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let (writing, ended, written) = (store.clone(), over.clone(), pairs.clone());
        let writer = std::thread::spawn(move || {
            while !ended.load(SeqCst) {
                let number = written.load(SeqCst);
                let pair = move |side: &str| ship(&format!("{side} {number}"));
                writing
                    .write_blocking(move |tx| {
                        tx.insert(pair("left"))
                            .and_then(|()| tx.insert(pair("right")))
                    })
                    .unwrap();
                written.fetch_add(1, SeqCst);
            }
        });
        for n in 0..3 {
            let copy = file.path.with_file_name(format!("copy {n}"));
            let watch = Progress::default();
            let mut counts = Vec::new();
            std::thread::scope(|scope| {
                let making = scope.spawn(|| drop(store.snapshot(&copy, &watch).unwrap()));
                while !making.is_finished() {
                    let (done, total) = watch.done_and_total();
                    if (1..total).contains(&done) {
                        counts.push(pairs.load(SeqCst));
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let [first, .., last] = counts[..] else {
                panic!("the copy was made between two polls")
            };
            assert!(
                last - first > 1,
                "writes must continue while a snapshot is made"
            );
            let ships = rows(&copy).remove("records.ship").unwrap();
            let sides = |side: &[u8]| ships.keys().filter(|id| id.starts_with(side)).count();
            assert_eq!(sides(b"left"), sides(b"right"));
        }
        over.store(true, SeqCst);
        writer.join().unwrap();
        assert_eq!(
            store.check(&Progress::default()).unwrap(),
            Report::default()
        );
    });
}

fn ended(maintenance: &Maintenance) {
    let begun = Instant::now();
    while maintenance.is_running() {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "the run does not end"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn repair_copies_the_file_first() {
    let file = Closed::filled();
    let before = file.rows();
    let lost = before["index"].keys().next().unwrap();
    file.lose(INDEX, lost);
    let broken = file.rows();
    let clock = Clock::manual(Timestamp::from_millis(1_000_000));
    file.with(|store| {
        let maintenance = Maintenance::new(
            store.clone(),
            SealedKeys::default(),
            clock.clone(),
            &file.path,
        );
        assert!(maintenance.state().is_none() && !maintenance.is_running());
        maintenance.snapshot().unwrap();
        let limited = Err(Error::Refused(Refusal::RateLimited));
        clock.advance(Duration::from_secs(59));
        assert_eq!(maintenance.snapshot(), limited);
        maintenance.begin(Work::Repair).unwrap();
        ended(&maintenance);
        let state = maintenance.state().unwrap();
        let findings = state.end.unwrap().1.unwrap().findings;
        assert!(
            state.work == Work::Repair && findings.len() == 1 && findings[0].fixed,
            "{findings:?}"
        );
        clock.advance(Duration::from_secs(1));
        maintenance.snapshot().unwrap();
        maintenance.begin(Work::Check).unwrap();
        maintenance.stop();
        assert!(!maintenance.is_running());
    });
    assert_eq!(
        rows(&file.path.with_file_name("data.before-repair")),
        broken
    );
    assert_eq!(rows(&file.path.with_file_name("data.snapshot")), before);
}

#[test]
fn only_one_maintenance_run_at_once() {
    let file = Closed::filled();
    file.with(|store| {
        store
            .write_blocking(|tx| (0..2000).try_for_each(|n| tx.insert(ship(&format!("raft {n}")))))
            .unwrap()
    });
    file.with(|store| {
        let maintenance = Maintenance::new(
            store.clone(),
            SealedKeys::default(),
            Clock::system(),
            &file.path,
        );
        maintenance.begin(Work::Repair).unwrap();
        for work in [Work::Check, Work::Repair] {
            assert_eq!(
                maintenance.begin(work),
                Err(Error::Refused(Refusal::RateLimited))
            );
        }
        ended(&maintenance);
        maintenance.begin(Work::Check).unwrap();
        ended(&maintenance);
        assert!(maintenance.state().unwrap().end.unwrap().1.is_ok());
    });
}
