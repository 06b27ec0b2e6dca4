//! The task of one router that writes API sessions to it: a full state, then changes in order.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use serde_json::json;
use tokio::{sync::mpsc, time::timeout_at};
use wire::{
    control::{content, edge, key, model::Action},
    frame::{Builder, Frame},
};

use super::{
    announced_sessions::{AnnouncedSessions, Gain},
    channel_sessions::ChannelSession,
    connection::RouterConnection,
    control_core::ControlCore,
    sync_queue::CHUNK,
    told_identities,
};
use crate::peer_lines::may_log;

/// Maximum messages waiting for a router. Beyond it the router is disconnected; it reconnects and
/// gets a full state.
const MAX_WAITING: usize = 8192;

/// A router to which changes are sent.
pub(crate) struct Follower {
    pub connection: Arc<RouterConnection>,
    orders: mpsc::Sender<Order>,
}

enum Order {
    Send(Arc<Frame>),
    /// Write the full state that has begun.
    FullState,
}

impl Follower {
    /// Starts the task of a router.
    pub(crate) fn start(core: &Arc<ControlCore>, connection: Arc<RouterConnection>) -> Self {
        let (orders, waiting) = mpsc::channel(MAX_WAITING);
        tokio::spawn(run(core.clone(), connection.clone(), waiting));
        Self { connection, orders }
    }

    /// Sends a message after those before. Disconnects a router that does not read.
    pub(crate) fn send(&self, message: Arc<Frame>) {
        self.order(Order::Send(message));
    }

    /// Writes a full state after the messages before.
    pub(crate) fn write_full_state(&self) {
        self.order(Order::FullState);
    }

    /// Tells the router of identities, or that none of their API sessions is left, if it takes
    /// that.
    pub(crate) fn send_identities<'i>(&self, action: Action, ids: impl Iterator<Item = &'i str>) {
        if let Some(message) = told_identities::message(&self.connection, action, ids) {
            self.send(message);
        }
    }

    /// Records that the router may know an API session from now on. Returns whether it is to be
    /// sent in a message.
    pub(crate) fn gain(
        &self,
        announced: &mut AnnouncedSessions,
        row: u64,
        session: &ChannelSession,
    ) -> bool {
        let gain = announced.gain(row, &session.id);
        if gain == Gain::NewFullState {
            self.write_full_state();
        }
        gain == Gain::Message
    }

    fn order(&self, order: Order) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.orders.try_send(order) {
            if may_log(&self.connection.router) {
                tracing::warn!(router = %self.connection.router, "a router that does not read changes is disconnected");
            }
            self.connection.close();
        }
    }
}

async fn run(
    core: Arc<ControlCore>,
    connection: Arc<RouterConnection>,
    mut orders: mpsc::Receiver<Order>,
) {
    loop {
        let repeats_at = connection.announced_sessions.lock().repeats_at();
        let order = match repeats_at {
            Some(at) => timeout_at(at, orders.recv()).await,
            None => Ok(orders.recv().await),
        };
        let is_written = match order {
            Ok(Some(Order::Send(message))) => {
                write(&connection, Arc::unwrap_or_clone(message)).await
            }
            Ok(Some(Order::FullState)) => write_full_state(&core, &connection).await,
            Ok(None) => return,
            Err(_) => repeat(&core, &connection).await,
        };
        if !is_written {
            if !connection.outbox.is_finished() {
                connection.close();
            }
            return;
        }
    }
}

/// Writes a message when few others wait. Returns whether the connection is open.
async fn write(connection: &RouterConnection, message: Frame) -> bool {
    connection.outbox.push_when_low(message).await.is_some()
}

/// Writes a full state. Returns whether the connection is open.
async fn write_full_state(core: &ControlCore, connection: &Arc<RouterConnection>) -> bool {
    core.registry
        .update_link(connection, core.online(), |link| {
            link.sync_status = "SYNC_IN_PROGRESS".into()
        });
    let (id, mut sequence) = (core.sync.id(), 0);
    loop {
        let (identities, part, is_last) = {
            let mut announced = connection.announced_sessions.lock();
            let sessions = core.channel_sessions.read();
            let part = announced.next_part(CHUNK, &sessions);
            let of_part: Vec<&ChannelSession> = part
                .rows
                .iter()
                .filter_map(|row| sessions.find(*row))
                .collect();
            let identities = of_part.iter().map(|session| session.identity.as_str());
            let identities = told_identities::message(connection, Action::Create, identities);
            (
                identities,
                of_part
                    .iter()
                    .map(|session| session.encoded.clone())
                    .collect(),
                part.is_last,
            )
        };
        let part = added(part, true, (sequence, is_last, &id));
        for message in identities
            .map(Arc::unwrap_or_clone)
            .into_iter()
            .chain([part])
        {
            if !write(connection, message).await {
                return false;
            }
        }
        sequence += 1;
        if is_last {
            core.registry
                .update_link(connection, core.online(), |link| {
                    link.sync_status = "SYNC_DONE".into()
                });
            return true;
        }
    }
}

/// Repeats what the router may have forgotten. Returns whether the connection is open.
async fn repeat(core: &ControlCore, connection: &RouterConnection) -> bool {
    let encoded: Vec<Bytes> = {
        let mut announced = connection.announced_sessions.lock();
        let sessions = core.channel_sessions.read();
        announced
            .repeat()
            .into_iter()
            .filter_map(|row| Some(sessions.find(row)?.encoded.clone()))
            .collect()
    };
    for some in encoded.chunks(CHUNK) {
        if !write(
            connection,
            added(some.to_vec(), false, (0, true, &core.sync.id())),
        )
        .await
        {
            return false;
        }
    }
    true
}

/// The message that adds API sessions, as a part of a full state or not.
pub(crate) fn added(
    api_sessions: Vec<Bytes>,
    is_full_state: bool,
    (sequence, is_last, id): (usize, bool, &str),
) -> Frame {
    let body = edge::EncodedAdded {
        is_full_state,
        api_sessions,
    }
    .encode_to_vec();
    let state = json!({ "id": id, "isLast": is_last, "sequence": sequence }).to_string();
    Builder::new(content::API_SESSION_ADDED)
        .text(key::SYNC_STRATEGY, "instant")
        .text(key::SYNC_STATE, &state)
        .body(&body)
}

/// The message that replaces API sessions.
pub(crate) fn updated(api_sessions: Vec<Bytes>) -> Frame {
    let body = edge::EncodedUpdated { api_sessions }.encode_to_vec();
    Builder::new(content::API_SESSION_UPDATED)
        .text(key::SYNC_STRATEGY, "instant")
        .text(key::SYNC_STATE, "")
        .body(&body)
}

/// The message that ends sessions, given by token and id. A router takes one of them, by its
/// version, provided that there are as many tokens as ids.
pub(crate) fn sessions_removed(ended: impl Iterator<Item = (String, String)>) -> Frame {
    let (tokens, ids) = ended.unzip();
    Builder::new(content::SESSION_REMOVED).body(&edge::Removed { tokens, ids }.encode_to_vec())
}
