//! A damaged file is rejected, or nothing in it is missing; a full disk stops only writes.
//!
//! `OVERKEEP_DAMAGES` sets the number of places that are damaged.

mod filled_store;

use std::{
    collections::BTreeMap,
    env, fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use model::{
    clock::{Clock, Timestamp},
    config::{Config, Span},
    entity::{
        ApiSession, Enrollment, Entity, Id, Identity, Record, Service, SessionCertificate,
        TypedLookup,
    },
    error::Error,
};
use overkeep::testing::controller;
use policy::change::KINDS;
use proptest::{collection::vec, prelude::*};
use redb::ReadableTable;
use serde_json::json;
use store::Progress;
use tempfile::TempDir;

use filled_store::{Found, damage, fill, filled, forgetful, open, read_all};

use crate::{
    backup::DataFile,
    harness::{Base, Key, PASSWORD, Program, fresh, trusting},
    simulated_disk::{Rng, SimulatedDisk},
};

fn places() -> u64 {
    env::var("OVERKEEP_DAMAGES").map_or(60, |places| places.parse().unwrap())
}

#[test]
fn damaged_file_is_whole_or_refused() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("data");
    let store = open(&path).unwrap();
    let expected = fill(&store);
    store.close();
    let whole = fs::read(&path).unwrap();
    let mut refused = 0;
    for seed in 0..places() {
        let mut bytes = whole.clone();
        let what = damage(&mut bytes, &mut Rng(seed));
        fs::write(&path, bytes).unwrap();
        let store = match open(&path) {
            Ok(store) => store,
            Err(error) => {
                refused += 1;
                assert!(
                    error.to_string().contains(path.to_str().unwrap()),
                    "{what}: {error} does not say which file"
                );
                continue;
            }
        };
        // An empty file is a new one.
        let mut found = Found::new();
        read_all(&store, &mut found).unwrap_or_else(|e| panic!("{what}: opened, and then {e}"));
        assert!(
            found == expected || store.is_new(),
            "{what}: something is missing or not as it was"
        );
        assert_eq!(
            store.check(&Progress::default()).unwrap().findings,
            [],
            "{what}"
        );
        store.close();
    }
    assert!(refused * 3 > places(), "only {refused} were noticed at all");
    println!(
        "{} damaged files: {refused} refused, the others whole",
        places()
    );
}

#[test]
fn damaged_record_is_never_shown() {
    let (whole, expected) = filled();
    let mut noticed = 0;
    for seed in 0..places() / 6 {
        let drive = SimulatedDisk::holding(whole.clone(), 0);
        let store = forgetful(&drive);
        let mut rng = Rng(seed);
        drive.corrupt(|bytes| {
            let at = rng.below(bytes.len());
            let at = (0..bytes.len())
                .map(|n| (at + n) % bytes.len())
                .find(|at| *at >= 4096 && bytes[*at] != 0)
                .unwrap();
            bytes[at] ^= 1 << rng.below(8);
        });
        let mut found = Found::new();
        let read = read_all(&store, &mut found);
        noticed += u64::from(read.is_err());
        assert!(
            found
                .iter()
                .all(|(key, bytes)| key == "keys" || expected.get(key) == Some(bytes)),
            "seed {seed}: a damaged record was shown"
        );
        // In any case the process must not end.
        let _ = (
            store.check(&Progress::default()),
            store.write_blocking(|tx| tx.set_setting("a", Some(b"b"))),
        );
        store.close();
    }
    assert!(noticed > 0);
}

#[test]
fn damaged_page_fails_one_write() {
    let (whole, expected) = filled();
    const TURNS: u8 = 12;
    let pages: Vec<usize> = (4096..whole.len())
        .step_by(4096)
        .filter(|page| [1, 2].contains(&whole[*page]))
        .collect();
    let mut failed = 0;
    for page in pages.into_iter().step_by(4) {
        let drive = SimulatedDisk::holding(whole.clone(), 0);
        let store = forgetful(&drive);
        // A page that is neither a leaf nor a branch: a traversal stops there.
        drive.corrupt(|bytes| bytes[page] = 0xEE);
        let mut written = BTreeMap::new();
        for turn in 0..TURNS {
            let key = format!("turn {turn}");
            let name = key.clone();
            let done = store.write_blocking(move |tx| {
                tx.set_setting(&name, Some(&[turn; 3000]))?;
                tx.delete(&Id::<Service>::from_text(format!("{turn:03}")))?;
                tx.delete(&Id::<Identity>::from_text(format!("{:03}", 99 - turn)))
            });
            failed += usize::from(done.is_err());
            written.extend(done.ok().map(|()| (key, turn)));
        }
        store.close();
        drive.corrupt(|bytes| bytes[page] = whole[page]);
        let store = forgetful(&drive);
        let report = store.check(&Progress::default()).unwrap();
        assert!(report.findings.is_empty(), "page {page}: {report:?}");
        let mut found = Found::new();
        read_all(&store, &mut found).unwrap();
        for turn in 0..TURNS {
            let key = format!("turn {turn}");
            let is_there = store.read(|tx| tx.setting(&key)).unwrap().is_some();
            assert_eq!(is_there, written.contains_key(&key), "page {page}: {key}");
            for record in [
                format!("service {turn:03}"),
                format!("identity {:03}", 99 - turn),
            ] {
                assert_eq!(
                    found.contains_key(&record),
                    !is_there,
                    "page {page}: {record}"
                );
            }
        }
        assert_eq!(
            found.len(),
            expected.len() - 2 * written.len(),
            "page {page}"
        );
        store.close();
    }
    assert!(failed > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_bytes_are_opened_or_refused(mut bytes in vec(any::<u8>(), 0..9000), ours in any::<bool>(), pages in 0..3_usize) {
        if ours {
            let magic = b"redb\x1A\x0A\xA9\x0D\x0A";
            bytes.splice(..magic.len().min(bytes.len()), magic.iter().copied());
        }
        bytes.resize(bytes.len() + pages * 4096, 0);
        let place = TempDir::new().unwrap();
        let path = place.path().join("snapshot");
        fs::write(&path, &bytes).unwrap();
        if let Err(error) = open(&path) {
            prop_assert!(error.to_string().contains("snapshot"));
        }
    }

    #[test]
    fn any_bytes_decode_or_are_damage(
        bytes in vec(any::<u8>(), 0..300), kind in any::<prop::sample::Index>(), version in 0..4_u8, seal in any::<bool>(),
    ) {
        let mut bytes = bytes;
        if seal && bytes.len() >= 5 {
            // With a valid checksum, so that the bytes after it are parsed.
            bytes[0] = version;
            let mut sum = crc32fast::Hasher::new();
            [b"x", &bytes[..1], &bytes[5..]].iter().for_each(|part| sum.update(part));
            bytes[1..5].copy_from_slice(&sum.finalize().to_le_bytes());
        }
        let entry = &KINDS[kind.index(KINDS.len())];
        let named = |error: &Error| matches!(error, Error::Damaged { id, kind, .. } if id == "x" && *kind == entry.kind.name);
        prop_assert!((entry.decode)("x", &bytes).map_or_else(|e| named(&e), |_| true));
        prop_assert!((entry.parts)("x", &bytes).map_or_else(|e| named(&e), |_| true));
    }
}

#[test]
fn full_disk_stops_only_writes() {
    let place = TempDir::new().unwrap();
    let mut program = Program::limited(place.path(), 3 << 20);
    let admin = program.admin();
    let config_type = admin
        .post("/config-types", json!({ "name": "large" }))
        .expect(201)
        .id();
    let config = |name: &str| json!({ "name": name, "configTypeId": config_type, "data": { "text": "x".repeat(300_000) } });
    let mut there = Vec::new();
    let refused = loop {
        let name = fresh("config");
        let answer = admin.post("/configs", config(&name));
        if answer.status != 201 {
            break answer;
        }
        there.push(name);
        assert!(there.len() < 100, "the limit has no effect");
    };
    refused.refused(503, "STORAGE_UNAVAILABLE", "");
    admin.get("//ready").expect(503);
    admin.get("//health").expect(200);
    let listed = |admin: &crate::harness::Caller| {
        let answer = admin.get("/configs?limit=100&sort=createdAt").expect(200);
        answer
            .each("name")
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        listed(&admin),
        there,
        "only acknowledged records must be listed"
    );
    admin
        .post(
            "/services",
            json!({ "name": "small", "encryptionRequired": true }),
        )
        .refused(503, "STORAGE_UNAVAILABLE", "");

    program.unlimited();
    let begin = Instant::now();
    while admin.get("//ready").status != 200 {
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "writes must succeed again with free space"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    for _ in 0..4 {
        let name = fresh("config");
        admin.post("/configs", config(&name)).expect(201);
        there.push(name);
    }
    assert_eq!(listed(&admin), there);
    program.kill();
    let program = Program::start(place.path());
    assert_eq!(listed(&program.admin()), there);
    let copied = program
        .admin()
        .post("/database/snapshot", json!({}))
        .expect(200);
    let copy = Path::new(copied.data()["path"].as_str().unwrap());
    assert!(
        copy.is_absolute() && copy.exists(),
        "the answer must have the absolute path of the copy: {copy:?}"
    );
}

/// Flips a bit of a record in a closed file.
fn corrupt<E: Entity>(kept: &DataFile, id: &str) {
    kept.tamper("data", &format!("records.{}", E::KIND.name), |rows| {
        let mut bytes = rows.get(id.as_bytes()).unwrap().unwrap().value().to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        drop(rows.insert(id.as_bytes(), bytes.as_slice()).unwrap());
    });
}

#[test]
fn expiry_passes_over_damaged_records() {
    let (kept, start) = (DataFile::empty(), Clock::system().now());
    let mut config = Config {
        data: kept.path("data"),
        listen: "127.0.0.1:0".parse().unwrap(),
        ..Config::default()
    };
    (config.passwords.cost, config.enrollment.identity_duration) = (10, Span::minutes(5));
    config.enrollment.keep_expired = Span::minutes(20);
    let running = controller::start(&config, Clock::manual(start)).unwrap();
    let password = running.generated_password().unwrap().to_owned();
    running.password_was_seen().unwrap();
    let anonymous = trusting(&format!("https://{}", running.bound()));
    let admin = anonymous.log_in("admin", &password);
    let enrolling = |name: &str| {
        let body = json!({ "name": name, "type": "User", "isAdmin": false, "enrollment": { "ott": true } });
        let id = admin.post("/identities", body).expect(201).id();
        let outstanding = admin
            .get(&format!("/identities/{id}/enrollments"))
            .expect(200)
            .each("id")[0]
            .to_owned();
        (id, outstanding)
    };
    let [(ann, damaged), (bob, whole)] = ["ann", "bob"].map(enrolling);
    let open = |id: &str, name: &str| {
        let body =
            json!({ "method": "updb", "identityId": id, "username": name, "password": PASSWORD });
        admin.post("/authenticators", body).expect(201);
        let session = anonymous.at(Base::Client).log_in(name, PASSWORD);
        (
            session.get("/current-api-session").expect(200).id(),
            session,
        )
    };
    let [(lost, _), (left, bobby)] = [open(&ann, "anne"), open(&bob, "bobby")];
    let certificate = bobby
        .post(
            "/current-api-session/certificates",
            json!({ "csr": Key::new().request() }),
        )
        .expect(201)
        .id();
    running.stop();
    corrupt::<ApiSession>(&kept, &lost);
    corrupt::<Enrollment>(&kept, &damaged);
    corrupt::<SessionCertificate>(&kept, &certificate);

    let clock = Clock::manual(start);
    let running = controller::start(&config, clock.clone()).unwrap();
    let anonymous = trusting(&format!("https://{}", running.bound()));
    let admin = anonymous.log_in("admin", &password);
    admin
        .post(
            &format!("/identities/{ann}/disable"),
            json!({ "durationMinutes": 0 }),
        )
        .expect(200);
    clock.advance(Duration::from_secs(28 * 60));
    admin.get(&format!("/api-sessions/{left}")).expect(200);
    clock.advance(Duration::from_secs(3 * 60));
    running.run_due_jobs();
    admin.get(&format!("/api-sessions/{left}")).expect(404);
    admin.get(&format!("/enrollments/{whole}")).expect(404);
    running.stop();
}

/// Counts the log lines about one subject on this thread.
#[derive(Clone)]
struct Said(&'static str, Arc<AtomicUsize>);

impl std::io::Write for Said {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        self.1.fetch_add(
            usize::from(String::from_utf8_lossy(line).contains(self.0)),
            Ordering::Relaxed,
        );
        Ok(line.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn damaged_record_is_logged_once() {
    let kept = DataFile::new();
    let store = open(&kept.path("data")).unwrap();
    let named = |id: &str| {
        Record::new(
            Id::from_text(id),
            Timestamp::from_millis(0),
            Identity::named(id),
        )
    };
    store
        .write_blocking(move |tx| {
            ["bent", "sound"]
                .iter()
                .try_for_each(|id| tx.insert(named(id)))
        })
        .unwrap();
    store.close();
    corrupt::<Identity>(&kept, "bent");
    let store = open(&kept.path("data")).unwrap();
    let said = Said("bent", Arc::default());
    let ear = said.clone();
    let lines = tracing_subscriber::fmt()
        .with_writer(move || ear.clone())
        .finish();
    tracing::subscriber::with_default(lines, || {
        for _ in 0..3 {
            let (mut bent, mut sound) = (0, 0);
            let count = |record: Record<Identity>| {
                bent += usize::from(record.id.as_str() == "bent");
                sound += usize::from(record.id.as_str() == "sound");
                Ok(())
            };
            store.read(|tx| tx.each_readable(count)).unwrap();
            assert_eq!((bent, sound), (0, 1));
            assert!(
                store
                    .read(|tx| tx.find_readable::<Identity>(&Id::from_text("bent")))
                    .unwrap()
                    .is_none()
            );
        }
    });
    assert_eq!(said.1.load(Ordering::Relaxed), 1);
    assert!(
        store
            .read(|tx| tx.find::<Identity>(&Id::from_text("bent")))
            .is_err(),
        "a direct read must fail"
    );
}
