//! Two classes of rows: changes, and visits.

use super::*;

const CHANGES: &str = "history";

const SESSIONS: &str = "history.sessions";

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
