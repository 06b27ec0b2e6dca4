//! API tokens: what their scope allows, when they end, and what nobody learns from them.

mod holders;
mod scopes;

use std::time::Duration;

use rest::{Permission, Row};

use serde_json::{Value as Json, json};

use crate::harness::{Authority, Base, Caller, TestServer, fresh, interface, shared};

/// A new API token: its id, and a caller with it.
fn made(server: &TestServer, more: Json) -> (String, Caller) {
    let mut body = json!({ "name": fresh("token") });
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let answer = server
        .admin
        .at(Base::Overkeep)
        .post("/api-tokens", body)
        .expect(201);
    let secret = answer.data()["token"].as_str().unwrap();
    assert!(secret.starts_with("ovk_") && secret.len() == 47, "{secret}");
    (
        answer.id(),
        server.anonymous().at(Base::Management).with_token(secret),
    )
}

/// Every operation that needs a caller, at its interface.
pub fn rows() -> impl Iterator<Item = (Base, &'static Row)> {
    let all = Base::ALL
        .into_iter()
        .flat_map(|base| interface(base).rows().map(move |row| (base, row)));
    all.filter(|(_, row)| row.permission != Permission::Open)
}

/// The path of a row, with an id in place of each parameter.
pub fn path(row: &Row, id: &str) -> String {
    row.path
        .split('/')
        .map(|part| if part.starts_with('{') { id } else { part })
        .collect::<Vec<_>>()
        .join("/")
}
