//! No certificate of a router contains a name of the controller.

use model::clock::Clock;
use serde_json::{Value as Json, json};

use crate::harness::{Answer, Key, TestServer, fresh};

const ADVERTISED: [&str; 5] = [
    "127.0.0.1:1280",
    "overlay.example.org:1280",
    "192.0.2.7:1280",
    "[2001:db8::1]:1280",
    "localhost:1280",
];
/// Names of the controller as clients may compare them, and wildcards that match one.
const CONTROLLERS: [&str; 12] = [
    "*",
    "overlay.example.org",
    "OVERLAY.Example.org.",
    "*.example.org",
    "over*.example.org",
    "*lay.example.org",
    "o*r*y.example.org",
    "overlay.*.org",
    "*.*.*",
    "192.0.2.7",
    "::ffff:192.0.2.7",
    "2001:db8::1",
];
const OTHERS: [&str; 9] = [
    "router.example.org",
    "*.routers.example.org",
    "*.org",
    "over*lays.example.org",
    "example.org",
    "192.0.2.8",
    "127.0.0.1",
    "::1",
    "localhost",
];

fn server(allowed: bool) -> TestServer {
    TestServer::with(Clock::system(), |config| {
        config.advertise = ADVERTISED.map(|address| address.parse().unwrap()).to_vec();
        config.enrollment.routers_may_name_controller = allowed;
    })
}

/// A router to be enrolled: its id and its enrollment path.
fn router(server: &TestServer, kind: &str) -> (String, String) {
    let id = server
        .admin
        .post(&format!("/{kind}"), json!({ "name": fresh("router") }))
        .expect(201)
        .id();
    let shown = server.admin.get(&format!("/{kind}/{id}")).expect(200);
    let token = shown.data()["enrollmentToken"].as_str().unwrap();
    let method = if kind == "edge-routers" {
        "erott"
    } else {
        "trott"
    };
    (id, format!("/enroll?method={method}&token={token}"))
}

/// The certificate requests of a router with these names for the client and the server certificate.
fn requests(key: &Key, id: &str, client: &[&str], server: &[&str]) -> Json {
    json!({ "certCsr": key.request_with(id, client), "serverCertCsr": key.request_with(id, server) })
}

#[track_caller]
fn refused(answer: Answer, field: &str) {
    let answer = answer.refused(400, "COULD_NOT_VALIDATE", field);
    assert!(
        answer
            .text
            .contains("enrollment.routers-may-name-controller"),
        "the error does not name the key that allows it: {}",
        answer.text
    );
}

#[test]
fn router_certificates_exclude_controller_names() {
    let server = server(false);
    for kind in ["edge-routers", "transit-routers"] {
        let (key, (id, path)) = (Key::new(), router(&server, kind));
        for name in CONTROLLERS {
            refused(
                server.anonymous().post(
                    &path,
                    requests(&key, &id, &[], &["router.example.org", name]),
                ),
                "serverCertCsr",
            );
            refused(
                server
                    .anonymous()
                    .post(&path, requests(&key, &id, &[name], &[])),
                "certCsr",
            );
        }
        let called = json!({ "certCsr": key.request_as(&id), "serverCertCsr": key.request_as("overlay.example.org") });
        refused(server.anonymous().post(&path, called), "serverCertCsr");
        let issued = server
            .anonymous()
            .post(&path, requests(&key, &id, &OTHERS, &OTHERS))
            .expect(200);

        // The same names in a renewal.
        let router = server.with_certificate(issued.data()["cert"].as_str().unwrap(), &key);
        for name in CONTROLLERS {
            refused(
                router.post("/enroll/extend/router", requests(&key, &id, &[], &[name])),
                "serverCertCsr",
            );
            refused(
                router.post("/enroll/extend/router", requests(&key, &id, &[name], &[])),
                "certCsr",
            );
        }
        router
            .post(
                "/enroll/extend/router",
                requests(&key, &id, &OTHERS, &OTHERS),
            )
            .expect(200);
    }
}

#[test]
fn shared_names_need_permission() {
    let server = server(true);
    let (key, (id, path)) = (Key::new(), router(&server, "edge-routers"));
    let both = ["overlay.example.org", "192.0.2.7"];
    let issued = server
        .anonymous()
        .post(&path, requests(&key, &id, &both, &both))
        .expect(200);
    let router = server.with_certificate(issued.data()["cert"].as_str().unwrap(), &key);
    router
        .post("/enroll/extend/router", requests(&key, &id, &both, &both))
        .expect(200);
}
