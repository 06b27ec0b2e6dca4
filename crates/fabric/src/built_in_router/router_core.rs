//! The state that all channels share, and how circuits, bindings and channels are ended.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use model::{
    config,
    entity::{EdgeRouter, Id},
};
use parking_lot::Mutex;
use store::online::Online;
use tokio::sync::Notify;
use wire::frame::Frame;

use super::{
    binding::Binding,
    budget::Budget,
    channel::Channel,
    circuit::Circuit,
    circuit_side::CircuitSide,
    connections::{ConnectionEntry, Connections},
    counters::Counters,
    fair_queues::QueueBounds,
    links::{
        by_circuit::ByCircuit,
        endpoint::LinkEndpoint,
        link::{Link, LinkConnection, LinkRegistry},
        transit::Transit,
    },
    message,
    registry::CircuitRegistry,
    requests::RequestBudget,
    send_queue::SendQueue,
};
use crate::network::{Network, RequestFailure};

/// A message may have at most this fraction of the memory budget.
const PARTS: usize = 4;

/// The components that a router uses.
pub struct RouterContext {
    /// The id of its edge router record.
    pub id: Id<EdgeRouter>,
    pub config: config::RouterConfig,
}

/// Time limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// For the hello to arrive.
    pub hello: Duration,
    /// For a host to answer a Dial.
    pub dial: Duration,
    /// Delay before a Bind is rejected: SDKs bind again at once.
    pub refusal: Duration,
    /// Without a byte in the middle of a message.
    pub(crate) stall: Duration,
    /// Without reading anything while the memory budget is used up.
    pub stalled: Duration,
    /// For hosts to refresh their API sessions after a stop has ended their channels.
    pub(crate) refresh: Duration,
}

impl Default for Times {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            hello: seconds(5),
            dial: seconds(5),
            refusal: seconds(1),
            stall: seconds(60),
            stalled: seconds(10),
            refresh: seconds(1),
        }
    }
}

/// Who holds bytes of the memory budget in a queue.
enum Holder {
    Channel(Arc<Channel>),
    Link(Arc<LinkConnection>, Arc<Link>),
}

impl Holder {
    fn outbox(&self) -> &SendQueue {
        match self {
            Self::Channel(channel) => &channel.outbox,
            Self::Link(connection, _) => &connection.outbox,
        }
    }
}

/// A running router.
pub(crate) struct RouterCore {
    /// What it shares with remote routers.
    pub network: Arc<Network>,
    pub context: RouterContext,
    pub times: Times,
    pub room: QueueBounds,
    /// The maximum length of a message in bytes. One that is longer than what may wait for a
    /// channel, or than the memory budget, would wait for ever.
    pub max_message: usize,
    pub budget: Arc<Budget>,
    pub requests: Arc<RequestBudget>,
    pub registry: CircuitRegistry,
    pub counters: Counters,
    /// Whether its record disables it.
    pub is_disabled: AtomicBool,
    /// Whether it stops: nothing new is started.
    pub is_stopping: AtomicBool,
    /// Notified when a circuit or a channel has ended.
    pub ended: Notify,
    /// The links to remote routers, the ends of circuits over them, and the circuits from one to
    /// another.
    pub links: LinkRegistry,
    pub endpoints: ByCircuit<LinkEndpoint>,
    pub transits: ByCircuit<Transit>,
    /// The cost and the `noTraversal` of its record.
    pub weight: Mutex<(u16, bool)>,
}

impl RouterCore {
    pub(crate) fn new(network: Arc<Network>, context: RouterContext) -> Self {
        let config = &context.config;
        let room = QueueBounds {
            queue: config.max_circuit_kib << 10,
            channel: config.max_channel_mib << 20,
        };
        let budget = Arc::new(Budget::new(config.max_total_mib << 20));
        let max_message = (config.max_message_mib << 20)
            .min((config.max_total_mib << 20) / PARTS)
            .min(room.channel);
        Self {
            registry: CircuitRegistry::new(config),
            times: Times::default(),
            room,
            max_message,
            budget,
            requests: Arc::new(RequestBudget::new(config.max_total_mib << 20)),
            counters: Counters::default(),
            is_disabled: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            ended: Notify::new(),
            links: LinkRegistry::default(),
            endpoints: ByCircuit::default(),
            transits: ByCircuit::default(),
            weight: Mutex::default(),
            network,
            context,
        }
    }

    pub(crate) fn online(&self) -> &Online {
        self.network.online()
    }

    /// A number that is unique within this process.
    pub(crate) fn number(&self) -> u64 {
        self.network.ids.next()
    }

    /// Why nothing new is started: the router stops or is disabled. `None` otherwise.
    pub(crate) fn refusal(&self) -> Option<RequestFailure> {
        if self.is_stopping.load(Ordering::Acquire) {
            return Some(RequestFailure::busy("the router is stopping"));
        }
        self.is_disabled
            .load(Ordering::Acquire)
            .then(|| RequestFailure::busy("the router is disabled"))
    }

    /// The table of an open channel; `None` if it has ended.
    pub(crate) fn connections(&self, channel: &Channel) -> Option<Arc<Connections>> {
        self.registry.connections(channel.login.number)
    }

    /// Ends a circuit here. The side that ended it (`from`) gets no message. The other end gets the
    /// message that `last` makes for its connection id, after all data queued for that end.
    pub(crate) fn end_circuit(
        &self,
        circuit: &Arc<Circuit>,
        from: Option<CircuitSide>,
        last: impl Fn(u32) -> Frame,
    ) {
        self.close_circuit(circuit, from, "an end has closed it", last);
    }

    fn close_circuit(
        &self,
        circuit: &Arc<Circuit>,
        from: Option<CircuitSide>,
        reason: &str,
        last: impl Fn(u32) -> Frame,
    ) {
        let Some(was_pending) = circuit.close() else {
            return;
        };
        self.registry.remove_circuit(circuit);
        if !was_pending {
            self.counters.circuits_closed.increment();
        }
        for side in [CircuitSide::Client, CircuitSide::Host] {
            let Some(end) = circuit.end(side) else {
                continue;
            };
            let outbox = &end.outbox;
            if let Some(connections) = end.channel().and_then(|channel| self.connections(channel)) {
                connections.forget_circuit(end.connection(), circuit);
            }
            if from == Some(side) {
                outbox.discard(end.queue);
                continue;
            }
            let frame = last(end.connection());
            let answers_connect = was_pending && side == CircuitSide::Client;
            outbox.push(
                end.queue,
                if answers_connect {
                    frame.with_reply_for(circuit.request)
                } else {
                    frame
                },
            );
            outbox.finish(end.queue);
        }
        // Over other routers it ends with its endpoint, which still tells them.
        if let Some(known) = circuit.known().filter(|_| !circuit.is_over_routers()) {
            self.network.end_circuit(known, false, reason);
        }
        self.ended.notify_waiters();
    }

    /// Ends a circuit and tells both ends why.
    pub(crate) fn fail_circuit(&self, circuit: &Arc<Circuit>, failure: &RequestFailure) {
        self.close_circuit(circuit, None, &failure.text, |connection| {
            message::closed(connection, failure)
        });
    }

    /// Ends a binding with its terminator, and tells its host why if `failure` is given. Its
    /// circuits continue.
    pub(crate) fn end_binding(&self, binding: &Arc<Binding>, failure: Option<&RequestFailure>) {
        if self.drop_binding(binding, failure) {
            self.counters.binds_ended.increment();
            // After the end: a Bind that lists it later sees that it has ended.
            if binding.terminator.is_listed() {
                self.network
                    .records
                    .remove(EdgeRouter::BUILT_IN, [binding.id().clone()]);
            }
        }
    }

    /// Ends a binding but keeps its record. Returns false if it had ended before.
    pub(crate) fn drop_binding(
        &self,
        binding: &Arc<Binding>,
        failure: Option<&RequestFailure>,
    ) -> bool {
        let is_first = binding.terminator.end();
        self.registry.remove_binding(binding);
        self.network.terminators.remove(&binding.terminator, |_| ());
        if let Some(connections) = self.connections(binding.channel()) {
            connections.forget_binding(binding);
        }
        if !is_first {
            return false;
        }
        self.online().set_dynamic_cost(binding.id().as_str(), 0);
        if let Some(failure) = failure {
            binding
                .channel()
                .send(message::closed(binding.request.connection, failure));
        }
        true
    }

    /// Ends a channel and everything on it, and tells the other ends.
    pub(crate) fn end_channel(&self, channel: &Arc<Channel>, failure: &RequestFailure) {
        let Some(connections) = self.registry.remove_channel(channel) else {
            return;
        };
        self.counters.channels_closed.increment();
        channel.close();
        channel.outbox.close();
        for entry in connections.close() {
            match entry {
                ConnectionEntry::Binding(binding) => self.end_binding(&binding, None),
                ConnectionEntry::End(circuit, CircuitSide::Client) => {
                    self.end_circuit(&circuit, Some(CircuitSide::Client), |connection| {
                        message::closed(connection, failure)
                    });
                }
                // A host that has not answered its Dial is not yet an end of the circuit: the
                // dialing task tries another host.
                ConnectionEntry::End(circuit, CircuitSide::Host) => {
                    if circuit.host().is_some() {
                        self.end_circuit(&circuit, Some(CircuitSide::Host), |connection| {
                            message::closed(connection, failure)
                        });
                    }
                }
            }
        }
        // The channel may have been woken for budget that it no longer needs.
        self.budget.wake(2);
        self.online()
            .channel_closed(channel.login.identity.as_str());
        tracing::debug!(channel = channel.login.number, identity = %channel.login.identity, reason = %failure.text, "channel ended");
        self.ended.notify_waiters();
    }

    /// Ends the channel or link of a peer that has read nothing for longer than `stalled`: one of
    /// the account that holds most of those whose peers do not read at present, and of its channels
    /// the one that has read nothing for the longest time. While that account has time left, no
    /// other is cut off in its place. Called when the memory budget is short.
    pub(crate) fn cut_off(&self) {
        let channels = self
            .registry
            .everything()
            .channels
            .into_iter()
            .map(Holder::Channel);
        let links = self
            .links
            .all()
            .into_iter()
            .filter_map(|link| Some(Holder::Link(link.payloads()?, link)));
        let pausing = channels
            .chain(links)
            .filter(|holder| holder.outbox().stalled() > self.times.stalled / 10);
        let most = pausing
            .max_by_key(|holder| (holder.outbox().account.held(), holder.outbox().stalled()));
        let Some(holder) = most.filter(|holder| holder.outbox().stalled() > self.times.stalled)
        else {
            return;
        };
        let (stalled, held) = (holder.outbox().stalled(), holder.outbox().account.held());
        self.counters.cut_off.increment();
        match holder {
            Holder::Channel(channel) => {
                tracing::warn!(channel = channel.login.number, identity = %channel.login.identity, ?stalled, held, "the memory budget is short: the channel of a peer that does not read is closed");
                self.end_channel(
                    &channel,
                    &RequestFailure::busy(
                        "the peer does not read, and the memory budget is used up",
                    ),
                );
            }
            Holder::Link(_, link) => {
                tracing::warn!(
                    link = link.id,
                    router = link.router,
                    ?stalled,
                    held,
                    "the memory budget is short: the link of a router that does not read is closed"
                );
                link.close();
            }
        }
    }
}
