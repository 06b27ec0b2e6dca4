//! A binding: a service that an SDK hosts on a channel, with its terminator.

use std::sync::Arc;

use model::entity::{Id, Terminator};
use parking_lot::Mutex;
use wire::sdk::key;

use super::channel::Channel;
use crate::network::{LiveTerminator, Weight};

/// A service hosted on a channel.
pub(crate) struct Binding {
    /// What the whole network knows of it.
    pub terminator: Arc<LiveTerminator>,
    pub request: BindRequest,
    update: Mutex<PendingUpdate>,
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

/// What its SDK has asked for.
pub(crate) struct BindRequest {
    pub channel: Arc<Channel>,
    /// The connection id that its SDK chose.
    pub connection: u32,
    /// The session's token as the SDK sent it. The SDK assigns a Dial to its listener by these
    /// bytes.
    pub token: Vec<u8>,
    /// The listener id by which the SDK refers to it when it binds again.
    pub listener: Option<Vec<u8>>,
    /// Whether the router assigns the ids of new connections instead of the SDK.
    pub gives_ids: bool,
    pub wants_sdk_flow_control: bool,
}

impl Binding {
    pub(crate) fn new(terminator: Arc<LiveTerminator>, request: BindRequest) -> Self {
        Self {
            terminator,
            request,
            update: Mutex::default(),
        }
    }

    pub(crate) fn id(&self) -> &Id<Terminator> {
        self.terminator.id()
    }

    pub(crate) fn channel(&self) -> &Arc<Channel> {
        &self.request.channel
    }

    /// The host's key for end-to-end encryption.
    pub(crate) fn public_key(&self) -> Option<&[u8]> {
        let all = &self.terminator.hosted.peer_data;
        let own = all
            .iter()
            .find(|(number, _)| i32::try_from(*number) == Ok(key::PUBLIC_KEY));
        own.map(|(_, value)| value.as_slice())
    }

    /// The weight that an update of its host is based on.
    pub(crate) fn wanted(&self) -> Weight {
        self.update
            .lock()
            .wanted
            .unwrap_or_else(|| self.terminator.weight())
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
}
