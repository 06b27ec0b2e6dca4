//! The links to remote routers. Each has a connection for payloads and usually another one for
//! acknowledgements.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use wire::frame::Frame;

use crate::built_in_router::send_queue::SendQueue;

/// Maximum links of one router. Routers have one, and a second one while they replace it.
const MAX_LINKS: usize = 4;

/// What a connection of a link is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkPurpose {
    /// Payloads, and acknowledgements as long as there is no other connection for them.
    Payloads,
    Acknowledgements,
}

/// A connection of a link.
pub(crate) struct LinkConnection {
    pub outbox: SendQueue,
    sequence: AtomicI32,
    is_closed: AtomicBool,
    closed: Notify,
}

impl LinkConnection {
    pub(crate) fn new(outbox: SendQueue) -> Self {
        Self {
            outbox,
            sequence: AtomicI32::new(1),
            is_closed: AtomicBool::new(false),
            closed: Notify::new(),
        }
    }

    /// Numbers a message that is to be sent.
    pub(crate) fn number(&self, frame: &mut Frame) {
        let next = |sequence: i32| Some(sequence.checked_add(1).unwrap_or(1));
        frame.set_sequence(
            self.sequence
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
                .unwrap_or(1),
        );
    }

    fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.outbox.close();
        self.closed.notify_one();
    }

    /// Waits until it is closed. For its reader only.
    pub(crate) async fn closed(&self) {
        while !self.is_closed.load(Ordering::Acquire) {
            self.closed.notified().await;
        }
    }
}

/// How a router introduces a connection of a link.
#[derive(Debug, Clone)]
pub(crate) struct Introduction {
    pub link: String,
    pub router: String,
    /// Equal for the connections of one link.
    pub group: Vec<u8>,
    /// Grows each time the link is dialed.
    pub iteration: u32,
    pub purpose: LinkPurpose,
}

/// A link to a router.
pub(crate) struct Link {
    pub id: String,
    pub router: String,
    pub iteration: u32,
    group: Vec<u8>,
    connections: Mutex<[Option<Arc<LinkConnection>>; 2]>,
    /// The mean of the measured latencies, in which later ones count more.
    latency: Mutex<Option<Duration>>,
}

impl Link {
    /// Takes a latency that was measured. Returns the mean.
    pub(crate) fn measured(&self, sample: Duration) -> Duration {
        let mut latency = self.latency.lock();
        let mean = latency.map_or(sample, |mean| (mean * 7 + sample) / 8);
        *latency.insert(mean)
    }

    /// The connection for payloads; `None` before it is open.
    pub(crate) fn payloads(&self) -> Option<Arc<LinkConnection>> {
        self.connections.lock().first()?.clone()
    }

    /// The connection for acknowledgements; `None` before the link is open.
    pub(crate) fn acknowledgements(&self) -> Option<Arc<LinkConnection>> {
        let [payloads, acknowledgements] = &*self.connections.lock();
        acknowledgements.as_ref().or(payloads.as_ref()).cloned()
    }

    /// Sends an acknowledgement. It is dropped if too many messages wait: the other router then
    /// sends the payload again.
    pub(crate) fn acknowledge(&self, frame: Frame) {
        if let Some(connection) = self.acknowledgements() {
            connection.outbox.control(frame);
        }
    }

    /// Closes its connections.
    pub(crate) fn close(&self) {
        for connection in self.connections.lock().iter().flatten() {
            connection.close();
        }
    }

    /// Adds a connection, unless there is one for the same purpose.
    fn add(&self, purpose: LinkPurpose, connection: &Arc<LinkConnection>) -> bool {
        let [payloads, acknowledgements] = &mut *self.connections.lock();
        let place = if purpose == LinkPurpose::Payloads {
            payloads
        } else {
            acknowledgements
        };
        let is_free = place.is_none();
        if is_free {
            *place = Some(connection.clone());
        }
        is_free
    }
}

/// The open links.
#[derive(Default)]
pub(crate) struct LinkRegistry(Mutex<HashMap<String, Arc<Link>>>);

impl LinkRegistry {
    /// Adds a connection to its link; the first connection creates the link. A link that the router
    /// dials again replaces the old one, which is returned.
    ///
    /// # Errors
    /// Why the connection is refused.
    pub(crate) fn join(
        &self,
        introduction: Introduction,
        connection: &Arc<LinkConnection>,
    ) -> Result<(Arc<Link>, Option<Arc<Link>>), &'static str> {
        let Introduction {
            link: id,
            router,
            group,
            iteration,
            purpose,
        } = introduction;
        let mut links = self.0.lock();
        let known = links.get(&id).cloned();
        if let Some(known) = &known {
            if known.router != router {
                return Err("a link with this id belongs to another router");
            }
            if known.group == group {
                return if known.add(purpose, connection) {
                    Ok((known.clone(), None))
                } else {
                    Err("the link has such a connection")
                };
            }
            if iteration < known.iteration {
                return Err("the link was dialed again meanwhile");
            }
        } else if links.values().filter(|link| link.router == router).count() >= MAX_LINKS {
            return Err("the router has too many links");
        }
        let link = Arc::new(Link {
            id: id.clone(),
            router,
            iteration,
            group,
            connections: Mutex::default(),
            latency: Mutex::default(),
        });
        link.add(purpose, connection);
        links.insert(id, link.clone());
        Ok((link, known))
    }

    pub(crate) fn find(&self, id: &str) -> Option<Arc<Link>> {
        self.0.lock().get(id).cloned()
    }

    /// Removes a link. Returns whether it was there.
    pub(crate) fn remove(&self, link: &Arc<Link>) -> bool {
        let mut links = self.0.lock();
        let is_current = links
            .get(&link.id)
            .is_some_and(|known| Arc::ptr_eq(known, link));
        if is_current {
            links.remove(&link.id);
        }
        is_current
    }

    pub(crate) fn all(&self) -> Vec<Arc<Link>> {
        self.0.lock().values().cloned().collect()
    }

    /// The links of a router.
    pub(crate) fn of(&self, router: &str) -> Vec<Arc<Link>> {
        self.0
            .lock()
            .values()
            .filter(|link| link.router == router)
            .cloned()
            .collect()
    }
}
