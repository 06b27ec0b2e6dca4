//! The listener: actix-web over rustls, with the peer's certificates kept beside each connection.

use std::{any::Any, net::TcpListener, sync::Arc, time::Duration};

use actix_tls::accept::rustls_0_23::TlsStream;
use actix_web::{
    App, HttpServer,
    dev::{Extensions, Server},
    middleware::Compress,
    rt::net::TcpStream,
    web,
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
}

/// Starts answering. The server runs while it is polled.
///
/// # Errors
/// The socket cannot be used.
pub fn serve(front: Front, listener: Listener) -> std::io::Result<Server> {
    let front = web::Data::from(Arc::new(front));
    let app = move || App::new().app_data(front.clone()).wrap(Compress::default()).default_service(web::to(front::serve));
    let mut server = HttpServer::new(app)
        .on_connect(remember)
        .tcp_nodelay(true)
        .keep_alive(listener.keep_alive)
        .client_request_timeout(listener.client_timeout)
        .tls_handshake_timeout(listener.handshake_timeout)
        .disable_signals();
    if listener.workers > 0 {
        server = server.workers(listener.workers);
    }
    Ok(server.listen_rustls_0_23(listener.socket, listener.tls)?.run())
}

/// Keeps who is at the other end beside the connection; every request on it sees that.
fn remember(connection: &dyn Any, beside: &mut Extensions) {
    let Some(stream) = connection.downcast_ref::<TlsStream<TcpStream>>() else { return };
    let (socket, tls) = stream.get_ref();
    let certificates = tls.peer_certificates().unwrap_or_default().iter().map(|certificate| certificate.clone().into_owned()).collect();
    beside.insert(Peer { address: socket.peer_addr().ok().map(|address| address.ip()), certificates });
}
