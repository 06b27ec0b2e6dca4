//! Credentials and sessions: nothing happens with them beyond being written; what ends with them says `entity/` by references.

use super::{
    Lifecycle,
    lifecycle::{session_id, short_id},
};
use crate::entity::{ApiSession, AuthPolicy, Authenticator, Mfa, Session};

impl Lifecycle for AuthPolicy {}

impl Lifecycle for Authenticator {
    fn new_id() -> String {
        short_id()
    }
}

impl Lifecycle for ApiSession {
    fn new_id() -> String {
        session_id()
    }
}

impl Lifecycle for Mfa {}

impl Lifecycle for Session {
    fn new_id() -> String {
        session_id()
    }
}
