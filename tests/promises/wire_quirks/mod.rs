//! Behaviour that clients depend on and that is easily overlooked: blanks, nulls, and the order of
//! errors.

mod requests;
mod values;

use model::{
    clock::{Clock, Timestamp},
    config::Config,
    entity::{ExternalJwtSigner, Id, PostureCheck, Record},
};
use overkeep::testing::controller;
use policy::change::KINDS;
use store::{decode, encode};

use serde_json::{Value as Json, json};

use crate::harness::{
    Authority, Base, Caller, PASSWORD, TestServer, fresh, shared, stores, trusting,
};

fn admin() -> &'static Caller {
    &shared().admin
}

/// A member of the record at a path.
fn member(path: &str, name: &str) -> Json {
    admin().get(path).expect(200).data()[name].clone()
}
