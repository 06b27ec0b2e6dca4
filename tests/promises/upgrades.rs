//! Data files over years: scheduled snapshots and their rotation, files of other releases, and
//! bounded growth.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::{self, Read},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use flate2::read::GzDecoder;
use overkeep::testing::{
    change::{KINDS, SealedKeys},
    clock::{Clock, Timestamp},
    config::{Config, Snapshots, Span},
    controller::{self, Controller},
    entity::{ApiSession, ConfigType, Document, HistoryClass, Id, Identity, Record, builtin},
    maintenance::{Maintenance, Schedule, offline, restore, snapshot_proof},
    store::{
        HistoryAnchor, NEWEST, Options, Progress, Retention, Store, Tx, Unreadable, beside,
        index_code,
    },
};
use pki::Passphrase;
use redb::{Database, ReadableTable, StorageBackend, TableDefinition, backends::InMemoryBackend};
use serde_json::json;
use tempfile::TempDir;

use crate::{
    harness::{Answer, Base, TestServer, stores, trusting},
    integrity::rows,
};

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn configuration(data: &Path) -> Config {
    let mut config = Config {
        data: data.into(),
        ..Config::default()
    };
    config.listen = "127.0.0.1:0".parse().unwrap();
    config.passwords.cost = 10;
    config
}

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

#[test]
fn upgrade_copies_the_file_first() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let start = || {
        controller::start(&configuration(&data), Clock::system())
            .unwrap()
            .stop()
    };
    start();
    start();
    assert_eq!(
        names(directory.path()),
        ["data"],
        "the same release makes no copy"
    );
    let store = stores::of(KINDS).start(&data);
    store
        .write_blocking(|tx| tx.set_setting("release", Some(b"0.0.9")))
        .unwrap();
    drop(store);
    start();
    let copy = format!("data.before-{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(names(directory.path()), ["data", &copy]);
    let copy = directory.path().join(copy);
    let kept = stores::of(KINDS).open_read_only(&copy);
    assert_eq!(
        kept.read(|tx| tx.setting("release")).unwrap().unwrap(),
        b"0.0.9"
    );
}

/// The golden file of a format, made by the release that introduced it. `OVERKEEP_WRITE_GOLDEN=1`
/// regenerates the file of the newest format, which is allowed only until a release with that
/// format is published.
fn golden(format: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/format-{format}.redb.gz"))
}

/// The passphrase of the sealed keys in all golden files but the first.
const PASSPHRASE: &str = "the golden passphrase";

fn unpack(format: u32, to: &Path) {
    let mut bytes = Vec::new();
    GzDecoder::new(fs::File::open(golden(format)).unwrap())
        .read_to_end(&mut bytes)
        .unwrap();
    fs::write(to, bytes).unwrap();
}

fn pack(format: u32, file: &Path) {
    let mut out = flate2::GzBuilder::new().write(
        fs::File::create(golden(format)).unwrap(),
        flate2::Compression::best(),
    );
    std::io::copy(&mut fs::File::open(file).unwrap(), &mut out).unwrap();
    out.finish().unwrap();
}

#[test]
fn every_format_opens() {
    if env::var_os("OVERKEEP_WRITE_GOLDEN").is_some() {
        write_golden();
    }
    opens_with_all_records(1, None);
    (2..=NEWEST).for_each(|format| opens_with_all_records(format, Some(PASSPHRASE)));
}

fn opens_with_all_records(format: u32, passphrase: Option<&str>) {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    unpack(format, &data);
    let key = passphrase.map(Passphrase::new);
    let started = |file: &Path| {
        let mut config = configuration(file);
        config.passphrase_file = passphrase.map(|text| {
            let file = directory.path().join("passphrase");
            fs::write(&file, text).unwrap();
            file
        });
        controller::start(&config, Clock::system()).unwrap()
    };
    let verified = |file: &Path| {
        let manifest = snapshot_proof::verify(file, key.as_ref(), &Progress::default()).unwrap();
        assert!(manifest.report.findings.is_empty(), "{:?}", manifest.report);
        assert!(
            offline::verify_history(file, None)
                .unwrap()
                .faults
                .is_empty()
        );
        manifest.manifest.unwrap().format
    };
    assert_eq!(verified(&data), format);
    assert_eq!(
        rows(&data)
            .get("records.endpointReport")
            .map_or(0, BTreeMap::len),
        usize::from(format >= 4)
    );
    let restored = directory.path().join("restored");
    restore::restore(
        &data,
        &restored,
        key.as_ref(),
        Timestamp::from_millis(0),
        &Progress::default(),
    )
    .unwrap();
    let filled = |file: &Path| {
        rows(file)
            .into_iter()
            .filter(|(_, rows)| !rows.is_empty())
            .collect::<BTreeMap<_, _>>()
    };
    assert!(
        filled(&restored) == filled(&data),
        "the restored rows differ from the rows of the snapshot"
    );
    let before = |file: &Path| beside(file, &format!(".before-{}", env!("CARGO_PKG_VERSION")));
    offline::reseal(&restored, key.as_ref(), key.as_ref(), &Progress::default()).unwrap();
    assert!(
        format == NEWEST || verified(&before(&restored)) == format,
        "the copy made before an upgrade has the old format"
    );
    let repaired = directory.path().join("repaired");
    fs::copy(&data, &repaired).unwrap();
    offline::repair(
        &repaired,
        key.as_ref(),
        Unreadable::Stays,
        &Progress::default(),
    )
    .unwrap();
    let copy = beside(&repaired, ".before-repair");
    assert!(
        if format == NEWEST {
            !copy.exists()
        } else {
            verified(&copy) == format
        },
        "a sound file of this release is not copied"
    );
    for file in [&restored, &repaired] {
        let kept = fs::read(before(file)).ok();
        started(file).stop();
        assert_eq!(
            fs::read(before(file)).ok(),
            kept,
            "a file already written by this release was copied"
        );
    }
    let running = started(&data);
    let admin =
        trusting(&format!("https://{}", running.bound())).log_in("admin", "the golden password");
    let alice = admin
        .get("/identities?filter=name%3D%22alice%22")
        .expect(200);
    assert_eq!(alice.data()[0]["roleAttributes"], json!(["laptops"]));
    assert_eq!(alice.data()[0]["appData"], json!({ "desk": "7" }));
    let service = admin
        .get("/services?filter=name%3D%22database%22")
        .expect(200);
    let id = service.data()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(
        admin
            .get(&format!("/services/{id}/configs"))
            .expect(200)
            .data()[0]["data"]["port"],
        5432
    );
    assert_eq!(
        admin
            .get(&format!("/services/{id}/identities"))
            .expect(200)
            .data()[0]["name"],
        "alice"
    );
    // Lists of transit routers contain edge routers as well. One edge router is the built-in one of
    // this release.
    let counts = [
        ("edge-routers", 2),
        ("transit-routers", 3),
        ("enrollments", 3),
        ("posture-checks", 1),
        ("external-jwt-signers", 1),
    ];
    for (path, count) in counts {
        assert_eq!(
            admin
                .get(&format!("/{path}"))
                .expect(200)
                .data()
                .as_array()
                .unwrap()
                .len(),
            count,
            "{path}"
        );
    }
    // Forms are generated from these schemas; files of earlier releases hold older ones.
    for record in builtin::config_types(Timestamp::ZERO_TIME).unwrap() {
        let shown = admin
            .get(&format!("/config-types/{}", record.id))
            .expect(200);
        let schema = record.spec.schema.unwrap().0;
        assert_eq!(
            shown.data()["schema"].to_string(),
            serde_json::Value::from(schema).to_string(),
            "format {format}: {}",
            record.spec.name
        );
    }
    let signers = admin.get("/external-jwt-signers").expect(200);
    let signer = [
        "name",
        "jwksEndpoint",
        "claimsProperty",
        "clientId",
        "scopes",
        "targetToken",
    ]
    .map(|member| &signers.data()[0][member]);
    let known = json!([
        "signer",
        "https://issuer.example.org/keys",
        "sub",
        null,
        [],
        "ACCESS"
    ]);
    assert_eq!(
        json!(signer),
        known,
        "a signer of an earlier release has defaults for the later members"
    );
    running.stop();
    let copy = directory.path().join("copy");
    offline::snapshot(&data, &copy, &Progress::default()).unwrap();
    assert_eq!(verified(&copy), NEWEST);
    assert_eq!(before(&data).exists(), format < NEWEST);
    assert!(
        format == NEWEST || verified(&before(&data)) == format,
        "the copy made before an upgrade has the old format"
    );
}

/// The rows of earlier formats form one chain, whoever wrote them. They stay as they are, and later
/// log-ins do not displace them.
#[test]
fn upgrade_keeps_the_history() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    unpack(3, &data);
    let before = rows(&data)["history"].clone();
    let last = offline::verify_history(&data, None).unwrap().last;
    let first = HistoryAnchor {
        sequence: 1,
        hash: before.values().next().unwrap()[..32]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect(),
    };
    let passphrase = directory.path().join("passphrase");
    fs::write(&passphrase, PASSPHRASE).unwrap();
    let config = Config {
        passphrase_file: Some(passphrase),
        ..configuration(&data)
    };
    let running = controller::start(&config, Clock::system()).unwrap();
    let admin =
        trusting(&format!("https://{}", running.bound())).log_in("admin", "the golden password");
    let rows_of = |answer: Answer| answer.data().as_array().unwrap().clone();
    let shown = rows_of(
        admin
            .get("/overkeep/v1/history?sort=sequence&limit=500")
            .expect(200),
    );
    assert!(
        shown.len() > before.len()
            && shown
                .iter()
                .zip(1..)
                .all(|(row, sequence)| row["sequence"] == sequence)
    );
    let hashes = |(row, shown): (&Vec<u8>, &serde_json::Value)| row[..32] == *hex(&shown["hash"]);
    assert!(
        before.values().zip(&shown).all(hashes),
        "a noted hash is no longer the one that is shown"
    );
    running.stop();
    let after = rows(&data);
    assert!(
        before
            .iter()
            .all(|(key, row)| after["history"].get(key) == Some(row)),
        "a row of the earlier format was changed"
    );
    for noted in [None, Some(&first), Some(&last)] {
        assert_eq!(
            offline::verify_history(&data, noted).unwrap().faults,
            [""; 0]
        );
    }
    let store = stores::of(KINDS).start(&data);
    let nothing = Retention {
        since: Timestamp::MAX,
        bytes: 0,
    };
    assert!(store.trim_history(HistoryClass::Sessions, nothing).unwrap() > 0);
    assert_eq!(store.verify_history(Some(&last)).unwrap().faults, [""; 0]);
    store.close();
    let trimmed = rows(&data);
    assert!(
        trimmed["history.sessions"].is_empty() && trimmed["history"] == after["history"],
        "log-ins of earlier formats stay with the changes"
    );
    let database = Database::open(&data).unwrap();
    let transaction = database.begin_write().unwrap();
    let table = TableDefinition::<&[u8], &[u8]>::new("history");
    drop(
        transaction
            .open_table(table)
            .unwrap()
            .remove(last.sequence.to_be_bytes().as_slice())
            .unwrap(),
    );
    transaction.commit().unwrap();
    drop(database);
    assert!(
        !offline::verify_history(&data, None)
            .unwrap()
            .faults
            .is_empty(),
        "the last row of the earlier format was removed unseen"
    );
}

fn hex(text: &serde_json::Value) -> Vec<u8> {
    let text = text.as_str().unwrap();
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// The prefix of the index keys of a field up to format 2.
fn earlier_prefix(kind: &str, field: &str) -> Vec<u8> {
    [kind, field]
        .iter()
        .flat_map(|name| std::iter::once(u8::try_from(name.len()).unwrap()).chain(name.bytes()))
        .collect()
}

/// Turns a file of format 3 into one of format 2, which has no index rows of these fields.
fn take_back(data: &Path, unknown: &[(&str, &str)]) {
    let database = Database::open(data).unwrap();
    let transaction = database.begin_write().unwrap();
    let codes: BTreeMap<_, _> = KINDS
        .iter()
        .flat_map(|entry| {
            (entry.indexed)()
                .into_iter()
                .map(|field| (index_code(entry.kind, field), (entry.kind.name, field)))
        })
        .collect();
    {
        let mut index = transaction
            .open_table(TableDefinition::<&[u8], &[u8]>::new("index"))
            .unwrap();
        let rows: Vec<_> = index
            .iter()
            .unwrap()
            .map(|row| {
                row.map(|(key, row)| (key.value().to_vec(), row.value().to_vec()))
                    .unwrap()
            })
            .collect();
        for (key, row) in rows {
            index.remove(key.as_slice()).unwrap();
            let (code, value) = key.split_first_chunk().unwrap();
            let (kind, field) = codes[code];
            if !unknown.contains(&(kind, field)) {
                index
                    .insert(
                        [earlier_prefix(kind, field).as_slice(), value]
                            .concat()
                            .as_slice(),
                        row.as_slice(),
                    )
                    .unwrap();
            }
        }
        let mut meta = transaction
            .open_table(TableDefinition::<&[u8], &[u8]>::new("meta"))
            .unwrap();
        meta.insert(b"format".as_slice(), 2_u32.to_le_bytes().as_slice())
            .unwrap();
    }
    transaction.commit().unwrap();
}

#[test]
fn upgrade_indexes_fields_added_since() {
    let server = TestServer::start();
    let service = server.service("database", json!({}));
    let router = server
        .admin
        .post("/edge-routers", json!({ "name": "edge" }))
        .expect(201)
        .id();
    for instance in ["one", ""] {
        let terminator = json!({ "service": service, "router": router, "binding": "transport", "address": "tcp:localhost:80", "identity": instance });
        server.admin.post("/terminators", terminator).expect(201);
    }
    let directory = server.closed();
    let data = directory.path().join("data");
    let before = rows(&data);
    take_back(&data, &[("terminator", "instance")]);
    let taken_back = rows(&data);
    assert!(
        before["index"].len() == taken_back["index"].len() + 1,
        "one terminator has an instance id"
    );
    let store = stores::of(KINDS).open(&data);
    store.upgrade(None).unwrap();
    drop(store);
    assert_eq!(rows(&data)["index"], before["index"]);
}

#[test]
fn changed_config_types_stay() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let given = directory.path().join("given");
    fs::write(&given, PASSPHRASE).unwrap();
    let mut config = configuration(&data);
    config.admin_password_file = Some(given);
    let start = || {
        let running = controller::start(&config, Clock::system()).unwrap();
        let admin = trusting(&format!("https://{}", running.bound())).log_in("admin", PASSPHRASE);
        (running, admin)
    };
    let (running, admin) = start();
    let own = json!({ "type": "object", "properties": { "mine": { "type": "string" } } });
    admin
        .patch("/config-types/host.v2", json!({ "schema": own }))
        .expect(200);
    admin.delete("/config-types/g7cIWbcGg").expect(200);
    running.stop();
    let (running, admin) = start();
    assert_eq!(
        admin.get("/config-types/host.v2").expect(200).data()["schema"]["properties"],
        own["properties"]
    );
    admin.get("/config-types/g7cIWbcGg").expect(404);
    running.stop();
}

/// The setting with the built-in config types that a file got. Files of earlier releases lack it.
const SHIPPED: &str = "built-in-config-types";

#[test]
fn own_config_types_keep_their_names() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let given = directory.path().join("given");
    fs::write(&given, PASSPHRASE).unwrap();
    let mut config = configuration(&data);
    config.admin_password_file = Some(given);
    let start = || {
        let running = controller::start(&config, Clock::system()).unwrap();
        let admin = trusting(&format!("https://{}", running.bound())).log_in("admin", PASSPHRASE);
        (running, admin)
    };
    start().0.stop();
    // As a file of an earlier release: two types are the operator's, one of which has the id of
    // OpenZiti's.
    let own = || {
        Document(
            json!({ "type": "object", "title": "own" })
                .as_object()
                .unwrap()
                .clone(),
        )
    };
    let store = stores::of(KINDS).start(&data);
    store
        .write_blocking(move |tx| {
            tx.set_setting(SHIPPED, None)?;
            ["proxy.v1", "interfaces.v1", "l2.host.v1", "l2.intercept.v1"]
                .into_iter()
                .try_for_each(|id| tx.delete(&Id::<ConfigType>::from_text(id)))?;
            for (id, name) in [("proxy.v1", "proxy.v1"), ("mine", "interfaces.v1")] {
                tx.insert(Record::new(
                    Id::from_text(id),
                    Timestamp::from_millis(1),
                    ConfigType {
                        name: name.into(),
                        schema: Some(own()),
                    },
                ))?;
            }
            Ok(())
        })
        .unwrap();
    store.close();
    for _ in 0..2 {
        let (running, admin) = start();
        for id in ["proxy.v1", "mine"] {
            assert_eq!(
                admin.get(&format!("/config-types/{id}")).expect(200).data()["schema"]["title"],
                "own"
            );
        }
        admin.get("/config-types/interfaces.v1").expect(404);
        for id in ["l2.host.v1", "l2.intercept.v1"] {
            assert!(admin.get(&format!("/config-types/{id}")).expect(200).data()["schema"]["properties"].is_object());
        }
        let exported =
            admin.get("/overkeep/v1/network").expect(200).data()["config-types"].to_string();
        assert!(
            exported.contains("proxy.v1")
                && exported.contains("interfaces.v1")
                && !exported.contains("l2."),
            "{exported}"
        );
        running.stop();
    }
    let (running, admin) = start();
    admin.delete("/config-types/l2.host.v1").expect(200);
    running.stop();
    let (running, admin) = start();
    admin.get("/config-types/l2.host.v1").expect(404);
    running.stop();
}

fn write_golden() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let given = directory.path().join("given");
    fs::write(&given, "the golden password").unwrap();
    let mut config = configuration(&data);
    config.admin_password_file = Some(given);
    let running = controller::start(&config, Clock::system()).unwrap();
    let admin =
        trusting(&format!("https://{}", running.bound())).log_in("admin", "the golden password");
    let make = |path: &str, body: serde_json::Value| admin.post(path, body).expect(201).id();
    let roles = json!(["laptops"]);
    make(
        "/identities",
        json!({ "name": "alice", "type": "Device", "isAdmin": false, "roleAttributes": roles, "appData": { "desk": "7" }, "enrollment": { "ott": true } }),
    );
    let types = admin
        .get("/config-types?filter=name%3D%22ziti-tunneler-client.v1%22")
        .expect(200);
    let data_of = json!({ "hostname": "database.internal", "port": 5432 });
    let config = make(
        "/configs",
        json!({ "name": "database", "configTypeId": types.data()[0]["id"], "data": data_of }),
    );
    make(
        "/services",
        json!({ "name": "database", "encryptionRequired": true, "configs": [config] }),
    );
    make(
        "/service-policies",
        json!({ "name": "dial", "type": "Dial", "semantic": "AnyOf", "identityRoles": ["#laptops"], "serviceRoles": ["#all"] }),
    );
    make("/edge-routers", json!({ "name": "edge" }));
    make("/transit-routers", json!({ "name": "transit" }));
    make(
        "/edge-router-policies",
        json!({ "name": "everybody", "semantic": "AnyOf", "identityRoles": ["#all"], "edgeRouterRoles": ["#all"] }),
    );
    make("/posture-checks", json!({ "name": "mfa", "typeId": "MFA" }));
    make(
        "/external-jwt-signers",
        json!({ "name": "signer", "issuer": "https://issuer.example.org", "audience": "overkeep", "enabled": true, "jwksEndpoint": "https://issuer.example.org/keys" }),
    );
    let reports = json!([
        { "typeId": "OS", "id": "any", "type": "Linux", "version": "6.1.0", "build": "7" },
        { "typeId": "MAC", "id": "any", "macAddresses": ["00:1b:44:11:3a:b7"] },
        { "typeId": "DOMAIN", "id": "any", "domain": "corp" },
        { "typeId": "PROCESS", "id": "any", "path": "/bin/guard", "isRunning": true, "hash": "ab12", "signerFingerprints": ["ab12"] },
        { "typeId": "ENDPOINT_STATE", "id": "any", "woken": true, "unlocked": true },
    ]);
    admin
        .at(Base::Client)
        .post("/posture-response-bulk", reports)
        .expect(200);
    let copy = directory.path().join("copy");
    running.stop();
    offline::snapshot(&data, &copy, &Progress::default()).unwrap();
    offline::reseal(
        &copy,
        None,
        Some(&Passphrase::new(PASSPHRASE)),
        &Progress::default(),
    )
    .unwrap();
    pack(NEWEST, &copy);
}

/// The kinds of which a file of the newest format holds records. A kind made since that format
/// joins them with the next format: no file that a release wrote holds records of it.
pub const FILED_KINDS: [&str; 25] = [
    "apiSession",
    "apiSessionCertificate",
    "apiToken",
    "authPolicy",
    "authenticator",
    "ca",
    "config",
    "configType",
    "controller",
    "edgeRouter",
    "edgeRouterPolicy",
    "endpointReport",
    "enrollment",
    "externalJwtSigner",
    "identity",
    "identityType",
    "mfa",
    "postureCheck",
    "postureCheckType",
    "service",
    "serviceEdgeRouterPolicy",
    "servicePolicy",
    "session",
    "terminator",
    "transitRouter",
];

#[test]
fn index_changes_with_format_only() {
    FILED_KINDS.iter().for_each(|name| {
        assert!(
            KINDS.iter().any(|entry| entry.kind.name == *name),
            "{name} is no kind"
        )
    });
    let fields = || {
        KINDS
            .iter()
            .filter(|entry| FILED_KINDS.contains(&entry.kind.name))
            .flat_map(|entry| {
                (entry.indexed)()
                    .into_iter()
                    .map(move |field| (entry.kind.name, field, index_code(entry.kind, field)))
            })
    };
    let names: BTreeSet<_> = fields().map(|(kind, field, _)| (kind, field)).collect();
    let codes: BTreeSet<_> = fields().map(|(.., code)| code).collect();
    assert_eq!(codes.len(), names.len(), "two fields have one code");
    // As long as no release has written the newest format, a new index changes the number without
    // an upgrade: the upgrade from earlier formats makes the rows.
    let all = codes.iter().flatten().copied().collect::<Vec<u8>>();
    assert_eq!(
        crc32fast::hash(&all),
        3_157_858_768,
        "a file of format {NEWEST} has other index rows: introduce the next format and an upgrade to it"
    );
}

/// Sessions that are open at any time, while others begin and end. redb doubles a full file, so
/// that the ratio of file size to content depends on this number: with this one the file has just
/// been doubled.
const OPEN_SESSIONS: usize = 2_750;
/// Sessions begun, and as many ended, in one transaction.
const AT_ONCE: usize = 25;
/// How much history is kept, in bytes.
const HISTORY: u64 = 1 << 20;

/// A file with nothing but sessions, on a disk in memory.
struct Sessions {
    disk: Disk,
    store: Store,
    now: Timestamp,
}

impl Sessions {
    fn new() -> Self {
        let disk = Disk(Arc::new(InMemoryBackend::new()));
        let now = Timestamp::from_millis(1_700_000_000_000);
        let store = stores::of(KINDS).start_on(disk.clone());
        store
            .write_blocking(move |tx| {
                builtin::identity_types(now)
                    .into_iter()
                    .try_for_each(|record| tx.insert(record))?;
                tx.insert(builtin::auth_policy(now))?;
                tx.insert(Record::new(
                    Id::from_text("somebody"),
                    now,
                    Identity::named("somebody"),
                ))
            })
            .unwrap();
        Self { disk, store, now }
    }

    /// One transaction in which some sessions begin and others end.
    fn commit_sessions(&self, begin: Range<usize>, end: Range<usize>) {
        let now = self.now;
        let commit_sessions = move |tx: &Tx<'_>| {
            begin
                .into_iter()
                .try_for_each(|n| tx.insert(session(n, now)))?;
            end.into_iter()
                .try_for_each(|n| tx.delete(&session(n, now).id))
        };
        self.store.write_blocking(commit_sessions).unwrap();
        self.store
            .trim_history(
                HistoryClass::Sessions,
                Retention {
                    since: now,
                    bytes: HISTORY,
                },
            )
            .unwrap();
    }

    /// Closes the file. Returns its length and the length of a compacted copy, in bytes.
    fn closed(self, data: &Path) -> (u64, u64) {
        self.store.close();
        let mut bytes = vec![0; self.disk.len().unwrap() as usize];
        self.disk.read(0, &mut bytes).unwrap();
        fs::write(data, bytes).unwrap();
        let copy = data.with_extension("copy");
        offline::snapshot(data, &copy, &Progress::default()).unwrap();
        (length(data), length(&copy))
    }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

#[test]
fn session_churn_keeps_file_small() {
    let cycles: usize = env::var("OVERKEEP_CYCLES").map_or(2_500, |cycles| cycles.parse().unwrap());
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let sessions = Sessions::new();
    let (mut half_way, mut longest) = (0, 0);
    for write_part in (0..OPEN_SESSIONS + cycles).step_by(AT_ONCE) {
        let ended = write_part
            .checked_sub(OPEN_SESSIONS)
            .map_or(0..0, |first| first..first + AT_ONCE);
        sessions.commit_sessions(write_part..write_part + AT_ONCE, ended);
        longest = sessions.disk.len().unwrap().max(longest);
        if write_part < OPEN_SESSIONS + cycles / 2 {
            half_way = longest;
        }
    }
    let (grown, live) = sessions.closed(&data);
    let times = |length: u64| length as f64 / live as f64;
    println!(
        "{cycles} sessions: {live} bytes live, {:.2} times that closed, {:.2} at most",
        times(grown),
        times(longest)
    );
    assert!(
        half_way > 0 && longest <= half_way,
        "it grew from {half_way} to {longest} bytes with as many sessions in it"
    );
    assert!(grown * 2 <= live * 5, "{grown} bytes for {live}");
    assert!(
        offline::check(&data, None, &Progress::default())
            .unwrap()
            .report
            .findings
            .is_empty()
    );
}

#[test]
fn start_compacts_the_file() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let sessions = Sessions::new();
    (0..60).for_each(|n| sessions.commit_sessions(n * 100..(n + 1) * 100, 0..0));
    (0..58).for_each(|n| sessions.commit_sessions(0..0, n * 100..(n + 1) * 100));
    let (grown, live) = sessions.closed(&data);
    assert!(
        grown > live * 5 / 2,
        "{grown} bytes for {live}: too little growth for this test"
    );
    let opened = |compact: bool| {
        stores::of(KINDS)
            .with(Options {
                compact,
                ..Options::default()
            })
            .start(&data)
            .close()
    };
    opened(false);
    assert!(length(&data) > live * 5 / 2);
    opened(true);
    let after = length(&data);
    assert!(
        after * 2 <= live * 5,
        "{grown} bytes, then {after} for {live}"
    );
    let (before, compact) = offline::compact(&data).unwrap();
    assert!(
        compact <= before && before == after,
        "{before} bytes, then {compact}"
    );
    assert!(
        offline::check(&data, None, &Progress::default())
            .unwrap()
            .report
            .findings
            .is_empty()
    );
}

/// A disk in memory that outlives the store: only space is measured here, and flushes would take
/// time.
#[derive(Debug, Clone)]
struct Disk(Arc<InMemoryBackend>);

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}

fn session(n: usize, now: Timestamp) -> Record<ApiSession> {
    // Ids ascend, and tokens are unordered, as in real files.
    let id = format!("c{n:024}");
    let spec = ApiSession {
        token: format!(
            "{:016x}-of-somebody-{n:08}",
            (n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        ),
        identity_id: Id::from_text("somebody"),
        authenticator_id: "internal".into(),
        config_types: Vec::new(),
        ip_address: "192.0.2.7".into(),
        is_mfa_required: false,
        is_mfa_complete: false,
        last_activity_at: now,
    };
    Record::new(Id::from_text(id), now, spec)
}
