//! The TCP sockets of a controller: one or more for `listen`, at most one each for `router.listen`,
//! `routers.listen` and `metrics.listen`.
//!
//! To add a socket, add a key in `config/`, a variant of [`Port`], a field here, a line in
//! [`Sockets::bind`] and its use in `controller/mod.rs`; leave it out of a drill
//! (`controller/drill.rs`), and let `doctor` check it (`maintenance/src/doctor/network.rs`). Not
//! here: the socket for commands on the host (`admin_socket/socket.rs`).

use std::{
    io,
    net::{SocketAddr, TcpListener},
};

use model::config::{self, Config};

use super::{Listener, Port};

/// A socket, and its address with the real port.
pub type Bound = (TcpListener, SocketAddr);

/// The sockets, which accept nothing yet.
pub struct Sockets {
    /// Of `listen`; at least one.
    pub main: Vec<Bound>,
    /// Of `router.listen`.
    pub router: Option<Bound>,
    /// Of `routers.listen`.
    pub control: Option<Bound>,
    /// Of `metrics.listen`.
    pub metrics: Option<Bound>,
}

/// Why a socket cannot be bound. The text begins with the key of the configuration.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("listen: must name at least one address")]
    NoAddress,
    #[error("{key}: {place}: {reason}")]
    Unusable {
        key: String,
        place: SocketAddr,
        reason: io::Error,
    },
}

impl Sockets {
    /// Binds every address of the configuration.
    ///
    /// # Errors
    /// An address cannot be used.
    pub fn bind(config: &Config) -> Result<Self, SocketError> {
        let of =
            |key: &str, place: Option<SocketAddr>| place.map(|place| bind(key, place)).transpose();
        let all: Vec<Bound> = config
            .listen
            .addresses()
            .iter()
            .map(|place| bind("listen", *place))
            .collect::<Result<_, _>>()?;
        if all.is_empty() {
            return Err(SocketError::NoAddress);
        }
        Ok(Self {
            main: all,
            router: of(
                "router.listen",
                config.router.listen.filter(|_| config.router.enabled),
            )?,
            control: of("routers.listen", config.routers.listen)?,
            metrics: of("metrics.listen", config.metrics.listen)?,
        })
    }

    /// The addresses of `listen`, with their real ports.
    pub fn bound(&self) -> Vec<SocketAddr> {
        self.main.iter().map(|(_, bound)| *bound).collect()
    }

    /// Builds the TLS listener. Metrics have a server of their own
    /// (`rest/src/metrics_listener.rs`).
    pub fn listener(self, tls: rustls::ServerConfig, http: &config::Http) -> Listener {
        let all = self.main.into_iter().map(|bound| (Port::All, bound));
        let router = self.router.map(|bound| (Port::Router, bound));
        let control = self.control.map(|bound| (Port::Control, bound));
        Listener {
            sockets: all
                .chain(router)
                .chain(control)
                .map(|(port, (socket, _))| (port, socket))
                .collect(),
            tls,
            workers: http.workers,
            handshake_timeout: http.handshake_timeout.duration(),
            connections: http.max_connections,
            handshakes: http.max_handshakes,
        }
    }
}

fn bind(key: &str, place: SocketAddr) -> Result<Bound, SocketError> {
    let bound = TcpListener::bind(place)
        .and_then(|socket| socket.local_addr().map(|bound| (socket, bound)));
    bound.map_err(|reason| SocketError::Unusable {
        key: key.to_owned(),
        place,
        reason,
    })
}
