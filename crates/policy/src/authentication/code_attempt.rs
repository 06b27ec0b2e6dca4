//! One attempt to authenticate with a code.

use std::net::IpAddr;

use model::entity::{ApiSession, Id};

/// An attempt to authenticate with a code.
#[derive(Debug, Clone)]
pub struct Attempt {
    pub code: String,
    /// The session of the attempt.
    pub session: Id<ApiSession>,
    /// What opened the session, as in its `authenticatorId`.
    pub credential: String,
    /// The source address of the request.
    pub address: Option<IpAddr>,
}

impl Attempt {
    /// Whether it has the form of a one-time code; otherwise it can only be a recovery code.
    pub(super) fn is_one_time(&self) -> bool {
        self.code.len() == 6 && self.code.bytes().all(|byte| byte.is_ascii_digit())
    }
}
