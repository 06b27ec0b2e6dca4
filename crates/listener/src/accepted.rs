//! A connection after its handshake, and the interface to its server.

use std::{future::Future, pin::Pin, sync::Arc};

use tokio::{net::TcpStream, runtime::Handle};
use tokio_rustls::server::TlsStream;

use super::{handshake_slots::HandshakeSlot, rewind::Rewind, shutdown::ConnectionGuard};

/// A connection whose handshake is complete.
pub type Stream = Rewind<TlsStream<Rewind<TcpStream>>>;

/// A connection for REST.
pub struct AcceptedConnection {
    pub stream: Stream,
    /// Counts the connection as open until it is dropped.
    pub guard: ConnectionGuard,
}

/// Serves a connection; completes when it ends. The second argument must be dropped as soon as the
/// client is authenticated.
pub(crate) type Serve =
    dyn Fn(Stream, Unauthenticated) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;

/// A slot among the connections whose clients are not authenticated yet. Released on drop.
pub struct Unauthenticated {
    pub(super) _handshake: HandshakeSlot,
    pub(super) _of_router: HandshakeSlot,
}

/// The server of router connections.
#[derive(Clone)]
pub struct StreamServer {
    /// The runtime on which its connections are read and written.
    pub runtime: Handle,
    pub serve: Arc<Serve>,
}
