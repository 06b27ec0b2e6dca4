//! Whether a session grants its right at this moment, by the same functions that answer `POST
//! /sessions`.

use std::{sync::atomic::Ordering, time::Duration};

use model::{
    entity::{Id, Record, Service, Session},
    error::Result,
};
use policy::{access::Right, authentication::RejectedCaller};
use tokio::time::sleep;

use super::{channel::Channel, router_core::RouterCore};
use crate::network::{FailureReason, Grant, PresentedSession, RequestFailure, unreadable};

/// After this many unknown tokens in a row, a channel waits before each further lookup. The lookup
/// of a token that contains no session id reads all sessions of the API session: after this many
/// such lookups without a result, further tokens of this form count as unknown without a lookup.
const UNKNOWN: usize = 16;
const WAIT: Duration = Duration::from_secs(1);

impl RouterCore {
    /// The session with this token of a channel's API session.
    ///
    /// # Errors
    /// The token is unknown, or the store cannot be read.
    pub(crate) async fn session_of(
        &self,
        channel: &Channel,
        token: &[u8],
    ) -> std::result::Result<Record<Session>, RequestFailure> {
        if channel.unknown_tokens.load(Ordering::Relaxed) >= UNKNOWN {
            sleep(WAIT).await;
        }
        let token = std::str::from_utf8(token).map_err(|_| RequestFailure::invalid_session())?;
        let is_searched = Session::named_by(token).is_none();
        if is_searched && channel.searched_tokens.fetch_add(1, Ordering::Relaxed) >= UNKNOWN {
            return Err(RequestFailure::invalid_session());
        }
        let found = self.look_up(channel, token).map_err(unreadable)?;
        if is_searched && found.is_some() {
            channel.searched_tokens.fetch_sub(1, Ordering::Relaxed);
        }
        match found {
            Some(session) => {
                channel.unknown_tokens.store(0, Ordering::Relaxed);
                Ok(session)
            }
            None => {
                channel.unknown_tokens.fetch_add(1, Ordering::Relaxed);
                Err(RequestFailure::invalid_session())
            }
        }
    }

    /// The service of the token of a rejected Bind, if the rejection is about rights.
    pub(crate) fn service_of(
        &self,
        channel: &Channel,
        token: &[u8],
        refused_for: &RequestFailure,
    ) -> Option<Id<Service>> {
        if matches!(
            refused_for.reason,
            FailureReason::Session | FailureReason::Other
        ) {
            return None;
        }
        let session = self
            .look_up(channel, std::str::from_utf8(token).ok()?)
            .ok()??;
        Some(session.spec.service_id.clone())
    }

    fn look_up(&self, channel: &Channel, token: &str) -> Result<Option<Record<Session>>> {
        self.network
            .store()
            .read(|tx| Session::with_token(token, &channel.login.api_session, tx))
    }

    /// Whether a session grants its right on a channel now.
    ///
    /// # Errors
    /// Why it does not, or the store cannot be read.
    pub(crate) fn check(
        &self,
        channel: &Channel,
        session: &Record<Session>,
        right: Right,
    ) -> std::result::Result<Grant, RequestFailure> {
        let presented = PresentedSession {
            api_session: &channel.login.api_session,
            token: &channel.login.token,
        };
        self.network
            .authorizer
            .authorize(presented, session, right, self.context.id.as_str())
            .map_err(RequestFailure::from)
    }

    /// Counts a dial or bind that was rejected for lack of a right, for the history. Other failures
    /// are not counted.
    pub(crate) async fn note_refusal(
        &self,
        what: &'static str,
        channel: &Channel,
        service: Option<&Id<Service>>,
        failure: &RequestFailure,
    ) {
        let Some(reason) = failure.reason.text() else {
            return;
        };
        let refused = RejectedCaller {
            what,
            identity: Some(channel.login.identity.to_string()),
            address: channel
                .login
                .address
                .map(|address| address.ip().to_string()),
            service: service.map(ToString::to_string),
            reason,
        };
        self.network.note_refusal(refused).await;
    }

    /// Whether a channel's API session is still valid.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn is_logged_in(&self, channel: &Channel) -> Result<bool> {
        let network = &self.network;
        Ok(network
            .authorizer
            .sessions
            .resolve(network.store(), &channel.login.token, network.now())?
            .is_some())
    }
}
