//! The edge routers that an identity may use, and the channels to them.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rustls::{ClientConfig, pki_types::ServerName};
use serde::Deserialize;
use tokio::{net::TcpStream, sync::Mutex as AsyncMutex, task::JoinSet, time::timeout};
use tokio_rustls::TlsConnector;

use crate::{Channel, ChannelError, controller::or_default, status::RouterStatus};

/// How long it may take until a channel to a router is open.
const MOST: Duration = Duration::from_secs(15);
/// The protocol of channels, by its ALPN name.
const PROTOCOL: &[u8] = b"ziti-edge";

/// An edge router in the answer of a controller.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EdgeRouter {
    pub(crate) name: String,
    #[serde(default, deserialize_with = "or_default")]
    supported_protocols: HashMap<String, String>,
    #[serde(default, deserialize_with = "or_default")]
    urls: HashMap<String, String>,
}

/// Why there is no channel to any router.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouterError {
    #[error("no edge router is offered for the service: none is online, or no policy allows one")]
    None,
    #[error("no edge router can be reached: {0}")]
    Unreachable(String),
    #[error("every edge router of the service is taken")]
    AllTaken,
}

/// The channels of one API session, by the address of the router.
pub(crate) struct Routers {
    tls: Mutex<TlsConnector>,
    open: Mutex<Open>,
    /// Held while channels are opened, so that several callers open one.
    opening: AsyncMutex<()>,
}

#[derive(Default)]
struct Open {
    channels: HashMap<String, Channel>,
    /// Rises with each API session, so that a channel of a former one is not kept.
    session: u64,
}

impl EdgeRouter {
    /// `host:port`.
    pub(crate) fn address(&self) -> Option<&str> {
        let url = self
            .supported_protocols
            .get("tls")
            .or_else(|| self.urls.get("tls"))?;
        let address = url.strip_prefix("tls:").unwrap_or(url);
        Some(address.trim_start_matches('/').trim_end_matches('/'))
    }
}

impl Routers {
    pub(crate) fn new(tls: ClientConfig) -> Self {
        Self {
            tls: Mutex::new(connector(tls)),
            open: Mutex::default(),
            opening: AsyncMutex::default(),
        }
    }

    /// Opens later channels in this way.
    pub(crate) fn set_tls(&self, tls: ClientConfig) {
        *self.tls.lock() = connector(tls);
    }

    /// Takes no former channel for later connections: the session that they belong to has ended.
    pub(crate) fn forget(&self) {
        let mut open = self.open.lock();
        open.channels.clear();
        open.session += 1;
    }

    /// An open channel to one of these routers; otherwise a new one to the first that answers. Its
    /// address is before it.
    ///
    /// # Errors
    /// [`RouterError`].
    pub(crate) async fn channel(
        &self,
        routers: &[EdgeRouter],
        token: &str,
    ) -> Result<(String, Channel), RouterError> {
        let addresses: Vec<&str> = routers.iter().filter_map(EdgeRouter::address).collect();
        if addresses.is_empty() {
            return Err(RouterError::None);
        }
        if let Some(open) = self.find(&addresses) {
            return Ok(open);
        }
        let _one = self.opening.lock().await;
        if let Some(open) = self.find(&addresses) {
            return Ok(open);
        }
        let session = self.open.lock().session;
        let mut opening = JoinSet::new();
        for address in addresses {
            let (address, token) = (address.to_owned(), token.to_owned());
            let tls = self.tls.lock().clone();
            opening.spawn(async move {
                let opened = open(&tls, &address, &token).await;
                (address, opened)
            });
        }
        let mut failures = Vec::new();
        while let Some(opened) = opening.join_next().await {
            match opened {
                Ok((address, Ok(channel))) => {
                    let mut open = self.open.lock();
                    if open.session == session {
                        open.channels.insert(address.clone(), channel.clone());
                    }
                    return Ok((address, channel));
                }
                Ok((address, Err(error))) => failures.push(format!("{address}: {error}")),
                Err(error) => failures.push(error.to_string()),
            }
        }
        Err(RouterError::Unreachable(failures.join("; ")))
    }
}

impl Routers {
    /// The open channels.
    pub(crate) fn status(&self) -> Vec<RouterStatus> {
        let open = self.open.lock();
        let mut all: Vec<_> = open
            .channels
            .iter()
            .filter(|(_, channel)| !channel.has_ended())
            .map(|(address, channel)| RouterStatus {
                address: address.clone(),
                uses: channel.uses(),
            })
            .collect();
        all.sort_by(|one, other| one.address.cmp(&other.address));
        all
    }

    /// An open channel to one of these addresses.
    fn find(&self, addresses: &[&str]) -> Option<(String, Channel)> {
        let mut open = self.open.lock();
        open.channels.retain(|_, channel| !channel.has_ended());
        addresses.iter().find_map(|one| {
            let channel = open.channels.get(*one)?;
            Some(((*one).to_owned(), channel.clone()))
        })
    }
}

fn connector(mut tls: ClientConfig) -> TlsConnector {
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    TlsConnector::from(Arc::new(tls))
}

/// Opens a channel to a router.
async fn open(tls: &TlsConnector, address: &str, token: &str) -> Result<Channel, ChannelError> {
    let connection = |error: std::io::Error| ChannelError::Connection(error.to_string());
    let opening = async {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| ChannelError::Connection("the host has no valid name".to_owned()))?;
        let stream = TcpStream::connect(address).await.map_err(connection)?;
        stream.set_nodelay(true).map_err(connection)?;
        let stream = tls.connect(name, stream).await.map_err(connection)?;
        Channel::open(stream, token).await
    };
    timeout(MOST, opening)
        .await
        .unwrap_or(Err(ChannelError::Silent(MOST)))
}
