//! The connections of a channel: what each connection id means, and the Dials that wait for an
//! answer of the host.
//!
//! Circuits, bindings and dials know the channels that they send on, not this table: who ends one of
//! them finds the table in the registry.

use std::{
    collections::{HashMap, hash_map::Entry as MapEntry},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{
    binding::Binding, channel::Channel, circuit::Circuit, circuit_side::CircuitSide,
    pending_dial::PendingDial,
};
use crate::network::ChannelInfo;

/// The first connection id assigned by the router; SDKs use lower ones.
const OURS: u32 = 0x8000_0000;

/// A channel with its table of connection ids.
pub(crate) struct Connections {
    pub channel: Arc<Channel>,
    table: Mutex<Table>,
}

/// The meaning of a connection id.
#[derive(Clone)]
pub(crate) enum ConnectionEntry {
    /// One end of a circuit.
    End(Arc<Circuit>, CircuitSide),
    /// A binding, complete or in progress.
    Binding(Arc<Binding>),
}

/// Why a Dial is not registered.
pub(crate) enum NotExpected {
    /// The channel has ended.
    Closed,
    TooMany,
}

#[derive(Default)]
struct Table {
    entries: HashMap<u32, ConnectionEntry>,
    /// Dials without an answer of the host, by the sequence number of the Dial.
    dials: HashMap<i32, PendingDial>,
    next: u32,
    is_closed: bool,
}

impl Connections {
    pub(crate) fn new(channel: Arc<Channel>) -> Self {
        Self {
            channel,
            table: Mutex::default(),
        }
    }

    /// The meaning of a connection id.
    pub(crate) fn entry(&self, connection: u32) -> Option<ConnectionEntry> {
        self.table.lock().entries.get(&connection).cloned()
    }

    /// Assigns a meaning to a connection id. Returns false if the id is in use or the channel is
    /// closed.
    pub(crate) fn enter(&self, connection: u32, entry: ConnectionEntry) -> bool {
        let mut table = self.table.lock();
        if table.is_closed || table.entries.contains_key(&connection) {
            return false;
        }
        table.entries.insert(connection, entry);
        true
    }

    /// Assigns a new id of the router. `None` if the channel is closed.
    pub(crate) fn enter_ours(&self, entry: ConnectionEntry) -> Option<u32> {
        let mut table = self.table.lock();
        if table.is_closed {
            return None;
        }
        loop {
            let id = OURS | table.next;
            table.next = table.next.wrapping_add(1) & !OURS;
            if let MapEntry::Vacant(place) = table.entries.entry(id) {
                place.insert(entry);
                return Some(id);
            }
        }
    }

    /// Frees a connection id that refers to this circuit.
    pub(crate) fn forget_circuit(&self, connection: u32, circuit: &Arc<Circuit>) {
        let mut table = self.table.lock();
        if matches!(table.entries.get(&connection), Some(ConnectionEntry::End(known, _)) if Arc::ptr_eq(known, circuit))
        {
            table.entries.remove(&connection);
        }
    }

    /// Frees the connection id of this binding.
    pub(crate) fn forget_binding(&self, binding: &Arc<Binding>) {
        let mut table = self.table.lock();
        if matches!(table.entries.get(&binding.request.connection), Some(ConnectionEntry::Binding(known)) if Arc::ptr_eq(known, binding))
        {
            table.entries.remove(&binding.request.connection);
        }
    }

    /// Registers a Dial that waits for its answer, of at most `limit`.
    pub(crate) fn expect(
        &self,
        sequence: i32,
        dialing: PendingDial,
        limit: usize,
    ) -> Result<(), NotExpected> {
        let mut table = self.table.lock();
        if table.is_closed {
            return Err(NotExpected::Closed);
        }
        if table.dials.len() >= limit {
            return Err(NotExpected::TooMany);
        }
        table.dials.insert(sequence, dialing);
        Ok(())
    }

    /// Removes the Dial with this sequence number; `None` if it was already answered or given up.
    pub(crate) fn take_dial(&self, sequence: i32) -> Option<PendingDial> {
        self.table.lock().dials.remove(&sequence)
    }

    /// Removes the Dial of this circuit; `None` if it was already answered or given up.
    pub(crate) fn take_dial_of(&self, circuit: &Arc<Circuit>) -> Option<PendingDial> {
        let mut table = self.table.lock();
        let sequence = table
            .dials
            .iter()
            .find(|(_, dialing)| dialing.is_for(circuit))
            .map(|(sequence, _)| *sequence)?;
        table.dials.remove(&sequence)
    }

    /// Frees what a Dial holds that its host has refused, and reports the failure to the waiting
    /// task.
    pub(crate) fn fail_dial(&self, dialing: PendingDial, text: &str) {
        if let Some(connection) = dialing.connection {
            self.forget_circuit(connection, &dialing.circuit);
        }
        self.channel.outbox.discard(dialing.queue);
        dialing.fail(text);
    }

    /// Whether the channel has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.table.lock().is_closed
    }

    /// Closes the table and returns its entries. Pending Dials get no answer.
    pub(crate) fn close(&self) -> Vec<ConnectionEntry> {
        let (entries, dials) = {
            let mut table = self.table.lock();
            table.is_closed = true;
            (
                std::mem::take(&mut table.entries),
                std::mem::take(&mut table.dials),
            )
        };
        // After the lock is released: the task that waits for a Dial uses this table.
        drop(dials);
        entries.into_values().collect()
    }

    /// The channel as administrators see it.
    pub(crate) fn info(&self) -> ChannelInfo {
        let (mut circuits, mut terminators) = (0, 0);
        for entry in self.table.lock().entries.values() {
            match entry {
                ConnectionEntry::End(..) => circuits += 1,
                ConnectionEntry::Binding(_) => terminators += 1,
            }
        }
        let login = &self.channel.login;
        ChannelInfo {
            id: login.number.to_string(),
            identity_id: login.identity.to_string(),
            api_session_id: login.api_session.to_string(),
            address: login.address,
            hello: login.hello.clone(),
            since: login.since,
            circuits,
            terminators,
            queued_bytes: self.channel.outbox.bytes(),
        }
    }
}
