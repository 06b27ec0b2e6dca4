//! Local ports, and standard input and output, that lead to a service.

use std::{collections::HashMap, io, net::SocketAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpStream, UdpSocket},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::sleep,
};

use crate::{
    Connection, PumpError, Service, Session, SessionError,
    datagrams::{DATAGRAM, Sink, Source, carry},
    pump,
    standard_output::StandardOutput,
    status::{ServiceRole, ServiceStatus},
};

/// The most connections of one port at a time.
const CONNECTIONS: usize = 10_000;
/// The most senders of datagrams of one port at a time.
const FLOWS: usize = 1_000;
/// Datagrams of one sender that wait.
const WAITING: usize = 64;
/// The most bytes of all datagrams of one port that wait.
const WAITING_BYTES: usize = 16 << 20;
/// How long the datagrams of a sender are dropped after a dial that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Where a port leads to. Cheap to clone.
#[derive(Clone)]
pub struct Forwarding {
    session: Session,
    /// As it was seen last.
    service: Arc<Mutex<Service>>,
    terminator: Option<String>,
}

/// Why a single connection failed.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    #[error(transparent)]
    Dial(#[from] SessionError),
    #[error(transparent)]
    Pump(#[from] PumpError),
}

/// A datagram that waits, and its room.
type Waiting = (Vec<u8>, OwnedSemaphorePermit);

impl Forwarding {
    /// Leads to a service, or to one of its terminators by its identity.
    pub fn new(session: Session, service: Service, terminator: Option<String>) -> Self {
        Self {
            session,
            service: Arc::new(Mutex::new(service)),
            terminator,
        }
    }

    fn name(&self) -> String {
        self.service.lock().name.clone()
    }

    /// Dials the service. If that fails and the service has become another one, dials that.
    ///
    /// # Errors
    /// [`SessionError`].
    pub async fn dial(&self) -> Result<Connection, SessionError> {
        let service = self.service.lock().clone();
        let terminator = self.terminator.as_deref();
        match self.session.dial(&service, terminator, None).await {
            Ok(connection) => Ok(connection),
            Err(error) => {
                let Ok(present) = self.session.service(&service.name).await else {
                    return Err(error);
                };
                if present == service {
                    return Err(error);
                }
                *self.service.lock() = present.clone();
                self.session.dial(&present, terminator, None).await
            }
        }
    }

    /// Shows the port in the status of the session for as long as it has a number of connections.
    fn describe(
        &self,
        port: io::Result<SocketAddr>,
        connections: impl Fn() -> Option<usize> + Send + Sync + 'static,
    ) {
        let service = Arc::clone(&self.service);
        let at: Vec<String> = port.iter().map(ToString::to_string).collect();
        self.session.describe(Box::new(move || {
            Some(ServiceStatus {
                service: service.lock().name.clone(),
                role: ServiceRole::Forwarded,
                at: at.clone(),
                connections: connections()?,
                has_failed: false,
            })
        }));
    }

    /// Leads standard input and output to the service, until both directions have ended.
    ///
    /// # Errors
    /// [`ForwardError`].
    pub async fn serve_standard_streams(&self) -> Result<(), ForwardError> {
        let connection = self.dial().await?;
        Ok(pump(connection, tokio::io::stdin(), StandardOutput::new()).await?)
    }

    /// Leads each connection to this port to the service, until the task is dropped.
    pub async fn serve_connections(self, port: TcpListener) {
        let free = Arc::new(Semaphore::new(CONNECTIONS));
        let weak = Arc::downgrade(&free);
        self.describe(port.local_addr(), move || {
            let free = weak.upgrade()?.available_permits();
            // One place is taken for the connection that is waited for.
            Some(CONNECTIONS.saturating_sub(free + 1))
        });
        loop {
            let Ok(one) = Arc::clone(&free).acquire_owned().await else {
                return;
            };
            let (socket, from) = match port.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    // Files are missing, for example: others have to end first.
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let forwarding = self.clone();
            tokio::spawn(async move {
                let service = forwarding.name();
                match forwarding.lead(socket, from).await {
                    Ok(()) => tracing::debug!(%service, %from, "a connection has ended"),
                    Err(error) => tracing::warn!(%service, %from, %error, "a connection failed"),
                }
                drop(one);
            });
        }
    }

    async fn lead(&self, mut socket: TcpStream, from: SocketAddr) -> Result<(), ForwardError> {
        drop(socket.set_nodelay(true));
        let led = match self.dial().await {
            Ok(connection) => {
                tracing::debug!(service = %self.name(), %from, "a connection has begun");
                let (input, output) = socket.split();
                pump(connection, input, output)
                    .await
                    .map_err(ForwardError::from)
            }
            Err(error) => Err(error.into()),
        };
        if led.is_err() {
            // What was cut off must not look whole.
            drop(socket.set_zero_linger());
        }
        led
    }

    /// Leads datagrams to this port to the service: those of each sender over a connection of their
    /// own, each as one message.
    ///
    /// # Errors
    /// The port fails.
    pub async fn serve_datagrams(self, port: UdpSocket) -> io::Result<()> {
        let port = Arc::new(port);
        let flows: Arc<Mutex<HashMap<SocketAddr, mpsc::Sender<Waiting>>>> = Arc::default();
        let room = Arc::new(Semaphore::new(WAITING_BYTES));
        let weak = Arc::downgrade(&flows);
        self.describe(port.local_addr(), move || {
            Some(weak.upgrade()?.lock().len())
        });
        let mut buffer = vec![0; DATAGRAM];
        let mut has_warned = false;
        loop {
            let (length, from) = port.recv_from(&mut buffer).await?;
            // As in any network, what cannot be carried is lost.
            let bytes = u32::try_from(length).unwrap_or(u32::MAX);
            let Ok(room) = Arc::clone(&room).try_acquire_many_owned(bytes) else {
                continue;
            };
            let datagram = buffer.get(..length).unwrap_or_default().to_vec();
            let mut known = flows.lock();
            if let Some(flow) = known.get(&from) {
                drop(flow.try_send((datagram, room)));
                continue;
            }
            if known.len() >= FLOWS {
                if !has_warned {
                    tracing::warn!("datagrams are dropped: there are too many senders");
                }
                has_warned = true;
                continue;
            }
            has_warned = false;
            let (flow, datagrams) = mpsc::channel(WAITING);
            drop(flow.try_send((datagram, room)));
            known.insert(from, flow);
            drop(known);
            let (forwarding, port, flows) = (self.clone(), Arc::clone(&port), Arc::clone(&flows));
            tokio::spawn(async move {
                if let Err(error) = forwarding.carry(datagrams, port, from).await {
                    let service = forwarding.name();
                    tracing::warn!(%service, %from, %error, "datagrams cannot be carried");
                    sleep(PAUSE).await;
                }
                flows.lock().remove(&from);
            });
        }
    }

    /// Carries the datagrams of one sender, and those for it.
    async fn carry(
        &self,
        datagrams: mpsc::Receiver<Waiting>,
        port: Arc<UdpSocket>,
        from: SocketAddr,
    ) -> Result<(), ForwardError> {
        let connection = self.dial().await?;
        Ok(carry(connection, Queue(datagrams), Port { port, to: from }).await?)
    }
}

/// The datagrams of one sender that wait.
struct Queue(mpsc::Receiver<Waiting>);

impl Source for Queue {
    async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.recv().await.map(|(datagram, _)| datagram))
    }
}

/// A port that answers one sender.
struct Port {
    port: Arc<UdpSocket>,
    to: SocketAddr,
}

impl Sink for Port {
    async fn send(&self, datagram: &[u8]) {
        drop(self.port.send_to(datagram, self.to).await);
    }
}
