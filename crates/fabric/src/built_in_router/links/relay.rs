//! The two tasks of an endpoint: one sends the data of the SDK over the link, the other delivers to
//! the SDK what arrives.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::Notify,
    time::{Instant, Interval, MissedTickBehavior, interval, timeout_at},
};
use wire::{
    frame::{Builder, Frame},
    link::{Payload, flag, key as link},
    sdk::{self, key, kind},
};

use super::{
    endpoint::{LinkEndpoint, MAX_TRACES},
    trace_route,
};
use crate::{
    built_in_router::{
        backpressure::reserve, circuit::Circuit, circuit_side::CircuitSide, fair_queues::OVERHEAD,
        router_core::RouterCore,
    },
    network::RequestFailure,
};

/// The interval at which overdue payloads are sent again.
const AGAIN: Duration = Duration::from_millis(100);
/// How long the router of the client may take to announce the start.
const START: Duration = Duration::from_secs(30);
/// How long the end of a circuit is sent until it is acknowledged.
const CLOSE: Duration = Duration::from_secs(30);
/// The same limit after the controller has removed the circuit.
const CUT: Duration = Duration::from_secs(2);

/// Starts the tasks of an endpoint of an open circuit.
pub(crate) fn start(core: &Arc<RouterCore>, circuit: &Arc<Circuit>, endpoint: Arc<LinkEndpoint>) {
    endpoint.begin();
    tokio::spawn(deliver(core.clone(), circuit.clone(), endpoint.clone()));
    let (core, circuit) = (core.clone(), circuit.clone());
    tokio::spawn(async move {
        Sender {
            endpoint: &endpoint,
            waiter: Arc::default(),
        }
        .run()
        .await;
        end(&core, &circuit, &endpoint);
    });
}

/// Ends an endpoint whose circuit has ended.
fn end(core: &RouterCore, circuit: &Arc<Circuit>, endpoint: &Arc<LinkEndpoint>) {
    endpoint.stop();
    core.end_circuit(circuit, Some(remote_side(endpoint)), |connection| {
        sdk::ended(connection, "the other end has closed the connection")
    });
    if core.endpoints.remove(&endpoint.circuit, endpoint) {
        core.network
            .end_closed(&endpoint.circuit, core.context.id.as_str());
    }
}

/// Answers a trace route that has arrived over a link, or passes it or its answer on to the SDK.
pub(crate) fn trace(core: &RouterCore, endpoint: &LinkEndpoint, mut frame: Frame) {
    if let Some(answer) =
        trace_route::count_hop(&mut frame, "xgress/edge", core.context.id.as_str())
    {
        return endpoint.send_trace(answer);
    }
    let (circuit, from) = (
        core.registry.circuit(&endpoint.circuit),
        remote_side(endpoint),
    );
    if let Some((circuit, end)) = circuit
        .as_ref()
        .and_then(|circuit| Some((circuit, circuit.end(from.other())?)))
        && circuit.traces.passes(
            frame.body().first().copied(),
            from,
            frame.u32(link::TRACE_REQUEST),
        )
        && let Some(trace) = trace_route::to_sdk(end.connection(), &frame)
    {
        end.outbox.offer(end.queue, trace, MAX_TRACES);
    }
}

/// The side of the circuit at the other end of the link.
fn remote_side(endpoint: &LinkEndpoint) -> CircuitSide {
    if endpoint.is_of_host {
        CircuitSide::Client
    } else {
        CircuitSide::Host
    }
}

struct Sender<'e> {
    endpoint: &'e LinkEndpoint,
    waiter: Arc<Notify>,
}

impl Sender<'_> {
    async fn run(&self) {
        let endpoint = self.endpoint;
        if !endpoint.is_of_host && !self.send(empty(flag::START), 0).await {
            return;
        }
        let mut ticks = interval(AGAIN);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The other router drops data that arrives before it has answered its client.
        let is_started = self.wait(&mut ticks, START, LinkEndpoint::is_started).await;
        let mut has_ended = !is_started;
        let mut batch = Vec::new();
        while !has_ended && !endpoint.is_stopped() && !endpoint.is_cut() {
            let may_send = endpoint.may_send();
            let taken = tokio::select! {
                taken = endpoint.outbox.take(&mut batch, |_| ()), if may_send => taken,
                () = endpoint.sending.notified() => Some(0),
                _ = ticks.tick(), if !endpoint.has_sent() => {
                    endpoint.send_again();
                    Some(0)
                }
            };
            match taken {
                Some(0) => {}
                Some(bytes) => {
                    has_ended = self.send_batch((std::mem::take(&mut batch), bytes)).await
                }
                None => return,
            }
        }
        // A router drops payloads that arrive after the end, even if they were sent before it. So
        // the end waits for all acknowledgements.
        if !endpoint.is_cut() {
            self.wait(&mut ticks, CLOSE, LinkEndpoint::has_sent).await;
        }
        if !endpoint.is_stopped() && self.send(empty(flag::END), 0).await {
            self.wait(
                &mut ticks,
                if endpoint.is_cut() { CUT } else { CLOSE },
                LinkEndpoint::has_sent,
            )
            .await;
        }
    }

    /// Waits until `holds` is true, and meanwhile sends overdue payloads again. Returns false if
    /// the time limit is reached or the circuit ends before.
    async fn wait(
        &self,
        ticks: &mut Interval,
        limit: Duration,
        holds: impl Fn(&LinkEndpoint) -> bool,
    ) -> bool {
        let (endpoint, end, was_cut) = (
            self.endpoint,
            Instant::now() + limit,
            self.endpoint.is_cut(),
        );
        while !holds(endpoint) && !endpoint.is_stopped() && endpoint.is_cut() == was_cut {
            let next = async {
                tokio::select! {
                    () = endpoint.sending.notified() => {}
                    _ = ticks.tick() => endpoint.send_again(),
                }
            };
            if timeout_at(end, next).await.is_err() {
                return false;
            }
        }
        holds(endpoint)
    }

    /// Sends the messages of a batch. Returns whether its last one ends the circuit.
    async fn send_batch(&self, (batch, bytes): (Vec<Frame>, usize)) -> bool {
        let mut left = bytes;
        for frame in batch {
            let cost = frame.len() + OVERHEAD;
            match frame.content_type() {
                kind::DATA => {
                    left -= cost.min(left);
                    if !self.send(data(&frame), cost).await {
                        break;
                    }
                }
                kind::STATE_CLOSED => return true,
                // Messages that are no trace routes either have no meaning for the other end.
                _ => trace_route::to_link(&self.endpoint.circuit, &frame)
                    .into_iter()
                    .for_each(|trace| self.endpoint.send_trace(trace)),
            }
        }
        self.endpoint.outbox.written(left);
        false
    }

    /// Sends a payload as soon as the link has room. Returns false if the sequence numbers are used
    /// up.
    async fn send(&self, payload: Payload, cost: usize) -> bool {
        let endpoint = self.endpoint;
        let Some(payload) = endpoint.number(payload, cost) else {
            return false;
        };
        // Without a connection the payload is sent later, over another link, like an overdue one.
        let Some((connection, queue)) = endpoint.way() else {
            return true;
        };
        let frame = payload.encode(&endpoint.circuit, endpoint.clock());
        let reserved = tokio::select! {
            reserved = connection.outbox.reserve(queue, frame.len(), endpoint.account(), &self.waiter) => reserved,
            () = stopped(endpoint) => return true,
        };
        if let Ok(reserved) = reserved {
            reserved.fill(frame);
        }
        true
    }
}

/// Waits until an endpoint is cut or stopped.
async fn stopped(endpoint: &LinkEndpoint) {
    while !endpoint.is_stopped() && !endpoint.is_cut() {
        endpoint.sending.notified().await;
    }
}

fn empty(flags: u32) -> Payload {
    Payload {
        sequence: 0,
        flags,
        clock: 0,
        uuid: None,
        data_flags: None,
        data: Bytes::new(),
    }
}

/// The payload of a data message.
fn data(frame: &Frame) -> Payload {
    let bytes = |key| frame.header(key).map(Bytes::copy_from_slice);
    Payload {
        uuid: bytes(key::UUID),
        data_flags: bytes(key::FLAGS),
        data: Bytes::copy_from_slice(frame.body()),
        ..empty(0)
    }
}

/// Delivers what arrives to the SDK, until the circuit ends.
async fn deliver(core: Arc<RouterCore>, circuit: Arc<Circuit>, endpoint: Arc<LinkEndpoint>) {
    let (from, waiter) = (remote_side(&endpoint), Arc::default());
    loop {
        let Some(payload) = endpoint.next() else {
            if endpoint.is_stopped() || circuit.is_closed() {
                return;
            }
            endpoint.delivering.notified().await;
            continue;
        };
        if payload.is_end() {
            core.end_circuit(&circuit, Some(from), |connection| {
                sdk::ended(connection, "the other end has closed the connection")
            });
            return endpoint.stop();
        }
        if payload.flags & flag::PART != 0 {
            core.fail_circuit(
                &circuit,
                &RequestFailure::internal("the other router sends messages in parts, which is not supported: set no mtu there"),
            );
            return endpoint.cut();
        }
        let Some(end) = circuit.end(from.other()).filter(|_| !payload.is_start()) else {
            continue;
        };
        let frame = Builder::new(kind::DATA)
            .u32(key::CONNECTION, end.connection())
            .optional(key::FLAGS, payload.data_flags.as_ref())
            .optional(key::UUID, payload.uuid.as_ref())
            .body(&payload.data);
        let Ok(reserved) = reserve(&core, end, frame.len(), endpoint.account(), &waiter).await
        else {
            return;
        };
        circuit.traffic.count(from, payload.data.len());
        core.counters.relayed(from, payload.data.len());
        reserved.fill(frame);
        endpoint.delivered();
    }
}
