//! The endpoint of a network: what `enroll`, `forward` and `host` promise, over the built-in
//! router.

mod commands;
mod enrollment;
mod hosting;
mod sessions;
mod traffic;

use std::time::Duration;

use client::{
    Binding, Hosted, IdentityFile, NewIdentityFile, Offer, Service, Session, SessionError, Target,
    enrollment::{Credential, EnrollmentToken, enroll},
    host,
};
use pki::KeyKind;
use serde_json::json;

use crate::harness::{TestServer, fresh};

/// The text of an identity's one-time token.
fn token(server: &TestServer, identity: &str) -> String {
    let stored = server.admin.get(&format!("/identities/{identity}"));
    let stored = stored.expect(200);
    let token = stored.data()["enrollment"]["ott"]["jwt"].as_str();
    token.unwrap().to_owned()
}

/// The present time in unix seconds.
fn now(server: &TestServer) -> i64 {
    server.clock.now().seconds()
}

/// A new identity that enrolled with a one-time token: its id and file.
fn enrolled(server: &TestServer, name: &str) -> (String, IdentityFile) {
    let id = server.identity(&fresh(name), json!({ "enrollment": { "ott": true } }));
    let token = EnrollmentToken::read(&token(server, &id)).unwrap();
    let key = Credential::NewKey(KeyKind::P256);
    (id, enroll(&token, key, None, now(server)).unwrap())
}

/// Writes the file of an identity.
fn written(identity: &IdentityFile, path: &std::path::Path) {
    let place = NewIdentityFile::reserve(path).unwrap();
    place.write(identity).unwrap();
}

/// Two identities, of which the first may dial and the second may host a service.
struct Network {
    server: TestServer,
    dialer: IdentityFile,
    host: IdentityFile,
    dialer_id: String,
    host_id: String,
    service: String,
}

impl Network {
    fn new(is_encrypted: bool) -> Self {
        let server = TestServer::with_router();
        let (dialer_id, dialer) = enrolled(&server, "dialer");
        let (host_id, host) = enrolled(&server, "host");
        let service = fresh("service");
        let id = server.service(&service, json!({ "encryptionRequired": is_encrypted }));
        let at = |id: &str| format!("@{id}");
        server.service_policy("Dial", &[&at(&dialer_id)], &[&at(&id)]);
        server.service_policy("Bind", &[&at(&host_id)], &[&at(&id)]);
        Self {
            server,
            dialer,
            host,
            dialer_id,
            host_id,
            service,
        }
    }

    /// Ends every API session of an identity, as an administrator can.
    async fn end_sessions(&self, identity: &str) {
        let (admin, filter) = (
            self.server.admin.clone(),
            format!("identity=\"{identity}\""),
        );
        let ending = tokio::task::spawn_blocking(move || {
            let sessions = admin.list("/api-sessions", &filter, "").expect(200);
            assert!(!sessions.each("id").is_empty());
            for id in sessions.each("id") {
                admin.delete(&format!("/api-sessions/{id}")).expect(200);
            }
        });
        ending.await.unwrap();
    }

    async fn session(&self, of: &IdentityFile) -> (Session, Service) {
        let session = Session::log_in(of).await.unwrap();
        let service = session.service(&self.service).await.unwrap();
        (session, service)
    }
}

/// How often hosts ask for changes in these tests.
const POLL: Duration = Duration::from_millis(200);

/// Hosts a service at a router.
async fn bind(session: &Session, service: &Service) -> Result<Binding, SessionError> {
    let offer = Offer::new("a listener".to_owned());
    session.bind(service, &offer).await
}

/// Hosts a service with a local server, until the test ends.
fn lead(session: Session, service: &Service, target: Target) {
    let hosted = Hosted::Targets(vec![(service.name.clone(), target)]);
    tokio::spawn(host(session, hosted, POLL));
}
