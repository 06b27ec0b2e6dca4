//! Requests rejected because of existing data: duplicate names, unknown ids in a body, records in
//! use, and records of the system or of other users. Codes and fields are those that clients
//! expect.

mod bodies;
mod foreign;
mod records;

use serde_json::{Value as Json, json};

use crate::{
    harness::{Answer, Authority, Base, Caller, Key, PASSWORD, TestServer, fresh, shared},
    kinds::SAMPLES,
    refusals::{Differences, Expected},
};

fn admin() -> &'static Caller {
    &shared().admin
}

fn send(method: &str, path: &str, body: &Json) -> Answer {
    admin().ask(method, path).json(body).send()
}

/// Creates a record and returns its id.
fn made(path: &str, body: Json) -> String {
    admin().post(path, body).expect(201).id()
}

/// The sample body of a kind, with a fresh name and other members added.
fn sample(path: &str, more: Json) -> Json {
    let sample = SAMPLES.iter().find(|sample| sample.path == path).unwrap();
    let mut body = (sample.body)(shared(), &fresh("conflict"));
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    body
}

/// An auth policy with these primary signers and this secondary one.
fn auth_policy(primary: &[&str], secondary: Option<&str>) -> Json {
    let mut body = sample("auth-policies", json!({}));
    body["primary"]["extJwt"]["allowedSigners"] = json!(primary);
    body["secondary"]["requireExtJwtSigner"] = json!(secondary);
    body
}
