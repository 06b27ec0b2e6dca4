//! The listener: actix-web over rustls, with the peer's certificates kept beside each connection, and bounds on connections.

use std::{any::Any, net::TcpListener, num::NonZero, sync::Arc, thread::available_parallelism, time::Duration};

use actix_tls::accept::rustls_0_23::TlsStream;
use actix_web::{
    App, HttpServer,
    dev::{Extensions, Server},
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
    front::{self, Front},
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
    /// How long a client may leave what it is sent unread, or unacknowledged.
    pub unread_timeout: Duration,
    /// Connections at the same time, in all.
    pub connections: usize,
    /// TLS handshakes at the same time, in all.
    pub handshakes: usize,
}

/// Open files that are no connections: the data file, the log, sockets to key sets and whatever else.
const OTHER_FILES: usize = 128;
/// However few files the system allows, so many connections are tried.
const FEWEST: usize = 16;

/// Starts answering. The server runs while it is polled.
///
/// # Errors
/// The socket cannot be used.
pub fn serve(front: Front, listener: Listener) -> std::io::Result<Server> {
    let front = web::Data::from(Arc::new(front));
    let app = move || App::new().app_data(front.clone()).wrap(Compress::default()).default_service(web::to(front::serve));
    let workers = if listener.workers > 0 { listener.workers } else { available_parallelism().map_or(1, NonZero::get) };
    let unread = listener.unread_timeout;
    let server = HttpServer::new(app)
        .workers(workers)
        .max_connections(room_for(listener.connections).div_ceil(workers))
        .max_connection_rate(listener.handshakes.div_ceil(workers))
        .on_connect(move |connection, beside| remember(connection, beside, unread))
        .tcp_nodelay(true)
        .keep_alive(listener.keep_alive)
        .client_request_timeout(listener.client_timeout)
        .tls_handshake_timeout(listener.handshake_timeout)
        // A client that says it sends no more has gone: nobody does anything for it any longer.
        .h1_allow_half_closed(false)
        .disable_signals();
    Ok(server.listen_rustls_0_23(listener.socket, listener.tls)?.run())
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

/// Keeps who is at the other end beside the connection; every request on it sees that. Whoever does not take what is sent to them
/// for `unread` is cut off.
fn remember(connection: &dyn Any, beside: &mut Extensions, unread: Duration) {
    let Some(stream) = connection.downcast_ref::<TlsStream<TcpStream>>() else { return };
    let (socket, tls) = stream.get_ref();
    if let Err(error) = set_tcp_user_timeout(socket, u32::try_from(unread.as_millis()).unwrap_or(u32::MAX)) {
        tracing::debug!(%error, "a connection that nobody will cut off");
    }
    let certificates = tls.peer_certificates().unwrap_or_default().iter().map(|certificate| certificate.clone().into_owned()).collect();
    beside.insert(Peer { address: socket.peer_addr().ok().map(|address| address.ip()), certificates });
}
