//! A network as a file: exported, planned, applied.

mod exports;
mod plans;

use std::{collections::BTreeSet, path::PathBuf};

use serde_json::{Value as Json, json};

use crate::{
    command_line::on_host,
    harness::{Answer, Base, Caller, Rng, TestServer, fresh, interface},
    kinds::SAMPLES,
    preview::{Pairs, Scenario, assert_predicted},
};

const PATH: &str = "/network";

/// An administrator at the interface that has the network.
fn owner(server: &TestServer) -> Caller {
    server.admin.at(Base::Overkeep)
}

fn put(server: &TestServer, query: &str, network: &Json) -> Answer {
    owner(server)
        .ask("PUT", &format!("{PATH}?{query}"))
        .json(network)
        .send()
}

fn plan(server: &TestServer, query: &str, network: &Json) -> Json {
    put(server, &format!("{query}&preview=true"), network)
        .expect(200)
        .data()
        .clone()
}

fn export(server: &TestServer) -> Json {
    owner(server).get(PATH).expect(200).data().clone()
}

/// Writes a file beside the data of a controller.
fn file(server: &TestServer, text: &str) -> PathBuf {
    let path = server.data().with_file_name(fresh("network.yaml"));
    std::fs::write(&path, text).unwrap();
    path
}
