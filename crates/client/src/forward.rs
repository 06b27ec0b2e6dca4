//! Local ports, and standard input and output, that lead to a service.

use std::{collections::HashMap, io, net::SocketAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, UdpSocket},
    sync::{Semaphore, mpsc},
    time::timeout,
};

use crate::{PumpError, Service, Session, SessionError, pump};

/// The most connections of one port at a time.
const CONNECTIONS: usize = 10_000;
/// The most senders of datagrams of one port at a time.
const FLOWS: usize = 1_000;
/// Datagrams of one sender that wait.
const WAITING: usize = 64;
/// After so long without a datagram, a sender is forgotten.
const IDLE: Duration = Duration::from_secs(60);
/// The most bytes of a datagram.
const DATAGRAM: usize = 65_535;

/// Where a port leads to.
#[derive(Clone)]
pub struct Forwarding {
    pub session: Session,
    pub service: Service,
    /// The terminator that is meant, by its identity.
    pub terminator: Option<String>,
}

/// Why a single connection failed.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    #[error(transparent)]
    Dial(#[from] SessionError),
    #[error(transparent)]
    Pump(#[from] PumpError),
}

impl Forwarding {
    async fn dial(&self) -> Result<crate::Connection, SessionError> {
        let terminator = self.terminator.as_deref();
        self.session.dial(&self.service, terminator, None).await
    }

    /// Leads standard input and output to the service, until both directions have ended.
    ///
    /// # Errors
    /// [`ForwardError`].
    pub async fn serve_standard_streams(&self) -> Result<(), ForwardError> {
        let connection = self.dial().await?;
        Ok(pump(connection, tokio::io::stdin(), tokio::io::stdout()).await?)
    }

    /// Leads each connection to this port to the service, until the task is dropped.
    pub async fn serve_connections(self, port: TcpListener) {
        let forwarding = Arc::new(self);
        let free = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Ok(one) = Arc::clone(&free).acquire_owned().await else {
                return;
            };
            let (socket, from) = match port.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    // Files are missing, for example: others have to end first.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let forwarding = Arc::clone(&forwarding);
            tokio::spawn(async move {
                let service = &forwarding.service.name;
                let served = async {
                    drop(socket.set_nodelay(true));
                    let connection = forwarding.dial().await?;
                    let (input, output) = socket.into_split();
                    Ok::<_, ForwardError>(pump(connection, input, output).await?)
                };
                match served.await {
                    Ok(()) => tracing::debug!(%service, %from, "a connection has ended"),
                    Err(error) => tracing::warn!(%service, %from, %error, "a connection failed"),
                }
                drop(one);
            });
        }
    }

    /// Leads datagrams to this port to the service: those of each sender over a connection of their
    /// own, each as one message.
    ///
    /// # Errors
    /// The port fails.
    pub async fn serve_datagrams(self, port: UdpSocket) -> io::Result<()> {
        let (forwarding, port) = (Arc::new(self), Arc::new(port));
        let flows: Arc<Mutex<HashMap<SocketAddr, mpsc::Sender<Vec<u8>>>>> = Arc::default();
        let mut buffer = vec![0; DATAGRAM];
        loop {
            let (length, from) = port.recv_from(&mut buffer).await?;
            let datagram = buffer.get(..length).unwrap_or_default().to_vec();
            let mut known = flows.lock();
            if let Some(flow) = known.get(&from) {
                // As in any network, what cannot be carried is lost.
                drop(flow.try_send(datagram));
                continue;
            }
            if known.len() >= FLOWS {
                tracing::warn!(%from, "a datagram is dropped: there are too many senders");
                continue;
            }
            let (flow, datagrams) = mpsc::channel(WAITING);
            drop(flow.try_send(datagram));
            known.insert(from, flow);
            drop(known);
            let (forwarding, port) = (Arc::clone(&forwarding), Arc::clone(&port));
            let flows = Arc::clone(&flows);
            tokio::spawn(async move {
                if let Err(error) = forwarding.carry(datagrams, &port, from).await {
                    let service = &forwarding.service.name;
                    tracing::warn!(%service, %from, %error, "datagrams cannot be carried");
                }
                flows.lock().remove(&from);
            });
        }
    }

    /// Carries the datagrams of one sender, and those for it, until there are none for a while.
    async fn carry(
        &self,
        mut datagrams: mpsc::Receiver<Vec<u8>>,
        port: &UdpSocket,
        from: SocketAddr,
    ) -> Result<(), ForwardError> {
        let (mut sender, mut receiver) = self.dial().await?.split();
        loop {
            let next = async {
                tokio::select! {
                    datagram = datagrams.recv() => match datagram {
                        Some(datagram) => {
                            sender.send(&datagram).await.map_err(PumpError::Send)?;
                            Ok(true)
                        }
                        None => Ok(false),
                    },
                    message = receiver.receive() => match message.map_err(PumpError::Receive)? {
                        Some(message) => {
                            port.send_to(&message, from).await.map_err(PumpError::Write)?;
                            Ok(true)
                        }
                        None => Ok::<_, ForwardError>(false),
                    },
                }
            };
            match timeout(IDLE, next).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) | Err(_) => return Ok(()),
                Ok(Err(error)) => return Err(error),
            }
        }
    }
}
