//! Counters for monitoring: the events since the router started, and the current gauges.

use std::sync::atomic::{AtomicU64, Ordering};

use schemars::JsonSchema;
use serde::Serialize;

use super::circuit_side::CircuitSide;
use crate::network::RequestFailure;

/// A counter that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn increment(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The events since the router started. The pauses of readers are counted in `Budget`, which the
/// queues of all channels share.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub channels_opened: Counter,
    pub channels_closed: Counter,
    pub hellos_refused: Counter,
    pub hellos_missing: Counter,
    pub malformed: Counter,
    pub cut_off: Counter,
    pub binds_accepted: Counter,
    pub binds_refused: Counter,
    pub binds_ended: Counter,
    pub circuits_opened: Counter,
    pub circuits_closed: Counter,
    pub dials_refused: Counter,
    pub dials_failed: Counter,
    client_bytes: Counter,
    host_bytes: Counter,
}

impl Counters {
    /// Counts bytes of data received from one side of a circuit.
    pub(crate) fn relayed(&self, from: CircuitSide, bytes: usize) {
        let counter = if from == CircuitSide::Client {
            &self.client_bytes
        } else {
            &self.host_bytes
        };
        counter.add(bytes as u64);
    }

    /// Counts a dial without a circuit: refused for lack of a right, or failed for another reason.
    pub(crate) fn dial_without_circuit(&self, failure: &RequestFailure) {
        let counter = if failure.reason.text().is_some() {
            &self.dials_refused
        } else {
            &self.dials_failed
        };
        counter.increment();
    }

    /// The current values. The caller fills in the gauges.
    pub(crate) fn read(&self) -> TrafficInfo {
        TrafficInfo {
            channels_opened: self.channels_opened.get(),
            channels_closed: self.channels_closed.get(),
            hellos_refused: self.hellos_refused.get(),
            hellos_missing: self.hellos_missing.get(),
            malformed: self.malformed.get(),
            cut_off: self.cut_off.get(),
            binds_accepted: self.binds_accepted.get(),
            binds_refused: self.binds_refused.get(),
            binds_ended: self.binds_ended.get(),
            circuits_opened: self.circuits_opened.get(),
            circuits_closed: self.circuits_closed.get(),
            dials_refused: self.dials_refused.get(),
            dials_failed: self.dials_failed.get(),
            client_bytes: self.client_bytes.get(),
            host_bytes: self.host_bytes.get(),
            ..TrafficInfo::default()
        }
    }
}

/// The counters and gauges of the built-in router. The counters say "since the start": they only
/// grow, and are 0 when the controller starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TrafficDetail")]
pub struct TrafficInfo {
    /// Channels that are open now.
    pub channels: u64,
    /// Channels whose hello was accepted, since the start.
    pub channels_opened: u64,
    /// Channels that ended, since the start.
    pub channels_closed: u64,
    /// Connections whose hello was refused, since the start.
    pub hellos_refused: u64,
    /// Connections that ended, or reached the time limit, before a complete hello arrived, since
    /// the start.
    pub hellos_missing: u64,
    /// Connections that were closed because a message could not be read, since the start.
    pub malformed: u64,
    /// Channels that were closed because the memory limit was reached and their client read
    /// nothing, since the start.
    pub cut_off: u64,
    /// Bindings that are open now; each has one terminator.
    pub binds: u64,
    /// Binds that created a terminator, since the start.
    pub binds_accepted: u64,
    /// Binds that were refused, since the start.
    pub binds_refused: u64,
    /// Accepted binds that ended, since the start.
    pub binds_ended: u64,
    /// Circuits that are open now, including those that wait for their host.
    pub circuits: u64,
    /// Circuits that a host accepted, since the start.
    pub circuits_opened: u64,
    /// Circuits that ended after a host had accepted them, since the start.
    pub circuits_closed: u64,
    /// Dials that were refused for lack of a right, since the start.
    pub dials_refused: u64,
    /// Dials that failed for another reason, such as no host or no answer, since the start.
    pub dials_failed: u64,
    /// Bytes of data from clients to hosts, since the start.
    pub client_bytes: u64,
    /// Bytes of data from hosts to clients, since the start.
    pub host_bytes: u64,
    /// How often reading from a channel paused because a queue had no room for its messages, since
    /// the start.
    pub reader_pauses: u64,
    /// Bytes that are queued now, of all channels.
    pub queued_bytes: u64,
}
