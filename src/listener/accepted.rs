//! A connection after its handshake, and who may take it.

use std::{future::Future, pin::Pin, sync::Arc};

use tokio::{net::TcpStream, runtime::Handle};
use tokio_rustls::server::TlsStream;

use super::{rewind::Rewind, shutdown::ConnectionGuard};

/// A connection whose handshake is over.
pub type Stream = Rewind<TlsStream<Rewind<TcpStream>>>;

/// A connection for REST.
pub struct Accepted {
    pub stream: Stream,
    /// As long as this is there, so is the connection.
    pub here: ConnectionGuard,
}

/// Serves a connection until it ends.
pub type Serve = dyn Fn(Stream) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;

/// Whoever serves connections of the router.
#[derive(Clone)]
pub struct RouterSide {
    /// Where its connections are read and written.
    pub runtime: Handle,
    pub serve: Arc<Serve>,
}
