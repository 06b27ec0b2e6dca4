//! The history: it has every change with its author, no secret, and reveals tampering.

use std::{path::Path, time::Duration};

use lz4_flex::block::decompress_with_dict;
use overkeep::testing::{
    admin_socket::{Command, Outcome, socket},
    cli::{self, CommandError},
    clock::{Clock, Timestamp},
    entity::{Action, Author, HistoryClass, HistoryRow, Id, TypedLookup, history::Who},
    error::Error,
    query::{Query, Window},
    store::{HistoryAnchor, Options, Progress, Retention, Store},
};
use redb::{Database, ReadableTable, TableDefinition};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::{
    harness::{Caller, PASSWORD, TestServer, stores},
    integrity,
    store::{KINDS, Task, task},
};

const HISTORY: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("history");

/// All rows, oldest first.
fn rows(store: &Store) -> Vec<HistoryRow> {
    store.read(|tx| tx.history_after(0, usize::MAX)).unwrap()
}

/// The texts of the history of a closed file, decoded by the documented format: compressed, after
/// hash, total and link.
fn written(file: &Path) -> Vec<String> {
    let unpacked = |row: &Vec<u8>| {
        assert_eq!(row[32 + 8], 2);
        let (head, block) = row[32 + 8 + 1 + 8 + 16..].split_at(5);
        assert_eq!(head[0], 1);
        let length = u32::from_le_bytes(head[1..].try_into().unwrap());
        let text = decompress_with_dict(
            block,
            length as usize,
            include_bytes!("../../src/store/history/words.txt"),
        )
        .unwrap();
        String::from_utf8(text).unwrap()
    };
    let tables = integrity::rows(file);
    tables["history"]
        .values()
        .chain(tables["history.sessions"].values())
        .map(unpacked)
        .collect()
}

/// A closed file with five rows.
fn five() -> (TempDir, Vec<HistoryRow>) {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    ["a", "b", "c", "d", "e"]
        .into_iter()
        .for_each(|id| store.write_blocking(move |tx| tx.insert(task(id))).unwrap());
    let rows = rows(&store);
    store.close();
    (directory, rows)
}

fn open(directory: &TempDir) -> Store {
    stores::of(KINDS).start(&directory.path().join("data"))
}

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
fn changes_and_rows_commit_together() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    store.write_blocking(|tx| tx.insert(task("a"))).unwrap();
    let refused = store.write_blocking(|tx| {
        tx.insert(task("b"))?;
        Err::<(), _>(Error::InvalidAuth)
    });
    assert_eq!(refused, Err(Error::InvalidAuth));
    store
        .write_blocking(|tx| {
            tx.insert(task("c"))?;
            // A failed call undoes only its own row.
            assert!(tx.insert(task("a")).is_err());
            let mut a = tx.get(&Id::<Task>::from_text("a"))?;
            a.spec.weight = 7;
            tx.put(a)?;
            tx.delete(&Id::<Task>::from_text("c"))
        })
        .unwrap();
    let found: Vec<(u64, Action, String)> = rows(&store)
        .into_iter()
        .map(|row| (row.sequence, row.action, row.id))
        .collect();
    let expected = [
        (1, Action::Create, "a"),
        (2, Action::Create, "c"),
        (3, Action::Update, "a"),
        (4, Action::Delete, "c"),
    ];
    assert_eq!(
        found,
        expected.map(|(sequence, action, id)| (sequence, action, id.to_owned()))
    );
    let changed = &rows(&store)[2];
    assert_eq!(
        (
            Json::from(changed.before.clone()),
            Json::from(changed.after.clone())
        ),
        (json!({ "weight": 0 }), json!({ "weight": 7 }))
    );
    assert_eq!(
        rows(&store)[3].before.as_ref().unwrap()["name"],
        "task c",
        "a deletion must record the whole record"
    );
}

#[test]
fn empty_changes_leave_no_row() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    store.write_blocking(|tx| tx.insert(task("a"))).unwrap();
    store
        .write_blocking(|tx| {
            let mut same = tx.get(&Id::<Task>::from_text("a"))?;
            same.updated_at = Timestamp::from_millis(5_000);
            tx.put(same)
        })
        .unwrap();
    assert_eq!(rows(&store).len(), 1);
}

#[test]
fn store_handle_names_the_author() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    let ann = Author {
        session: Some("s".into()),
        ..Author::remote(Some("10.0.0.1".into())).known_as(&Id::from_text("ann"), Some("Ann"))
    };
    for (id, handle) in [
        ("a", store.clone()),
        ("b", store.by(Author::local())),
        ("c", store.by(ann.clone())),
    ] {
        handle
            .write_blocking(move |tx| tx.insert(task(id)))
            .unwrap();
    }
    let authors: Vec<Author> = rows(&store).into_iter().map(|row| row.by).collect();
    assert_eq!(authors, [Author::default(), Author::local(), ann]);
    assert_eq!(
        (authors[0].who, authors[1].who, authors[2].who),
        (Who::System, Who::Local, Who::Identity)
    );
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

#[test]
fn administrators_read_the_history() {
    let server = TestServer::with_manual_clock();
    let history = |filter: &str, rest: &str| {
        server
            .admin
            .list("/overkeep/v1/history", filter, rest)
            .expect(200)
    };
    let dora = server.identity("dora", json!({ "roleAttributes": ["a"] }));
    server
        .admin
        .patch(
            &format!("/identities/{dora}"),
            json!({ "name": "theodora", "externalId": "d", "tags": { "x": "y" } }),
        )
        .expect(200);
    server
        .admin
        .delete(&format!("/identities/{dora}"))
        .expect(200);
    let own = server.admin.get("/current-api-session").expect(200);
    let told = history(&format!("id = \"{dora}\""), "&sort=sequence");
    assert_eq!(told.each("action"), ["create", "update", "delete"]);
    assert_eq!(told.each("name"), ["dora", "theodora", "theodora"]);
    let (id, name) = (&own.data()["identityId"], &own.data()["identity"]["name"]);
    let by = json!({ "who": "identity", "identity": id, "name": name, "session": own.id(), "address": "127.0.0.1" });
    assert!(
        told.data()
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["by"] == by),
        "{}",
        told.text
    );
    assert_eq!(
        history(&format!("id = \"{dora}\" and by.name = {name}"), "").total(),
        3
    );
    let made = &told.data()[0]["after"];
    assert_eq!(
        (&made["roleAttributes"], &made["isAdmin"]),
        (&json!(["a"]), &json!(false))
    );
    let empty = ["externalId", "appData", "serviceHostingCosts", "disabledAt"];
    assert!(
        empty.iter().all(|member| made.get(member).is_none()),
        "members without a value must be left out: {made}"
    );
    assert_eq!(
        told.data()[1]["before"],
        json!({ "name": "dora", "externalId": null })
    );
    assert_eq!(
        told.data()[1]["after"],
        json!({ "name": "theodora", "externalId": "d", "tags": { "x": "y" } })
    );
    assert_eq!(
        (
            &told.data()[2]["before"]["externalId"],
            told.data()[2]["before"].get("appData")
        ),
        (&json!("d"), None)
    );

    let newest = history("true limit none", "");
    assert_eq!(
        (newest.total() as usize, &newest.data()[0]["action"]),
        (newest.data().as_array().unwrap().len(), &json!("delete"))
    );
    assert_eq!(newest.data()[0]["hash"].as_str().unwrap().len(), 64);
    let page = history("by.who = \"system\"", "&limit=2&offset=1&sort=sequence");
    assert_eq!(
        (
            page.data()[0]["sequence"].as_u64(),
            page.data()[1]["sequence"].as_u64()
        ),
        (Some(2), Some(3))
    );
    assert_eq!(
        history("action = \"login\"", "").data()[0]["after"]["identityId"],
        own.data()["identityId"]
    );

    let (bob, _) = server.user("robert", json!({}));
    server
        .log_in_again("robert")
        .ask("GET", "//overkeep/v1/history")
        .send()
        .refused(401, "UNAUTHORIZED", "");
    assert_eq!(
        history("action = \"refusal\"", "").data()[0]["id"],
        bob.as_str()
    );
    let tagged = json!({ "identityId": bob, "method": "ott", "expiresAt": "2090-01-01T00:00:00.000Z", "tags": { "x": "y" } });
    let issued = server.admin.post("/enrollments", tagged).expect(201).id();
    assert_eq!(
        history(&format!("id = \"{issued}\""), "").each("action"),
        ["create"]
    );
    server
        .admin
        .get("/overkeep/v1/history?sort=name")
        .refused(400, "INVALID_SORT_IDENTIFIER", "");
    server
        .admin
        .list("/overkeep/v1/history", "after = 1", "")
        .refused(400, "INVALID_FILTER", "");
}

#[test]
fn lockouts_are_in_the_history() {
    let server = TestServer::start();
    let rules = json!({ "primary": { "updb": { "maxAttempts": 2, "lockoutDurationMinutes": 5 } } });
    server
        .admin
        .patch("/auth-policies/default", rules)
        .expect(200);
    let (id, _) = server.user("erin", json!({}));
    for _ in 0..2 {
        server
            .anonymous()
            .post(
                "/authenticate?method=password",
                json!({ "username": "erin", "password": "not hers" }),
            )
            .expect(401);
    }
    let told = server
        .admin
        .list("/overkeep/v1/history", &format!("id = \"{id}\""), "")
        .expect(200);
    assert_eq!(
        told.each("action")[..2],
        ["update", "lockout"],
        "{}",
        told.text
    );
    assert_eq!(
        told.data()[1]["by"],
        json!({ "who": "anonymous", "address": "127.0.0.1" })
    );
    assert!(told.data()[0]["after"]["disabledAt"].is_string() && told.data()[1]["name"] == "erin");
}

/// The secrets that a scenario produced.
pub struct Secrets(pub Vec<String>);

impl Secrets {
    /// Notes a text somewhere in an answer.
    pub fn note(&mut self, from: &Json, pointer: &str) -> String {
        let secret = from
            .pointer(pointer)
            .and_then(Json::as_str)
            .unwrap_or_else(|| panic!("no {pointer} in {from}"))
            .to_owned();
        self.0.push(secret.clone());
        secret
    }
}

/// Creates one of everything that has a secret.
pub fn story(server: &TestServer, secrets: &mut Secrets) {
    let admin = &server.admin;
    let token = |caller: &Caller| caller.token.clone().unwrap();
    let bob = server.identity("bob", json!({ "enrollment": { "ott": true } }));
    let enrollment = admin.get("/enrollments").expect(200).data()[0].clone();
    secrets.note(&enrollment, "/jwt");
    secrets.note(&enrollment, "/token");
    admin
        .post(
            &format!(
                "/enrollments/{}/refresh",
                enrollment["id"].as_str().unwrap()
            ),
            json!({ "expiresAt": "2099-01-01T00:00:00Z" }),
        )
        .expect(200);
    let refreshed = admin.get("/enrollments").expect(200).data()[0].clone();
    secrets.note(&refreshed, "/token");
    secrets.note(&refreshed, "/jwt");
    server.give_password(&bob, "bobby");
    let session = server.anonymous().log_in("bobby", PASSWORD);
    session
        .post("/current-identity/mfa", Json::Null)
        .expect(201);
    let factor = session
        .get("/current-identity/mfa")
        .expect(200)
        .data()
        .clone();
    let url = secrets.note(&factor, "/provisioningUrl");
    secrets.0.push(
        url.split("secret=")
            .nth(1)
            .unwrap()
            .split('&')
            .next()
            .unwrap()
            .into(),
    );
    (0..20).for_each(|code| drop(secrets.note(&factor, &format!("/recoveryCodes/{code}"))));
    let changed =
        json!({ "username": "bobby", "password": "another password", "currentPassword": PASSWORD });
    let own = session
        .get("/current-identity/authenticators")
        .expect(200)
        .data()[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    session
        .put(&format!("/current-identity/authenticators/{own}"), changed)
        .expect(200);
    server
        .anonymous()
        .post(
            "/authenticate?method=password",
            json!({ "username": "bobby", "password": "a wrong one" }),
        )
        .expect(401);
    let (service, router) = (
        server.service("db", json!({})),
        admin
            .post("/edge-routers", json!({ "name": "r" }))
            .expect(201)
            .id(),
    );
    let terminator = json!({ "service": service, "router": router, "binding": "transport", "address": "tcp:db:1",
        "identity": "one", "identitySecret": "c2VjcmV0IG9mIGEgaG9zdA==" });
    admin.post("/terminators", terminator).expect(201);
    secrets.0.extend(
        [
            PASSWORD,
            "another password",
            "a wrong one",
            "c2VjcmV0IG9mIGEgaG9zdA==",
            "$scrypt",
        ]
        .map(str::to_owned),
    );
    secrets
        .0
        .extend([server.password.clone(), token(admin), token(&session)]);
}

#[test]
fn history_contains_no_secret() {
    let server = TestServer::start();
    let mut secrets = Secrets(Vec::new());
    story(&server, &mut secrets);
    let directory = server.closed();
    let rows = written(&directory.path().join("data"));
    for secret in &secrets.0 {
        let found = rows.iter().find(|row| row.contains(secret.as_str()));
        assert!(found.is_none(), "{secret:?} is in {found:?}");
    }
    for told in [
        "\"bob\"",
        "\"bobby\"",
        "\"login\"",
        "\"refusal\"",
        "(secret)",
        "\"tcp:db:1\"",
    ] {
        assert!(
            rows.iter().any(|row| row.contains(told)),
            "{told} is in no row"
        );
    }
    assert!(secrets.0.len() > 30);
}

#[test]
fn refusal_flood_costs_few_rows() {
    let server = TestServer::with_manual_clock();
    let wrong = |name: &str| {
        let body = json!({ "username": name, "password": "not the password" });
        server
            .anonymous()
            .post("/authenticate?method=password", body)
            .expect(401);
    };
    server.user("carol", json!({}));
    (0..30).for_each(|_| wrong("carol"));
    (0..40).for_each(|n| wrong(&format!("nobody-{n}")));
    server.clock.advance(Duration::from_secs(61));
    wrong("carol");
    let directory = server.closed();
    let store = stores::of(overkeep::testing::change::KINDS).start(&directory.path().join("data"));
    let refusals: Vec<HistoryRow> = rows(&store)
        .into_iter()
        .filter(|row| row.action == Action::Refusal)
        .collect();
    let times: Vec<u64> = refusals
        .iter()
        .map(|row| row.after.as_ref().unwrap()["times"].as_u64().unwrap())
        .collect();
    assert_eq!(
        times.iter().sum::<u64>(),
        71,
        "every rejection must be counted: {times:?}"
    );
    assert!(refusals.len() <= 4, "{}", refusals.len());
    assert_eq!(refusals[0].by, Author::remote(Some("127.0.0.1".into())));
    assert!(
        refusals.iter().any(|row| !row.id.is_empty()),
        "a known claimed identity must be recorded"
    );
}

#[test]
fn history_pages_follow_their_filter() {
    let (directory, rows) = five();
    let store = open(&directory);
    let page = |text: &str, descending: bool, limit: i64, offset: i64| {
        let query = Query::parse(text, &overkeep::testing::entity::history::HistoryWords).unwrap();
        let (found, total) = store
            .read(|tx| {
                tx.history(
                    &query,
                    descending,
                    Window::new(&query, Some(limit), Some(offset)),
                )
            })
            .unwrap();
        (
            found
                .into_iter()
                .map(|row| row.sequence)
                .collect::<Vec<_>>(),
            total,
        )
    };
    assert_eq!(page("", false, 2, 1), (vec![2, 3], 5));
    assert_eq!(page("", true, 2, 1), (vec![4, 3], 5));
    assert_eq!(page("name = \"task c\"", true, 10, 0), (vec![3], 1));
    assert_eq!(
        page(
            "sequence > 3 and kind = \"task\" and action = \"create\" and by.who = \"system\"",
            true,
            10,
            0
        ),
        (vec![5, 4], 2)
    );
    assert_eq!(page("by.identity = null", false, 1, 4), (vec![5], 5));
    assert_eq!(rows.len(), 5);
}
