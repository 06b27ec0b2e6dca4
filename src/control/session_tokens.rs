//! A cache of sessions by token: the store has no index of session tokens.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::entity::{Id, Session};

/// Maximum cached tokens; beyond it all are dropped.
const MAX_TOKENS: usize = 100_000;

/// The cached tokens.
#[derive(Default)]
pub struct SessionTokens(Mutex<HashMap<String, Id<Session>>>);

impl SessionTokens {
    /// The session with a token, if it is cached. It may have ended.
    pub fn find(&self, token: &str) -> Option<Id<Session>> {
        self.0.lock().get(token).cloned()
    }

    /// Caches the token of a session.
    pub fn add(&self, token: &str, session: &Id<Session>) {
        let mut tokens = self.0.lock();
        if tokens.len() >= MAX_TOKENS {
            tokens.clear();
        }
        tokens.insert(token.to_owned(), session.clone());
    }
}
