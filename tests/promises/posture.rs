//! An endpoint passes a posture check exactly when its reported state meets the check, and nothing
//! is kept of records that do not exist.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use overkeep::testing::{
    access::Access,
    change::KINDS,
    clock::{CalendarTime, Clock, Timestamp},
    config::Config,
    entity::{
        ApiSession, Entity, Id, Identity, Mfa, PolicyType, PostureCheck, PostureRequirement,
        Record, Service, ServicePolicy, Session, TypedLookup, builtin,
    },
    error::{Error, Result},
    posture::{
        Evidence, IdentityPosture, Posture, Response, SessionMfaState, Trigger,
        evaluation::{Verdict, evaluate},
    },
    store::{Store, Tx},
};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::harness::{fresh, shared, stores};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn demand(json: Json) -> PostureRequirement {
    let mut demand: PostureRequirement = serde_json::from_value(json).unwrap();
    demand.tidy();
    demand
}

fn response(json: Json) -> Response {
    serde_json::from_value(json).unwrap()
}

fn after(answers: &[Json]) -> Evidence {
    let mut endpoint = IdentityPosture::default();
    for answer in answers {
        endpoint.take(
            "session",
            response(answer.clone()),
            CalendarTime::at(NOW),
            256,
        );
    }
    Evidence {
        endpoint: Arc::new(endpoint),
        ..Evidence::none(CalendarTime::at(NOW))
    }
}

fn os(of: &str, version: &str) -> Json {
    json!({ "typeId": "OS", "id": "any", "type": of, "version": version })
}

fn process(id: &str, path: &str, is_running: bool, hash: &str, signers: &[&str]) -> Json {
    json!({ "typeId": "PROCESS", "id": id, "path": path, "isRunning": is_running, "hash": hash, "signerFingerprints": signers })
}

fn check(demand: &PostureRequirement, table: &[(bool, Vec<Json>)]) {
    for (passes, answers) in table {
        let verdict = evaluate(demand, "check", &after(answers));
        assert_eq!(
            verdict,
            Verdict {
                passes: *passes,
                timeout: -1,
                remaining: -1
            },
            "{demand:?} after {answers:?}"
        );
    }
}

#[test]
fn operating_systems_match_family_and_range() {
    let wanted = json!({ "typeId": "OS", "operatingSystems": [
        { "type": "Windows", "versions": [">=10.0.0"] },
        { "type": "Linux", "versions": [] },
    ]});
    check(
        &demand(wanted),
        &[
            (false, vec![]),
            (true, vec![os("windows", "10.0.19041")]),
            (true, vec![os("Windows", "10.0.1-beta")]),
            (false, vec![os("Windows", "10.0")]),
            (false, vec![os("Windows", "10.0.1.5")]),
            (true, vec![os("Linux", "rolling")]),
            (false, vec![os("macOS", "10.0.0")]),
            // An endpoint has one state of its operating system: the last report counts.
            (false, vec![os("Linux", "6.1.0"), os("BeOS", "5.0.0")]),
        ],
    );
}

#[test]
fn domains_and_addresses_ignore_case() {
    let domain = |text: &str| json!({ "typeId": "DOMAIN", "id": "x", "domain": text });
    let wanted = json!({ "typeId": "DOMAIN", "domains": ["Corp.Example", "lab"] });
    check(
        &demand(wanted),
        &[
            (false, vec![]),
            (true, vec![domain("corp.EXAMPLE")]),
            (false, vec![domain("corp")]),
            (false, vec![domain("")]),
        ],
    );
    let addresses = |list: &[&str]| json!({ "typeId": "MAC", "id": "x", "macAddresses": list });
    let wanted =
        json!({ "typeId": "MAC", "macAddresses": ["00:1B:44:11:3A:B7", "no digits: xyz"] });
    check(
        &demand(wanted),
        &[
            (true, vec![addresses(&["ff", "001b.4411.3ab7"])]),
            (false, vec![addresses(&["ff"])]),
            (false, vec![addresses(&[])]),
        ],
    );
    // A text without hexadecimal digits is not an address, neither in the check nor in the report.
    check(
        &demand(json!({ "typeId": "MAC", "macAddresses": ["zz"] })),
        &[(false, vec![addresses(&["zz", ""])])],
    );
}

#[test]
fn process_checks_compare_hash_and_signer() {
    let wanted = json!({ "typeId": "PROCESS", "process":
        { "osType": "Linux", "path": "/bin/guard", "hashes": ["AB:12", "cd34"], "signerFingerprint": "EE:FF" } });
    check(
        &demand(wanted),
        &[
            (false, vec![]),
            (
                true,
                vec![process(
                    "check",
                    "/bin/guard",
                    true,
                    "AB12",
                    &["00", "eeff"],
                )],
            ),
            (
                true,
                vec![process("check", "/elsewhere", true, "cd-34", &["EE FF"])],
            ),
            (
                false,
                vec![process("other", "/bin/guard", true, "ab12", &["eeff"])],
            ),
            (
                false,
                vec![process("check", "/bin/guard", false, "ab12", &["eeff"])],
            ),
            (
                false,
                vec![process("check", "/bin/guard", true, "ab13", &["eeff"])],
            ),
            (
                false,
                vec![process("check", "/bin/guard", true, "ab12", &[])],
            ),
            (
                false,
                vec![
                    process("check", "/bin/guard", true, "ab12", &["eeff"]),
                    process("check", "", false, "", &[]),
                ],
            ),
        ],
    );
    let running =
        json!({ "typeId": "PROCESS", "process": { "osType": "Linux", "path": "/bin/guard" } });
    check(
        &demand(running),
        &[(true, vec![process("check", "", true, "", &[])])],
    );
    let absurd = json!({ "typeId": "PROCESS", "process": { "osType": "Linux", "path": "/bin/guard", "hashes": ["zz"] } });
    check(
        &demand(absurd),
        &[(false, vec![process("check", "", true, "", &[])])],
    );
}

#[test]
fn processes_are_told_by_path() {
    let wanted = |semantic: &str| {
        demand(
            json!({ "typeId": "PROCESS_MULTI", "semantic": semantic, "processes": [
                { "osType": "Linux", "path": "/a", "hashes": ["AB"], "signerFingerprints": ["01", "02"] },
                { "osType": "Linux", "path": "/b" },
            ]}),
        )
    };
    let (a, b) = (
        process("x", "/a", true, "ab", &["02"]),
        process("y", "/b", true, "", &[]),
    );
    check(
        &wanted("AllOf"),
        &[
            (true, vec![a.clone(), b.clone()]),
            (false, vec![a.clone()]),
            (false, vec![a.clone(), process("y", "/B", true, "", &[])]),
            (
                false,
                vec![a.clone(), b.clone(), process("x", "/a", true, "", &["02"])],
            ),
        ],
    );
    check(
        &wanted("AnyOf"),
        &[
            (true, vec![b.clone()]),
            (true, vec![a.clone()]),
            (false, vec![process("x", "/a", true, "ab", &["03"])]),
            (false, vec![]),
        ],
    );
}

fn code(timeout: i64, wake: bool, unlock: bool) -> PostureRequirement {
    demand(
        json!({ "typeId": "MFA", "timeoutSeconds": timeout, "promptOnWake": wake, "promptOnUnlock": unlock }),
    )
}

/// Evidence of events this many seconds ago.
fn present(passed: Option<i64>, woken: Option<i64>, unlocked: Option<i64>) -> Evidence {
    let ago = |seconds: Option<i64>| {
        seconds.map(|seconds| CalendarTime::at(NOW.minus(Duration::from_secs(seconds as u64))))
    };
    let mfa_state = SessionMfaState {
        passed_at: ago(passed),
        woken_at: ago(woken),
        unlocked_at: ago(unlocked),
    };
    Evidence {
        mfa_state,
        ..Evidence::none(CalendarTime::at(NOW))
    }
}

#[test]
fn codes_count_until_grace_ends() {
    let cases = [
        (
            code(0, false, false),
            present(None, None, None),
            (false, -1),
        ),
        (
            code(0, true, true),
            present(Some(1_000_000), None, None),
            (true, -1),
        ),
        (
            code(600, false, false),
            present(None, None, None),
            (false, 0),
        ),
        (
            code(600, false, false),
            present(Some(599), None, None),
            (true, 1),
        ),
        (
            code(600, false, false),
            present(Some(601), None, None),
            (false, 0),
        ),
        (
            code(600, false, false),
            present(Some(10), Some(5), Some(5)),
            (true, 590),
        ),
        (
            code(600, true, false),
            present(Some(10), Some(5), None),
            (true, 295),
        ),
        (
            code(600, true, false),
            present(Some(500), Some(5), None),
            (true, 100),
        ),
        (
            code(600, true, false),
            present(Some(500), Some(299), None),
            (true, 1),
        ),
        (
            code(600, true, false),
            present(Some(500), Some(300), None),
            (false, 0),
        ),
        (
            code(600, true, false),
            present(Some(500), Some(501), None),
            (true, 100),
        ),
        (
            code(600, false, true),
            present(Some(500), Some(300), Some(400)),
            (false, 0),
        ),
        (
            code(-1, false, true),
            present(Some(500), None, Some(400)),
            (false, -1),
        ),
    ];
    for (demand, evidence, (passes, remaining)) in cases {
        let verdict = evaluate(&demand, "check", &evidence);
        assert_eq!(
            (verdict.passes, verdict.remaining),
            (passes, remaining),
            "{demand:?} {evidence:?}"
        );
    }
}

#[test]
fn old_clients_see_no_timeout() {
    let wanted =
        demand(json!({ "typeId": "MFA", "timeoutSeconds": 600, "ignoreLegacyEndpoints": true }));
    let sdk = |of: &str, version: &str| {
        serde_json::from_value(json!({ "type": of, "version": version })).unwrap()
    };
    let remaining = |evidence: Evidence| evaluate(&wanted, "check", &evidence).remaining;
    let passed = present(Some(100), None, None);
    assert_eq!(remaining(passed.clone()), -1);
    assert_eq!(
        remaining(passed.clone().seen_by(&sdk("ziti-sdk-c", "v0.25.0"))),
        500
    );
    assert_eq!(
        remaining(passed.clone().seen_by(&sdk("ziti-sdk-c", "1.2.3"))),
        500
    );
    assert_eq!(
        remaining(passed.clone().seen_by(&sdk("ziti-sdk-c", "0.24.9"))),
        -1
    );
    assert_eq!(
        remaining(passed.seen_by(&sdk("ziti-sdk-golang", "1.0.0"))),
        -1
    );
    // The answer says that such a code never expires, but old clients are still judged by the
    // timeout.
    assert!(!evaluate(&wanted, "check", &present(Some(700), None, None)).passes);
}

proptest! {
    /// A check passes exactly if time remains.
    #[test]
    fn remaining_times_are_correct(
        timeout in 1i64..2000, wake: bool, unlock: bool,
        passed in prop::option::of(0i64..2000), woken in prop::option::of(0i64..2000), unlocked in prop::option::of(0i64..2000),
    ) {
        let mut evidence = present(passed, woken, unlocked);
        evidence.knows_timeouts = true;
        let verdict = evaluate(&code(timeout, wake, unlock), "check", &evidence);
        // In the second in which the time runs out, both results are right.
        let is_last = passed == Some(timeout);
        prop_assert!(is_last || verdict.passes == (verdict.remaining > 0), "{verdict:?}");
    }
}

#[test]
fn an_endpoint_cannot_fill_the_memory() {
    let mut endpoint = IdentityPosture::default();
    for n in 0..10_000 {
        endpoint.take(
            "session",
            response(process(
                &format!("c{n}"),
                &format!("/bin/{n}"),
                true,
                "",
                &[],
            )),
            CalendarTime::at(NOW),
            300,
        );
    }
    assert_eq!(endpoint.processes.len(), 300);
    assert!(endpoint.process_for("c9999").is_some() && endpoint.process_at("/bin/9999").is_some());
    assert!(endpoint.process_for("c0").is_none() && endpoint.process_at("/bin/0").is_none());
    let long = "x".repeat(5000);
    assert!(
        response(json!({ "typeId": "DOMAIN", "id": "x", "domain": long }))
            .check(4999)
            .is_err()
    );
    assert!(
        response(json!({ "typeId": "DOMAIN", "id": "x", "domain": long }))
            .check(5000)
            .is_ok()
    );
    assert!(
        response(json!({ "typeId": "MAC", "id": "x", "macAddresses": vec!["00"; 300] }))
            .check(5000)
            .is_err()
    );
    assert!(
        response(json!({ "typeId": "MAC", "id": "x", "macAddresses": ["00".repeat(200)] }))
            .check(5000)
            .is_err()
    );
    assert!(
        response(process("x", "/bin/x", true, "", &["00"; 33]))
            .check(5000)
            .is_err()
    );
    assert!(
        response(process("x", "/bin/x", true, &"00".repeat(200), &[]))
            .check(5000)
            .is_err()
    );
    assert!(
        response(process(
            "x",
            "/bin/x",
            true,
            &"00".repeat(64),
            &["00:11"; 32]
        ))
        .check(5000)
        .is_ok()
    );
}

struct TestServer {
    store: Store,
    posture: Posture,
    triggers: Arc<Mutex<Vec<Trigger>>>,
    clock: Clock,
    _folder: TempDir,
}

fn identity() -> Id<Identity> {
    Id::from_text("ann")
}

fn session() -> Id<ApiSession> {
    Id::from_text("session")
}

fn server() -> TestServer {
    let folder = TempDir::new().unwrap();
    let opened = stores::of(KINDS).open(&folder.path().join("data"));
    let access = Access::following(&opened, Clock::system()).unwrap();
    let clock = Clock::manual(NOW);
    let triggers = Arc::<Mutex<Vec<Trigger>>>::default();
    let received = triggers.clone();
    let posture = Posture::following(
        &opened,
        access,
        clock.clone(),
        Config::default().posture,
        move |trigger| received.lock().unwrap().push(trigger),
    )
    .unwrap();
    let store = opened.start().unwrap();
    let opened = ApiSession {
        token: "7b1c6f3e-0000-4000-8000-000000000000".into(),
        identity_id: identity(),
        authenticator_id: "internal".into(),
        config_types: Vec::new(),
        ip_address: String::new(),
        is_mfa_required: false,
        is_mfa_complete: false,
        last_activity_at: NOW,
    };
    store
        .write_blocking(move |tx| {
            tx.insert(builtin::auth_policy(NOW))?;
            tx.insert(Record::new(identity(), NOW, Identity::named("ann")))?;
            tx.insert(Record::new(session(), NOW, opened))
        })
        .unwrap();
    TestServer {
        store,
        posture,
        triggers,
        clock,
        _folder: folder,
    }
}

impl TestServer {
    /// Records that a one-time code was accepted in the session.
    fn pass(&self) {
        let now = self.clock.now();
        let pass = move |tx: &Tx<'_>| {
            let mut session = tx.get(&session())?;
            session.state.passed_at = Some(now);
            tx.put(session)
        };
        self.store.write_blocking(pass).unwrap();
    }

    fn answer(&self) {
        let answers = vec![
            response(os("Linux", "6.1.0")),
            response(json!({ "typeId": "ENDPOINT_STATE", "id": "x", "woken": true })),
        ];
        self.posture.take(&identity(), &session(), answers).unwrap();
    }
}

#[test]
fn what_goes_is_forgotten() {
    let server = server();
    server.answer();
    server.pass();
    let known = server.posture.evidence("ann", Some("session"));
    assert!(
        known.endpoint.os.is_some()
            && known.mfa_state.woken_at.is_some()
            && known.mfa_state.passed_at.is_some()
    );
    server
        .store
        .write_blocking(|tx| tx.delete(&session()))
        .unwrap();
    let endpoint = server.posture.endpoint("ann");
    assert!(endpoint.os.is_some() && endpoint.sessions.is_empty());
    server
        .store
        .write_blocking(|tx| tx.delete(&identity()))
        .unwrap();
    assert!(server.posture.endpoint("ann").os.is_none());
}

#[test]
fn code_age_ignores_clock_changes() {
    let server = server();
    server.pass();
    let passes = || {
        evaluate(
            &code(600, false, false),
            "check",
            &server.posture.evidence("ann", Some("session")),
        )
        .passes
    };
    for put in [NOW.plus_minutes(10_000), NOW.plus_minutes(-10_000)] {
        server.clock.set(put);
        assert!(passes());
    }
    server.clock.advance(Duration::from_secs(601));
    assert!(!passes());
    server.pass();
    let shown = server
        .posture
        .evidence("ann", Some("session"))
        .mfa_state
        .passed_at
        .unwrap()
        .shown;
    assert_eq!(
        shown,
        server.clock.now(),
        "the shown time follows the clock as it was set"
    );
}

#[test]
fn late_responses_are_dropped() {
    let server = server();
    server
        .store
        .write_blocking(|tx| tx.delete(&session()))
        .unwrap();
    server.answer();
    assert!(server.posture.endpoint("ann").sessions.is_empty());
    server
        .store
        .write_blocking(|tx| tx.delete(&identity()))
        .unwrap();
    server.answer();
    assert!(server.posture.endpoint("ann").os.is_none());
}

#[test]
fn codes_go_with_their_factor() {
    let server = server();
    server.pass();
    let factor = Mfa {
        identity_id: identity(),
        sealed: Vec::new(),
        is_verified: true,
    };
    let id = Id::<Mfa>::from_text("factor");
    let record = Record::new(id.clone(), NOW, factor);
    server
        .store
        .write_blocking(move |tx| tx.insert(record))
        .unwrap();
    assert!(
        server
            .posture
            .evidence("ann", Some("session"))
            .mfa_state
            .passed_at
            .is_some()
    );
    let of_ann = [Trigger::Identity("ann".into())];
    assert_eq!(
        std::mem::take(&mut *server.triggers.lock().unwrap()),
        of_ann,
        "the time in which the code counts begins"
    );
    server
        .store
        .write_blocking(move |tx| tx.delete(&id))
        .unwrap();
    assert!(
        server
            .posture
            .evidence("ann", Some("session"))
            .mfa_state
            .passed_at
            .is_none()
    );
    assert_eq!(
        *server.triggers.lock().unwrap(),
        of_ann,
        "its sessions are reviewed again"
    );
}

fn written<E: Entity>(id: &str, spec: Json) -> Record<E> {
    Record::new(
        Id::from_text(id),
        NOW,
        serde_json::from_value(spec).unwrap(),
    )
}

/// Ann's session on the service `db`.
fn dialing(id: &str) -> Record<Session> {
    let session = Session {
        token: id.into(),
        api_session_id: session(),
        identity_id: identity(),
        service_id: Id::from_text("db"),
        policy_type: PolicyType::Dial,
        service_policies: Vec::new(),
    };
    Record::new(Id::from_text(id), NOW, session)
}

#[test]
fn new_sessions_trigger_reviews() {
    let server = server();
    let triggers = |work: fn(&Tx<'_>) -> Result<()>| {
        server.triggers.lock().unwrap().clear();
        server.store.write_blocking(work).unwrap();
        server.triggers.lock().unwrap().clone()
    };
    let of = |id: &str| Trigger::Session(id.into());
    server
        .store
        .write_blocking(|tx| {
            tx.insert(written::<Service>(
                "db",
                json!({ "name": "db", "encryptionRequired": false }),
            ))
        })
        .unwrap();
    assert_eq!(triggers(|tx| tx.insert(dialing("before"))), [of("before")]);
    server
        .store
        .write_blocking(|tx| tx.delete(&Id::<Session>::from_text("before")))
        .unwrap();

    let allow = |name: &str, checks: &[&str]| {
        let roles = json!({ "identityRoles": ["@ann"], "serviceRoles": ["@db"], "postureCheckRoles": checks });
        let mut grant = json!({ "name": name, "type": "Dial", "semantic": "AnyOf" });
        grant
            .as_object_mut()
            .unwrap()
            .extend(roles.as_object().unwrap().clone());
        let granted = written::<ServicePolicy>(name, grant);
        server
            .store
            .write_blocking(move |tx| tx.insert(granted))
            .unwrap();
    };
    allow("policy", &[]);
    assert_eq!(triggers(|tx| tx.insert(dialing("with it"))), []);
    // The right is taken away in the same transaction.
    let taken = triggers(|tx| {
        tx.delete(&Id::<Session>::from_text("with it"))?;
        tx.insert(dialing("too late"))?;
        tx.delete(&Id::<ServicePolicy>::from_text("policy"))
    });
    assert_eq!(taken, [of("too late"), Trigger::Everything]);

    let check = written::<PostureCheck>(
        "check",
        json!({ "name": "c", "typeId": "DOMAIN", "domains": ["corp"] }),
    );
    server.store.write_blocking(|tx| tx.insert(check)).unwrap();
    allow("asking", &["@check"]);
    let asked = triggers(|tx| {
        tx.delete(&Id::<Session>::from_text("too late"))?;
        tx.insert(dialing("with a check"))
    });
    assert_eq!(asked, [of("with a check")]);
    // One policy that grants the right is enough.
    allow("policy", &[]);
    let free = triggers(|tx| {
        tx.delete(&Id::<Session>::from_text("with a check"))?;
        tx.insert(dialing("without one"))
    });
    assert_eq!(free, []);
}

#[test]
fn session_state_comes_from_the_store() {
    let server = server();
    server
        .store
        .write_blocking(|tx| {
            tx.insert(written::<Service>(
                "db",
                json!({ "name": "db", "encryptionRequired": false }),
            ))
        })
        .unwrap();
    server
        .store
        .write_blocking(|tx| tx.insert(dialing("first")))
        .unwrap();
    let refused = server
        .store
        .write_blocking(|tx| tx.insert(dialing("second")))
        .unwrap_err();
    assert!(
        matches!(&refused, Error::Duplicate { field, .. } if field == "key"),
        "{refused}"
    );
    server
        .store
        .write_blocking(|tx| tx.delete(&session()))
        .unwrap();
    let refused = server
        .store
        .write_blocking(|tx| tx.insert(dialing("third")))
        .unwrap_err();
    assert!(
        matches!(&refused, Error::NotFound { field: Some(field), .. } if field == "apiSession"),
        "{refused}"
    );
}

/// A service that these users may dial while their endpoint is in the domain `corp`, and the id of
/// its check.
fn guarded(server: &crate::harness::TestServer, users: &[&str]) -> (String, String) {
    let service = server.service(&fresh("guarded"), json!({}));
    let check = within(server, "corp");
    open_within(server, users, &service, &check);
    (service, check)
}

/// Creates a check for endpoints in a domain.
fn within(server: &crate::harness::TestServer, domain: &str) -> String {
    let body = json!({ "typeId": "DOMAIN", "name": fresh("check"), "domains": [domain] });
    server.admin.post("/posture-checks", body).expect(201).id()
}

/// Creates a policy that lets users dial a service while a check passes.
fn open_within(server: &crate::harness::TestServer, users: &[&str], service: &str, check: &str) {
    let users: Vec<String> = users.iter().map(|id| format!("@{id}")).collect();
    let policy = json!({
        "name": fresh("policy"), "type": "Dial", "semantic": "AnyOf", "identityRoles": users,
        "serviceRoles": [format!("@{service}")], "postureCheckRoles": [format!("@{check}")]
    });
    server.admin.post("/service-policies", policy).expect(201);
}

fn is_in(domain: &str) -> Json {
    json!({ "typeId": "DOMAIN", "id": "any", "domain": domain })
}

/// Waits for an effect that follows a commit.
fn wait_for(what: &str, happened: impl Fn() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn endpoint_state_grants_and_revokes() {
    let server = shared();
    let ((ann_id, ann), (bob_id, bob)) = (
        server.user(&fresh("ann"), json!({})),
        server.user(&fresh("bob"), json!({})),
    );
    let (service, check) = guarded(server, &[&ann_id, &bob_id]);
    server.router_between(&ann_id, &service);
    let wanted = json!({ "serviceId": service });
    let refused = ann
        .post("/sessions", wanted.clone())
        .refused(409, "INVALID_POSTURE", "");
    let failing = refused.json["error"]["cause"]["data"]
        .as_object()
        .unwrap()
        .values()
        .next()
        .unwrap();
    assert_eq!(
        failing,
        &json!([{ "id": check, "typeId": "DOMAIN", "isPassing": false }])
    );
    let failures = |id: &str| {
        server
            .admin
            .get(&format!("/identities/{id}/failed-service-requests"))
            .expect(200)
    };
    assert_eq!(
        failures(&ann_id).data()[0]["policyFailures"][0]["checks"][0]["expectedValue"],
        json!(["corp"])
    );
    assert_eq!(failures(&bob_id).data(), &json!([]));

    let updated = || {
        ann.get("/current-api-session/service-updates")
            .expect(200)
            .data()["lastChangeAt"]
            .clone()
    };
    let before = updated();
    ann.post("/posture-response", is_in("corp")).expect(201);
    assert_ne!(
        updated(),
        before,
        "its clients are told to read their services again"
    );
    assert_eq!(
        ann.get(&format!("/services/{service}")).expect(200).data()["postureQueries"][0]["isPassing"],
        true
    );
    assert_eq!(
        bob.get(&format!("/services/{service}")).expect(200).data()["postureQueries"][0]["isPassing"],
        false
    );
    let session = ann.post("/sessions", wanted.clone()).expect(201).id();
    bob.post("/sessions", wanted)
        .refused(409, "INVALID_POSTURE", "");

    let open = || ann.get(&format!("/sessions/{session}")).status == 200;
    ann.post(
        "/posture-response-bulk",
        json!([is_in("home"), is_in("corp")]),
    )
    .expect(200);
    assert!(open(), "answers that come together are judged together");
    ann.post(
        "/posture-response-bulk",
        json!([is_in("home"), { "typeId": "MAC", "id": "x" }]),
    )
    .refused(400, "COULD_NOT_VALIDATE", "macAddresses");
    assert!(
        open(),
        "a list with one wrong response is rejected as a whole"
    );
    ann.post("/posture-response", is_in("home")).expect(201);
    assert!(!open());
}

#[test]
fn one_passing_policy_suffices() {
    // With the clock standing still no policy is removed from memory, and the policy that passes
    // comes last.
    let server = &crate::harness::TestServer::with_manual_clock();
    let (id, ann) = server.user(&fresh("ann"), json!({}));
    let service = server.service(&fresh("service"), json!({}));
    server.router_between(&id, &service);
    let (elsewhere, corp) = (within(server, "elsewhere"), within(server, "corp"));
    (0..40).for_each(|_| open_within(server, &[&id], &service, &elsewhere));
    open_within(server, &[&id], &service, &corp);
    let wanted = json!({ "serviceId": service });
    let refused = ann
        .post("/sessions", wanted.clone())
        .refused(409, "INVALID_POSTURE", "");
    assert_eq!(
        refused.json["error"]["cause"]["data"]
            .as_object()
            .unwrap()
            .len(),
        41,
        "each policy is named with what failed"
    );
    ann.post("/posture-response", is_in("corp")).expect(201);
    let session = ann.post("/sessions", wanted).expect(201).id();
    let is_open = || ann.get(&format!("/sessions/{session}")).status == 200;
    ann.post(
        "/posture-response-bulk",
        json!([is_in("home"), is_in("corp")]),
    )
    .expect(200);
    assert!(is_open());
    ann.post("/posture-response", is_in("home")).expect(201);
    assert!(!is_open());
}

#[test]
fn new_sessions_use_current_checks() {
    let server = shared();
    let (id, ann) = server.user(&fresh("ann"), json!({}));
    let service = server.service(&fresh("service"), json!({}));
    server.router_between(&id, &service);
    let check = within(server, "elsewhere");
    open_within(server, &[&id], &service, &check);
    ann.post("/posture-response", is_in("corp")).expect(201);
    let set_domain = |domain: &str| {
        let demand = json!({ "typeId": "DOMAIN", "domains": [domain] });
        server
            .admin
            .patch(&format!("/posture-checks/{check}"), demand)
            .expect(200);
    };
    let open = || ann.post("/sessions", json!({ "serviceId": service }));
    open().refused(409, "INVALID_POSTURE", "");
    set_domain("corp");
    let session = open().expect(201).id();
    ann.delete(&format!("/sessions/{session}")).expect(200);
    set_domain("elsewhere");
    open().refused(409, "INVALID_POSTURE", "");
    server
        .admin
        .delete(&format!("/posture-checks/{check}"))
        .expect(200);
    open().expect(201);
}

#[test]
fn sessions_end_with_their_right() {
    let server = shared();
    let (id, boss) = server.user(&fresh("boss"), json!({ "isAdmin": true }));
    let (service, check) = guarded(server, &[&id]);
    server.router_between(&id, &service);
    let bind = server.service_policy("Bind", &[&format!("@{id}")], &[&format!("@{service}")]);
    boss.post("/posture-response", is_in("corp")).expect(201);
    let opened = |of: &str| {
        boss.post("/sessions", json!({ "serviceId": service, "type": of }))
            .expect(201)
            .id()
    };
    let (dial, host) = (opened("Dial"), opened("Bind"));
    let is_open = |session: &str| boss.get(&format!("/sessions/{session}")).status == 200;

    server
        .admin
        .patch(
            &format!("/posture-checks/{check}"),
            json!({ "typeId": "DOMAIN", "domains": ["other"] }),
        )
        .expect(200);
    wait_for("the check asks for another domain", || !is_open(&dial));
    assert!(is_open(&host), "nothing is asked of those who host");
    server
        .admin
        .patch(
            &format!("/posture-checks/{check}"),
            json!({ "typeId": "MAC", "macAddresses": ["00"] }),
        )
        .refused(400, "COULD_NOT_VALIDATE", "typeId");
    server
        .admin
        .delete(&format!("/service-policies/{bind}"))
        .expect(200);
    wait_for("an administrator's right is gone like anybody's", || {
        !is_open(&host)
    });
}

#[test]
fn failed_requests_take_bounded_memory() {
    let server = shared();
    let (id, ann) = server.user(&fresh("ann"), json!({}));
    let service = server.service(&fresh("service"), json!({}));
    for _ in 0..3 {
        let body =
            json!({ "typeId": "MAC", "name": fresh("check"), "macAddresses": ["0203040506ff"] });
        let check = server.admin.post("/posture-checks", body).expect(201).id();
        open_within(server, &[&id], &service, &check);
    }
    let kept = || {
        server
            .admin
            .get(&format!("/identities/{id}/failed-service-requests"))
            .expect(200)
    };
    let ask = || {
        ann.post("/sessions", json!({ "serviceId": service }))
            .refused(409, "INVALID_POSTURE", "")
    };
    ask();
    assert_eq!(
        kept().data()[0]["policyFailures"].as_array().unwrap().len(),
        3
    );
    let addresses: Vec<String> = (0..256).map(|number| format!("{number:0>250}")).collect();
    ann.post(
        "/posture-response",
        json!({ "typeId": "MAC", "id": "any", "macAddresses": addresses }),
    )
    .expect(201);
    for _ in 0..30 {
        ask();
    }
    let kept = kept();
    let of_last = &kept.data().as_array().unwrap().last().unwrap()["policyFailures"];
    assert!(
        kept.text.len() < 300 << 10 && kept.text.len() > 100 << 10,
        "{} bytes",
        kept.text.len()
    );
    assert!(
        (1..3).contains(&of_last.as_array().unwrap().len()),
        "policies beyond the limit are left out"
    );
}
