//! One port for everything that is spoken: accepts connections, has TLS spoken on them, finds out which protocol follows, and hands each to
//! whoever speaks it.
//!
//! The protocol is what the client's hello to TLS offers (ALPN): `ziti-edge` is for the router, `h2` and `http/1.1` are for REST. A client
//! that offers nothing speaks first in either protocol, and the first byte of a router's message is no letter. Not here: what is said on a
//! connection (`http/`, `network/`).
//!
//! actix accepts and has the threads of REST; a connection of the router is handed to the router's own runtime before its handshake, and
//! what is kept here waits for its end, so that limits count all connections together. Start reading at [`serve`], then at
//! `Acceptor::enter`. Invariant: nothing that a client sends before its handshake is over costs more than a bounded few KiB.

mod accept;
mod accepted;
mod client_hello;
mod file_limit;
mod plaintext;
mod rewind;
mod shutdown;

use std::{io, net::TcpListener, num::NonZero, rc::Rc, sync::Arc, thread::available_parallelism, time::Duration};

use actix_server::{Server, ServerHandle, ServerServiceFactory};
use actix_service::{
    Service, ServiceFactory,
    boxed::{self, BoxServiceFactory},
    fn_factory, fn_service,
};
use tokio::{net::TcpStream, sync::Semaphore};

use accept::{Acceptor, Protocols};
pub use accepted::{Accepted, RouterSide, Serve, Stream};
use file_limit::room_for;
pub use rewind::Rewind;
pub use shutdown::{ConnectionGuard, Shutdown};

/// How long requests that are under way may take once the listener ends.
const LONGEST: Duration = Duration::from_secs(30);

/// Sockets that are bound, and how to treat whoever comes.
pub struct Listener {
    /// For every protocol.
    pub sockets: Vec<TcpListener>,
    /// For the router alone.
    pub router_socket: Option<TcpListener>,
    pub tls: rustls::ServerConfig,
    /// Threads of REST; 0 for one a core.
    pub workers: usize,
    pub handshake_timeout: Duration,
    /// Connections at the same time, in all.
    pub connections: usize,
    /// TLS handshakes at the same time, in all.
    pub handshakes: usize,
}

/// A listener that runs.
pub struct Running {
    handle: ServerHandle,
    stopping: Shutdown,
}

impl Running {
    /// Ends it: idle connections at once, the others once their requests are answered, but those whose clients take nothing within a second.
    pub async fn stop(&self) {
        self.handle.pause().await;
        self.stopping.begin();
        if tokio::time::timeout(LONGEST, self.stopping.all_gone()).await.is_err() {
            tracing::warn!("requests that are not answered yet are given up");
        }
        self.handle.stop(true).await;
    }
}

/// Starts accepting. `rest` makes what serves connections for REST, once for each thread; `router` serves the others, if there is one. The
/// server runs while it is polled.
///
/// # Errors
/// A socket cannot be used.
pub fn serve<F, S>(listener: Listener, stopping: Shutdown, rest: F, router: Option<RouterSide>) -> io::Result<(Server, Running)>
where
    F: Fn() -> S + Clone + Send + 'static,
    S: ServiceFactory<Accepted, Config = (), Response = (), Error = (), InitError = ()> + 'static,
{
    let workers = if listener.workers > 0 { listener.workers } else { available_parallelism().map_or(1, NonZero::get) };
    let connections = room_for(listener.connections).div_ceil(workers);
    let handshakes = Arc::new(Semaphore::new(listener.handshakes));
    let entrance = Acceptor {
        protocols: Protocols::of(listener.tls),
        router,
        is_for_router_alone: false,
        handshakes,
        handshake_timeout: listener.handshake_timeout,
        stopping: stopping.clone(),
    };
    let mut builder = Server::build().workers(workers).max_concurrent_connections(connections).disable_signals().shutdown_timeout(1);
    let own = Acceptor { is_for_router_alone: true, ..entrance.clone() };
    for (number, socket) in listener.sockets.into_iter().enumerate() {
        builder =
            builder.listen(format!("interfaces {}", number + 1), socket, Handlers { entrance: entrance.clone(), rest: rest.clone() })?;
    }
    if let Some(socket) = listener.router_socket {
        builder = builder.listen("router", socket, Handlers { entrance: own, rest })?;
    }
    let server = builder.run();
    let running = Running { handle: server.handle(), stopping };
    Ok((server, running))
}

/// What each thread has connections come in by.
#[derive(Clone)]
struct Handlers<F> {
    entrance: Acceptor,
    rest: F,
}

impl<F, S> ServerServiceFactory<TcpStream> for Handlers<F>
where
    F: Fn() -> S + Clone + Send + 'static,
    S: ServiceFactory<Accepted, Config = (), Response = (), Error = (), InitError = ()> + 'static,
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
                            Some(accepted) => rest.call(accepted).await,
                            None => Ok(()),
                        }
                    }
                }))
            }
        }))
    }
}
