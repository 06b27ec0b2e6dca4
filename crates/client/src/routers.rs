//! The edge routers that an identity may use, and the channels to them.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rustls::{ClientConfig, pki_types::ServerName};
use serde::Deserialize;
use tokio::{
    net::TcpStream,
    sync::Mutex as AsyncMutex,
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_rustls::TlsConnector;

use crate::{Channel, ChannelError, controller::or_default, status::RouterStatus};

/// How long it may take until a channel to a router is open.
const MOST: Duration = Duration::from_secs(15);
/// For how long an address that did not answer is left out.
const FAILED: Duration = Duration::from_secs(30);
/// The most routers that are asked at the same time, and failures that are told.
const ROUTERS: usize = 32;
const SHOWN: usize = 8;
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

/// The channels of one API session, by the address of the router. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Routers(Arc<Shared>);

struct Shared {
    tls: Mutex<TlsConnector>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    channels: HashMap<String, Channel>,
    /// Held while a channel to an address is opened, so that several callers open one.
    opening: HashMap<String, Arc<AsyncMutex<()>>>,
    /// Until when an address that did not answer is left out while others are known.
    failed: HashMap<String, Instant>,
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
        Self(Arc::new(Shared {
            tls: Mutex::new(connector(tls)),
            open: Mutex::default(),
        }))
    }

    /// Opens later channels in this way.
    pub(crate) fn set_tls(&self, tls: ClientConfig) {
        *self.0.tls.lock() = connector(tls);
    }

    /// Takes no former channel for later connections: the session that they belong to has ended.
    pub(crate) fn forget(&self) {
        let mut open = self.0.open.lock();
        *open = Open {
            session: open.session + 1,
            ..Open::default()
        };
    }

    /// The open channels.
    pub(crate) fn status(&self) -> Vec<RouterStatus> {
        let open = self.0.open.lock();
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

    /// An open channel to one of these routers; otherwise a new one to the first that answers. Its
    /// address is before it. Routers that did not answer a moment ago are asked if there is no
    /// other one.
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
        let mut opening = JoinSet::new();
        for address in self.promising(&addresses) {
            let (this, token) = (self.clone(), token.to_owned());
            opening.spawn(async move {
                let opened = this.open(&address, &token).await;
                (address, opened)
            });
        }
        let mut failures = Vec::new();
        while let Some(opened) = opening.join_next().await {
            match opened {
                Ok((address, Ok(channel))) => return Ok((address, channel)),
                Ok((address, Err(error))) => failures.push(format!("{address}: {error}")),
                Err(error) => failures.push(error.to_string()),
            }
        }
        failures.sort();
        failures.truncate(SHOWN);
        Err(RouterError::Unreachable(failures.join("; ")))
    }

    /// An open channel to one of these addresses.
    fn find(&self, addresses: &[&str]) -> Option<(String, Channel)> {
        let mut open = self.0.open.lock();
        open.channels.retain(|_, channel| !channel.has_ended());
        addresses.iter().find_map(|one| {
            let channel = open.channels.get(*one)?;
            Some(((*one).to_owned(), channel.clone()))
        })
    }

    /// Those of the addresses that have not failed a moment ago; all of them if there is none.
    fn promising(&self, addresses: &[&str]) -> Vec<String> {
        let mut open = self.0.open.lock();
        let now = Instant::now();
        open.failed.retain(|_, until| *until > now);
        let is_promising = |one: &&&str| !open.failed.contains_key(**one);
        let mut all: Vec<&str> = addresses.iter().filter(is_promising).copied().collect();
        if all.is_empty() {
            all = addresses.to_vec();
        }
        all.truncate(ROUTERS);
        all.into_iter().map(str::to_owned).collect()
    }

    /// Opens a channel to an address, unless somebody else does so: then that one.
    async fn open(&self, address: &str, token: &str) -> Result<Channel, ChannelError> {
        let (session, turn) = {
            let mut open = self.0.open.lock();
            let turn = Arc::clone(open.opening.entry(address.to_owned()).or_default());
            (open.session, turn)
        };
        let _one = turn.lock().await;
        if let Some((_, channel)) = self.find(&[address]) {
            return Ok(channel);
        }
        let tls = self.0.tls.lock().clone();
        let opened = open(&tls, address, token).await;
        let mut open = self.0.open.lock();
        if open.session == session {
            match &opened {
                Ok(channel) => drop(open.channels.insert(address.to_owned(), channel.clone())),
                Err(_) => drop(
                    open.failed
                        .insert(address.to_owned(), Instant::now() + FAILED),
                ),
            }
        }
        opened
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
