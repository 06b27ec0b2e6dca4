//! Ending many sessions takes effect with the answer and delays nobody; a quota of sessions holds
//! under concurrent log-ins; and finding idle sessions costs nothing while there are none.

mod cascades;
mod quota;
mod sessions;

use std::{
    cell::Cell,
    path::Path,
    sync::{Arc, Barrier, LazyLock},
    thread,
    time::Duration,
};

use model::{
    clock::{Clock, Timestamp},
    config::{self, Config, Span},
    entity::{
        AnyRecord, ApiSession, Ca, Entity, Epoch, Id, Identity, Kind, Lookup, PolicyType, Record,
        RouterInfo, Service, Session, SessionCertificate, TypedLookup, api_session::State, builtin,
    },
    error::Result,
};
use overkeep::testing::controller::{self, Controller};
use policy::{authentication::Sessions, change::KINDS};
use store::{
    Cache, DeleteRule, DependencyRecorder, OpenStore, Progress, Read, Store, Tx, decode, encode,
};

use serde_json::json;

use pki::Certificate;
use tempfile::TempDir;

use crate::harness::{Authority, Base, Caller, PASSWORD, TestServer, stores, trusting};

/// More than one transaction deletes.
const MANY: usize = 300;

fn session(identity: &str, authenticator: &str, n: usize) -> ApiSession {
    ApiSession {
        token: token(identity, n),
        identity_id: Id::from_text(identity),
        authenticator_id: authenticator.into(),
        config_types: Vec::new(),
        ip_address: String::new(),
        is_mfa_required: false,
        is_mfa_complete: false,
        last_activity_at: Clock::system().now(),
    }
}

/// A certificate of sessions, and its fingerprint.
static SHOWN: LazyLock<(String, String)> = LazyLock::new(|| {
    let pem = Authority::new("shown").pem();
    let fingerprint = Certificate::first(&pem).unwrap().fingerprint();
    (pem, fingerprint)
});

fn certificate(session: &str, now: Timestamp) -> SessionCertificate {
    let (certificate, fingerprint) = SHOWN.clone();
    SessionCertificate {
        api_session_id: Id::from_text(session),
        subject: String::new(),
        fingerprint,
        certificate,
        valid_from: now,
        valid_to: now,
    }
}

/// A token of 36 characters.
fn token(identity: &str, n: usize) -> String {
    format!("{identity:->30.30}{n:06}")
}

/// The remaining API sessions, session certificates and sessions of a closed file, after a check
/// without findings.
fn left(data: &Path) -> (u64, u64, u64) {
    let store = stores::of(KINDS).start(data);
    assert_eq!(store.check(&Progress::default()).unwrap().findings, []);
    store
        .read(|tx| {
            Ok((
                tx.count::<ApiSession>()?,
                tx.count::<SessionCertificate>()?,
                tx.count::<Session>()?,
            ))
        })
        .unwrap()
}

/// Deletes everything that was ended, about `most` records at a time.
fn clear(store: &Store, most: usize) {
    while store.remove_deleted(most).unwrap() {}
}

/// An identity with very many sessions, and the credentials that these depend on.
struct Holder {
    id: String,
    authenticator: String,
    ca: Option<String>,
}

impl Holder {
    fn with_password(server: &TestServer, name: &str) -> Self {
        let id = server.identity(name, json!({}));
        server.give_password(&id, name);
        let held = server
            .admin
            .get(&format!("/identities/{id}/authenticators"))
            .expect(200);
        Self {
            id,
            authenticator: held.data()[0]["id"].as_str().unwrap().into(),
            ca: None,
        }
    }

    fn known_by_claim(server: &TestServer, name: &str) -> Self {
        let ca = server.add_ca(&Authority::new(name));
        Self {
            id: server.identity(name, json!({ "externalId": name })),
            authenticator: "internal".into(),
            ca: Some(ca),
        }
    }

    /// Opens sessions, each with a certificate and on a service of its own.
    fn open(&self, store: &Store) {
        let (id, authenticator, ca) =
            (self.id.clone(), self.authenticator.clone(), self.ca.clone());
        let open = move |tx: &Tx<'_>| {
            let service: Service =
                serde_json::from_value(json!({ "name": &id, "encryptionRequired": false }))
                    .unwrap();
            tx.insert(Record::new(
                Id::from_text(id.as_str()),
                Clock::system().now(),
                service,
            ))?;
            for n in 0..MANY {
                let now = Clock::system().now();
                let mut opened = Record::new(
                    Id::from_text(format!("{id}-{n:06}")),
                    now,
                    session(&id, &authenticator, n),
                );
                opened.state.ca_id = ca.clone().map(Id::<Ca>::from_text);
                tx.insert(opened)?;
                let shown = certificate(&format!("{id}-{n:06}"), now);
                tx.insert(Record::new(
                    Id::from_text(format!("{id}-{n:06}")),
                    now,
                    shown,
                ))?;
                let dialing = Session {
                    token: token(&id, n),
                    api_session_id: Id::from_text(format!("{id}-{n:06}")),
                    identity_id: Id::from_text(id.as_str()),
                    service_id: Id::from_text(id.as_str()),
                    policy_type: PolicyType::Dial,
                    service_policies: Vec::new(),
                };
                tx.insert(Record::new(
                    Id::from_text(format!("{id}-{n:06}")),
                    now,
                    dialing,
                ))?;
            }
            Ok(())
        };
        store.write_blocking(open).unwrap();
    }

    /// Callers with the first and the last session.
    fn callers(&self, caller: &Caller) -> [Caller; 2] {
        [0, MANY - 1].map(|n| caller.at(Base::Client).with_token(token(&self.id, n)))
    }

    fn assert_over(&self, admin: &Caller) {
        for caller in self.callers(admin) {
            caller
                .get("/current-api-session")
                .refused(401, "UNAUTHORIZED", "");
            caller
                .post("/sessions", json!({ "serviceId": "any" }))
                .refused(401, "UNAUTHORIZED", "");
        }
        assert_eq!(
            admin
                .list("/api-sessions", &format!("identity = \"{}\"", self.id), "")
                .expect(200)
                .total(),
            0
        );
        let one = format!("/api-sessions/{}-{:06}", self.id, MANY - 1);
        admin.get(&one).expect(404);
        admin.delete(&one).expect(404);
    }
}
