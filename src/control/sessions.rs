//! The session that an SDK has shown at a router: found by the certificates that the SDK presented there, and by its token.

use std::collections::HashSet;

use super::core::Core;
use crate::{
    authentication::{holds_fingerprint, sessions_of_fingerprint},
    entity::{ApiSession, Entity, Facts, FactsExt, Id, Record, Session},
    error::Result,
    network::{Failure, unreadable},
    store::Read,
};

/// An SDK presents at most this many certificates that are looked at: its own and its authorities.
const MOST_CERTIFICATES: usize = 8;

/// What an SDK has shown, as a router says.
pub struct Shown<'s> {
    pub token: &'s str,
    /// Absent in some messages of some versions.
    pub api_session_token: Option<&'s str>,
    /// SHA-1 of certificates, in lower-case hex.
    pub fingerprints: Vec<&'s str>,
}

/// A session and the API session that it is of.
pub struct Found {
    pub session: Record<Session>,
    pub api_session: Record<ApiSession>,
}

impl Core {
    /// The session with this token, if one of the certificates is one of its API session.
    ///
    /// # Errors
    /// There is none, or the store cannot be read.
    pub fn session_of(&self, shown: &Shown<'_>) -> std::result::Result<Found, Failure> {
        let found = self.parts.rights.store.read(|tx| self.find_session(tx, shown)).map_err(unreadable)?;
        found.ok_or_else(Failure::invalid_session)
    }

    fn find_session(&self, tx: &Read<'_>, shown: &Shown<'_>) -> Result<Option<Found>> {
        let is_meant = |api_session: &Record<ApiSession>| shown.api_session_token.is_none_or(|token| token == api_session.spec.token);
        let fingerprints = || shown.fingerprints.iter().take(MOST_CERTIFICATES);
        let known = self.tokens.find(shown.token);
        if let Some(session) = known.map(|id| tx.find(&id)).transpose()?.flatten() {
            let Some(api_session) = tx.find(&session.spec.api_session_id)?.filter(is_meant) else { return Ok(None) };
            for fingerprint in fingerprints() {
                if holds_fingerprint(tx, &api_session, fingerprint)? {
                    return Ok(Some(Found { session, api_session }));
                }
            }
            return Ok(None);
        }
        for fingerprint in fingerprints() {
            for api_session in sessions_of_fingerprint(tx, fingerprint)?.into_iter().filter(is_meant) {
                if let Some(session) = self.session_with_token(tx, &api_session, shown.token)? {
                    return Ok(Some(Found { session, api_session }));
                }
            }
        }
        Ok(None)
    }

    fn session_with_token(&self, tx: &Read<'_>, api_session: &Record<ApiSession>, token: &str) -> Result<Option<Record<Session>>> {
        for id in tx.ids(Session::KIND, "apiSession", api_session.id.as_str())? {
            let Some(session) = tx.find_readable(&Id::<Session>::from_text(id))? else { continue };
            if session.spec.token == token {
                self.tokens.add(token, &session.id);
                return Ok(Some(session));
            }
        }
        Ok(None)
    }

    /// Those of these tokens that no session has. Reads all sessions.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn tokens_without_session(&self, mut tokens: HashSet<String>) -> Result<HashSet<String>> {
        self.parts.rights.store.read(|tx| {
            tx.each_readable::<Session>(|session| {
                if tokens.contains(&session.spec.token) && tx.find_readable(&session.id)?.is_some() {
                    tokens.remove(&session.spec.token);
                }
                Ok(())
            })
        })?;
        Ok(tokens)
    }
}
