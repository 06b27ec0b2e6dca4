//! One port for all protocols: accepts connections, performs the TLS handshake, detects the
//! protocol and passes each connection to its server.
//!
//! The ALPN extension of the ClientHello names the protocol: `ziti-edge` is for the built-in
//! router, `ziti-ctrl` for the control channel of remote routers, `ziti-link` for their links to
//! the built-in router, `h2` and `http/1.1` for REST. For a client without ALPN, the first byte
//! that it sends decides: a letter for HTTP, 3 for a router message. `sockets.rs` binds the
//! sockets. Not here: the messages on a connection (the crates `rest` and
//! `fabric`).
//!
//! `actix-server` accepts connections and runs the threads of REST. A router connection moves to
//! the router's own runtime before its handshake, and comes back if its client speaks HTTP. The
//! accepting task waits for the end of the connection, so that the limits count all connections
//! together. Start reading at [`serve`], then at `Acceptor::enter`. Invariant: before its handshake
//! is complete a client costs at most 48 KiB, for at most `handshake-timeout` once it has a slot; a
//! client of the router keeps its slot until it is authenticated. Slots are given to networks in
//! turn (`handshake_slots.rs`, `fair_queue.rs`).

#![warn(unreachable_pub)]

mod accept;
mod accepted;
mod client_hello;
mod fair_queue;
mod file_limit;
mod handshake_slots;
mod plaintext;
mod rewind;
mod shutdown;
mod sockets;

use std::{
    io, net::TcpListener, num::NonZero, rc::Rc, thread::available_parallelism, time::Duration,
};

use actix_server::{Server, ServerHandle, ServerServiceFactory};
use actix_service::{
    Service, ServiceFactory,
    boxed::{self, BoxServiceFactory},
    fn_factory, fn_service,
};
use tokio::net::TcpStream;

use accept::{Acceptor, Port, Protocols};
pub use accepted::{AcceptedConnection, Stream, StreamServer, Unauthenticated};
pub use fair_queue::{ClientPrefix, FairQueue};
use file_limit::room_for;
use handshake_slots::HandshakeSlots;
pub use rewind::Rewind;
pub use shutdown::{ConnectionGuard, Shutdown};
pub use sockets::{Bound, SocketError, Sockets};

/// How long running requests may take after the listener stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Bound sockets and the limits of their connections.
pub struct Listener {
    pub sockets: Vec<(Port, TcpListener)>,
    pub tls: rustls::ServerConfig,
    /// Number of REST threads; 0 for one per core.
    pub workers: usize,
    pub handshake_timeout: Duration,
    /// Maximum number of open connections, over all threads.
    pub connections: usize,
    /// Maximum number of concurrent TLS handshakes, over all threads.
    pub handshakes: usize,
}

/// The servers of connections that are not for REST.
pub struct StreamServers {
    /// Of SDKs, if the built-in router is enabled.
    pub router: Option<StreamServer>,
    /// Of the control channels of remote routers.
    pub control: StreamServer,
    /// Of the links of remote routers to the built-in router, if it is enabled.
    pub link: Option<StreamServer>,
}

/// A running listener.
pub struct RunningListener {
    handle: ServerHandle,
    stopping: Shutdown,
}

impl RunningListener {
    /// Stops it: idle connections close at once, others when their requests are answered. A client
    /// that accepts no bytes is dropped after a second.
    pub async fn stop(&self) {
        self.handle.pause().await;
        self.stopping.begin();
        if tokio::time::timeout(STOP_TIMEOUT, self.stopping.all_gone())
            .await
            .is_err()
        {
            tracing::warn!("requests that were not answered within 30 s are dropped");
        }
        self.handle.stop(true).await;
    }
}

/// Starts accepting. `rest` makes the service for REST connections, once per thread; `servers` take
/// the others. The server runs while it is polled.
///
/// # Errors
/// A socket cannot be used.
pub fn serve<F, S>(
    listener: Listener,
    stopping: Shutdown,
    rest: F,
    servers: StreamServers,
) -> io::Result<(Server, RunningListener)>
where
    F: Fn() -> S + Clone + Send + 'static,
    S: ServiceFactory<AcceptedConnection, Config = (), Response = (), Error = (), InitError = ()>
        + 'static,
{
    let workers = if listener.workers > 0 {
        listener.workers
    } else {
        available_parallelism().map_or(1, NonZero::get)
    };
    let connections = room_for(listener.connections).div_ceil(workers);
    let handshakes = HandshakeSlots::new(listener.handshakes);
    let entrance = Acceptor {
        protocols: Protocols::of(listener.tls),
        router: servers.router,
        control: servers.control,
        link: servers.link,
        port: Port::All,
        handshakes,
        router_handshakes: HandshakeSlots::new((listener.handshakes / 2).max(1)),
        handshake_timeout: listener.handshake_timeout,
        stopping: stopping.clone(),
    };
    let mut builder = Server::build()
        .workers(workers)
        .max_concurrent_connections(connections)
        .disable_signals()
        .shutdown_timeout(1);
    for (number, (port, socket)) in listener.sockets.into_iter().enumerate() {
        let entrance = Acceptor {
            port,
            ..entrance.clone()
        };
        builder = builder.listen(
            format!("listener {}", number + 1),
            socket,
            Handlers {
                entrance,
                rest: rest.clone(),
            },
        )?;
    }
    let server = builder.run();
    let running = RunningListener {
        handle: server.handle(),
        stopping,
    };
    Ok((server, running))
}

/// Makes the service of a socket, once per thread.
#[derive(Clone)]
struct Handlers<F> {
    entrance: Acceptor,
    rest: F,
}

impl<F, S> ServerServiceFactory<TcpStream> for Handlers<F>
where
    F: Fn() -> S + Clone + Send + 'static,
    S: ServiceFactory<AcceptedConnection, Config = (), Response = (), Error = (), InitError = ()>
        + 'static,
{
    type Factory = BoxServiceFactory<(), TcpStream, (), (), ()>;

    fn create(&self) -> Self::Factory {
        let (entrance, rest) = (Rc::new(self.entrance.clone()), self.rest.clone());
        boxed::factory(fn_factory(move || {
            let (entrance, rest) = (entrance.clone(), rest().new_service(()));
            async move {
                let rest = Rc::new(rest.await?);
                Ok(fn_service(move |socket| {
                    let (entrance, rest) = (entrance.clone(), rest.clone());
                    async move {
                        match entrance.enter(socket).await {
                            // Boxed, because the task of a connection for the router lives as long
                            // and would keep memory for this future.
                            Some(accepted) => Box::pin(rest.call(accepted)).await,
                            None => Ok(()),
                        }
                    }
                }))
            }
        }))
    }
}
