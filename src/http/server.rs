//! The listener: accepts connections, has TLS spoken on them, and hands each to what answers on it.
//!
//! actix does accepting, threads, TLS and HTTP/1.1. HTTP/2 is ours over the library `h2` (`multiplexed.rs`), because nothing else bounds what
//! it holds for a client. Start with [`serve`]; [`Doors::enter`] is where a connection gets its protocol. Invariant: whatever a connection
//! does, it ends with `Stopping`, and what is held for it is in its account.

use std::{io, net::TcpListener, num::NonZero, rc::Rc, sync::Arc, thread::available_parallelism, time::Duration};

use actix_http::{
    HttpService, Request, Response,
    body::BoxBody,
    h1::{ExpectHandler, H1Service, H1ServiceHandler, UpgradeHandler},
};
use actix_server::{Server, ServerHandle};
use actix_service::{
    IntoServiceFactory, Service, ServiceFactory, ServiceFactoryExt, apply_fn_factory,
    boxed::{self, BoxService, BoxServiceFactory},
    fn_factory, fn_service, map_config,
};
use actix_tls::accept::{
    TlsError, max_concurrent_tls_connect,
    rustls_0_23::{Acceptor, AcceptorService, TlsStream},
};
use actix_web::{
    dev::{AppConfig, Extensions},
    rt::net::TcpStream,
    web,
};
use rustix::{
    net::sockopt::set_tcp_user_timeout,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

use super::{
    call::Peer,
    connection::{Guarded, LEAVING, Patience},
    front::{self, Front},
    ledger::{Bounds, Ledger},
    multiplexed::{self, Client},
    outgoing::PART,
    plaintext,
    stopping::{Here, Stopping},
};

/// Sockets that are bound, and how to treat whoever comes.
pub struct Listener {
    pub sockets: Vec<TcpListener>,
    pub tls: rustls::ServerConfig,
    /// Threads; 0 for one a core.
    pub workers: usize,
    pub handshake_timeout: Duration,
    /// Connections at the same time, in all.
    pub connections: usize,
    /// TLS handshakes at the same time, in all.
    pub handshakes: usize,
    pub patience: Patience,
    /// Bytes that are held for clients.
    pub bounds: Bounds,
}

/// Open files that are no connections: the data file, the log, sockets to key sets and whatever else.
const OTHER_FILES: usize = 128;
/// However few files the system allows, so many connections are tried.
const FEWEST: usize = 16;
/// How long requests that are under way may take once the listener ends.
const LONGEST: Duration = Duration::from_secs(30);
/// Bytes that TLS buffers of what the socket does not take.
const TLS_BUFFER: usize = 16 << 10;

/// A listener that runs.
pub struct Running {
    handle: ServerHandle,
    stopping: Stopping,
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

/// Starts answering. The server runs while it is polled.
///
/// # Errors
/// A socket cannot be used.
pub fn serve(front: Front, listener: Listener) -> io::Result<(Server, Running)> {
    let front = web::Data::from(Arc::new(front));
    let workers = if listener.workers > 0 { listener.workers } else { available_parallelism().map_or(1, NonZero::get) };
    max_concurrent_tls_connect(listener.handshakes.div_ceil(workers));
    let connections = room_for(listener.connections).div_ceil(workers);
    let mut builder = Server::build().workers(workers).max_concurrent_connections(connections).disable_signals().shutdown_timeout(1);
    let Listener { sockets, tls, handshake_timeout, patience, bounds, .. } = listener;
    let (stopping, ledger) = (Stopping::default(), Ledger::new(bounds));
    let ends = stopping.clone();
    let interfaces = move || {
        let mut acceptor = Acceptor::new(tls.clone());
        acceptor.set_handshake_timeout(handshake_timeout);
        let coming = ends.clone();
        let first = fn_service(move |socket: TcpStream| {
            let mut here = coming.connection();
            async move {
                tokio::select! {
                    socket = plaintext::admitted(socket, handshake_timeout) => socket.map(|socket| (socket, here)).ok_or(()),
                    () = here.ends() => Err(()),
                }
            }
        });
        let accepted = apply_fn_factory::<_, _, _, _, (TcpStream, Here), TcpStream, _, _>(
            acceptor,
            move |(socket, mut here), acceptor: &AcceptorService| {
                let handshake = acceptor.call(socket);
                async move {
                    tokio::select! {
                        stream = handshake => stream.map(|stream| (stream, here)),
                        () = here.ends() => Err(TlsError::Timeout),
                    }
                }
            },
        );
        first.and_then(accepted.map_err(drop)).and_then(doors(front.clone(), patience, ledger.clone(), ends.clone()))
    };
    for (number, socket) in sockets.into_iter().enumerate() {
        builder = builder.listen(format!("interfaces {}", number + 1), socket, interfaces.clone())?;
    }
    let server = builder.run();
    let running = Running { handle: server.handle(), stopping };
    Ok((server, running))
}

/// A connection whose handshake is over.
type Connection = Guarded<TlsStream<TcpStream>>;

/// What answers requests, whatever they came over.
type App = BoxServiceFactory<(), Request, Response<BoxBody>, Response<BoxBody>, ()>;

fn app(front: web::Data<Front>) -> App {
    let app = actix_web::App::new().app_data(front).default_service(web::to(front::serve));
    let app = map_config(app.into_factory(), |()| AppConfig::default());
    boxed::factory(app.map(Response::from).map_err(|error: actix_web::Error| error.error_response().into()))
}

/// What a connection is handed to, one for each thread.
fn doors(
    front: web::Data<Front>,
    patience: Patience,
    ledger: Ledger,
    stopping: Stopping,
) -> impl ServiceFactory<(TlsStream<TcpStream>, Here), Config = (), Response = (), Error = (), InitError = ()> {
    fn_factory(move || {
        let http1 = http1(front.clone(), patience, stopping.clone()).new_service(());
        let (http2, ledger) = (app(front.clone()).new_service(()), ledger.clone());
        async move {
            let doors = Rc::new(Doors { http1: http1.await?, http2: Rc::new(http2.await?), patience, ledger });
            Ok(fn_service(move |(stream, here)| {
                let doors = doors.clone();
                async move {
                    doors.enter(stream, here).await;
                    Ok(())
                }
            }))
        }
    })
}

fn http1(front: web::Data<Front>, patience: Patience, stopping: Stopping) -> H1Service<Connection, App, BoxBody> {
    HttpService::build()
        .graceful_shutdown_signal(move || {
            let mut here = stopping.connection();
            async move { here.ends().await }
        })
        .keep_alive(patience.keep_alive)
        .client_request_timeout(patience.head)
        .client_disconnect_timeout(LEAVING)
        // A client that says it sends no more has gone: nobody does anything for it any longer.
        .h1_allow_half_closed(false)
        .h1_write_buffer_size(PART)
        .on_connect_ext(|connection: &Connection, beside: &mut Extensions| {
            beside.insert(peer(&connection.stream));
            beside.insert(connection.account.clone());
        })
        .h1(app(front))
}

/// What answers on connections.
struct Doors {
    http1: H1ServiceHandler<Connection, AppService, BoxBody, ExpectHandler, UpgradeHandler>,
    http2: Rc<AppService>,
    patience: Patience,
    ledger: Ledger,
}

type AppService = BoxService<Request, Response<BoxBody>, Response<BoxBody>>;

impl Doors {
    /// Has a connection answered until it ends, in the protocol that its handshake agreed on.
    async fn enter(&self, mut stream: TlsStream<TcpStream>, here: Here) {
        let (account, unread) = (self.ledger.open(), self.patience.unread);
        prepare(&mut stream, unread);
        let is_multiplexed = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let conversation = async {
            if is_multiplexed {
                let client = Client { peer: peer(&stream), account: account.clone() };
                let head = 2 * self.patience.head_bytes;
                let stream = Guarded::multiplexed(stream, account.clone(), here.clone(), unread, head);
                multiplexed::serve(stream, self.http2.clone(), client, self.patience, here).await;
            } else {
                let address = stream.get_ref().0.peer_addr().ok();
                let stream = Guarded::plain(stream, account.clone(), here, unread);
                if let Err(error) = self.http1.call((stream, address)).await {
                    tracing::debug!(%error, "a connection ended");
                }
            }
        };
        tokio::select! {
            () = conversation => {},
            () = account.is_cut() => tracing::debug!("a connection is cut off: too much is left unread"),
        }
    }
}

/// Sets what the system and TLS do with what is not taken.
fn prepare(stream: &mut TlsStream<TcpStream>, unread: Duration) {
    let (socket, tls) = stream.get_mut();
    tls.set_buffer_limit(Some(TLS_BUFFER));
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "a connection that is slow to answer");
    }
    if let Err(error) = set_tcp_user_timeout(socket, u32::try_from(unread.as_millis()).unwrap_or(u32::MAX)) {
        tracing::debug!(%error, "a connection whose client may vanish unnoticed");
    }
}

/// Who is at the other end.
fn peer(stream: &TlsStream<TcpStream>) -> Peer {
    let (socket, tls) = stream.get_ref();
    let certificates = tls.peer_certificates().unwrap_or_default().iter().map(|certificate| certificate.clone().into_owned()).collect();
    Peer { address: socket.peer_addr().ok().map(|address| address.ip()), certificates }
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
