//! What clients cause as often as they like never displaces a change from the history, and both
//! classes of rows are one history that cannot be altered unseen.

mod bounds;
mod classes;

use std::{collections::BTreeMap, path::Path, time::Duration};

use model::{
    clock::{Clock, Timestamp},
    config::{Config, Span},
    entity::{
        Action, ApiSession, Author, HistoryClass, HistoryRow, HistoryWords, Id, Identity, Record,
        Service, builtin,
    },
};
use overkeep::testing::admin_socket::{Command, Outcome, socket};
use policy::change::KINDS;
use store::{HistoryAnchor, Options, Progress, Retention, Store, Tx};

use proptest::prelude::*;

use redb::{Database, ReadableTable, TableDefinition};

use serde_json::{Value as Json, json};

use query::{Query, Window};
use tempfile::TempDir;

use crate::{
    harness::{Base, Caller, Key, PASSWORD, TestServer, fresh, stores},
    integrity, metrics,
};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

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

const fn everything() -> Retention {
    Retention {
        since: Timestamp::from_millis(0),
        bytes: u64::MAX,
    }
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
