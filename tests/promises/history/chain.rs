//! The chain of the history, and what breaks it.

use super::*;

const HISTORY: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("history");

/// Changes the table without the store and returns the findings of `verify`.
fn tampered(
    directory: &TempDir,
    noted: Option<&HistoryAnchor>,
    act: impl FnOnce(&mut redb::Table<'_, &'static [u8], &'static [u8]>),
) -> Vec<String> {
    let database = Database::open(directory.path().join("data")).unwrap();
    let transaction = database.begin_write().unwrap();
    act(&mut transaction.open_table(HISTORY).unwrap());
    transaction.commit().unwrap();
    drop(database);
    let store = open(directory);
    let faults = store.verify_history(noted).unwrap().faults;
    let checked = store.check(&Progress::default()).unwrap();
    let told: Vec<String> = checked
        .findings
        .into_iter()
        .map(|finding| finding.description)
        .collect();
    assert!(
        noted.is_some() || told == faults,
        "the check of the file must report the same: {told:?} {faults:?}"
    );
    store.close();
    faults
}

fn key(sequence: u64) -> Vec<u8> {
    sequence.to_be_bytes().to_vec()
}

#[test]
fn tampering_with_history_is_found() {
    let (directory, rows) = five();
    let noted = |row: usize| HistoryAnchor {
        sequence: rows[row].sequence,
        hash: rows[row].hash.clone(),
    };
    assert_eq!(
        tampered(&directory, Some(&noted(3)), |_| ()),
        [""; 0],
        "the unchanged history must be valid"
    );

    let altered = |table: &mut redb::Table<'_, &'static [u8], &'static [u8]>| {
        let row = table
            .get(key(3).as_slice())
            .unwrap()
            .unwrap()
            .value()
            .to_vec();
        let row = String::from_utf8_lossy(&row[40..]).replace("task c", "task x");
        let old = table.get(key(3).as_slice()).unwrap().unwrap().value()[..40].to_vec();
        table
            .insert(
                key(3).as_slice(),
                [old, row.into_bytes()].concat().as_slice(),
            )
            .unwrap();
    };
    assert_eq!(
        tampered(&directory, None, altered),
        ["row 3 of the history was altered"]
    );

    let (directory, _) = five();
    let taken_out = tampered(&directory, None, |table| {
        drop(table.remove(key(2).as_slice()).unwrap())
    });
    assert_eq!(taken_out, ["row 3 of the history directly follows row 1"]);

    let (directory, _) = five();
    let beheaded = tampered(&directory, None, |table| {
        drop(table.remove(key(1).as_slice()).unwrap())
    });
    assert_eq!(beheaded, ["row 2 of the history directly follows row 0"]);

    let (directory, _) = five();
    let swapped = tampered(&directory, None, |table| {
        let [two, three] = [2, 3].map(|at| {
            table
                .get(key(at).as_slice())
                .unwrap()
                .unwrap()
                .value()
                .to_vec()
        });
        table.insert(key(2).as_slice(), three.as_slice()).unwrap();
        table.insert(key(3).as_slice(), two.as_slice()).unwrap();
    });
    assert_eq!(
        swapped.len(),
        3,
        "expected the two swapped rows and the next one: {swapped:?}"
    );

    let (directory, _) = five();
    let cut = tampered(&directory, None, |table| {
        drop(
            table
                .insert(key(4).as_slice(), b"short".as_slice())
                .unwrap(),
        )
    });
    assert!(cut[0].contains("unreadable row"), "{cut:?}");
}

#[test]
fn rewritten_history_fails_the_anchor() {
    let (directory, rows) = five();
    let last = HistoryAnchor {
        sequence: 5,
        hash: rows[4].hash.clone(),
    };
    let first = HistoryAnchor {
        sequence: 1,
        hash: rows[0].hash.clone(),
    };
    let forgotten = tampered(&directory, Some(&last), |table| {
        drop(table.remove(key(5).as_slice()).unwrap())
    });
    assert_eq!(
        forgotten,
        ["row 5 of the history differs from the noted one"],
        "a missing end must be found"
    );
    let store = open(&directory);
    store.write_blocking(|tx| tx.insert(task("f"))).unwrap();
    assert_eq!(
        store.verify_history(None).unwrap().faults,
        [""; 0],
        "the rewritten chain alone is valid"
    );
    assert_eq!(store.verify_history(Some(&last)).unwrap().faults.len(), 1);
    assert_eq!(store.verify_history(Some(&first)).unwrap().faults, [""; 0]);
}

#[test]
fn any_changed_history_byte_shows() {
    let (directory, _) = five();
    let path = directory.path().join("data");
    let sound = integrity::rows(&path)["history"][&key(3)].clone();
    let put = |row: &[u8]| {
        let database = Database::open(&path).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction
            .open_table(HISTORY)
            .unwrap()
            .insert(key(3).as_slice(), row)
            .unwrap();
        transaction.commit().unwrap();
    };
    let faults = || open(&directory).verify_history(None).unwrap().faults;
    // The mark and the length of the text, and a sample of the rest: a forged length of 4 GiB must
    // cost no memory.
    for at in (0..50).chain((50..sound.len()).step_by(7)) {
        let mut row = sound.clone();
        row[at] ^= 0xFF;
        put(&row);
        let found = faults();
        assert!(
            !found.is_empty()
                && found
                    .iter()
                    .all(|fault| fault.contains("of the history was altered")),
            "byte {at}: {found:?}"
        );
        let others = rows(&open(&directory))
            .iter()
            .filter(|row| row.sequence != 3)
            .count();
        assert_eq!(others, 4, "byte {at}");
    }
    put(&sound);
    assert_eq!(faults(), [""; 0]);
}

#[test]
fn verify_status_tells_tampering() {
    let server = TestServer::start();
    let directory = server.closed();
    let path = directory.path().join("data");
    let verify = |more: &[&str]| {
        let line = ["overkeep", "history", "verify", path.to_str().unwrap()]
            .into_iter()
            .chain(more.iter().copied());
        match cli::act(line.map(Into::into), &[], |_| Ok::<_, String>(())) {
            Ok(()) => (0, Vec::new()),
            Err(CommandError::Problems(lines)) => (3, lines),
            Err(other) => (other.status(), Vec::new()),
        }
    };
    assert_eq!(verify(&[]).0, 0);
    let rows = written(&path);
    let last = format!("{}:{}", rows.len(), "0".repeat(64));
    assert_eq!(
        verify(&["--noted", &last]),
        (
            3,
            vec![format!(
                "row {} of the history differs from the noted one",
                rows.len()
            )]
        )
    );
    assert_eq!(verify(&["--noted", "nothing"]).0, 2);
    let database = Database::open(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    drop(
        transaction
            .open_table(HISTORY)
            .unwrap()
            .remove(key(5).as_slice())
            .unwrap(),
    );
    transaction.commit().unwrap();
    drop(database);
    assert_eq!(
        verify(&[]),
        (
            3,
            vec!["row 6 of the history directly follows row 4".into()]
        )
    );
    std::fs::remove_file(&path).unwrap();
    assert_eq!(verify(&[]).0, 1);
}

#[test]
fn verify_asks_a_running_controller() {
    let server = TestServer::start();
    let path = socket::beside(&server.data());
    let ask = |noted: Option<HistoryAnchor>| {
        socket::ask(&path, &Command::VerifyHistory { noted }, &mut |_, _| ())
            .unwrap()
            .unwrap()
    };
    assert!(
        matches!(ask(None), Outcome::Done(lines) if lines[0].starts_with("nothing is wrong with "))
    );
    let newest = server
        .admin
        .get("/overkeep/v1/history?limit=1")
        .expect(200)
        .data()[0]
        .clone();
    let noted = HistoryAnchor {
        sequence: newest["sequence"].as_u64().unwrap(),
        hash: newest["hash"].as_str().unwrap().into(),
    };
    assert!(matches!(ask(Some(noted.clone())), Outcome::Done(_)));
    assert!(matches!(
        ask(Some(HistoryAnchor {
            sequence: 1,
            ..noted
        })),
        Outcome::Problems(_)
    ));
}

#[test]
fn trimmed_history_keeps_its_chain() {
    let directory = TempDir::new().unwrap();
    let clock = Clock::manual(Timestamp::from_seconds(1_000_000));
    let store = stores::of(KINDS)
        .with(Options {
            clock: clock.clone(),
            ..Options::default()
        })
        .start(&directory.path().join("data"));
    let write = |ids: std::ops::Range<usize>| {
        store
            .write_blocking(|tx| {
                ids.into_iter()
                    .try_for_each(|id| tx.insert(task(&format!("{id:04}"))))
            })
            .unwrap();
    };
    write(0..1000);
    clock.advance(Duration::from_secs(100));
    write(1000..1500);
    let everything = Retention {
        since: Timestamp::from_seconds(0),
        bytes: u64::MAX,
    };
    assert_eq!(
        store
            .trim_history(HistoryClass::Changes, everything)
            .unwrap(),
        0
    );
    let young = Retention {
        since: Timestamp::from_seconds(1_000_050),
        ..everything
    };
    assert_eq!(
        store.trim_history(HistoryClass::Changes, young).unwrap(),
        1000
    );
    assert_eq!((rows(&store).len(), rows(&store)[0].sequence), (500, 1001));
    let verified = store.verify_history(None).unwrap();
    assert_eq!(
        (verified.rows, verified.last.sequence, verified.faults.len()),
        (500, 1500, 0)
    );

    // A snapshot knows the predecessor of its first row, and its size.
    let copy = directory.path().join("copy");
    store.snapshot(&copy, &Progress::default()).unwrap();
    let copied = stores::of(KINDS)
        .with(Options {
            clock: clock.clone(),
            ..Options::default()
        })
        .start(&copy);
    assert_eq!(copied.verify_history(None).unwrap(), verified);
    let bytes: usize = store_bytes(&store);
    assert_eq!(
        copied
            .trim_history(
                HistoryClass::Changes,
                Retention {
                    bytes: bytes as u64,
                    ..everything
                }
            )
            .unwrap(),
        0,
        "everything is within the limit"
    );

    store
        .trim_history(
            HistoryClass::Changes,
            Retention {
                bytes: bytes as u64 / 2,
                ..everything
            },
        )
        .unwrap();
    let left = store_bytes(&store);
    assert!(
        left * 2 <= bytes && left * 2 > bytes - 2000,
        "{left} of {bytes}"
    );
    store
        .trim_history(
            HistoryClass::Changes,
            Retention {
                bytes: 0,
                ..everything
            },
        )
        .unwrap();
    write(1500..1501);
    assert_eq!(
        rows(&store)[0].sequence,
        1501,
        "sequences must continue after everything was deleted"
    );
    assert_eq!(store.verify_history(None).unwrap().faults, [""; 0]);
    store.close();
    let anchored = tampered(&directory, None, |table| {
        drop(table.remove(key(1501).as_slice()).unwrap())
    });
    assert_eq!(
        anchored, [""; 0],
        "the chain alone does not reveal a missing end"
    );
}

/// The size of the rows as the history counts it: keys and rows.
fn store_bytes(store: &Store) -> usize {
    let directory = TempDir::new().unwrap();
    let copy = directory.path().join("copy");
    store.snapshot(&copy, &Progress::default()).unwrap();
    integrity::rows(&copy)["history"]
        .iter()
        .map(|(key, row)| key.len() + row.len())
        .sum()
}

#[test]
fn snapshots_contain_the_history() {
    let (directory, before) = five();
    let path = directory.path().join("data");
    let store = open(&directory);
    let copy = directory.path().join("copy");
    store.snapshot(&copy, &Progress::default()).unwrap();
    store.close();
    let copied = stores::of(KINDS).start(&copy);
    assert_eq!(rows(&copied).len(), before.len());
    assert_eq!(
        copied.verify_history(None).unwrap().last.hash,
        before[4].hash
    );
    copied.close();

    let database = Database::open(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    assert!(transaction.delete_table(HISTORY).unwrap());
    transaction.commit().unwrap();
    drop(database);
    let store = open(&directory);
    assert!(!store.is_new());
    store.write_blocking(|tx| tx.insert(task("f"))).unwrap();
    assert_eq!(rows(&store).len(), 1);
    assert_eq!(store.verify_history(None).unwrap().faults, [""; 0]);
}
