//! Finds the session of an SDK at a router, by the certificates that the SDK presented there and by its token.

use std::collections::HashSet;

use super::core::Core;
use crate::{
    authentication::{holds_fingerprint, sessions_of_fingerprint},
    entity::{ApiSession, Entity, Facts, FactsExt, Id, Record, Session},
    error::Result,
    network::{Failure, unreadable},
    store::Read,
};

/// Maximum certificates of an SDK that are checked: its own and its authorities.
const MAX_CERTIFICATES: usize = 8;

/// The credentials of an SDK, as a router reports them.
pub struct SdkCredentials<'s> {
    pub token: &'s str,
    /// Absent in some messages of some versions.
    pub api_session_token: Option<&'s str>,
    /// SHA-1 of the certificates, in lower-case hex.
    pub fingerprints: Vec<&'s str>,
}

/// A session with its API session.
pub struct Found {
    pub session: Record<Session>,
    pub api_session: Record<ApiSession>,
}

impl Core {
    /// The session with this token, if one of the certificates belongs to its API session.
    ///
    /// # Errors
    /// There is none, or the store cannot be read.
    pub fn session_of(&self, credentials: &SdkCredentials<'_>) -> std::result::Result<Found, Failure> {
        let found = self.parts.rights.store.read(|tx| self.find_session(tx, credentials)).map_err(unreadable)?;
        found.ok_or_else(Failure::invalid_session)
    }

    fn find_session(&self, tx: &Read<'_>, credentials: &SdkCredentials<'_>) -> Result<Option<Found>> {
        let matches_token =
            |api_session: &Record<ApiSession>| credentials.api_session_token.is_none_or(|token| token == api_session.spec.token);
        let fingerprints = || credentials.fingerprints.iter().take(MAX_CERTIFICATES);
        let known = self.tokens.find(credentials.token);
        if let Some(session) = known.map(|id| tx.find(&id)).transpose()?.flatten() {
            let Some(api_session) = tx.find(&session.spec.api_session_id)?.filter(matches_token) else { return Ok(None) };
            for fingerprint in fingerprints() {
                if holds_fingerprint(tx, &api_session, fingerprint)? {
                    return Ok(Some(Found { session, api_session }));
                }
            }
            return Ok(None);
        }
        for fingerprint in fingerprints() {
            for api_session in sessions_of_fingerprint(tx, fingerprint)?.into_iter().filter(matches_token) {
                if let Some(session) = self.session_with_token(tx, &api_session, credentials.token)? {
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

    /// The tokens among these that belong to no session. Reads all sessions.
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
