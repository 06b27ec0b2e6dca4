//! A service that an SDK hosts on a channel: a terminator with a connection behind it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use parking_lot::Mutex;

use super::{channel::Channel, select::Weight};
use crate::entity::{Id, Precedence, Service, Session, Terminator};

/// A failed dial adds so much to the dynamic cost, up to a most.
const FAILED: u32 = 20;
const MOST_FAILED: u32 = 16_383;
/// A dial that succeeds takes so much of it away again.
const SUCCEEDED: u32 = 2;
/// Time takes so much of it away each minute.
const FORGIVEN: u32 = 5;
/// An open circuit adds so much.
const CIRCUIT: u32 = 2;

/// A binding.
pub struct Binding {
    /// Of its terminator, whose address it is as well.
    pub id: Id<Terminator>,
    pub channel: Arc<Channel>,
    /// As its SDK numbers it.
    pub connection: u32,
    pub session: Id<Session>,
    pub service: Id<Service>,
    /// The session's token as the SDK sent it: it knows a Dial by these bytes.
    pub token: Vec<u8>,
    /// The name under which it can be dialled in particular; blank: none.
    pub instance: String,
    /// The host's key for end-to-end encryption.
    pub public_key: Option<Vec<u8>>,
    /// By which the SDK knows its listener when it binds again.
    pub listener: Option<Vec<u8>>,
    /// Whether we give new connections their ids, instead of the SDK.
    pub gives_ids: bool,
    pub wants_sdk_flow_control: bool,
    /// What its record says.
    weight: Mutex<Weight>,
    /// What failures add to the cost.
    failures: AtomicU32,
    circuits: AtomicU32,
    /// Whether its terminator is there, so that it can be dialled.
    is_listed: AtomicBool,
    is_closed: AtomicBool,
}

/// What is known of a binding when it is asked for.
pub struct Asked {
    pub id: Id<Terminator>,
    pub channel: Arc<Channel>,
    pub connection: u32,
    pub session: Id<Session>,
    pub service: Id<Service>,
    pub token: Vec<u8>,
    pub instance: String,
    pub public_key: Option<Vec<u8>>,
    pub listener: Option<Vec<u8>>,
    pub gives_ids: bool,
    pub wants_sdk_flow_control: bool,
    pub weight: Weight,
}

impl Binding {
    pub fn new(asked: Asked) -> Self {
        let Asked { id, channel, connection, session, service, token, instance, public_key, listener, .. } = asked;
        Self {
            id,
            channel,
            connection,
            session,
            service,
            token,
            instance,
            public_key,
            listener,
            gives_ids: asked.gives_ids,
            wants_sdk_flow_control: asked.wants_sdk_flow_control,
            weight: Mutex::new(asked.weight),
            failures: AtomicU32::new(0),
            circuits: AtomicU32::new(0),
            is_listed: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        }
    }

    /// What it is chosen by now.
    pub fn weight(&self) -> Weight {
        Weight { dynamic_cost: self.dynamic_cost(), ..*self.weight.lock() }
    }

    /// Takes cost and precedence from its record.
    pub fn weigh(&self, cost: u16, precedence: Precedence) {
        let mut weight = self.weight.lock();
        (weight.cost, weight.precedence) = (cost, precedence);
    }

    pub fn dynamic_cost(&self) -> u16 {
        let circuits = self.circuits.load(Ordering::Relaxed).saturating_mul(CIRCUIT);
        u16::try_from(circuits.saturating_add(self.failures.load(Ordering::Relaxed))).unwrap_or(u16::MAX)
    }

    pub fn dial_failed(&self) {
        self.change_failures(|failures| failures.saturating_add(FAILED).min(MOST_FAILED));
    }

    pub fn dial_succeeded(&self) {
        self.change_failures(|failures| failures.saturating_sub(SUCCEEDED));
        self.circuits.fetch_add(1, Ordering::Relaxed);
    }

    pub fn circuit_ended(&self) {
        self.circuits.fetch_sub(1, Ordering::Relaxed);
    }

    /// To be called each minute. Answers whether it changed anything.
    pub fn forgive(&self) -> bool {
        let had = self.failures.load(Ordering::Relaxed) > 0;
        self.change_failures(|failures| failures.saturating_sub(FORGIVEN));
        had
    }

    fn change_failures(&self, change: impl Fn(u32) -> u32) {
        // It never fails: there is always a next number.
        let _ = self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |failures| Some(change(failures)));
    }

    /// Notes whether its terminator is there.
    pub fn list(&self, is_listed: bool) {
        self.is_listed.store(is_listed, Ordering::SeqCst);
    }

    /// Whether its terminator is there.
    pub fn is_listed(&self) -> bool {
        self.is_listed.load(Ordering::SeqCst)
    }

    /// Whether it can be dialled.
    pub fn is_open(&self) -> bool {
        self.is_listed() && !self.is_closed()
    }

    /// Closes it. Answers whether it was not closed before.
    pub fn close(&self) -> bool {
        !self.is_closed.swap(true, Ordering::SeqCst)
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }
}
