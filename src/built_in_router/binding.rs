//! A binding: a service that an SDK hosts on a channel, with its terminator.

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;

use super::channel::Channel;
use crate::{
    entity::{Id, Precedence, Service, Session, Terminator},
    fabric::{DynamicCost, Weight},
};

/// A service hosted on a channel.
pub(crate) struct Binding {
    request: BindRequest,
    /// Cost and precedence of its record.
    weight: Mutex<Weight>,
    update: Mutex<PendingUpdate>,
    load: DynamicCost,
    /// Whether its terminator exists, so that it can be dialed.
    is_listed: AtomicBool,
    is_closed: AtomicBool,
}

/// The last cost and precedence that the host requested. At most one update is written at a time,
/// however often the host requests one.
#[derive(Default)]
struct PendingUpdate {
    wanted: Option<Weight>,
    /// Whether `wanted` is not yet being written.
    is_new: bool,
    is_writing: bool,
}

/// The unchanging data of a binding, from its Bind.
pub(crate) struct BindRequest {
    /// The id of its terminator, and the terminator's address.
    pub id: Id<Terminator>,
    pub channel: Arc<Channel>,
    /// The connection id that its SDK chose.
    pub connection: u32,
    pub session: Id<Session>,
    pub service: Id<Service>,
    /// The session's token as the SDK sent it. The SDK assigns a Dial to its listener by these
    /// bytes.
    pub token: Vec<u8>,
    /// The instance id by which it can be dialed; blank: none.
    pub instance: String,
    /// The host's key for end-to-end encryption.
    pub public_key: Option<Vec<u8>>,
    /// The listener id by which the SDK refers to it when it binds again.
    pub listener: Option<Vec<u8>>,
    /// Whether the router assigns the ids of new connections instead of the SDK.
    pub gives_ids: bool,
    pub wants_sdk_flow_control: bool,
}

impl Deref for Binding {
    type Target = BindRequest;
    fn deref(&self) -> &BindRequest {
        &self.request
    }
}

impl Binding {
    pub(crate) fn new(request: BindRequest, weight: Weight) -> Self {
        Self {
            request,
            weight: Mutex::new(weight),
            update: Mutex::default(),
            load: DynamicCost::default(),
            is_listed: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        }
    }

    /// The weight by which it is chosen, including its dynamic cost.
    pub(crate) fn weight(&self) -> Weight {
        Weight {
            dynamic_cost: self.dynamic_cost(),
            ..*self.weight.lock()
        }
    }

    /// Takes over cost and precedence from its record.
    pub(crate) fn set_weight(&self, cost: u16, precedence: Precedence) {
        let mut weight = self.weight.lock();
        (weight.cost, weight.precedence) = (cost, precedence);
    }

    /// The weight that an update of its host is based on.
    pub(crate) fn wanted(&self) -> Weight {
        self.update.lock().wanted.unwrap_or_else(|| self.weight())
    }

    /// Records the cost and precedence that the host requests. Returns true if no update is being
    /// written: the caller then writes what [`Binding::next_update`] returns, until that is `None`.
    pub(crate) fn want(&self, weight: Weight) -> bool {
        let mut update = self.update.lock();
        (update.wanted, update.is_new) = (Some(weight), true);
        !std::mem::replace(&mut update.is_writing, true)
    }

    /// The next cost and precedence to write. `None` means that nothing is left to write, and ends
    /// the update.
    pub(crate) fn next_update(&self) -> Option<Weight> {
        let mut update = self.update.lock();
        if !std::mem::take(&mut update.is_new) {
            *update = PendingUpdate::default();
        }
        update.wanted
    }

    pub(crate) fn dynamic_cost(&self) -> u16 {
        self.load.value()
    }

    /// The dynamic cost of failed dials and open circuits.
    pub(crate) fn load(&self) -> &DynamicCost {
        &self.load
    }

    /// Sets whether its terminator exists.
    pub(crate) fn set_listed(&self, is_listed: bool) {
        self.is_listed.store(is_listed, Ordering::SeqCst);
    }

    /// Whether its terminator exists.
    pub(crate) fn is_listed(&self) -> bool {
        self.is_listed.load(Ordering::SeqCst)
    }

    /// Whether it can be dialed.
    pub(crate) fn is_open(&self) -> bool {
        self.is_listed() && !self.is_closed()
    }

    /// Closes it. Returns false if it was closed before.
    pub(crate) fn close(&self) -> bool {
        !self.is_closed.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }
}
