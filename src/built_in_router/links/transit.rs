//! Circuits that pass through this router, from the link of one router to the link of another one.
//!
//! This router only forwards: the ends of the circuit number, acknowledge and repeat. Forwarding never waits. A message without room in its
//! queue is dropped, and its sender sends it again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::{
    link::{Link, LinkConnection},
    message::kind,
    route::RouteError,
};
use crate::{
    built_in_router::{circuit_side::CircuitSide, core::Core, fair_queues::QueueId, traffic::Traffic},
    frame::{Builder, Frame},
};

/// Maximum bytes of payloads that wait in one direction: the window of a sender.
const MAX_PAYLOADS: usize = 4 << 20;
/// Maximum bytes of acknowledgements that wait in one direction.
const MAX_ACKNOWLEDGEMENTS: usize = 128 << 10;
/// Headers with lower keys belong to the connection and not to the circuit; heartbeats are among them.
const FIRST_KEY: i32 = 20;
/// A circuit that has ended at its ends is removed here after this time without a message.
const QUIET: Duration = Duration::from_secs(5);
/// It is removed at the latest after this time.
const MAX_CLOSING: Duration = Duration::from_secs(30);

/// A circuit that passes through this router.
pub(crate) struct Transit {
    circuit: Arc<str>,
    /// The ways to the client and to the host.
    ways: Mutex<[Way; 2]>,
    pub traffic: Traffic,
    /// Messages that have arrived.
    arrived: AtomicU64,
}

/// The link to the next router of a circuit.
struct Way {
    link: Arc<Link>,
    payloads: Place,
    acknowledgements: Place,
}

/// A queue on a connection; finished on drop.
struct Place {
    connection: Arc<LinkConnection>,
    queue: QueueId,
}

impl Place {
    fn on(connection: Arc<LinkConnection>) -> Self {
        let queue = connection.outbox.open();
        Self { connection, queue }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connection.outbox.finish(self.queue);
    }
}

impl Way {
    /// `None` if the link is not open.
    fn over(link: Arc<Link>) -> Option<Self> {
        let [payloads, acknowledgements] = [link.payloads()?, link.acknowledgements()?].map(Place::on);
        Some(Self { link, payloads, acknowledgements })
    }

    /// Drops what waits.
    fn discard(&self) {
        [&self.payloads, &self.acknowledgements].into_iter().for_each(|place| place.connection.outbox.discard(place.queue));
    }
}

impl Transit {
    /// Forwards a message that has arrived over a link, if it is a link to a neighbour on the circuit's path. Counts the data of payloads.
    pub(crate) fn forward(&self, core: &Core, link: &Link, frame: Frame) {
        let [to_client, to_host] = &*self.ways.lock();
        let (from, way) = match &link.router {
            router if *router == to_client.link.router => (CircuitSide::Client, to_host),
            router if *router == to_host.link.router => (CircuitSide::Host, to_client),
            _ => return,
        };
        self.arrived.fetch_add(1, Ordering::Relaxed);
        let (place, room) = if frame.content_type() == kind::ACKNOWLEDGEMENT {
            (&way.acknowledgements, MAX_ACKNOWLEDGEMENTS)
        } else {
            (&way.payloads, MAX_PAYLOADS)
        };
        let data = if frame.content_type() == kind::PAYLOAD { frame.body().len() } else { 0 };
        if place.connection.outbox.offer(place.queue, passed_on(frame), room) {
            self.traffic.count(from, data);
            core.counters.relayed(from, data);
        }
    }
}

/// The message without the headers of the connection.
fn passed_on(frame: Frame) -> Frame {
    if frame.headers().all(|(key, _)| key >= FIRST_KEY) {
        return frame;
    }
    let headers = frame.headers().filter(|(key, _)| *key >= FIRST_KEY);
    headers.fold(Builder::new(frame.content_type()), |builder, (key, value)| builder.bytes(key, value)).body(frame.body())
}

/// Forwards a circuit between the links to the next router on the way to the client and on the way to the host.
///
/// # Errors
/// A link is not open, or the router starts nothing new.
pub(crate) fn route(core: &Core, circuit: &str, [to_client, to_host]: [&str; 2]) -> Result<(), RouteError> {
    if let Some(refusal) = core.refusal() {
        return Err(RouteError::Failed(refusal.text));
    }
    let way = |link| core.links.find(link).and_then(Way::over).ok_or(RouteError::Link);
    let ways = [way(to_client)?, way(to_host)?];
    if let Some(transit) = core.transits.find(circuit) {
        *transit.ways.lock() = ways;
        return Ok(());
    }
    let circuit: Arc<str> = circuit.into();
    let (ways, traffic, arrived) = (Mutex::new(ways), Traffic::default(), AtomicU64::new(0));
    core.transits.add(&circuit, &Arc::new(Transit { circuit: circuit.clone(), ways, traffic, arrived }));
    Ok(())
}

/// Removes a circuit: at once if `now`, else after what is on the way was forwarded.
pub(crate) fn unroute(core: &Arc<Core>, circuit: &str, now: bool) {
    let Some(transit) = core.transits.find(circuit) else { return };
    if now {
        transit.ways.lock().iter().for_each(Way::discard);
        core.transits.remove(circuit, &transit);
        return;
    }
    let core = core.clone();
    tokio::spawn(async move {
        let (end, arrived) = (Instant::now() + MAX_CLOSING, || transit.arrived.load(Ordering::Relaxed));
        loop {
            let before = arrived();
            sleep(QUIET).await;
            if arrived() == before || Instant::now() >= end {
                break;
            }
        }
        core.transits.remove(&transit.circuit, &transit);
    });
}
