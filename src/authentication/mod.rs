//! Who is calling: credentials become API sessions, and tokens become callers.
//!
//! Not here: how a credential comes into being (`enrollment/`), what a caller may do (`http/permission.rs`, `access/`). Start reading at
//! [`Caller`], then [`login`]. Invariant: a refused login says nothing about why.
//!
//! Half-authenticated callers are callers with outstanding [`AuthQuery`]s. What answers them: one-time codes, remembered by the
//! session (`mfa.rs`, `codes.rs`), and tokens of an external signer, shown with every request (`tokens.rs`).

mod code_failures;
pub mod codes;
mod fair_queue;
mod key_set_connection;
mod key_sets;
pub mod login;
pub mod mfa;
mod password_failures;
mod passwords;
mod proof;
mod refusals;
mod session_quota;
mod sessions;
mod tokens;
pub mod trust;

pub use code_failures::Attempt;
pub use codes::Codes;
pub use fair_queue::Asker;
pub use password_failures::FailureCount;
pub use passwords::Passwords;
pub use proof::holds;
pub use refusals::{BIND, DIAL, Refusals, Refused};
pub use session_quota::SessionSlot;
pub use sessions::Sessions;
pub use tokens::Tokens;

use crate::{
    entity::{ApiSession, AuthQuery, Author, Identity, Record},
    error::Result,
    store::Read,
};

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
        self.identity.is_admin()
    }

    /// The ids of the config types that the session asked for.
    pub fn config_types(&self) -> Vec<String> {
        self.session.spec.config_types.iter().map(ToString::to_string).collect()
    }

    /// As the author of changes, from where the request came.
    pub fn author(&self, from: Author) -> Author {
        Author { session: Some(self.session.id.to_string()), ..from.known_as(&self.identity.id, Some(&self.identity.spec.name)) }
    }
}

/// The identities that are administrators, in the order of their ids. Looks at every identity; one that cannot be read is left out.
///
/// # Errors
/// The store cannot be read.
pub fn administrators(tx: &Read<'_>) -> Result<Vec<Record<Identity>>> {
    let mut found = Vec::new();
    tx.each_readable::<Identity>(|identity| {
        found.extend(identity.is_admin().then_some(identity));
        Ok(())
    })?;
    Ok(found)
}
