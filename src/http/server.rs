//! The listener: actix over rustls, with the peer's certificates kept beside each connection, and bounds on connections.
//!
//! It is put together from the parts that actix-web's own server is made of, because that leaves no room between TLS and HTTP, where
//! `connection.rs` stands.

use std::{future::ready, io, net::TcpListener, num::NonZero, sync::Arc, thread::available_parallelism, time::Duration};

use actix_http::{HttpService, Protocol};
use actix_server::Server;
use actix_service::{IntoServiceFactory, ServiceFactoryExt, fn_service, map_config};
use actix_tls::accept::{
    TlsError, max_concurrent_tls_connect,
    rustls_0_23::{Acceptor, TlsStream},
};
use actix_web::{
    App,
    dev::{AppConfig, Extensions},
    middleware::Compress,
    rt::net::TcpStream,
    web,
};
use rustix::{
    net::sockopt::set_tcp_user_timeout,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

use super::{
    call::Peer,
    connection::Guarded,
    front::{self, Front},
    line::Patience,
};

/// A socket that is bound, and how to treat whoever comes.
pub struct Listener {
    pub socket: TcpListener,
    pub tls: rustls::ServerConfig,
    /// Threads; 0 for one a core.
    pub workers: usize,
    /// The time a client has to send the head of a request.
    pub client_timeout: Duration,
    pub handshake_timeout: Duration,
    /// How long an idle connection is kept.
    pub keep_alive: Duration,
    /// How long a client may leave what it is sent unread, or unacknowledged, and how much of it.
    pub patience: Patience,
    /// Connections at the same time, in all.
    pub connections: usize,
    /// TLS handshakes at the same time, in all.
    pub handshakes: usize,
}

/// Open files that are no connections: the data file, the log, sockets to key sets and whatever else.
const OTHER_FILES: usize = 128;
/// However few files the system allows, so many connections are tried.
const FEWEST: usize = 16;
/// How long a client may take to leave when it was told that nothing more comes.
const LEAVING: Duration = Duration::from_secs(1);

/// Starts answering. The server runs while it is polled.
///
/// # Errors
/// The socket cannot be used.
pub fn serve(front: Front, listener: Listener) -> io::Result<Server> {
    let front = web::Data::from(Arc::new(front));
    let workers = if listener.workers > 0 { listener.workers } else { available_parallelism().map_or(1, NonZero::get) };
    max_concurrent_tls_connect(listener.handshakes.div_ceil(workers));
    let connections = room_for(listener.connections).div_ceil(workers);
    let builder = Server::build().workers(workers).max_concurrent_connections(connections).disable_signals();
    let Listener { socket, tls, client_timeout, handshake_timeout, keep_alive, patience, .. } = listener;
    let stopping = builder.graceful_shutdown_signal();
    let interfaces = move || {
        let (front, stopping) = (front.clone(), stopping.clone());
        let app = App::new().app_data(front).wrap(Compress::default()).default_service(web::to(front::serve));
        let app = app.into_factory().map_err(|error: actix_web::Error| error.error_response());
        let http = HttpService::build()
            .graceful_shutdown_signal(move || {
                let stopping = stopping.clone();
                async move { stopping.notified().await }
            })
            .keep_alive(keep_alive)
            .client_request_timeout(client_timeout)
            .client_disconnect_timeout(LEAVING)
            // A client that says it sends no more has gone: nobody does anything for it any longer.
            .h1_allow_half_closed(false)
            .on_connect_ext(move |connection: &Connection, beside| remember(connection, beside, patience.time))
            .finish(map_config(app, |()| AppConfig::default()));
        let mut acceptor = Acceptor::new(tls.clone());
        acceptor.set_handshake_timeout(handshake_timeout);
        acceptor
            .map_err(TlsError::into_service_error)
            .and_then(fn_service(move |stream| ready(Ok(connected(stream, patience)))))
            .and_then(http.map_err(TlsError::Service))
    };
    Ok(builder.listen("interfaces", socket, interfaces)?.run())
}

/// A connection whose handshake is over.
type Connection = Guarded<TlsStream<TcpStream>>;

/// What the library for HTTP wants to know of a connection.
fn connected(stream: TlsStream<TcpStream>, patience: Patience) -> (Connection, Protocol, Option<std::net::SocketAddr>) {
    let (socket, tls) = stream.get_ref();
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "a connection that is slow to answer");
    }
    let (address, is_multiplexed) = (socket.peer_addr().ok(), tls.alpn_protocol() == Some(b"h2"));
    if is_multiplexed {
        (Guarded::watched(stream, patience), Protocol::Http2, address)
    } else {
        (Guarded::plain(stream), Protocol::Http1, address)
    }
}

/// For how many of these connections the system gives files. Raises the process's own limit as far as that is needed and allowed:
/// without a file for the next connection a listener can do nothing but try again.
fn room_for(connections: usize) -> usize {
    let needed = (connections + OTHER_FILES) as u64;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let current = limit.maximum.map_or(needed, |most| most.min(needed));
        if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limit }) {
            tracing::debug!(%error, "the limit of open files stays");
        }
    }
    let files = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    let room = connections.min(files.saturating_sub(OTHER_FILES).max(FEWEST));
    if room < connections {
        tracing::warn!(files, room, connections, "the system gives files for fewer connections than http.max-connections");
    }
    room
}

/// Keeps who is at the other end beside the connection, and what is on its way there; every request on it sees that. Whoever does not
/// take what is sent to them for `unread` is cut off.
fn remember(connection: &Connection, beside: &mut Extensions, unread: Duration) {
    let (socket, tls) = connection.stream.get_ref();
    if let Err(error) = set_tcp_user_timeout(socket, u32::try_from(unread.as_millis()).unwrap_or(u32::MAX)) {
        tracing::debug!(%error, "a connection that nobody will cut off");
    }
    let certificates = tls.peer_certificates().unwrap_or_default().iter().map(|certificate| certificate.clone().into_owned()).collect();
    beside.insert(Peer { address: socket.peer_addr().ok().map(|address| address.ip()), certificates });
    if let Some(line) = connection.line() {
        beside.insert(line.clone());
    }
}
