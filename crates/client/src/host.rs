//! Hosting a service whose connections lead to a local server.

use std::{fmt, io::ErrorKind, net::SocketAddr, str::FromStr, sync::Arc, time::Duration};

use tokio::{
    net::{TcpStream, UdpSocket, lookup_host},
    sync::Semaphore,
    time::{Instant, error::Elapsed, sleep, timeout},
};

use crate::{
    DialError, Dialer, PumpError, Session, SessionError,
    datagrams::{DATAGRAM, Sink, Source, carry},
    pump,
};

/// The most connections of one service at a time.
const CONNECTIONS: usize = 10_000;
/// How long the local server may take to accept. Routers wait 5 seconds for the answer to a Dial.
const CONNECTING: Duration = Duration::from_secs(4);
/// The first pause before a service is hosted again; it doubles up to the last one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// The protocol of a local server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    Udp,
}

/// The address of a local server: `host:port`, with `tcp:` or `udp:` before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub protocol: Protocol,
    /// `host:port`.
    pub address: String,
}

impl FromStr for Target {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (protocol, address) = match text.split_once(':') {
            Some(("tcp", address)) => (Protocol::Tcp, address),
            Some(("udp", address)) => (Protocol::Udp, address),
            _ => (Protocol::Tcp, text),
        };
        let address = address.trim_start_matches("//");
        let is_valid = address.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0)
        });
        if is_valid {
            Ok(Self {
                protocol,
                address: address.to_owned(),
            })
        } else {
            Err("it must be host:port, tcp:host:port or udp:host:port")
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocol {
            Protocol::Tcp => f.write_str(&self.address),
            Protocol::Udp => write!(f, "udp:{}", self.address),
        }
    }
}

/// Hosts a service, by its name, until the task is dropped. A binding that ends is made anew, and
/// the reason is logged once.
pub async fn host(session: Session, service: String, target: Target) {
    let listener = uuid::Uuid::new_v4().to_string();
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    let (mut pause, mut told) = (FIRST_PAUSE, String::new());
    loop {
        let (ended, bound) = serve(&session, &service, &target, &listener, &free).await;
        let has_lasted = bound.is_some_and(|bound| bound.elapsed() > LAST_PAUSE);
        let reason = ended.to_string();
        if has_lasted || reason != told {
            tracing::warn!(%service, error = %reason, "the service is not hosted");
        }
        told = reason;
        if has_lasted {
            pause = FIRST_PAUSE;
        }
        sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

/// Hosts a service until its binding ends. Returns why, and when the binding began.
async fn serve(
    session: &Session,
    service: &str,
    target: &Target,
    listener: &str,
    free: &Arc<Semaphore>,
) -> (SessionError, Option<Instant>) {
    // The service may be another one since the last time.
    let bound = async {
        let described = session.service(service).await?;
        session.bind(&described, listener).await
    };
    let mut binding = match bound.await {
        Ok(binding) => binding,
        Err(error) => return (error, None),
    };
    let begin = Some(Instant::now());
    tracing::info!(%service, server = %target, "the service is hosted");
    loop {
        let dialer = match binding.next().await {
            Ok(dialer) => dialer,
            Err(error) => {
                let service = service.to_owned();
                return (SessionError::Dial { service, error }, begin);
            }
        };
        let Ok(one) = Arc::clone(free).try_acquire_owned() else {
            dialer.reject("the host has too many connections").await;
            continue;
        };
        let (service, target) = (service.to_owned(), target.clone());
        tokio::spawn(async move {
            let dialed_by = dialer.name().unwrap_or_default().to_owned();
            match lead(dialer, &target).await {
                Ok(()) => tracing::debug!(%service, %dialed_by, "a connection has ended"),
                Err(error) => tracing::warn!(%service, %dialed_by, %error, "a connection failed"),
            }
            drop(one);
        });
    }
}

/// Why a single connection failed.
#[derive(Debug, thiserror::Error)]
enum HostError {
    #[error("{target}: {reason}")]
    Target { target: String, reason: String },
    #[error(transparent)]
    Accept(#[from] DialError),
    #[error(transparent)]
    Pump(#[from] PumpError),
}

/// Leads a connection to the local server.
async fn lead(dialer: Dialer, target: &Target) -> Result<(), HostError> {
    match target.protocol {
        Protocol::Tcp => {
            let connecting = timeout(CONNECTING, TcpStream::connect(&target.address)).await;
            let (dialer, mut socket) = reached(dialer, target, connecting).await?;
            drop(socket.set_nodelay(true));
            let connection = dialer.accept().await?;
            let (input, output) = socket.split();
            let pumped = pump(connection, input, output).await;
            if pumped.is_err() {
                // What was cut off must not look whole.
                drop(socket.set_zero_linger());
            }
            Ok(pumped?)
        }
        Protocol::Udp => {
            let connecting = timeout(CONNECTING, connect_datagrams(&target.address)).await;
            let (dialer, socket) = reached(dialer, target, connecting).await?;
            let socket = Arc::new(socket);
            let answers = Answers {
                socket: Arc::clone(&socket),
                buffer: vec![0; DATAGRAM],
            };
            Ok(carry(dialer.accept().await?, answers, Server(socket)).await?)
        }
    }
}

/// What a server sends back.
struct Answers {
    socket: Arc<UdpSocket>,
    buffer: Vec<u8>,
}

impl Source for Answers {
    async fn next(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        loop {
            match self.socket.recv(&mut self.buffer).await {
                // The server is not there now, and may be soon.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                received => {
                    let datagram = self.buffer.get(..received?).unwrap_or_default();
                    return Ok(Some(datagram.to_vec()));
                }
            }
        }
    }
}

/// A server for datagrams.
struct Server(Arc<UdpSocket>);

impl Sink for Server {
    async fn send(&self, datagram: &[u8]) {
        drop(self.0.send(datagram).await);
    }
}

/// The socket, once it is connected. The dialer is told if it is not.
async fn reached<S>(
    dialer: Dialer,
    target: &Target,
    connected: Result<std::io::Result<S>, Elapsed>,
) -> Result<(Dialer, S), HostError> {
    let reason = match connected {
        Ok(Ok(socket)) => return Ok((dialer, socket)),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} seconds", CONNECTING.as_secs()),
    };
    let text = format!("the server behind the host cannot be reached: {reason}");
    dialer.reject(&text).await;
    Err(HostError::Target {
        target: target.to_string(),
        reason,
    })
}

async fn connect_datagrams(address: &str) -> std::io::Result<UdpSocket> {
    let mut last = std::io::Error::from(ErrorKind::NotFound);
    for address in lookup_host(address).await? {
        let own: SocketAddr = if address.is_ipv4() {
            ([0; 4], 0).into()
        } else {
            ([0_u16; 8], 0).into()
        };
        let socket = UdpSocket::bind(own).await?;
        match socket.connect(address).await {
            Ok(()) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}
