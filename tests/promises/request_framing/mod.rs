//! How requests are framed: bodies that wait for `100 Continue`, lengths that are declared, chunks,
//! long and percent-encoded targets, and answers that the client has already.

mod bodies;
mod heads;

use std::time::Duration;

use model::clock::Clock;

use serde_json::json;

use crate::harness::{Base, Caller, TestServer, Wire, asking_for, frame, fresh, shared};

/// What a connection receives until nothing more comes for a second, or the other end closes. A
/// busy machine may take longer to the first answer, such as one about a password.
fn told(wire: &mut Wire) -> (String, bool) {
    wire.socket()
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let first = wire.first();
    wire.socket()
        .set_read_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    let (rest, is_closed) = wire.read();
    (first + &rest, is_closed)
}

fn token_of(admin: &Caller) -> String {
    format!("zt-session: {}\r\n", admin.token.as_ref().unwrap())
}
