//! The addresses that the controller sends to its clients.

use listener::Sockets;
use model::config::{Address, Config};

use super::routers;

/// The addresses that the controller sends to its clients.
pub(super) struct Addresses {
    /// Of the controller; at least one.
    pub clients: Vec<Address>,
    /// Of the built-in router, if it is enabled.
    pub router: Option<Address>,
}

impl Addresses {
    /// The addresses of a configuration and its bound sockets.
    pub(super) fn of(config: &Config, sockets: &Sockets) -> Self {
        let bound = sockets.bound();
        let of_router = sockets.router.as_ref().map(|(_, bound)| *bound);
        let router = bound
            .first()
            .and_then(|first| routers::address(config, *first, of_router));
        Self {
            clients: config.advertised(&bound),
            router,
        }
    }

    /// The address of the controller that new enrollments get.
    pub(super) fn first(&self) -> String {
        self.clients
            .first()
            .map(ToString::to_string)
            .unwrap_or_default()
    }
}
