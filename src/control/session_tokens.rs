//! Sessions by token, as far as they were shown: the store does not find sessions by token.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::entity::{Id, Session};

/// Tokens that are remembered; with more, all are forgotten.
const MOST_TOKENS: usize = 100_000;

/// The tokens that are remembered.
#[derive(Default)]
pub struct SessionTokens(Mutex<HashMap<String, Id<Session>>>);

impl SessionTokens {
    /// The session with a token, if it is remembered. It may have ended.
    pub fn find(&self, token: &str) -> Option<Id<Session>> {
        self.0.lock().get(token).cloned()
    }

    /// Remembers the token of a session.
    pub fn add(&self, token: &str, session: &Id<Session>) {
        let mut tokens = self.0.lock();
        if tokens.len() >= MOST_TOKENS {
            tokens.clear();
        }
        tokens.insert(token.to_owned(), session.clone());
    }
}
