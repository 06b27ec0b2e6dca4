//! A circuit with an end at this router: its ends on channels, and counters. It has no task of its
//! own.

use std::sync::{Arc, OnceLock};

use model::clock::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;
use wire::frame::Frame;

use super::{
    asked_traces::AskedTraces, binding::Binding, channel::Channel, circuit_side::CircuitSide,
    fair_queues::QueueId, send_queue::SendQueue, traffic::Traffic,
};
use crate::network;

/// One end of a circuit: an SDK on a channel, or a link to another router.
pub(crate) struct CircuitEnd {
    /// Where data for this end waits, and its queue there.
    pub outbox: Arc<SendQueue>,
    pub queue: QueueId,
    /// The channel of the SDK and its connection id there; `None` for a link.
    sdk: Option<(Arc<Channel>, u32)>,
}

impl CircuitEnd {
    /// The end of an SDK, with a queue of its channel.
    pub(crate) fn on_channel(channel: Arc<Channel>, connection: u32, queue: QueueId) -> Self {
        Self {
            outbox: channel.outbox.clone(),
            queue,
            sdk: Some((channel, connection)),
        }
    }

    /// The end at a link, with what waits for it.
    pub(crate) fn over_link(outbox: Arc<SendQueue>) -> Self {
        Self {
            queue: outbox.open(),
            outbox,
            sdk: None,
        }
    }

    /// The channel of the SDK; `None` for a link.
    pub(crate) fn channel(&self) -> Option<&Arc<Channel>> {
        self.sdk.as_ref().map(|(channel, _)| channel)
    }

    /// The connection id on the channel; 0 for a link, whose messages carry none.
    pub(crate) fn connection(&self) -> u32 {
        self.sdk.as_ref().map_or(0, |(_, connection)| *connection)
    }

    /// Queues a message for this end.
    pub(crate) fn push(&self, frame: Frame) {
        self.outbox.push(self.queue, frame);
    }
}

/// A connection between a client and a host.
pub(crate) struct Circuit {
    pub id: Arc<str>,
    pub since: Timestamp,
    pub client: CircuitEnd,
    /// The sequence number of its Connect.
    pub request: i32,
    /// The circuit in the network, of a client at this router; set when the session is known.
    known: OnceLock<Arc<network::Circuit>>,
    /// Whether its client asks both ends to perform flow control themselves.
    pub wants_sdk_flow_control: bool,
    /// Set when the host has answered.
    host: OnceLock<HostEnd>,
    state: Mutex<State>,
    closed: Notify,
    pub traffic: Traffic,
    pub traces: AskedTraces,
}

/// The end at the host's side.
pub(crate) struct HostEnd {
    pub end: CircuitEnd,
    /// `None` if the host is at another router.
    pub binding: Option<Arc<Binding>>,
    /// Whether both SDKs perform flow control themselves.
    pub has_sdk_flow_control: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The host has not answered yet.
    Pending,
    Open,
    Closed,
}

impl Circuit {
    pub(crate) fn new(id: Arc<str>, since: Timestamp, client: CircuitEnd, request: i32) -> Self {
        Self {
            id,
            since,
            client,
            request,
            known: OnceLock::new(),
            wants_sdk_flow_control: false,
            host: OnceLock::new(),
            state: Mutex::new(State::Pending),
            closed: Notify::new(),
            traffic: Traffic::default(),
            traces: AskedTraces::default(),
        }
    }

    /// Sets the circuit in the network. Called once.
    pub(crate) fn set_known(&self, known: Arc<network::Circuit>) {
        drop(self.known.set(known));
    }

    pub(crate) fn known(&self) -> Option<&Arc<network::Circuit>> {
        self.known.get()
    }

    pub(crate) fn host(&self) -> Option<&HostEnd> {
        self.host.get()
    }

    /// Completes the circuit with its host end, and calls `answer`, which queues the answers to
    /// both ends. Returns the host end if the circuit was closed in the meantime. The lock of the
    /// state is held during the call. So a task that closes the circuit either finds it pending and
    /// answers the Connect itself, or finds the answers queued.
    pub(crate) fn establish(&self, host: HostEnd, answer: impl FnOnce()) -> Result<(), HostEnd> {
        let mut state = self.state.lock();
        if *state != State::Pending {
            return Err(host);
        }
        self.host.set(host)?;
        *state = State::Open;
        answer();
        Ok(())
    }

    /// Closes it. Returns whether it was pending; `None` if it was closed before.
    pub(crate) fn close(&self) -> Option<bool> {
        let before = std::mem::replace(&mut *self.state.lock(), State::Closed);
        if before == State::Closed {
            return None;
        }
        self.closed.notify_one();
        Some(before == State::Pending)
    }

    /// Waits until it is closed. For the task that dials its host only.
    pub(crate) async fn closed(&self) {
        while !self.is_closed() {
            self.closed.notified().await;
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.state.lock() == State::Closed
    }

    /// The end at a side; `None` for a host that has not answered.
    pub(crate) fn end(&self, side: CircuitSide) -> Option<&CircuitEnd> {
        match side {
            CircuitSide::Client => Some(&self.client),
            CircuitSide::Host => self.host.get().map(|host| &host.end),
        }
    }

    /// Whether it has a host, and goes over no other router.
    pub(crate) fn is_inside(&self) -> bool {
        self.known.get().is_some() && self.host.get().is_some_and(|host| host.binding.is_some())
    }

    /// Whether it goes over another router. Not known until the host has answered.
    pub(crate) fn is_over_routers(&self) -> bool {
        self.host.get().is_some() && !self.is_inside()
    }
}
