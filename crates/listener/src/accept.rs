//! Accepts one connection: from the socket to the server of its protocol.

use std::{io, os::fd::AsFd, sync::Arc, time::Duration};

use policy::authentication::network;
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl,
};
use rustls::ServerConfig;
use tokio::{io::AsyncReadExt, net::TcpStream, sync::oneshot, time::timeout};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{
    accepted::{AcceptedConnection, Stream, StreamServer, Unauthenticated},
    client_hello::{self, Offers},
    fair_queue::ClientPrefix,
    handshake_slots::{HandshakeSlot, HandshakeSlots},
    plaintext,
    rewind::Rewind,
    shutdown::Shutdown,
};

/// The ALPN protocol that SDKs offer to a router.
const ROUTER: &[u8] = b"ziti-edge";
/// The ALPN protocol that remote routers offer on their control channel.
const CONTROL: &[u8] = b"ziti-ctrl";
/// The ALPN protocol that remote routers offer on links.
const LINK: &[u8] = b"ziti-link";
/// The first byte of every message on a channel to a router.
const FRAME: u8 = 0x03;
/// The maximum number of bytes that a client may send between its ClientHello and the end of its
/// handshake: its certificates with their proof, and bytes that TLS reads ahead.
const MAX_HANDSHAKE: usize = 32 << 10;
/// TCP keep-alive: the first probe after this idle time, then one per interval, up to `PROBES`
/// unanswered ones.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const PROBES: u32 = 4;

/// The TLS configuration for each kind of client.
#[derive(Clone)]
pub(crate) struct Protocols {
    rest: TlsAcceptor,
    router: TlsAcceptor,
    control: TlsAcceptor,
    link: TlsAcceptor,
}

impl Protocols {
    /// `rest` offers the ALPN protocols of REST.
    pub(crate) fn of(rest: ServerConfig) -> Self {
        let offering = |protocol: &[u8]| -> TlsAcceptor {
            let mut config = rest.clone();
            config.alpn_protocols = vec![protocol.to_vec()];
            Arc::new(config).into()
        };
        Self {
            router: offering(ROUTER),
            control: offering(CONTROL),
            link: offering(LINK),
            rest: Arc::new(rest).into(),
        }
    }
}

/// The clients that a port serves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Port {
    All,
    /// Clients of the built-in router.
    Router,
    /// Remote routers.
    Control,
}

/// Accepts connections; shared by all of one listener.
#[derive(Clone)]
pub(crate) struct Acceptor {
    pub protocols: Protocols,
    pub router: Option<StreamServer>,
    pub control: StreamServer,
    /// Takes the links of remote routers to the built-in router, if it is enabled.
    pub link: Option<StreamServer>,
    pub port: Port,
    /// One slot per concurrent handshake.
    pub handshakes: HandshakeSlots,
    /// The slots that clients of the router may hold, from the handshake until they are
    /// authenticated.
    pub router_handshakes: HandshakeSlots,
    pub handshake_timeout: Duration,
    pub stopping: Shutdown,
}

impl Acceptor {
    /// Accepts a connection. Returns a connection for REST; one for the router has ended when this
    /// returns `None`.
    pub(crate) async fn enter(&self, socket: TcpStream) -> Option<AcceptedConnection> {
        let guard = self.stopping.connection();
        let mut ends = guard.clone();
        let accepted = tokio::select! {
            accepted = self.accept(socket) => accepted,
            () = ends.ends() => return None,
        };
        match accepted {
            Ok(stream) => stream.map(|stream| AcceptedConnection { stream, guard }),
            Err(error) => {
                tracing::debug!(%error, "a connection was not accepted");
                None
            }
        }
    }

    async fn accept(&self, socket: TcpStream) -> io::Result<Option<Stream>> {
        let Some(socket) = plaintext::admitted(socket, self.handshake_timeout).await else {
            return Ok(None);
        };
        let network = socket.peer_addr().ok().map(|address| network(address.ip()));
        let handshake = self
            .handshakes
            .enter(network)
            .await
            .ok_or(io::ErrorKind::NotConnected)?;
        // Boxed, because the task lives as long as the connection and keeps memory for every future
        // that it awaits without a box.
        let (offers, socket) = self.in_time(Box::pin(client_hello::read(socket))).await?;
        if is_for_control(&offers) && self.port != Port::Router {
            let slot = self.slot(handshake, network).await?;
            return self
                .hand_over(&self.control, &self.protocols.control, true, socket, slot)
                .await;
        }
        if self.port == Port::Control {
            return Err(io::Error::other("this port serves routers only"));
        }
        if is_for_link(&offers) {
            let link = self.link.as_ref().ok_or_else(|| {
                io::Error::other("no links to routers: the built-in router is not enabled")
            })?;
            let slot = self.slot(handshake, network).await?;
            return self
                .hand_over(link, &self.protocols.link, true, socket, slot)
                .await;
        }
        match &self.router {
            Some(router) if self.port == Port::Router || is_for_router(&offers) => {
                let slot = self.slot(handshake, network).await?;
                let is_sure = self.port == Port::Router || offers.is_some();
                self.hand_over(router, &self.protocols.router, is_sure, socket, slot)
                    .await
            }
            _ => {
                let accepted = Box::pin(async {
                    self.protocols
                        .rest
                        .accept(socket.limited(MAX_HANDSHAKE))
                        .await
                });
                let mut stream = self.in_time(accepted).await?;
                stream.get_mut().0.unlimited();
                Ok(Some(Rewind::new(Vec::new(), stream)))
            }
        }
    }

    /// A slot for a client of the router until it is authenticated. Clients of the router hold at
    /// most half of the slots for handshakes; the rest is left to clients of REST.
    async fn slot(
        &self,
        handshake: HandshakeSlot,
        network: ClientPrefix,
    ) -> io::Result<Unauthenticated> {
        if let Some(of_router) = self.router_handshakes.try_enter() {
            return Ok(Unauthenticated {
                _handshake: handshake,
                _of_router: of_router,
            });
        }
        drop(handshake);
        let of_router = self
            .in_time(async {
                self.router_handshakes
                    .enter(network)
                    .await
                    .ok_or(io::ErrorKind::NotConnected.into())
            })
            .await?;
        let handshake = self
            .handshakes
            .enter(network)
            .await
            .ok_or(io::ErrorKind::NotConnected)?;
        Ok(Unauthenticated {
            _handshake: handshake,
            _of_router: of_router,
        })
    }

    /// Hands a connection over to the runtime of a router. Returns `None` when the connection has
    /// ended, or the stream if the first byte shows that it is for REST. With `is_sure` the
    /// connection is for the router, whatever its first byte is.
    async fn hand_over(
        &self,
        router: &StreamServer,
        tls: &TlsAcceptor,
        is_sure: bool,
        socket: Rewind<TcpStream>,
        slot: Unauthenticated,
    ) -> io::Result<Option<Stream>> {
        let (read, socket) = socket.into_parts();
        let socket = socket.into_std()?;
        let (serve, tls, time) = (router.serve.clone(), tls.clone(), self.handshake_timeout);
        let (give_back, given_back) = oneshot::channel();
        router.runtime.spawn(async move {
            let accepted = async {
                let socket = TcpStream::from_std(socket)?;
                keep_alive(&socket);
                first_byte(
                    tls.accept(Rewind::new(read, socket).limited(MAX_HANDSHAKE))
                        .await?,
                )
                .await
            };
            match timeout(time, accepted)
                .await
                .map_err(io::Error::from)
                .flatten()
            {
                Ok((first, stream)) if is_sure || first == FRAME => {
                    serve(Rewind::new(vec![first], stream), slot).await
                }
                Ok((first, stream)) => drop(give_back.send(Rewind::new(vec![first], stream))),
                Err(error) => tracing::debug!(%error, "a connection was not accepted"),
            }
        });
        let Ok(mut stream) = given_back.await else {
            return Ok(None);
        };
        let socket = &mut stream.stream.get_mut().0.stream;
        *socket = registered_here(socket)?;
        Ok(Some(stream))
    }

    async fn in_time<T>(&self, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        timeout(self.handshake_timeout, work).await?
    }
}

/// Whether a connection may be for the built-in router: the client offers `ziti-edge`, or sends no
/// ALPN extension.
fn is_for_router(offers: &Offers) -> bool {
    offers
        .as_ref()
        .is_none_or(|offers| offers.iter().any(|offer| offer == ROUTER))
}

/// Whether a client is a remote router that opens its control channel.
fn is_for_control(offers: &Offers) -> bool {
    offers
        .as_ref()
        .is_some_and(|offers| offers.iter().any(|offer| offer == CONTROL))
}

/// Whether a client is a remote router that dials a link.
fn is_for_link(offers: &Offers) -> bool {
    offers
        .as_ref()
        .is_some_and(|offers| offers.iter().any(|offer| offer == LINK))
}

/// Reads the first byte that a client sends after the handshake.
async fn first_byte(
    mut stream: TlsStream<Rewind<TcpStream>>,
) -> io::Result<(u8, TlsStream<Rewind<TcpStream>>)> {
    stream.get_mut().0.unlimited();
    let byte = stream.read_u8().await?;
    Ok((byte, stream))
}

/// The same socket for the runtime of this thread. Otherwise the runtime that accepted it would be
/// woken whenever the client sends or reads.
fn registered_here(socket: &TcpStream) -> io::Result<TcpStream> {
    TcpStream::from_std(socket.as_fd().try_clone_to_owned()?.into())
}

/// Sends messages without delay, and detects a dead peer on an idle connection.
fn keep_alive(socket: &TcpStream) {
    let set = || -> io::Result<()> {
        socket.set_nodelay(true)?;
        set_socket_keepalive(socket, true)?;
        set_tcp_keepidle(socket, KEEP_ALIVE)?;
        set_tcp_keepintvl(socket, KEEP_ALIVE)?;
        Ok(set_tcp_keepcnt(socket, PROBES)?)
    };
    if let Err(error) = set() {
        tracing::debug!(%error, "TCP keep-alive cannot be set: a lost peer may go unnoticed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_clients_may_want_the_router() {
        let offers =
            |names: &[&str]| Some(names.iter().map(|name| name.as_bytes().to_vec()).collect());
        assert!(
            is_for_router(&None)
                && is_for_router(&offers(&["ziti-edge"]))
                && is_for_router(&offers(&["h2", "ziti-edge"]))
        );
        assert!(
            !is_for_router(&offers(&["h2", "http/1.1"]))
                && !is_for_router(&offers(&["ziti-link"]))
                && !is_for_router(&offers(&[]))
        );
        assert!(
            is_for_control(&offers(&["ziti-ctrl"]))
                && !is_for_control(&None)
                && !is_for_control(&offers(&["ziti-edge", "h2"]))
        );
    }
}
