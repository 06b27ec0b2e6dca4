//! Circuits that pass through this router, from the link of one router to the link of another one.
//!
//! This router only forwards: the ends of the circuit number, acknowledge and repeat. Forwarding
//! never waits. A message without room in its queue is dropped, and its sender sends it again.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use wire::{
    frame::Frame,
    link::{key, kind},
};

use super::{
    link::{Link, LinkConnection},
    trace_route,
};
use crate::built_in_router::{
    asked_traces::AskedTraces, circuit_side::CircuitSide, fair_queues::QueueId, traffic::Traffic,
};

/// Maximum bytes of payloads that wait in one direction: the window of a sender.
const MAX_PAYLOADS: usize = 4 << 20;
/// Maximum bytes of acknowledgements that wait in one direction.
const MAX_ACKNOWLEDGEMENTS: usize = 128 << 10;

/// A circuit that passes through this router.
pub(crate) struct Transit {
    pub circuit: Arc<str>,
    /// The ways to the client and to the host.
    ways: [Way; 2],
    pub traffic: Arc<Traffic>,
    traces: Arc<AskedTraces>,
    /// Messages that have arrived.
    arrived: AtomicU64,
}

/// The link to the next router of a circuit.
pub(crate) struct Way {
    link: Arc<Link>,
    payloads: QueueSlot,
    acknowledgements: QueueSlot,
}

/// A queue on a connection; finished on drop.
struct QueueSlot {
    connection: Arc<LinkConnection>,
    queue: QueueId,
}

impl QueueSlot {
    fn on(connection: Arc<LinkConnection>) -> Self {
        let queue = connection.outbox.open();
        Self { connection, queue }
    }

    fn offer(&self, frame: Frame, room: usize) -> bool {
        self.connection.outbox.offer(self.queue, frame, room)
    }
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        self.connection.outbox.finish(self.queue);
    }
}

impl Way {
    /// `None` if the link is not open.
    pub(crate) fn over(link: Arc<Link>) -> Option<Self> {
        let [payloads, acknowledgements] =
            [link.payloads()?, link.acknowledgements()?].map(QueueSlot::on);
        Some(Self {
            link,
            payloads,
            acknowledgements,
        })
    }

    /// Drops what waits.
    fn discard(&self) {
        for slot in [&self.payloads, &self.acknowledgements] {
            slot.connection.outbox.discard(slot.queue);
        }
    }
}

impl Transit {
    /// `ways` lead to the client and to the host.
    pub(crate) fn new(circuit: Arc<str>, ways: [Way; 2]) -> Self {
        Self {
            circuit,
            ways,
            traffic: Arc::default(),
            traces: Arc::default(),
            arrived: AtomicU64::new(0),
        }
    }

    /// The same circuit over other links.
    pub(crate) fn over(&self, ways: [Way; 2]) -> Self {
        Self {
            traffic: self.traffic.clone(),
            traces: self.traces.clone(),
            ..Self::new(self.circuit.clone(), ways)
        }
    }

    /// Drops what waits.
    pub(crate) fn discard(&self) {
        self.ways.iter().for_each(Way::discard);
    }

    /// How many messages have arrived.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Forwards a message that has arrived over a link, if that leads to a neighbour on the path of
    /// the circuit. The reader of the link has dropped the headers that do not pass. Trace routes
    /// that end at this router are answered with its id, `router`. Returns the side that has sent
    /// forwarded data, and their bytes.
    pub(crate) fn forward(
        &self,
        link: &Link,
        mut frame: Frame,
        router: &str,
    ) -> Option<(CircuitSide, usize)> {
        let [to_client, to_host] = &self.ways;
        let (from, back, on) = match &link.router {
            router if *router == to_client.link.router => (CircuitSide::Client, to_client, to_host),
            router if *router == to_host.link.router => (CircuitSide::Host, to_host, to_client),
            _ => return None,
        };
        self.arrived.fetch_add(1, Ordering::Relaxed);
        match frame.content_type() {
            kind::PAYLOAD => {
                let data = frame.body().len();
                if on.payloads.offer(frame, MAX_PAYLOADS) {
                    self.traffic.count(from, data);
                    return Some((from, data));
                }
            }
            kind::ACKNOWLEDGEMENT => {
                on.acknowledgements.offer(frame, MAX_ACKNOWLEDGEMENTS);
            }
            _ => {
                if let Some(answer) = trace_route::count_hop(&mut frame, "forwarder", router) {
                    back.payloads.offer(answer, MAX_PAYLOADS);
                } else if self.traces.passes(
                    frame.body().first().copied(),
                    from,
                    frame.u32(key::TRACE_REQUEST),
                ) {
                    on.payloads.offer(frame, MAX_PAYLOADS);
                }
            }
        }
        None
    }
}
