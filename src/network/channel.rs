//! One connection of an SDK that is logged in, and what its connection ids stand for.

use std::{
    collections::{HashMap, hash_map::Entry as MapEntry},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{
    binding::Binding,
    circuit::{Circuit, CircuitSide},
    dial::Dialing,
    info::ChannelInfo,
    send_queue::SendQueue,
};
use crate::{
    clock::Timestamp,
    entity::{ApiSession, Id, Identity, Session},
    frame::Frame,
};

/// Connection ids from here on are given by us.
const OURS: u32 = 0x8000_0000;

/// A channel.
pub struct Channel {
    /// Unique as long as this process runs.
    pub number: u64,
    pub identity: Id<Identity>,
    pub api_session: Id<ApiSession>,
    /// The token of the API session.
    pub token: String,
    pub address: Option<SocketAddr>,
    /// What the SDK calls itself.
    pub hello: String,
    pub since: Timestamp,
    pub outbox: SendQueue,
    /// Session tokens that were shown on it.
    pub tokens: Tokens,
    table: Mutex<Table>,
    sequence: AtomicI32,
    /// Connects and Binds that are worked on.
    requests: AtomicUsize,
    is_closed: AtomicBool,
    closed: Notify,
}

/// What is known of a channel when it opens.
pub struct Opened {
    pub number: u64,
    pub identity: Id<Identity>,
    pub api_session: Id<ApiSession>,
    pub token: String,
    pub address: Option<SocketAddr>,
    pub hello: String,
    pub since: Timestamp,
}

/// Session tokens of a channel's API session.
#[derive(Default)]
pub struct Tokens {
    /// Those that were looked up, and their sessions.
    pub ids: Mutex<HashMap<String, Id<Session>>>,
    /// How many in a row were unknown.
    pub unknown: AtomicUsize,
}

/// What a connection id stands for.
#[derive(Clone)]
pub enum Entry {
    /// An end of a circuit.
    End(Arc<Circuit>, CircuitSide),
    /// A service that is hosted, or about to be.
    Binding(Arc<Binding>),
}

#[derive(Default)]
struct Table {
    connections: HashMap<u32, Entry>,
    /// Dials that the host has not answered, by the sequence of their message.
    dials: HashMap<i32, Dialing>,
    next: u32,
    is_closed: bool,
}

impl Channel {
    pub fn new(opened: Opened, outbox: SendQueue) -> Self {
        let Opened { number, identity, api_session, token, address, hello, since } = opened;
        Self {
            number,
            identity,
            api_session,
            token,
            address,
            hello,
            since,
            outbox,
            tokens: Tokens::default(),
            table: Mutex::default(),
            sequence: AtomicI32::new(1),
            requests: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            closed: Notify::new(),
        }
    }

    /// The number of the next message of ours: never 0, which stands for none, and never negative.
    pub fn next_sequence(&self) -> i32 {
        let next = |sequence: i32| Some(sequence.checked_add(1).unwrap_or(1));
        self.sequence.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or(1)
    }

    /// Sends a control message. A peer that does not read them is cut off.
    pub fn send(&self, frame: Frame) {
        if !self.outbox.control(frame) {
            self.close();
        }
    }

    /// What a connection id stands for.
    pub fn entry(&self, connection: u32) -> Option<Entry> {
        self.table.lock().connections.get(&connection).cloned()
    }

    /// Lets a connection id stand for something. Answers whether it was free.
    pub fn enter(&self, connection: u32, entry: Entry) -> bool {
        let mut table = self.table.lock();
        if table.is_closed || table.connections.contains_key(&connection) {
            return false;
        }
        table.connections.insert(connection, entry);
        true
    }

    /// Lets an id of our own stand for something. `None` if the channel is closed.
    pub fn enter_ours(&self, entry: Entry) -> Option<u32> {
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

    /// Frees an id that stands for this circuit.
    pub fn forget_circuit(&self, connection: u32, circuit: &Arc<Circuit>) {
        let mut table = self.table.lock();
        if matches!(table.connections.get(&connection), Some(Entry::End(known, _)) if Arc::ptr_eq(known, circuit)) {
            table.connections.remove(&connection);
        }
    }

    /// Frees an id that stands for this binding.
    pub fn forget_binding(&self, binding: &Arc<Binding>) {
        let mut table = self.table.lock();
        if matches!(table.connections.get(&binding.connection), Some(Entry::Binding(known)) if Arc::ptr_eq(known, binding)) {
            table.connections.remove(&binding.connection);
        }
    }

    /// Waits for the answer to a Dial. Answers whether the channel is open and takes so many.
    pub fn expect(&self, sequence: i32, dialing: Dialing, most: usize) -> bool {
        let mut table = self.table.lock();
        let takes = !table.is_closed && table.dials.len() < most;
        if takes {
            table.dials.insert(sequence, dialing);
        }
        takes
    }

    /// Takes the Dial with this sequence, unless somebody else did.
    pub fn answered(&self, sequence: i32) -> Option<Dialing> {
        self.table.lock().dials.remove(&sequence)
    }

    /// The host ends a connection that it is being dialled for instead of an answer.
    pub fn dial_refused(&self, circuit: &Arc<Circuit>, frame: &Frame) {
        let dialing = {
            let mut table = self.table.lock();
            let sequence = table.dials.iter().find(|(_, dialing)| dialing.is_for(circuit)).map(|(sequence, _)| *sequence);
            sequence.and_then(|sequence| table.dials.remove(&sequence))
        };
        if let Some(dialing) = dialing {
            dialing.fail(self, &String::from_utf8_lossy(frame.body()));
        }
    }

    /// Takes everything that ids stand for, and lets none stand for anything from now on. Dials that wait get no answer.
    pub fn clear(&self) -> Vec<Entry> {
        let (entries, dials) = {
            let mut table = self.table.lock();
            table.is_closed = true;
            (std::mem::take(&mut table.connections), std::mem::take(&mut table.dials))
        };
        // Outside of the lock: whoever waits for a dial looks here.
        drop(dials);
        entries.into_values().collect()
    }

    /// Counts one more request that is worked on, if they are not too many.
    pub fn begin_request(self: &Arc<Self>, most: usize) -> Option<Request> {
        if self.requests.fetch_add(1, Ordering::AcqRel) >= most {
            self.requests.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        Some(Request(self.clone()))
    }

    /// Cuts the channel off. Its reader does the rest.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.closed.notify_waiters();
        self.closed.notify_one();
    }

    /// Waits until it is cut off. For its reader alone.
    pub async fn closed(&self) {
        while !self.is_closed.load(Ordering::Acquire) {
            self.closed.notified().await;
        }
    }

    pub fn info(&self) -> ChannelInfo {
        let (mut circuits, mut terminators) = (0, 0);
        for entry in self.table.lock().connections.values() {
            match entry {
                Entry::End(..) => circuits += 1,
                Entry::Binding(_) => terminators += 1,
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

/// A request that is worked on, counted as long as this is there.
pub struct Request(Arc<Channel>);

impl Drop for Request {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}
