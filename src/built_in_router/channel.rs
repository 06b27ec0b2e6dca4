//! A channel: the connection of a logged-in SDK, and its table of connection ids.

use std::{
    collections::{HashMap, hash_map::Entry as MapEntry},
    net::SocketAddr,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use wire::frame::Frame;

use super::{
    binding::Binding, circuit::Circuit, circuit_side::CircuitSide, pending_dial::PendingDial,
    send_queue::SendQueue,
};
use crate::{
    clock::Timestamp,
    entity::{ApiSession, Id, Identity},
    fabric::ChannelInfo,
};

/// The first connection id assigned by the router; SDKs use lower ones.
const OURS: u32 = 0x8000_0000;

/// The connection of a logged-in SDK.
pub(crate) struct Channel {
    login: ChannelLogin,
    pub outbox: Arc<SendQueue>,
    /// How many unknown session tokens came in a row.
    pub unknown_tokens: AtomicUsize,
    /// How many tokens that name no session were looked up and were unknown, or are being looked
    /// up.
    pub searched_tokens: AtomicUsize,
    table: Mutex<Table>,
    sequence: AtomicI32,
    /// The number of Connects and Binds in progress; counted by `requests.rs`.
    pub requests: AtomicUsize,
    /// Whether everything was written to it, and its end.
    pub is_written: AtomicBool,
    is_closed: AtomicBool,
    closed: Notify,
}

/// The unchanging data of a channel, from its hello.
pub(crate) struct ChannelLogin {
    /// Unique within this process.
    pub number: u64,
    pub identity: Id<Identity>,
    pub api_session: Id<ApiSession>,
    /// The token of the API session.
    pub token: String,
    pub address: Option<SocketAddr>,
    /// The body of its hello.
    pub hello: String,
    pub since: Timestamp,
}

impl Deref for Channel {
    type Target = ChannelLogin;
    fn deref(&self) -> &ChannelLogin {
        &self.login
    }
}

/// The meaning of a connection id.
#[derive(Clone)]
pub(crate) enum ConnectionEntry {
    /// One end of a circuit.
    End(Arc<Circuit>, CircuitSide),
    /// A binding, complete or in progress.
    Binding(Arc<Binding>),
}

#[derive(Default)]
struct Table {
    connections: HashMap<u32, ConnectionEntry>,
    /// Dials without an answer of the host, by the sequence number of the Dial.
    dials: HashMap<i32, PendingDial>,
    next: u32,
    is_closed: bool,
}

impl Channel {
    pub(crate) fn new(login: ChannelLogin, outbox: SendQueue) -> Self {
        Self {
            login,
            outbox: Arc::new(outbox),
            unknown_tokens: AtomicUsize::new(0),
            searched_tokens: AtomicUsize::new(0),
            table: Mutex::default(),
            sequence: AtomicI32::new(1),
            requests: AtomicUsize::new(0),
            is_written: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            closed: Notify::new(),
        }
    }

    /// The sequence number of the next message we send: never negative and never 0, which means
    /// none.
    pub(crate) fn next_sequence(&self) -> i32 {
        let next = |sequence: i32| Some(sequence.checked_add(1).unwrap_or(1));
        self.sequence
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .unwrap_or(1)
    }

    /// Sends a control message. Closes the channel if the peer does not read its control messages.
    pub(crate) fn send(&self, frame: Frame) {
        if !self.outbox.control(frame) {
            self.close();
        }
    }

    /// The meaning of a connection id.
    pub(crate) fn entry(&self, connection: u32) -> Option<ConnectionEntry> {
        self.table.lock().connections.get(&connection).cloned()
    }

    /// Assigns a meaning to a connection id. Returns false if the id is in use or the channel is
    /// closed.
    pub(crate) fn enter(&self, connection: u32, entry: ConnectionEntry) -> bool {
        let mut table = self.table.lock();
        if table.is_closed || table.connections.contains_key(&connection) {
            return false;
        }
        table.connections.insert(connection, entry);
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
            if let MapEntry::Vacant(place) = table.connections.entry(id) {
                place.insert(entry);
                return Some(id);
            }
        }
    }

    /// Frees a connection id that refers to this circuit.
    pub(crate) fn forget_circuit(&self, connection: u32, circuit: &Arc<Circuit>) {
        let mut table = self.table.lock();
        if matches!(table.connections.get(&connection), Some(ConnectionEntry::End(known, _)) if Arc::ptr_eq(known, circuit))
        {
            table.connections.remove(&connection);
        }
    }

    /// Frees the connection id of this binding.
    pub(crate) fn forget_binding(&self, binding: &Arc<Binding>) {
        let mut table = self.table.lock();
        if matches!(table.connections.get(&binding.request.connection), Some(ConnectionEntry::Binding(known)) if Arc::ptr_eq(known, binding))
        {
            table.connections.remove(&binding.request.connection);
        }
    }

    /// Registers a Dial that waits for its answer. Returns false if the channel is closed or has
    /// `limit` unanswered Dials.
    pub(crate) fn expect(&self, sequence: i32, dialing: PendingDial, limit: usize) -> bool {
        let mut table = self.table.lock();
        let takes = !table.is_closed && table.dials.len() < limit;
        if takes {
            table.dials.insert(sequence, dialing);
        }
        takes
    }

    /// Removes the Dial with this sequence number; `None` if it was already answered or given up.
    pub(crate) fn answered(&self, sequence: i32) -> Option<PendingDial> {
        self.table.lock().dials.remove(&sequence)
    }

    /// Handles a host that closes the connection of a Dial instead of answering it.
    pub(crate) fn dial_refused(&self, circuit: &Arc<Circuit>, frame: &Frame) {
        let dialing = {
            let mut table = self.table.lock();
            let sequence = table
                .dials
                .iter()
                .find(|(_, dialing)| dialing.is_for(circuit))
                .map(|(sequence, _)| *sequence);
            sequence.and_then(|sequence| table.dials.remove(&sequence))
        };
        if let Some(dialing) = dialing {
            dialing.fail(self, &String::from_utf8_lossy(frame.body()));
        }
    }

    /// Closes the table and returns its entries. Pending Dials get no answer.
    pub(crate) fn clear(&self) -> Vec<ConnectionEntry> {
        let (entries, dials) = {
            let mut table = self.table.lock();
            table.is_closed = true;
            (
                std::mem::take(&mut table.connections),
                std::mem::take(&mut table.dials),
            )
        };
        // After the lock is released: the task that waits for a Dial uses this table.
        drop(dials);
        entries.into_values().collect()
    }

    /// Closes the channel. Its reader ends everything on it.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.closed.notify_waiters();
        self.closed.notify_one();
    }

    /// Waits until the channel is closed. For its reader only.
    pub(crate) async fn closed(&self) {
        while !self.is_closed.load(Ordering::Acquire) {
            self.closed.notified().await;
        }
    }

    pub(crate) fn info(&self) -> ChannelInfo {
        let (mut circuits, mut terminators) = (0, 0);
        for entry in self.table.lock().connections.values() {
            match entry {
                ConnectionEntry::End(..) => circuits += 1,
                ConnectionEntry::Binding(_) => terminators += 1,
            }
        }
        ChannelInfo {
            id: self.number.to_string(),
            identity_id: self.identity.to_string(),
            api_session_id: self.api_session.to_string(),
            address: self.address,
            hello: self.hello.clone(),
            since: self.since,
            circuits,
            terminators,
            queued_bytes: self.outbox.bytes(),
        }
    }
}
