//! The sockets of a controller, one set for each key of the configuration that names an address, and the addresses that clients are told.

use std::net::{SocketAddr, TcpListener};

use super::{built_in_router, running::NotStarted};
use crate::{
    config::{self, Address, Config},
    listener::{self, Listener},
};

/// A socket, and its address with the real port.
pub(super) type Bound = (TcpListener, SocketAddr);

/// The sockets, which accept nothing yet.
pub(super) struct Sockets {
    /// Of `listen`; at least one.
    pub all: Vec<Bound>,
    /// Of `router.listen`.
    pub router: Option<Bound>,
    /// Of `routers.listen`.
    pub control: Option<Bound>,
    /// Of `metrics.listen`.
    pub metrics: Option<Bound>,
}

/// The addresses that clients are told.
pub(super) struct Addresses {
    /// Of the controller; at least one.
    pub clients: Vec<Address>,
    /// Of the built-in router, if it is enabled.
    pub router: Option<Address>,
}

impl Sockets {
    /// Binds every address of the configuration.
    ///
    /// # Errors
    /// An address cannot be used; the text begins with its key.
    pub(super) fn bind(config: &Config) -> Result<Self, NotStarted> {
        let of = |key: &str, place: Option<SocketAddr>| place.map(|place| bind(key, place)).transpose();
        let all: Vec<Bound> = config.listen.addresses().iter().map(|place| bind("listen", *place)).collect::<Result<_, _>>()?;
        if all.is_empty() {
            return Err(NotStarted("listen: must name at least one address".into()));
        }
        Ok(Self {
            all,
            router: of("router.listen", config.router.listen.filter(|_| config.router.enabled))?,
            control: of("routers.listen", config.routers.listen)?,
            metrics: of("metrics.listen", config.metrics.listen)?,
        })
    }

    /// The addresses of `listen`, with their real ports.
    pub(super) fn bound(&self) -> Vec<SocketAddr> {
        self.all.iter().map(|(_, bound)| *bound).collect()
    }

    /// The listener of everything but metrics.
    pub(super) fn listener(self, tls: rustls::ServerConfig, http: &config::Http) -> Listener {
        let all = self.all.into_iter().map(|bound| (listener::Port::All, bound));
        let router = self.router.map(|bound| (listener::Port::Router, bound));
        let control = self.control.map(|bound| (listener::Port::Control, bound));
        Listener {
            sockets: all.chain(router).chain(control).map(|(port, (socket, _))| (port, socket)).collect(),
            tls,
            workers: http.workers,
            handshake_timeout: http.handshake_timeout.duration(),
            connections: http.max_connections,
            handshakes: http.max_handshakes,
        }
    }
}

impl Addresses {
    /// Those of a configuration and its sockets.
    pub(super) fn of(config: &Config, sockets: &Sockets) -> Self {
        let bound = sockets.bound();
        let of_router = sockets.router.as_ref().map(|(_, bound)| *bound);
        let router = bound.first().and_then(|first| built_in_router::address(config, *first, of_router));
        Self { clients: config.advertised(&bound), router }
    }

    /// The address of the controller that new enrollments get.
    pub(super) fn first(&self) -> String {
        self.clients.first().map(ToString::to_string).unwrap_or_default()
    }
}

fn bind(key: &str, place: SocketAddr) -> Result<Bound, NotStarted> {
    let bound = TcpListener::bind(place).and_then(|socket| socket.local_addr().map(|bound| (socket, bound)));
    bound.map_err(|e| NotStarted(format!("{key}: {place}: {e}")))
}
