//! The reader of a channel: reads messages one after the other, relays data, and passes other
//! messages to their handlers.
//!
//! For a message to relay, only its headers are read first. Its body is read when the destination
//! queue has room, into the buffer that is passed on. So a reader waits for only two things: room
//! in a queue, or, if its own peer does not read its control messages, for the peer to read them.

use std::sync::Arc;

use tokio::{io::AsyncRead, sync::Notify};
use wire::{
    frame::{Frame, FrameLimits, HEAD, content},
    link::key as link,
    sdk::{self, FROM_HOST, key, kind},
};

use super::{
    backpressure::{hold, reserve},
    bind,
    channel::Channel,
    circuit::{Circuit, CircuitEnd},
    circuit_side::CircuitSide,
    connections::{ConnectionEntry, Connections},
    dial, dial_answer,
    router_core::RouterCore,
    trace,
};
use crate::network::{
    RequestFailure,
    read::{self, Stop, UNCOUNTED, fill},
    strip,
};

/// The maximum length in bytes of a message's headers.
const HEADERS: usize = 64 << 10;
/// The maximum length in bytes of the body of a message that is not relayed; a longer message is
/// skipped.
const BODY: usize = 64 << 10;

/// The length of a connection id in bytes.
const CONNECTION_ID: usize = 4;

/// After relaying this many bytes, a reader lets the other tasks of its thread run.
const BYTES_PER_TURN: usize = 256 << 10;

/// The reader of one channel.
pub(crate) struct Receiver<S> {
    core: Arc<RouterCore>,
    channel: Arc<Channel>,
    connections: Arc<Connections>,
    stream: S,
    waiter: Arc<Notify>,
    /// Bytes relayed since the other tasks of the thread could last run.
    relayed: usize,
}

impl<S: AsyncRead + Unpin> Receiver<S> {
    pub(crate) fn new(core: Arc<RouterCore>, connections: Arc<Connections>, stream: S) -> Self {
        Self {
            core,
            channel: connections.channel.clone(),
            connections,
            stream,
            waiter: Arc::default(),
            relayed: 0,
        }
    }

    /// Reads until the channel ends. Returns why.
    pub(crate) async fn run(mut self) -> Stop {
        loop {
            if let Err(stop) = self.next().await {
                return stop;
            }
        }
    }

    async fn next(&mut self) -> Result<(), Stop> {
        self.channel.outbox.uncongested().await;
        let limits = FrameLimits {
            headers: HEADERS,
            body: i32::MAX.unsigned_abs() as usize,
        };
        let begun = read::head(&mut self.stream, limits).await?;
        // The body of a relayed message is counted when the queue has room for it.
        let counted = HEAD
            + begun.0.headers
            + if is_data(begun.0.content_type) {
                0
            } else {
                begun.0.body.min(BODY)
            };
        let account = (counted > UNCOUNTED).then(|| self.channel.outbox.account.clone());
        let _unfinished = match &account {
            Some(account) => Some(hold(&self.core, account, counted, &self.waiter).await),
            None => None,
        };
        let mut frame = read::headers(&mut self.stream, begun, self.core.times.stall).await?;
        if frame
            .header(key::CONNECTION)
            .is_some_and(|id| id.len() != CONNECTION_ID)
        {
            return Err(Stop::ConnectionId);
        }
        strip(&mut frame);
        match frame.content_type() {
            kind::DATA => self.relay(frame).await,
            kind::XGRESS_PAYLOAD | kind::XGRESS_ACK if self.is_ours(&frame) => {
                self.relay(frame).await
            }
            kind::XGRESS_PAYLOAD | kind::XGRESS_ACK => self.skip(frame.missing()).await,
            _ if frame.missing() > BODY => self.skip(frame.missing()).await,
            _ => {
                fill(&mut self.stream, &mut frame, self.core.times.stall).await?;
                self.take(frame).await
            }
        }
    }

    /// Handles a message that is not data.
    async fn take(&mut self, frame: Frame) -> Result<(), Stop> {
        let (core, channel, connections) = (&self.core, &self.channel, &self.connections);
        match frame.content_type() {
            kind::CONNECT => dial::connect(core, connections, frame),
            kind::STATE_CLOSED => closed(core, connections, &frame),
            kind::DIAL_SUCCESS => dial_answer::succeeded(core, connections, &frame),
            kind::DIAL_FAILED => dial_answer::failed(connections, &frame),
            kind::BIND => bind::bind(core, connections, frame),
            kind::UNBIND => bind::unbind(core, connections, &frame),
            kind::UPDATE_BIND => bind::update(core, connections, &frame),
            kind::HEALTH_EVENT => bind::health(connections, &frame),
            kind::TRACE_ROUTE => {
                let relayed = trace::request(core, connections, frame);
                return self.forward_if_open(relayed).await;
            }
            kind::TRACE_ROUTE_RESPONSE => {
                let relayed = trace::response(connections, frame);
                return self.forward_if_open(relayed).await;
            }
            kind::XGRESS_CONTROL => return self.control(frame).await,
            kind::XGRESS_CLOSE => self.end_by_circuit(&frame),
            kind::UPDATE_TOKEN | kind::BIND_SUCCESS => {
                channel.send(sdk::token_updated(&frame, &channel.login.token))
            }
            content::LATENCY | content::PING => channel.send(sdk::success(&frame)),
            other => tracing::trace!(
                channel = channel.login.number,
                content_type = other,
                "a message of an unsupported type is ignored"
            ),
        }
        Ok(())
    }

    /// The circuit of a data message, and the side that sent it.
    fn route(&self, frame: &Frame) -> Option<(Arc<Circuit>, CircuitSide)> {
        if frame.content_type() != kind::DATA {
            return self.route_by_circuit(
                frame.text(key::XGRESS_CIRCUIT)?,
                frame.u32(key::XGRESS_FLAGS),
            );
        }
        let Some(ConnectionEntry::End(circuit, side)) = frame
            .u32(key::CONNECTION)
            .and_then(|id| self.connections.entry(id))
        else {
            return None;
        };
        // With SDK flow control, a plain data message only repeats the end that the payloads carry.
        // It is not relayed, because it would overtake the payloads.
        circuit
            .host()
            .is_some_and(|host| !host.has_sdk_flow_control)
            .then_some((circuit, side))
    }

    /// The circuit with this id and the side of this channel, if both SDKs perform flow control.
    fn route_by_circuit(
        &self,
        id: &str,
        flags: Option<u32>,
    ) -> Option<(Arc<Circuit>, CircuitSide)> {
        let circuit = self.core.registry.circuit(id)?;
        let host = circuit.host().filter(|host| host.has_sdk_flow_control)?;
        let is_here = |end: &CircuitEnd| {
            end.channel()
                .is_some_and(|channel| Arc::ptr_eq(channel, &self.channel))
        };
        let side = match (is_here(&circuit.client), is_here(&host.end)) {
            (true, true) if flags.unwrap_or_default() & FROM_HOST != 0 => CircuitSide::Host,
            (true, _) => CircuitSide::Client,
            (false, true) => CircuitSide::Host,
            (false, false) => return None,
        };
        Some((circuit, side))
    }

    fn is_ours(&self, frame: &Frame) -> bool {
        frame
            .text(key::XGRESS_CIRCUIT)
            .is_some_and(|id| self.route_by_circuit(id, None).is_some())
    }

    /// Relays data to the other end of its circuit.
    async fn relay(&mut self, frame: Frame) -> Result<(), Stop> {
        let missing = frame.missing();
        let Some((circuit, side)) = self.route(&frame) else {
            return self.skip(missing).await;
        };
        let Some(end) = circuit.end(side.other()) else {
            return self.skip(missing).await;
        };
        if frame.len() + missing > self.core.max_message {
            self.core
                .fail_circuit(&circuit, &RequestFailure::internal("a message is too long"));
            return self.skip(missing).await;
        }
        self.forward(frame, &circuit, side, end).await
    }

    async fn forward(
        &mut self,
        mut frame: Frame,
        circuit: &Circuit,
        side: CircuitSide,
        end: &CircuitEnd,
    ) -> Result<(), Stop> {
        frame.put_u32(key::CONNECTION, end.connection());
        let missing = frame.missing();
        let sender = self.channel.outbox.account.clone();
        let Ok(reservation) = reserve(
            &self.core,
            end,
            frame.len() + missing,
            &sender,
            &self.waiter,
        )
        .await
        else {
            return self.skip(missing).await;
        };
        fill(&mut self.stream, &mut frame, self.core.times.stall).await?;
        circuit.traffic.count(side, frame.body().len());
        self.core.counters.relayed(side, frame.body().len());
        self.relayed += frame.len();
        reservation.fill(frame);
        if self.relayed >= BYTES_PER_TURN {
            self.relayed = 0;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Relays a control message of SDK flow control, a trace route or its answer: its body is one
    /// byte followed by the circuit id.
    async fn control(&mut self, frame: Frame) -> Result<(), Stop> {
        let (purpose, number) = (
            frame.body().first().copied(),
            frame.u32(link::TRACE_REQUEST),
        );
        let id = frame
            .body()
            .get(1..)
            .and_then(|id| std::str::from_utf8(id).ok());
        let route = id.and_then(|id| self.route_by_circuit(id, frame.u32(key::XGRESS_FLAGS)));
        let route = route.filter(|(circuit, side)| circuit.traces.passes(purpose, *side, number));
        self.forward_if_open(route.map(|(circuit, side)| (frame, circuit, side)))
            .await
    }

    /// Relays a message to the other end of a circuit, if there is one.
    async fn forward_if_open(&mut self, relayed: Option<trace::Relayed>) -> Result<(), Stop> {
        let Some((frame, circuit, side)) = relayed else {
            return Ok(());
        };
        match circuit.end(side.other()) {
            Some(end) => self.forward(frame, &circuit, side, end).await,
            None => Ok(()),
        }
    }

    /// Ends a circuit with SDK flow control: the body is its id.
    fn end_by_circuit(&self, frame: &Frame) {
        let id = std::str::from_utf8(frame.body()).ok();
        if let Some((circuit, side)) =
            id.and_then(|id| self.route_by_circuit(id, frame.u32(key::XGRESS_FLAGS)))
        {
            self.core.end_circuit(&circuit, Some(side), |connection| {
                sdk::ended(connection, "xgress unrouted")
            });
        }
    }

    async fn skip(&mut self, bytes: usize) -> Result<(), Stop> {
        read::skip(&mut self.stream, bytes, self.core.times.stall).await
    }
}

/// Whether messages of this type are data, which are relayed while they arrive.
fn is_data(content_type: i32) -> bool {
    matches!(
        content_type,
        kind::DATA | kind::XGRESS_PAYLOAD | kind::XGRESS_ACK
    )
}

/// The maximum length in bytes of a message that ends a connection, as it is passed on: it is
/// queued without waiting for room.
const MAX_LAST: usize = 4096;

/// Handles the end of a connection by an SDK.
fn closed(core: &RouterCore, connections: &Connections, frame: &Frame) {
    let Some(connection) = frame.u32(key::CONNECTION) else {
        return;
    };
    match connections.entry(connection) {
        Some(ConnectionEntry::End(circuit, CircuitSide::Host)) if circuit.host().is_none() => {
            if let Some(dialing) = connections.take_dial_of(&circuit) {
                connections.fail_dial(dialing, &String::from_utf8_lossy(frame.body()));
            }
        }
        Some(ConnectionEntry::End(circuit, side)) => {
            core.end_circuit(&circuit, Some(side), |connection| {
                if frame.len() > MAX_LAST {
                    return sdk::ended(connection, "the other end has closed the connection");
                }
                let mut last = frame.clone();
                last.put_u32(key::CONNECTION, connection);
                last
            });
        }
        Some(ConnectionEntry::Binding(binding)) => core.end_binding(&binding, None),
        // The answer to our own close message.
        None => {}
    }
}
