//! Serves REST connections in the protocol that the handshake selected.
//!
//! actix-web implements HTTP/1.1. HTTP/2 is implemented in `connection/http2.rs` with the library
//! `h2`, because actix-web does not bound the memory that it holds for an HTTP/2 client. Start with
//! [`connection_handlers`]. Invariant: a connection always ends with the listener, and the memory
//! held for a connection is in its account.

use std::{rc::Rc, sync::Arc, time::Duration};

use actix_http::{
    ConnectionType, HttpMessage, HttpService, Request, Response, StatusCode,
    body::BoxBody,
    h1::{H1Service, H1ServiceHandler, UpgradeHandler},
};
use actix_service::{
    IntoServiceFactory, Service, ServiceFactory, ServiceFactoryExt,
    boxed::{self, BoxService, BoxServiceFactory},
    fn_factory, fn_service, map_config,
};
use actix_web::{
    dev::{AppConfig, Extensions},
    web,
};
use listener::{AcceptedConnection, Shutdown, Stream};
use policy::authentication::network;
use rustix::net::sockopt::set_tcp_user_timeout;

use super::{
    connection_shared::ConnectionClient,
    guard::{ConnectionLimits, Guarded, STOP_GRACE},
    http2,
    memory_ledger::{Account, MemoryBounds, MemoryLedger},
    response_body::PART,
};
use crate::{
    call::Peer,
    dispatcher::Dispatcher,
    serve::{self, OnlyHead},
};

/// Bytes that TLS may buffer when the socket does not accept them.
const TLS_BUFFER: usize = 16 << 10;

/// The shared parts for serving connections on any thread.
#[derive(Clone)]
pub struct RestListener {
    pub dispatcher: Arc<Dispatcher>,
    pub limits: ConnectionLimits,
    /// Shared by all connections.
    pub ledger: MemoryLedger,
    pub stopping: Shutdown,
}

impl RestListener {
    /// Answers with this dispatcher, with bounds on the bytes held for clients.
    pub fn new(
        dispatcher: Arc<Dispatcher>,
        limits: ConnectionLimits,
        bounds: MemoryBounds,
        stopping: Shutdown,
    ) -> Self {
        dispatcher.end_with(stopping.clone());
        Self {
            dispatcher,
            limits,
            ledger: MemoryLedger::new(bounds),
            stopping,
        }
    }
}

/// A connection on which HTTP is spoken.
type Connection = Guarded<Stream>;

/// The service that answers requests of every protocol version.
type App = BoxServiceFactory<(), Request, Response<BoxBody>, Response<BoxBody>, ()>;

fn app(dispatcher: web::Data<Dispatcher>) -> App {
    let app = actix_web::App::new()
        .app_data(dispatcher)
        .default_service(web::to(serve::serve));
    let app = map_config(app.into_factory(), |()| AppConfig::default());
    boxed::factory(
        app.map(Response::from)
            .map_err(|error: actix_web::Error| error.error_response().into()),
    )
}

/// The service that passes on requests whose clients wait for `100 Continue`, or answers them.
type Expectation = BoxServiceFactory<(), Request, Request, Response<BoxBody>, ()>;

/// Lets the dispatcher check the heads of such requests (RFC 9110 section 10.1.1). actix-web sends
/// `100 Continue` for each request that is passed on. The connection of one that is not passed on
/// is closed, because its client may send the body or leave it out.
fn expectation(dispatcher: &web::Data<Dispatcher>) -> Expectation {
    let app = app(dispatcher.clone());
    boxed::factory(fn_factory(move || {
        let starting = app.new_service(());
        async move {
            let service = Rc::new(starting.await?);
            Ok(fn_service(move |request: Request| {
                let service = service.clone();
                async move {
                    let mut answer = service.call(head_of(&request)).await?;
                    if answer.status() == StatusCode::CONTINUE {
                        return Ok(request);
                    }
                    answer.head_mut().set_connection_type(ConnectionType::Close);
                    Err(answer)
                }
            }))
        }
    }))
}

/// A request with the head of another one and without a body.
fn head_of(request: &Request) -> Request {
    let mut head = Request::new();
    *head.head_mut() = request.head().clone();
    let mut beside = Extensions::new();
    beside.insert(OnlyHead);
    if let Some(peer) = request.conn_data::<Peer>() {
        beside.insert(peer.clone());
    }
    if let Some(account) = request.conn_data::<Account>() {
        beside.insert(account.clone());
    }
    *head.extensions_mut() = beside;
    head
}

/// Makes the connection handler of each thread.
pub fn connection_handlers(
    rest: RestListener,
) -> impl ServiceFactory<AcceptedConnection, Config = (), Response = (), Error = (), InitError = ()>
{
    let RestListener {
        dispatcher,
        limits,
        ledger,
        stopping,
    } = rest;
    fn_factory(move || {
        let dispatcher = web::Data::from(dispatcher.clone());
        let http1 = http1(dispatcher.clone(), limits, stopping.clone()).new_service(());
        let (http2, ledger) = (app(dispatcher).new_service(()), ledger.clone());
        async move {
            let handlers = Rc::new(ConnectionHandlers {
                http1: http1.await?,
                http2: Rc::new(http2.await?),
                limits,
                ledger,
            });
            Ok(fn_service(move |accepted| {
                let handlers = handlers.clone();
                async move {
                    handlers.enter(accepted).await;
                    Ok(())
                }
            }))
        }
    })
}

fn http1(
    dispatcher: web::Data<Dispatcher>,
    limits: ConnectionLimits,
    stopping: Shutdown,
) -> H1Service<Connection, App, BoxBody, Expectation> {
    HttpService::build()
        .graceful_shutdown_signal(move || {
            let mut guard = stopping.connection();
            async move { guard.ends().await }
        })
        .keep_alive(limits.keep_alive)
        .client_request_timeout(limits.head)
        .client_disconnect_timeout(STOP_GRACE)
        // A client that closes its sending side is treated as gone: its requests are cancelled.
        .h1_allow_half_closed(false)
        .h1_write_buffer_size(PART)
        .expect(expectation(&dispatcher))
        .on_connect_ext(|connection: &Connection, beside: &mut Extensions| {
            beside.insert(peer(&connection.stream));
            beside.insert(connection.account.clone());
        })
        .h1(app(dispatcher))
}

/// The services that answer on connections.
struct ConnectionHandlers {
    http1: H1ServiceHandler<Connection, AppService, BoxBody, ExpectationService, UpgradeHandler>,
    http2: Rc<AppService>,
    limits: ConnectionLimits,
    ledger: MemoryLedger,
}

type AppService = BoxService<Request, Response<BoxBody>, Response<BoxBody>>;
type ExpectationService = BoxService<Request, Request, Response<BoxBody>>;

impl ConnectionHandlers {
    /// Serves a connection until it ends, in the protocol that its handshake selected.
    async fn enter(&self, AcceptedConnection { mut stream, guard }: AcceptedConnection) {
        let address = stream.stream.get_ref().0.stream.peer_addr().ok();
        let (account, unread) = (
            self.ledger
                .open(address.map(|address| network(address.ip()))),
            self.limits.unread,
        );
        prepare(&mut stream, unread);
        let is_multiplexed = stream.stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let conversation = async {
            if is_multiplexed {
                let client = ConnectionClient {
                    peer: peer(&stream),
                    account: account.clone(),
                };
                let head = 2 * self.limits.head_bytes;
                let stream =
                    Guarded::multiplexed(stream, account.clone(), guard.clone(), unread, head);
                http2::serve(stream, self.http2.clone(), client, self.limits, guard).await;
            } else {
                let stream = Guarded::plain(
                    stream,
                    account.clone(),
                    guard,
                    unread,
                    self.limits.target_bytes,
                );
                if let Err(error) = self.http1.call((stream, address)).await {
                    tracing::debug!(%error, "a connection ended");
                }
            }
        };
        tokio::select! {
            () = conversation => {},
            () = account.is_cut() => tracing::debug!("a connection is closed: its client leaves too much unread"),
        }
    }
}

/// Sets the limits for data that the client does not accept.
fn prepare(stream: &mut Stream, unread: Duration) {
    let (socket, tls) = stream.stream.get_mut();
    let socket = &socket.stream;
    tls.set_buffer_limit(Some(TLS_BUFFER));
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY cannot be set: answers may be delayed");
    }
    if let Err(error) = set_tcp_user_timeout(
        socket,
        u32::try_from(unread.as_millis()).unwrap_or(u32::MAX),
    ) {
        tracing::debug!(%error, "TCP_USER_TIMEOUT cannot be set: a lost client may go unnoticed");
    }
}

/// The peer of a connection.
fn peer(stream: &Stream) -> Peer {
    let (socket, tls) = stream.stream.get_ref();
    let certificates = tls
        .peer_certificates()
        .unwrap_or_default()
        .iter()
        .map(|certificate| certificate.clone().into_owned())
        .collect();
    Peer {
        address: socket.stream.peer_addr().ok().map(|address| address.ip()),
        certificates,
    }
}
