//! What a function in a route table knows about its request.

use std::{net::IpAddr, sync::Arc};

use model::{
    clock::Timestamp,
    entity::{Author, Identity, Record},
    error::{Error, Result},
};
use pki::Certificate;
use policy::{
    authentication::Caller, change::Changes, enrollment::EnrollmentContext, posture::Evidence,
};
use rustls::pki_types::CertificateDer;

use super::state::AppState;

/// The peer of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The source address, without port.
    pub address: Option<IpAddr>,
    /// The certificates presented in the handshake, leaf first. Only the possession of the leaf's
    /// key is proven.
    pub certificates: Arc<[CertificateDer<'static>]>,
}

impl Peer {
    /// The address as text.
    pub fn shown(&self) -> Option<String> {
        self.address.map(|address| address.to_string())
    }
}

/// What the function of a row gets about a request: the caller, the peer, the time, and the
/// application state.
pub struct Call {
    pub state: Arc<AppState>,
    /// The caller, by its session token or API token; `None` without a valid token.
    pub caller: Option<Arc<Caller>>,
    pub peer: Peer,
    /// The bearer token of the request, if it carries exactly one.
    pub bearer: Option<Arc<str>>,
    /// The interface for changes, with the caller as their author.
    pub changes: Changes,
    pub now: Timestamp,
    /// Whether the request came over the admin socket, which has no sessions.
    pub local: bool,
}

impl Call {
    /// A request that arrived over the network.
    pub fn new(
        state: &Arc<AppState>,
        caller: Option<Arc<Caller>>,
        peer: Peer,
        bearer: Option<Arc<str>>,
    ) -> Self {
        let author = Author::remote(peer.shown());
        let author = match &caller {
            Some(caller) => caller.author(author),
            None => author,
        };
        Self {
            state: state.clone(),
            caller,
            peer,
            bearer,
            changes: state.changes.by(author),
            now: state.clock.now(),
            local: false,
        }
    }

    /// The caller of an operation that needs a session.
    ///
    /// # Errors
    /// [`Error::Unauthorized`] without a caller. The permission check of the row prevents this.
    pub fn caller(&self) -> Result<&Arc<Caller>> {
        self.caller
            .as_ref()
            .ok_or(Error::Unauthorized { anonymous: true })
    }

    /// The certificates that the connection presented, leaf first, up to the first unreadable one.
    pub fn chain(&self) -> Vec<Certificate> {
        self.peer
            .certificates
            .iter()
            .map_while(|der| Certificate::from_der(der).ok())
            .collect()
    }

    /// The components that an enrollment needs.
    pub fn context(&self) -> EnrollmentContext<'_> {
        let AppState {
            store,
            keystore,
            logins,
            instance,
            ..
        } = &*self.state;
        EnrollmentContext {
            store,
            changes: &self.changes,
            keystore,
            passwords: &logins.passwords,
            reserved: &instance.reserved,
            now: self.now,
            address: self.peer.address,
        }
    }

    /// The posture evidence about the caller's endpoint.
    ///
    /// # Errors
    /// Those of [`Call::caller`].
    pub fn evidence(&self) -> Result<Evidence> {
        let Caller {
            session, identity, ..
        } = self.caller()?.as_ref();
        let known = self
            .state
            .posture
            .evidence(identity.id.as_str(), Some(session.id.as_str()));
        Ok(known.seen_by(&identity.state.sdk_info))
    }

    /// The identity of the caller.
    ///
    /// # Errors
    /// Those of [`Call::caller`].
    pub fn identity(&self) -> Result<&Record<Identity>> {
        self.caller().map(|caller| &caller.identity)
    }
}
