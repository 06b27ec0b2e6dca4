//! The end of a circuit over a link. An endpoint holds the payloads that were sent and not
//! acknowledged, and those that arrived and were not delivered.
//!
//! The other end of the circuit at this router is an SDK. Data for the link wait in a [`SendQueue`]
//! as they do for an SDK, so that the circuit has the same limits and the same memory budget as a
//! circuit between two SDKs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use wire::{
    frame::Frame,
    link::{Acknowledgement, NotOfCircuit, Payload, flag, kind},
};

use super::{
    link::{Link, LinkConnection},
    receive_buffer::{Arrival, ReceiveBuffer},
    send_window::SendWindow,
};
use crate::built_in_router::{budget::Account, fair_queues::QueueId, send_queue::SendQueue};

/// The payloads of one circuit that wait for delivery take at most this fraction of the free memory
/// budget.
const PART: usize = 8;
/// Maximum payloads that are sent again at a time.
const MAX_AGAIN: usize = 64;
/// With more bytes in the queue of a circuit, trace routes are dropped.
pub(crate) const MAX_TRACES: usize = 64 << 10;
/// With more bytes waiting for a link, nothing is sent again over it.
const CONGESTED: usize = 1 << 20;

/// The end of a circuit over a link.
pub(crate) struct LinkEndpoint {
    pub circuit: Arc<str>,
    /// Whether the host of the circuit is at this router, and not the client.
    pub is_of_host: bool,
    /// Holds what is to be sent over the link.
    pub outbox: Arc<SendQueue>,
    way: Mutex<Way>,
    window: Mutex<SendWindow>,
    buffer: Mutex<ReceiveBuffer>,
    /// Whether data may be sent to the other end: the start of the circuit was announced.
    is_started: AtomicBool,
    /// Whether nothing more is sent except the end.
    is_cut: AtomicBool,
    /// Payloads and acknowledgements that have arrived.
    arrived: AtomicU64,
    /// Whether its tasks run.
    is_running: AtomicBool,
    /// Whether the endpoint ends at once and sends nothing more.
    is_stopped: AtomicBool,
    /// Notified when the sending task may have something to do.
    pub sending: Notify,
    /// Notified when the delivering task may have something to do.
    pub delivering: Notify,
}

/// The link that is used, and the queue for the circuit on its connection for payloads.
struct Way {
    link: Arc<Link>,
    queue: Option<(Arc<LinkConnection>, QueueId)>,
}

impl Way {
    fn over(link: Arc<Link>) -> Self {
        let queue = link
            .payloads()
            .map(|connection| (connection.clone(), connection.outbox.open()));
        Self { link, queue }
    }

    fn leave(&self) {
        if let Some((connection, queue)) = &self.queue {
            connection.outbox.finish(*queue);
        }
    }
}

impl LinkEndpoint {
    pub(crate) fn new(
        circuit: Arc<str>,
        is_of_host: bool,
        link: Arc<Link>,
        outbox: SendQueue,
    ) -> Self {
        Self {
            circuit,
            is_of_host,
            outbox: Arc::new(outbox),
            way: Mutex::new(Way::over(link)),
            window: Mutex::new(SendWindow::new(Instant::now())),
            buffer: Mutex::default(),
            // The router of the client announces the start: only the host's end waits for it.
            is_started: AtomicBool::new(!is_of_host),
            is_cut: AtomicBool::new(false),
            arrived: AtomicU64::new(0),
            is_running: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            sending: Notify::new(),
            delivering: Notify::new(),
        }
    }

    /// The account that holds what waits here.
    pub(crate) fn account(&self) -> &Account {
        &self.outbox.account
    }

    /// Continues over another link.
    pub(crate) fn move_to(&self, link: Arc<Link>) {
        let mut way = self.way.lock();
        way.leave();
        *way = Way::over(link);
    }

    /// Whether it uses a link to this router.
    pub(crate) fn is_over(&self, router: &str) -> bool {
        self.way.lock().link.router == router
    }

    /// The connection for its payloads, and the queue there.
    pub(crate) fn way(&self) -> Option<(Arc<LinkConnection>, QueueId)> {
        self.way.lock().queue.clone()
    }

    /// Handles a message that has arrived over a link to the next router.
    ///
    /// # Errors
    /// The message is malformed.
    pub(crate) fn take(&self, frame: &Frame) -> Result<(), NotOfCircuit> {
        match frame.content_type() {
            kind::PAYLOAD => self.receive(Payload::decode(frame)?.1),
            kind::ACKNOWLEDGEMENT => self.acknowledged(&Acknowledgement::decode(frame)?.1),
            _ => {}
        }
        Ok(())
    }

    /// Sends a trace route or its answer, which may be lost.
    pub(crate) fn send_trace(&self, frame: Frame) {
        if let Some((connection, queue)) = self.way() {
            connection.outbox.offer(queue, frame, MAX_TRACES);
        }
    }

    /// Stores a payload that has arrived, and acknowledges it. A payload without room is dropped
    /// and not acknowledged: its sender sends it again.
    fn receive(&self, payload: Payload) {
        if payload.is_from_host() == self.is_of_host || self.is_stopped() {
            return;
        }
        self.arrived.fetch_add(1, Ordering::Relaxed);
        if payload.is_start() && !self.is_started.swap(true, Ordering::AcqRel) {
            self.sending.notify_one();
        }
        let (sequence, clock) = (payload.sequence, payload.clock);
        let acknowledgement = {
            let mut buffer = self.buffer.lock();
            match buffer.insert(payload, self.account().budget.free() / PART) {
                Arrival::Kept(bytes) => self.account().take(bytes),
                Arrival::Repeated => {}
                Arrival::Dropped => return,
            }
            self.acknowledgement(vec![sequence], clock, &mut buffer)
        };
        self.delivering.notify_one();
        self.way
            .lock()
            .link
            .acknowledge(acknowledgement.encode(&self.circuit));
    }

    fn acknowledgement(
        &self,
        sequences: Vec<u32>,
        clock: u16,
        buffer: &mut ReceiveBuffer,
    ) -> Acknowledgement {
        Acknowledgement {
            flags: self.flags(),
            buffered: buffer.report(),
            clock,
            sequences,
        }
    }

    fn flags(&self) -> u32 {
        if self.is_of_host { flag::FROM_HOST } else { 0 }
    }

    /// The next payload in order, if it has arrived.
    pub(crate) fn next(&self) -> Option<Payload> {
        let (payload, bytes) = self.buffer.lock().take()?;
        self.account().give_back(bytes);
        Some(payload)
    }

    /// Reports to the other end how many bytes still wait, if much was delivered since the last
    /// report.
    pub(crate) fn delivered(&self) {
        let acknowledgement = {
            let mut buffer = self.buffer.lock();
            if !buffer.has_emptied() {
                return;
            }
            self.acknowledgement(Vec::new(), 0, &mut buffer)
        };
        self.way
            .lock()
            .link
            .acknowledge(acknowledgement.encode(&self.circuit));
    }

    /// Handles an acknowledgement that has arrived.
    fn acknowledged(&self, acknowledgement: &Acknowledgement) {
        if acknowledgement.is_from_host() == self.is_of_host {
            return;
        }
        self.arrived.fetch_add(1, Ordering::Relaxed);
        let cost = self
            .window
            .lock()
            .acknowledge(acknowledgement, Instant::now());
        if cost > 0 {
            self.outbox.written(cost);
        }
        self.sending.notify_one();
    }

    /// Whether data may be sent to the other end.
    pub(crate) fn is_started(&self) -> bool {
        self.is_started.load(Ordering::Acquire)
    }

    /// Whether more may be sent.
    pub(crate) fn may_send(&self) -> bool {
        self.window.lock().is_open()
    }

    /// Whether everything that was sent was acknowledged.
    pub(crate) fn has_sent(&self) -> bool {
        self.window.lock().is_empty()
    }

    /// Numbers a payload for sending. `None` if the sequence numbers are used up.
    pub(crate) fn number(&self, payload: Payload, cost: usize) -> Option<Payload> {
        let payload = Payload {
            flags: payload.flags | self.flags(),
            ..payload
        };
        self.window.lock().add(payload, cost, Instant::now())
    }

    /// The clock for a payload that is sent now.
    pub(crate) fn clock(&self) -> u16 {
        self.window.lock().clock(Instant::now())
    }

    /// Sends again what was not acknowledged in time.
    pub(crate) fn send_again(&self) {
        let Some((connection, queue)) = self.way() else {
            return;
        };
        if connection.outbox.bytes() > CONGESTED {
            return;
        }
        let again = self.window.lock().overdue(Instant::now(), MAX_AGAIN);
        let clock = self.clock();
        for payload in &again {
            connection
                .outbox
                .push(queue, payload.encode(&self.circuit, clock))
        }
    }

    /// How many payloads and acknowledgements have arrived.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Whether the end of the circuit has arrived and waits behind data that the SDK has not taken.
    pub(crate) fn has_end(&self) -> bool {
        self.buffer.lock().has_end()
    }

    /// Records that its tasks run.
    pub(crate) fn begin(&self) {
        self.is_running.store(true, Ordering::Release);
    }

    pub(crate) fn is_running(&self) -> bool {
        self.is_running.load(Ordering::Acquire)
    }

    /// From now on only the end of the circuit is sent.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
        self.sending.notify_one();
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Acquire)
    }

    /// Ends it at once.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        self.sending.notify_one();
        self.delivering.notify_one();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }
}

impl Drop for LinkEndpoint {
    fn drop(&mut self) {
        self.account().give_back(self.buffer.lock().clear());
        self.outbox.close();
        self.way.lock().leave();
    }
}
