//! Who is calling: credentials become API sessions, and tokens become callers.
//!
//! Not here: how a credential comes into being (`enrollment/`), what a caller may do (`http/route.rs`, `access/`). Start reading at
//! [`Caller`], then [`login`]. Invariant: a refused login says nothing about why.
//!
//! Half-authenticated callers are callers with outstanding [`AuthQuery`]s; a second factor adds a query here and an operation in
//! `http/`, nothing else changes.

pub mod login;
mod passwords;
mod sessions;

pub use passwords::Passwords;
pub use sessions::Sessions;

use crate::entity::{ApiSession, AuthQuery, Identity, Record};

/// Whoever sent a request with the token of a session.
#[derive(Debug, Clone)]
pub struct Caller {
    pub session: Record<ApiSession>,
    pub identity: Record<Identity>,
    /// What is still to be proven. None: fully authenticated.
    pub queries: Vec<AuthQuery>,
}

impl Caller {
    /// Whether the identity is an administrator. Counts only once nothing is outstanding.
    pub fn is_admin(&self) -> bool {
        self.identity.spec.is_admin || self.identity.state.is_default_admin
    }
}
