//! What clients cause as often as they like never displaces a change from the history, and both
//! classes of rows are one history that cannot be altered unseen.

use std::{collections::BTreeMap, path::Path, time::Duration};

use overkeep::testing::{
    admin_socket::{Command, Outcome, socket},
    change::KINDS,
    clock::{Clock, Timestamp},
    config::{Config, Span},
    entity::{
        Action, ApiSession, Author, HistoryClass, HistoryRow, Id, Identity, Record, Service,
        builtin, history::HistoryWords,
    },
    query::{Query, Window},
    store::{HistoryAnchor, Options, Progress, Retention, Store, Tx},
};
use proptest::prelude::*;
use redb::{Database, ReadableTable, TableDefinition};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::{
    harness::{Base, Caller, Key, PASSWORD, TestServer, fresh, stores},
    integrity, metrics,
};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const CHANGES: &str = "history";
const SESSIONS: &str = "history.sessions";

/// A store with one identity, and its clock.
fn world(directory: &TempDir) -> (Store, Clock) {
    let clock = Clock::manual(NOW);
    let store = stores::of(KINDS)
        .with(Options {
            clock: clock.clone(),
            ..Options::default()
        })
        .start(&directory.path().join("data"));
    store
        .write_blocking(|tx| {
            builtin::identity_types(NOW)
                .into_iter()
                .try_for_each(|record| tx.insert(record))?;
            tx.insert(builtin::auth_policy(NOW))?;
            tx.insert(Record::new(
                Id::from_text("ann"),
                NOW,
                Identity::named("ann"),
            ))
        })
        .unwrap();
    (store, clock)
}

fn session(n: usize) -> Record<ApiSession> {
    let spec = ApiSession {
        token: format!("{n:036}"),
        identity_id: Id::from_text("ann"),
        authenticator_id: "internal".into(),
        config_types: Vec::new(),
        ip_address: "192.0.2.7".into(),
        is_mfa_required: false,
        is_mfa_complete: false,
        last_activity_at: NOW,
    };
    Record::new(Id::from_text(format!("session-{n}")), NOW, spec)
}

fn change(store: &Store, name: &str) {
    let spec = serde_json::from_value(json!({ "name": name, "encryptionRequired": true })).unwrap();
    let record = Record::<Service>::new(Id::from_text(name), NOW, spec);
    store.write_blocking(move |tx| tx.insert(record)).unwrap();
}

/// Log-ins, and log-outs by the owner of the host, which have a row each.
fn visits(store: &Store, range: std::ops::Range<usize>) {
    let work = move |tx: &Tx<'_>| {
        range.clone().try_for_each(|n| tx.insert(session(n)))?;
        range
            .into_iter()
            .try_for_each(|n| tx.delete(&session(n).id))
    };
    store.by(Author::local()).write_blocking(work).unwrap();
}

fn rows(store: &Store) -> Vec<HistoryRow> {
    store.read(|tx| tx.history_after(0, usize::MAX)).unwrap()
}

fn names(rows: &[HistoryRow]) -> Vec<&str> {
    rows.iter()
        .filter(|row| row.kind == "service")
        .filter_map(|row| row.name.as_deref())
        .collect()
}

/// The sequences of the rows of a class.
fn sequences(data: &Path, table: &str) -> Vec<u64> {
    integrity::rows(data)[table]
        .keys()
        .map(|key| u64::from_be_bytes(key.as_slice().try_into().unwrap()))
        .collect()
}

const fn everything() -> Retention {
    Retention {
        since: Timestamp::from_millis(0),
        bytes: u64::MAX,
    }
}

#[test]
fn log_ins_displace_no_change() {
    const VISITS: usize = 20_000;
    const AT_ONCE: usize = 1000;
    let directory = TempDir::new().unwrap();
    let (store, clock) = world(&directory);
    change(&store, "before");
    let keep = Retention {
        bytes: 1 << 20,
        ..everything()
    };
    let trim = || {
        HistoryClass::ALL
            .iter()
            .map(|class| store.trim_history(*class, keep).unwrap())
            .sum::<usize>()
    };
    for first in (0..VISITS).step_by(AT_ONCE) {
        visits(&store, first..first + AT_ONCE);
        clock.advance(Duration::from_secs(61));
        if first == VISITS / 2 {
            change(&store, "between");
        }
        trim();
    }
    assert_eq!(names(&rows(&store)), ["before", "between"]);
    let verified = store.verify_history(None).unwrap();
    assert_eq!(verified.faults, [""; 0]);
    let data = directory.path().join("data");
    store.close();
    let kept = sequences(&data, SESSIONS);
    assert!(
        kept[0] > VISITS as u64 / 2 && kept.len() > 1000,
        "{} of {VISITS} are left, from {}",
        kept.len(),
        kept[0]
    );
    assert!(sequences(&data, CHANGES)[0] == 1);
    // The last change is far from every other row now, and still cannot be removed or altered
    // unseen.
    let last = *sequences(&data, CHANGES).last().unwrap();
    let found = tampered(&data, CHANGES, |table| {
        drop(table.remove(last.to_be_bytes().as_slice()).unwrap())
    });
    assert!(
        found
            .iter()
            .any(|fault| fault.starts_with(&format!("row {last} of the history, after which row"))),
        "{found:?}"
    );
}

type Rows<'t> = redb::Table<'t, &'static [u8], &'static [u8]>;

/// Changes a table of a copy of a closed file. Returns the findings of the check.
fn tampered(data: &Path, table: &str, act: impl FnOnce(&mut Rows<'_>)) -> Vec<String> {
    let copy = TempDir::new().unwrap();
    let copy = copy.path().join("data");
    std::fs::copy(data, &copy).unwrap();
    let database = Database::open(&copy).unwrap();
    let transaction = database.begin_write().unwrap();
    act(&mut transaction.open_table(TableDefinition::new(table)).unwrap());
    transaction.commit().unwrap();
    drop(database);
    let store = stores::of(KINDS).start(&copy);
    let faults = store.verify_history(None).unwrap().faults;
    let checked = store.check(&Progress::default()).unwrap().findings;
    assert_eq!(
        checked
            .into_iter()
            .map(|finding| finding.description)
            .collect::<Vec<_>>(),
        faults,
        "a check of the file finds the same"
    );
    faults
}

#[test]
fn each_removed_row_is_found() {
    let directory = TempDir::new().unwrap();
    let (store, clock) = world(&directory);
    for n in 0..6 {
        visits(&store, 10 * n..10 * n + 3);
        change(&store, &format!("service-{n}"));
        clock.advance(Duration::from_secs(61));
    }
    visits(&store, 100..103);
    let data = directory.path().join("data");
    // The first twelve rows of sessions are gone, so that there are gaps between changes.
    let bytes = |from: usize| -> u64 {
        let copy = directory.path().join(format!("copy-{from}"));
        store.snapshot(&copy, &Progress::default()).unwrap();
        integrity::rows(&copy)[SESSIONS]
            .iter()
            .skip(from)
            .map(|(key, row)| (key.len() + row.len()) as u64)
            .sum()
    };
    assert_eq!(
        store
            .trim_history(
                HistoryClass::Sessions,
                Retention {
                    bytes: bytes(12),
                    ..everything()
                }
            )
            .unwrap(),
        12
    );
    let last = store.verify_history(None).unwrap().last;
    store.close();
    let all = [CHANGES, SESSIONS].map(|table| {
        sequences(&data, table)
            .into_iter()
            .map(move |sequence| (table, sequence))
    });
    for (table, sequence) in all.into_iter().flatten() {
        let key = sequence.to_be_bytes();
        let removed = tampered(&data, table, |rows| {
            drop(rows.remove(key.as_slice()).unwrap())
        });
        // Only the very last row can be cut off; a noted row reveals that.
        assert_eq!(
            removed.is_empty(),
            sequence == last.sequence,
            "row {sequence} of {table}: {removed:?}"
        );
        let altered = tampered(&data, table, |rows| {
            let mut row = rows.get(key.as_slice()).unwrap().unwrap().value().to_vec();
            *row.last_mut().unwrap() ^= 1;
            rows.insert(key.as_slice(), row.as_slice()).unwrap();
        });
        assert_eq!(altered.len(), 1, "row {sequence} of {table}: {altered:?}");
        assert!(
            altered[0].starts_with(&format!("row {sequence} of the history was altered")),
            "{altered:?}"
        );
        let linked = tampered(&data, table, |rows| {
            let mut row = rows.get(key.as_slice()).unwrap().unwrap().value().to_vec();
            row[32 + 8 + 1 + 8] ^= 1;
            rows.insert(key.as_slice(), row.as_slice()).unwrap();
        });
        assert_eq!(
            linked.len(),
            1,
            "the link of row {sequence} of {table}: {linked:?}"
        );
    }
    // One noted row proves both classes.
    let forged = directory.path().join("forged");
    std::fs::copy(&data, &forged).unwrap();
    let store = stores::of(KINDS).start(&forged);
    assert_eq!(store.verify_history(Some(&last)).unwrap().faults, [""; 0]);
    let dropped = HistoryAnchor {
        sequence: sequences(&data, SESSIONS)[0] - 3,
        hash: "0".repeat(64),
    };
    assert_eq!(
        store.verify_history(Some(&dropped)).unwrap().faults.len(),
        1
    );
}

/// The rows about a person, newest first.
fn told(server: &TestServer, filter: &str) -> Vec<Json> {
    server
        .admin
        .list("/overkeep/v1/history", filter, "")
        .expect(200)
        .data()
        .as_array()
        .unwrap()
        .clone()
}

#[test]
fn visits_of_a_minute_share_rows() {
    let server = TestServer::with_manual_clock();
    let (id, _) = server.user("anna", json!({}));
    let log_ins = || {
        told(
            &server,
            &format!("action = \"login\" and by.identity = \"{id}\""),
        )
    };
    let log_outs = || {
        told(
            &server,
            &format!("action = \"logout\" and by.identity = \"{id}\""),
        )
    };
    let times = |rows: &[Json]| {
        rows.iter()
            .map(|row| row["after"]["times"].as_u64())
            .collect::<Vec<_>>()
    };
    let in_and_out = |count: usize| {
        (0..count).for_each(|_| {
            drop(
                server
                    .log_in_again("anna")
                    .delete("/current-api-session")
                    .expect(200),
            )
        })
    };
    let later = |seconds: u64| {
        server.clock.advance(Duration::from_secs(seconds));
        server.run_due_jobs();
    };
    in_and_out(20);
    assert_eq!(
        (times(&log_ins()), times(&log_outs())),
        (vec![None], vec![None]),
        "the first ones are rows at once"
    );
    later(59);
    assert_eq!(log_ins().len(), 1);
    later(2);
    assert_eq!(
        (times(&log_ins()), times(&log_outs())),
        (vec![Some(20), None], vec![Some(19), None])
    );
    let row = &log_ins()[0];
    assert_eq!(
        (&row["after"]["identityId"], &row["after"]["ipAddress"]),
        (&json!(id), &json!("127.0.0.1"))
    );
    assert!(
        row["after"]["first"].as_str() <= row["after"]["last"].as_str()
            && row["by"]["address"] == "127.0.0.1",
        "{row}"
    );
    // While it goes on, each minute has one row.
    in_and_out(5);
    assert_eq!(log_ins().len(), 2);
    later(61);
    assert_eq!(times(&log_ins())[0], Some(5));
    later(61);
    later(61);
    in_and_out(1);
    assert_eq!(
        (log_ins().len(), times(&log_ins())[0]),
        (4, None),
        "after a quiet minute the next one is a row at once"
    );
    // Another credential is told apart, and a session that somebody else ends has a row.
    let (other, certificate) = server.enrolled("robert");
    server.give_password(&other, "robert");
    let session = certificate
        .log_in_by_certificate()
        .get("/current-api-session")
        .expect(200)
        .id();
    server.log_in_again("robert");
    assert_eq!(
        told(
            &server,
            &format!("action = \"login\" and by.identity = \"{other}\"")
        )
        .len(),
        2
    );
    server
        .admin
        .delete(&format!("/api-sessions/{session}"))
        .expect(200);
    assert_eq!(
        told(
            &server,
            &format!("action = \"logout\" and id = \"{session}\"")
        )
        .len(),
        1
    );
    // A stop writes what was counted.
    in_and_out(3);
    let directory = server.closed();
    let store = stores::of(KINDS).start(&directory.path().join("data"));
    let last = rows(&store)
        .into_iter()
        .rfind(|row| row.action == Action::Login && row.by.identity.as_ref() == Some(&id))
        .unwrap();
    assert_eq!(last.after.unwrap()["times"], 3);
}

/// Everything that a client without the rights of an administrator can repeat.
fn toil(
    server: &TestServer,
    name: &str,
    own: &Caller,
    certificate: &Caller,
    router: &Caller,
    router_id: &str,
) {
    let password = own
        .get("/current-identity/authenticators")
        .expect(200)
        .data()[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/current-identity/authenticators/{password}");
    own.patch(
        &path,
        json!({ "password": PASSWORD, "currentPassword": PASSWORD }),
    )
    .expect(200);
    own.post("/current-identity/mfa", Json::Null).expect(201);
    own.delete("/current-identity/mfa").expect(200);
    let holder = certificate.log_in_by_certificate();
    let authenticator = holder
        .get("/current-identity/authenticators")
        .expect(200)
        .data()[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let request = json!({ "clientCertCsr": Key::new().request() });
    holder
        .post(
            &format!("/current-identity/authenticators/{authenticator}/extend"),
            request,
        )
        .expect(200);
    holder
        .post(
            "/posture-response",
            json!({ "typeId": "DOMAIN", "id": "any", "domain": fresh("domain") }),
        )
        .expect(201);
    holder.delete("/current-api-session").expect(200);
    let wrong = json!({ "username": name, "password": "not the password" });
    (0..3).for_each(|_| {
        drop(
            server
                .anonymous()
                .post("/authenticate?method=password", wrong.clone())
                .expect(401),
        )
    });
    server
        .anonymous()
        .post("/enroll?method=ott&token=none", Json::Null);
    own.at(Base::Management)
        .post(
            "/services",
            json!({ "name": "none", "encryptionRequired": true }),
        )
        .expect(401);
    let requests = json!({ "certCsr": Key::new().request_as(router_id), "serverCertCsr": Key::new().request() });
    // The new certificate is not used, so that the router can only do so once.
    router.post("/enroll/extend/router", requests);
}

#[test]
fn clients_cause_no_changes() {
    let server = TestServer::with_manual_clock();
    let rules = json!({ "primary": { "updb": { "maxAttempts": 3, "lockoutDurationMinutes": 1 } } });
    server
        .admin
        .patch("/auth-policies/default", rules)
        .expect(200);
    let (_, own) = server.user("anna", json!({}));
    server.user("victim", json!({}));
    let (_, certificate) = server.enrolled("robert");
    let router_id = server
        .admin
        .post("/edge-routers", json!({ "name": "router" }))
        .expect(201)
        .id();
    let stored = server
        .admin
        .get(&format!("/edge-routers/{router_id}"))
        .expect(200);
    let (token, key) = (
        stored.data()["enrollmentToken"].as_str().unwrap(),
        Key::new(),
    );
    let requests = json!({ "certCsr": key.request_as(&router_id), "serverCertCsr": key.request() });
    let issued = server
        .anonymous()
        .post(&format!("/enroll?method=erott&token={token}"), requests)
        .expect(200);
    let router = server.with_certificate(issued.data()["cert"].as_str().unwrap(), &key);
    server.run_due_jobs();
    let end = server
        .admin
        .get("/overkeep/v1/history?limit=1")
        .expect(200)
        .data()[0]["sequence"]
        .as_u64()
        .unwrap();
    for _ in 0..3 {
        toil(&server, "victim", &own, &certificate, &router, &router_id);
        server.clock.advance(Duration::from_secs(61));
        server.run_due_jobs();
    }
    let since = told(&server, &format!("sequence > {end} limit none"));
    let mut kinds = BTreeMap::<String, usize>::new();
    for row in &since {
        *kinds
            .entry(format!(
                "{} {}",
                row["action"].as_str().unwrap(),
                row["kind"].as_str().unwrap()
            ))
            .or_default() += 1;
    }
    for expected in [
        "update authenticator",
        "create mfa",
        "delete mfa",
        "login apiSession",
        "logout apiSession",
        "refusal identity",
        "lockout identity",
        "update identity",
        "update edgeRouter",
    ] {
        assert!(
            kinds.contains_key(expected),
            "{expected} is in no row, so that its class is not tested: {kinds:?}"
        );
    }
    // An administrator's own credentials are changes.
    server
        .admin
        .at(Base::Client)
        .post("/current-identity/mfa", Json::Null)
        .expect(201);
    let data = server.closed();
    let changes = sequences(&data.path().join("data"), CHANGES);
    let caused: Vec<&Json> = since
        .iter()
        .filter(|row| changes.contains(&row["sequence"].as_u64().unwrap()))
        .collect();
    assert!(caused.is_empty(), "clients caused changes: {caused:?}");
    assert_eq!(
        changes.iter().filter(|sequence| **sequence > end).count(),
        1,
        "what the administrator did"
    );
}

#[test]
fn classes_have_bounds_of_their_own() {
    let server = TestServer::with(Clock::manual(Clock::system().now()), |config| {
        config.history.sessions_max_age = Some(Span::minutes(60));
    });
    server.user("anna", json!({}));
    let log_ins = || told(&server, "action = \"login\" and by.name = \"anna\"").len();
    assert_eq!(log_ins(), 1);
    server.clock.advance(Duration::from_secs(2 * 60 * 60));
    server.run_due_jobs();
    let admin = server
        .anonymous()
        .log_in("admin", &server.password)
        .at(Base::Overkeep);
    let left = admin
        .list("/history", "action = \"login\" and by.name = \"anna\"", "")
        .expect(200);
    assert_eq!(left.total(), 0);
    let first = admin.get("/history?sort=sequence&limit=1").expect(200);
    assert_eq!(first.data()[0]["sequence"], 1, "changes stay");
    assert!(
        Config::default().history.sessions_max_mib.is_none(),
        "the bounds of changes hold for both unless others are set"
    );
}

#[test]
fn verify_says_how_far_back() {
    let server = TestServer::with(Clock::manual(Clock::system().now()), |config| {
        config.history.max_age = Span::minutes(60);
        config.metrics.listen = Some(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
    });
    let path = socket::beside(&server.data());
    let lines = || match socket::ask(
        &path,
        &Command::VerifyHistory { noted: None },
        &mut |_, _| (),
    )
    .unwrap()
    .unwrap()
    {
        Outcome::Done(lines) => lines,
        other => panic!("{other:?}"),
    };
    let gauge = |kind: &str| {
        metrics::value(
            &metrics::text(&server),
            &format!("overkeep_history_from_timestamp_seconds{{kind=\"{kind}\"}}"),
        )
    };
    let before = lines();
    assert!(
        before[0].starts_with("nothing is wrong with ") && before.len() == 3,
        "{before:?}"
    );
    assert!(
        before[1].starts_with("changes reach back to row 1 of ")
            && before[1].contains("nothing was dropped"),
        "{before:?}"
    );
    assert!(
        before[2].starts_with("log-ins, rejections and connections reach back to row "),
        "{before:?}"
    );
    assert_eq!(
        (gauge("changes"), gauge("sessions")),
        (Some(0.0), Some(0.0))
    );
    server.clock.advance(Duration::from_secs(2 * 60 * 60));
    let admin = server
        .anonymous()
        .log_in("admin", &server.password)
        .at(Base::Management);
    admin
        .post(
            "/services",
            json!({ "name": "late", "encryptionRequired": true }),
        )
        .expect(201);
    server.run_due_jobs();
    let after = lines();
    let at = server.clock.now();
    assert!(
        after[1].contains(&format!("of {at}; older rows were dropped")),
        "{after:?}"
    );
    assert_eq!(
        (gauge("changes"), gauge("sessions")),
        (Some(at.seconds() as f64), Some(at.seconds() as f64))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn both_classes_are_one_history(steps in prop::collection::vec(0..3_usize, 1..40), dropped in 0..40_u64, limit in 1..20_i64, offset in 0..60_i64) {
        let directory = TempDir::new().unwrap();
        let (store, clock) = world(&directory);
        for (n, step) in steps.iter().enumerate() {
            if *step == 0 { change(&store, &format!("service-{n}")) } else { visits(&store, 10 * n..10 * n + step) }
            clock.advance(Duration::from_secs(61));
        }
        let whole = rows(&store);
        prop_assert!(whole.iter().zip(1..).all(|(row, sequence)| row.sequence == sequence), "each row has the next sequence");
        let class = if dropped % 2 == 0 { HistoryClass::Sessions } else { HistoryClass::Changes };
        let cut = whole.get(dropped as usize).map_or(NOW, |row| row.at);
        store.trim_history(class, Retention { since: cut, ..everything() }).unwrap();
        prop_assert_eq!(store.verify_history(None).unwrap().faults, [""; 0]);
        let left: Vec<u64> = rows(&store).into_iter().map(|row| row.sequence).collect();
        prop_assert!(left.is_sorted());
        for after in [0, 5, 30] {
            let page: Vec<u64> = store.read(|tx| tx.history_after(after, usize::MAX)).unwrap().into_iter().map(|row| row.sequence).collect();
            prop_assert_eq!(page, left.iter().copied().filter(|sequence| *sequence > after).collect::<Vec<_>>());
        }
        for (text, descending) in [("", true), ("", false), ("sequence > 3", true), ("sequence > 3", false)] {
            let query = Query::parse(text, &HistoryWords).unwrap();
            let (page, total) = store.read(|tx| tx.history(&query, descending, Window::new(&query, Some(limit), Some(offset)))).unwrap();
            let mut expected: Vec<u64> = left.iter().copied().filter(|sequence| text.is_empty() || *sequence > 3).collect();
            prop_assert_eq!(total, expected.len() as u64);
            if descending { expected.reverse() }
            let expected: Vec<u64> = expected.into_iter().skip(offset as usize).take(limit as usize).collect();
            prop_assert_eq!(page.into_iter().map(|row| row.sequence).collect::<Vec<_>>(), expected);
        }
    }
}
