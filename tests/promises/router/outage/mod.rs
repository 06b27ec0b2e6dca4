//! Who hosts a service, since when nobody does, and which dials fail: at the built-in router.

mod absence;
mod hosts;

use std::time::Duration;

use model::clock::Clock;
use overkeep::testing::admin_socket::{Command, socket};
use policy::access::Right;

use serde_json::{Value as Json, json};

use super::{
    scene::{Member, Scene, run, soon},
    sdk::{Options, Sdk},
};

use crate::{
    admin_socket::asked,
    harness::{Base, TestServer, encoded, fresh},
    metrics,
};

/// What the controller says about who hosts a service.
pub fn hosting(server: &TestServer, service: &str) -> Json {
    let listed = server
        .admin
        .at(Base::Overkeep)
        .list("/hosting", &format!("id = \"{service}\""), "")
        .expect(200);
    listed.data()[0].clone()
}

pub fn state(server: &TestServer, service: &str) -> String {
    hosting(server, service)["state"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// The ids of the services that need attention, of one group.
pub fn needing(server: &TestServer, group: &str) -> Vec<String> {
    let attention = server
        .admin
        .at(Base::Overkeep)
        .get("/attention")
        .expect(200);
    let group = &attention.data()[group];
    let first: Vec<String> = group["first"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap().to_owned())
        .collect();
    assert!(group["total"].as_u64().unwrap() >= first.len() as u64);
    first
}

/// The explanation of a dial, as text and as JSON.
pub fn explained(server: &TestServer, identity: &str, service: &str) -> (String, Json) {
    let command = Command::Explain {
        right: Right::Dial,
        identity: identity.into(),
        service: service.into(),
        json: false,
    };
    let text = asked(&socket::beside(&server.data()), &command).join("\n");
    let path = format!("/explain?identity={identity}&service={service}&type=Dial");
    (
        text,
        server
            .admin
            .at(Base::Overkeep)
            .get(&path)
            .expect(200)
            .data()
            .clone(),
    )
}
