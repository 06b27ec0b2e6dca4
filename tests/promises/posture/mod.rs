//! An endpoint passes a posture check exactly when its reported state meets the check, and nothing
//! is kept of records that do not exist.

mod checks;
mod reports;
mod rights;

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use model::{
    clock::{CalendarTime, Clock, Timestamp},
    config::Config,
    entity::{
        ApiSession, Entity, Id, Identity, Mfa, PolicyType, PostureCheck, PostureRequirement,
        Record, Service, ServicePolicy, Session, TypedLookup, builtin,
    },
    error::{Error, Result},
};
use policy::{
    access::Access,
    change::KINDS,
    posture::{
        Evidence, IdentityPosture, Posture, Response, SessionMfaState, Trigger,
        evaluation::{Verdict, evaluate},
    },
};
use store::{Store, Tx};

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

fn code(timeout: i64, wake: bool, unlock: bool) -> PostureRequirement {
    demand(
        json!({ "typeId": "MFA", "timeoutSeconds": timeout, "promptOnWake": wake, "promptOnUnlock": unlock }),
    )
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

/// Creates a policy that lets users dial a service while a check passes.
fn open_within(server: &crate::harness::TestServer, users: &[&str], service: &str, check: &str) {
    let users: Vec<String> = users.iter().map(|id| format!("@{id}")).collect();
    let policy = json!({
        "name": fresh("policy"), "type": "Dial", "semantic": "AnyOf", "identityRoles": users,
        "serviceRoles": [format!("@{service}")], "postureCheckRoles": [format!("@{check}")]
    });
    server.admin.post("/service-policies", policy).expect(201);
}
