//! What endpoints have reported survives a restart, because clients report a value only when it
//! changes; it does not survive a restore, which they do not notice.

mod restarts;
mod stored;

use std::{fs, path::Path, time::Duration};

use maintenance::{offline, restore};
use model::{
    clock::{Clock, Timestamp},
    config::{Config, Span},
};
use store::Progress;

use serde_json::{Value as Json, json};

use pki::Passphrase;
use tempfile::TempDir;

use crate::{
    explain::verify,
    harness::{Base, Caller, TestServer, encoded, fresh},
    integrity, metrics,
};

const DIGITS: &str = "ab12";

/// A client like libziti 1.18: it reports each value once as long as its process runs, also to a
/// controller that was started again.
struct Client {
    name: String,
    id: String,
    caller: Caller,
    has_reported: bool,
}

impl Client {
    fn new(server: &TestServer) -> Self {
        let name = fresh("reporter");
        let (id, caller) = server.user(&name, json!({}));
        Self {
            name,
            id,
            caller,
            has_reported: false,
        }
    }

    /// Connects to a controller that was started again, with the same session.
    fn meets(&mut self, server: &TestServer) {
        self.caller = server
            .anonymous()
            .with_token(self.caller.token.clone().unwrap());
        self.caller.get("/version").expect(200);
        self.report_changes(&[]);
    }

    /// Reports everything that was not reported before.
    fn report_changes(&mut self, checks: &[Guarded]) {
        if std::mem::replace(&mut self.has_reported, true) {
            return;
        }
        let check = |of: &str| {
            checks
                .iter()
                .find(|guarded| guarded.of == of)
                .map_or("none", |guarded| guarded.check.as_str())
        };
        let process = |of: &str, path: &str| json!({ "typeId": "PROCESS", "id": check(of), "path": path, "isRunning": true, "hash": DIGITS, "signerFingerprints": [DIGITS] });
        let reports = json!([
            { "typeId": "OS", "id": check("OS"), "type": "Linux", "version": "6.1.0", "build": "7" },
            { "typeId": "MAC", "id": check("MAC"), "macAddresses": ["00:1b:44:11:3a:b7"] },
            { "typeId": "DOMAIN", "id": check("DOMAIN"), "domain": "reported-domain.example.org" },
            process("PROCESS", "/bin/guard"),
            process("PROCESS_MULTI", "/bin/one"),
            process("PROCESS_MULTI", "/bin/other"),
        ]);
        self.caller
            .post("/posture-response-bulk", reports)
            .expect(200);
    }

    fn restarted(&mut self, checks: &[Guarded]) {
        self.has_reported = false;
        self.report_changes(checks);
    }

    fn enter_first_code(&self) {
        self.caller
            .post("/current-identity/mfa", Json::Null)
            .expect(201);
        verify(&self.caller);
    }

    fn wakes(&self) {
        self.caller
            .post(
                "/posture-response",
                json!({ "typeId": "ENDPOINT_STATE", "id": "any", "woken": true }),
            )
            .expect(201);
    }

    /// Whether it may dial a service now: a session is opened for a new request, and the service
    /// passes.
    fn dials(&self, guarded: &Guarded) -> bool {
        let opened = self
            .caller
            .post("/sessions", json!({ "serviceId": guarded.service }));
        assert!(
            opened.status == 201 || opened.status == 200 || opened.status == 409,
            "{}",
            opened.text
        );
        let queries = self
            .caller
            .get(&format!("/services/{}", guarded.service))
            .expect(200);
        let passes = queries.data()["postureQueries"][0]["isPassing"] == true;
        assert_eq!(passes, opened.status != 409, "{}", queries.text);
        passes
    }
}

/// A service that a client may dial while a posture check passes.
struct Guarded {
    of: &'static str,
    check: String,
    service: String,
}

fn guarded(server: &TestServer, client: &Client, of: &'static str, demand: Json) -> Guarded {
    let mut body = json!({ "name": fresh("check"), "typeId": of });
    body.as_object_mut()
        .unwrap()
        .extend(demand.as_object().unwrap().clone());
    let check = server.admin.post("/posture-checks", body).expect(201).id();
    let service = server.service(&fresh("guarded"), json!({}));
    let policy = json!({
        "name": fresh("policy"), "type": "Dial", "semantic": "AnyOf", "identityRoles": [format!("@{}", client.id)],
        "serviceRoles": [format!("@{service}")], "postureCheckRoles": [format!("@{check}")]
    });
    server.admin.post("/service-policies", policy).expect(201);
    server.router_between(&client.id, &service);
    Guarded { of, check, service }
}

/// A service for every kind of check.
fn every_kind(server: &TestServer, client: &Client) -> Vec<Guarded> {
    let process = |path: &str| json!({ "osType": "Linux", "path": path, "hashes": [DIGITS] });
    let both = json!([process("/bin/one"), process("/bin/other")]);
    let mut single = process("/bin/guard");
    single["signerFingerprint"] = json!(DIGITS);
    let of = |of, demand| guarded(server, client, of, demand);
    vec![
        of(
            "OS",
            json!({ "operatingSystems": [{ "type": "Linux", "versions": [">=6.0.0"] }] }),
        ),
        of("MAC", json!({ "macAddresses": ["001b44113ab7"] })),
        of(
            "DOMAIN",
            json!({ "domains": ["reported-domain.example.org"] }),
        ),
        of("PROCESS", json!({ "process": single })),
        of(
            "PROCESS_MULTI",
            json!({ "semantic": "AllOf", "processes": both }),
        ),
        of("MFA", json!({})),
    ]
}

fn start() -> TestServer {
    TestServer::with(Clock::manual(Clock::system().now()), |config| {
        config.sessions.timeout = Span::minutes(365 * 24 * 60)
    })
}

/// The same settings, for a start on the file of another controller.
fn adapt(config: &mut Config) {
    config.sessions.timeout = Span::minutes(365 * 24 * 60);
}

fn posture_data(server: &TestServer, client: &Client) -> Json {
    server
        .admin
        .get(&format!("/identities/{}/posture-data", client.id))
        .expect(200)
        .data()
        .clone()
}
