//! Credentials and sessions: nothing happens with them beyond being written; what ends with them says `entity/` by references.

use super::{Lifecycle, lifecycle::short_id};
use crate::entity::{ApiSession, AuthPolicy, Authenticator, Session};

impl Lifecycle for AuthPolicy {}

impl Lifecycle for Authenticator {
    fn new_id() -> String {
        short_id()
    }
}

impl Lifecycle for ApiSession {
    fn new_id() -> String {
        cuid()
    }
}

impl Lifecycle for Session {
    fn new_id() -> String {
        cuid()
    }
}

/// A `c` and 24 lower-case letters and digits, all random, as clients know ids of sessions.
fn cuid() -> String {
    let digits = uuid::Uuid::new_v4().simple().to_string();
    digits.chars().take(24).fold(String::from("c"), |mut id, digit| {
        id.push(digit);
        id
    })
}
