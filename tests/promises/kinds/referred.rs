//! Records that the samples refer to.

use serde_json::json;

use super::SAMPLES;
use crate::harness::{Authority, TestServer, fresh};

/// The certificate of an authority that does not exist, PEM.
pub(super) fn authority(name: &str) -> String {
    Authority::new(name).pem()
}

pub(super) fn config_type(server: &TestServer) -> String {
    server
        .admin
        .post("/config-types", json!({ "name": fresh("config-type") }))
        .expect(201)
        .id()
}

pub(super) fn config(server: &TestServer) -> String {
    let body = json!({ "name": fresh("config"), "configTypeId": config_type(server), "data": {} });
    server.admin.post("/configs", body).expect(201).id()
}

pub(super) fn service(server: &TestServer) -> String {
    server.service(&fresh("service"), json!({}))
}

pub(super) fn router(server: &TestServer) -> String {
    server
        .admin
        .post("/edge-routers", json!({ "name": fresh("router") }))
        .expect(201)
        .id()
}

pub(super) fn auth_policy(server: &TestServer) -> String {
    let sample = SAMPLES
        .iter()
        .find(|sample| sample.path == "auth-policies")
        .unwrap();
    server
        .admin
        .post(
            "/auth-policies",
            (sample.body)(server, &fresh("auth-policy")),
        )
        .expect(201)
        .id()
}
