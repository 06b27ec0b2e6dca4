//! Finds the session of an SDK at a router, by its token and by the certificates that the SDK
//! presented there.

use model::{
    entity::{ApiSession, Id, Record, Session, TypedLookup},
    error::Result,
};
use policy::authentication::holds_fingerprint;
use store::Read;

use super::{connection::RouterConnection, control_core::ControlCore};
use crate::network::{RequestFailure, unreadable};

/// Maximum certificates of an SDK that are checked: its own and its authorities.
const MAX_CERTIFICATES: usize = 8;

/// The credentials of an SDK, as a router reports them.
pub(crate) struct SdkCredentials<'s> {
    pub token: &'s str,
    /// Absent in some messages of some versions.
    pub api_session_token: Option<&'s str>,
    /// SHA-1 of the certificates, in lower-case hex.
    pub fingerprints: Vec<&'s str>,
}

/// A session with its API session.
pub(crate) struct FoundSession {
    pub session: Record<Session>,
    pub api_session: Record<ApiSession>,
}

impl ControlCore {
    /// The session with this token, if one of the certificates belongs to its API session.
    ///
    /// # Errors
    /// There is none, or the store cannot be read.
    pub(crate) fn session_of(
        &self,
        credentials: &SdkCredentials<'_>,
    ) -> std::result::Result<FoundSession, RequestFailure> {
        let found = self
            .network
            .store()
            .read(|tx| self.find_session(tx, credentials))
            .map_err(unreadable)?;
        found.ok_or_else(RequestFailure::invalid_session)
    }

    /// Records that an SDK is connected to a router, if its identity may use the router.
    pub(crate) fn seen(&self, connection: &RouterConnection, api_session: &Record<ApiSession>) {
        let identity = &api_session.spec.identity_id;
        if self
            .network
            .authorizer
            .may_use(&connection.router, identity.as_str())
        {
            connection
                .connected
                .seen(&api_session.id, identity, self.online());
        }
    }

    fn find_session(
        &self,
        tx: &Read<'_>,
        credentials: &SdkCredentials<'_>,
    ) -> Result<Option<FoundSession>> {
        let Some(session) = named(tx, credentials.token)? else {
            return Ok(None);
        };
        let matches_token = |api_session: &Record<ApiSession>| {
            credentials
                .api_session_token
                .is_none_or(|token| token == api_session.spec.token)
        };
        let Some(api_session) = tx.find(&session.spec.api_session_id)?.filter(matches_token) else {
            return Ok(None);
        };
        for fingerprint in credentials.fingerprints.iter().take(MAX_CERTIFICATES) {
            if holds_fingerprint(tx, &api_session, fingerprint)? {
                return Ok(Some(FoundSession {
                    session,
                    api_session,
                }));
            }
        }
        Ok(None)
    }
}

/// The session with a token.
fn named(tx: &Read<'_>, token: &str) -> Result<Option<Record<Session>>> {
    let Some(id) = Session::named_by(token) else {
        return Ok(None);
    };
    Ok(tx
        .find(&Id::<Session>::from_text(id))?
        .filter(|session| session.spec.token == token))
}
