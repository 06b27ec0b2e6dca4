//! Leading one connection to its local server.

use std::{io, io::ErrorKind, sync::Arc, time::Duration};

use tokio::{
    net::UdpSocket,
    time::{error::Elapsed, timeout},
};

use super::{
    config::HostConfig,
    connect::{connect_datagrams, connect_stream},
    destination::{Destination, Refusal, is_test},
    target::Protocol,
};
use crate::{
    ChannelError, DialError, Dialer, PumpError, ReceiveError,
    datagrams::{DATAGRAM, Sink, Source, carry},
    pump,
};

/// What a host says first on a connection that tests the network.
pub(crate) const ECHO: &[u8] = b"overkeep echo 1";
/// How long such a connection may last, and how many bytes it may carry.
const TESTING: Duration = Duration::from_secs(30);
const TEST_BYTES: usize = 64 << 20;

/// Why a single connection failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum HostError {
    #[error("{target}: {reason}")]
    Target { target: String, reason: String },
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Accept(#[from] DialError),
    #[error(transparent)]
    Pump(#[from] PumpError),
    #[error(transparent)]
    Receive(#[from] ReceiveError),
    #[error(transparent)]
    Channel(#[from] ChannelError),
}

/// Leads a connection to the server that its dialer may reach.
pub(super) async fn lead(dialer: Dialer, config: &HostConfig) -> Result<(), HostError> {
    if is_test(dialer.app_data()) {
        return timeout(TESTING, echo(dialer)).await.unwrap_or(Ok(()));
    }
    let destination = match config.rules.destination(dialer.app_data()) {
        Ok(destination) => destination,
        Err(refusal) => {
            dialer.reject(&refusal.to_string()).await;
            return Err(refusal.into());
        }
    };
    let proxy = config.proxy.as_deref();
    match destination.target.protocol {
        Protocol::Tcp => {
            let connecting = connect_stream(&destination, proxy);
            let connecting = timeout(config.connecting, connecting).await;
            let (dialer, mut socket) = reached(dialer, &destination, config, connecting).await?;
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
            let connecting = async {
                match proxy {
                    None => connect_datagrams(&destination).await,
                    Some(_) => Err(io::Error::other("the proxy carries no datagrams")),
                }
            };
            let connecting = timeout(config.connecting, connecting).await;
            let (dialer, socket) = reached(dialer, &destination, config, connecting).await?;
            let socket = Arc::new(socket);
            let answers = Answers {
                socket: Arc::clone(&socket),
                buffer: vec![0; DATAGRAM],
            };
            Ok(carry(dialer.accept().await?, answers, Server(socket)).await?)
        }
    }
}

/// Sends back what comes, so that a dialer can measure the way.
async fn echo(dialer: Dialer) -> Result<(), HostError> {
    let (mut sender, mut receiver) = dialer.accept().await?.split();
    sender.send(ECHO).await?;
    let mut carried = 0;
    while let Some(message) = receiver.receive().await? {
        carried += message.len();
        if carried > TEST_BYTES {
            break;
        }
        sender.send(&message).await?;
    }
    Ok(())
}

/// What a server sends back.
struct Answers {
    socket: Arc<UdpSocket>,
    buffer: Vec<u8>,
}

impl Source for Answers {
    async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
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
    destination: &Destination,
    config: &HostConfig,
    connected: Result<io::Result<S>, Elapsed>,
) -> Result<(Dialer, S), HostError> {
    let reason = match connected {
        Ok(Ok(socket)) => return Ok((dialer, socket)),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {:?}", config.connecting),
    };
    let text = format!("the server behind the host cannot be reached: {reason}");
    dialer.reject(&text).await;
    Err(HostError::Target {
        target: destination.target.to_string(),
        reason,
    })
}
