//! The peer of a connection of an SDK or a router.

use std::net::SocketAddr;

use policy::authentication::network;
use rustls::pki_types::CertificateDer;

use crate::peer_lines::may_log;

/// The peer of a connection.
#[derive(Debug, Clone, Default)]
pub struct ChannelPeer {
    pub address: Option<SocketAddr>,
    /// The certificate whose key the TLS handshake proved. Other certificates that were sent prove
    /// nothing.
    pub leaf: Option<CertificateDer<'static>>,
}

impl ChannelPeer {
    /// Whether a line about this peer, which is not authenticated, may be logged.
    pub(crate) fn may_log(&self) -> bool {
        self.address
            .is_none_or(|address| may_log(&network(address.ip()).to_string()))
    }
}
