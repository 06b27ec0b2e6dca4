//! What connected routers are told of each other: which ones are connected, and where they accept
//! links.
//!
//! A router that connects is told of all others at once, and of those that were deleted: if it was
//! connected before, it may still have links to them, which it closes. Later changes are collected:
//! a router gets everything that it was not told yet in one message, when its queue has room. So
//! the number of messages does not grow with the square of the number of routers when many of them
//! connect at the same time. A change after a quiet time is sent at once.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, atomic::Ordering},
};

use parking_lot::Mutex;
use prost::Message;
use tokio::sync::Notify;
use wire::{
    control::{
        content,
        fabric::{PeerState, PeerStateChange, PeerStateChanges},
    },
    frame::{Builder, Frame},
};

use super::connection::RouterConnection;

/// A message that is longer, in bytes, gets no more changes.
const MAX_BYTES: usize = 256 << 10;
/// Maximum deleted routers that are remembered. The oldest ones are forgotten first.
const MAX_DELETED: usize = 1000;

/// The routers that are connected, and the changes that were not yet announced to all of them.
#[derive(Default)]
pub(crate) struct Announcements {
    routers: Mutex<Routers>,
    changed: Notify,
}

#[derive(Default)]
struct Routers {
    /// The position of the last change. Positions ascend.
    last: u64,
    /// The latest change of each router, by its position.
    changes: BTreeMap<u64, Change>,
    positions: HashMap<String, u64>,
    /// The routers that were deleted since the start.
    deleted: VecDeque<String>,
}

/// The latest change of a router. Routers that were told of an earlier state learn first that the
/// router was lost, and then that it is connected again.
struct Change {
    router: String,
    /// How the router was lost; none if every connected router was told.
    lost: Option<PeerState>,
    /// The encoded change to "connected"; none if the router is not connected.
    connected: Option<Vec<u8>>,
}

impl Announcements {
    /// Tells a router that has just connected of the others, and records for the others that it is
    /// connected.
    pub(crate) fn connected(&self, connection: &RouterConnection) {
        let mut routers = self.routers.lock();
        routers
            .deleted
            .retain(|deleted| *deleted != connection.router);
        let deleted = routers
            .deleted
            .iter()
            .map(|router| encoded(lost(router, PeerState::Removed)));
        for message in messages(deleted) {
            connection.send(message);
        }
        let others = routers
            .changes
            .values()
            .filter(|change| change.router != connection.router);
        for message in messages(others.filter_map(|change| change.connected.as_deref())) {
            connection.send(message);
        }
        routers.record(
            &connection.router,
            None,
            Some(encoded(connection.as_peer())),
        );
        connection.announced.store(routers.last, Ordering::Release);
        drop(routers);
        self.changed.notify_one();
    }

    /// Records that a router was lost: it has disconnected, or was deleted.
    pub(crate) fn lost(&self, router: &str, state: PeerState) {
        let mut routers = self.routers.lock();
        if state == PeerState::Removed && !routers.deleted.iter().any(|deleted| deleted == router) {
            if routers.deleted.len() >= MAX_DELETED {
                routers.deleted.pop_front();
            }
            routers.deleted.push_back(router.to_owned());
        }
        routers.record(router, Some(state), None);
        drop(routers);
        self.changed.notify_one();
    }

    /// Waits for a change.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The position of the last change.
    pub(crate) fn last(&self) -> u64 {
        self.routers.lock().last
    }

    /// Tells each connection what it was not told yet. Returns whether one is left out because too
    /// much waits to be written to it. `connections` contains all connections that were open when
    /// `until` was the position of the last change.
    pub(crate) fn announce(&self, connections: &[Arc<RouterConnection>], until: u64) -> bool {
        let mut routers = self.routers.lock();
        // Most connections were told the same.
        let mut common: HashMap<u64, Vec<Frame>> = HashMap::new();
        let (mut oldest, mut is_behind) = (until, false);
        for connection in connections
            .iter()
            .filter(|connection| !connection.is_closed())
        {
            let announced = connection.announced.load(Ordering::Acquire);
            if announced == routers.last {
                continue;
            }
            if !connection.outbox.is_low() {
                oldest = oldest.min(announced);
                is_behind = true;
                continue;
            }
            let messages = if routers
                .positions
                .get(&connection.router)
                .is_some_and(|position| *position > announced)
            {
                routers.since(announced, &connection.router)
            } else {
                common
                    .entry(announced)
                    .or_insert_with(|| routers.since(announced, ""))
                    .clone()
            };
            for message in messages {
                connection.send(message);
            }
            connection.announced.store(routers.last, Ordering::Release);
        }
        routers.forget_losses(oldest);
        is_behind
    }
}

impl Routers {
    fn record(&mut self, router: &str, lost: Option<PeerState>, connected: Option<Vec<u8>>) {
        let before = self
            .positions
            .get(router)
            .and_then(|position| self.changes.remove(position))
            .and_then(|change| change.lost);
        // That a router was deleted says more than that it is disconnected.
        let lost = if before == Some(PeerState::Removed) {
            before
        } else {
            lost.or(before)
        };
        self.last += 1;
        self.positions.insert(router.to_owned(), self.last);
        self.changes.insert(
            self.last,
            Change {
                router: router.to_owned(),
                lost,
                connected,
            },
        );
    }

    /// The messages with the changes after a position, without those of `except`.
    fn since(&self, position: u64, except: &str) -> Vec<Frame> {
        let changes = self
            .changes
            .range(position.saturating_add(1)..)
            .map(|(_, change)| change);
        messages(
            changes
                .filter(|change| change.router != except)
                .flat_map(|change| {
                    let lost = change
                        .lost
                        .map(|state| encoded(lost(&change.router, state)));
                    lost.map(Cow::Owned)
                        .into_iter()
                        .chain(change.connected.as_deref().map(Cow::Borrowed))
                }),
        )
    }

    /// Forgets losses up to a position, of which every router was told.
    fn forget_losses(&mut self, position: u64) {
        let Self {
            changes, positions, ..
        } = self;
        changes
            .range_mut(..=position)
            .for_each(|(_, change)| change.lost = None);
        for (_, change) in changes.extract_if(..=position, |_, change| change.connected.is_none()) {
            positions.remove(&change.router);
        }
    }
}

/// The message that a router was deleted.
pub(crate) fn removed(router: &str) -> Frame {
    Builder::new(content::PEER_STATE_CHANGES).body(&encoded(lost(router, PeerState::Removed)))
}

fn lost(router: &str, state: PeerState) -> PeerStateChange {
    PeerStateChange {
        id: router.to_owned(),
        state: state.into(),
        ..PeerStateChange::default()
    }
}

/// A message with this one change. The bodies of several such messages one after the other are a
/// message with all their changes.
fn encoded(change: PeerStateChange) -> Vec<u8> {
    PeerStateChanges {
        changes: vec![change],
    }
    .encode_to_vec()
}

fn messages(changes: impl Iterator<Item = impl AsRef<[u8]>>) -> Vec<Frame> {
    let mut bodies: Vec<Vec<u8>> = Vec::new();
    for change in changes {
        match bodies.last_mut().filter(|body| body.len() < MAX_BYTES) {
            Some(body) => body.extend(change.as_ref()),
            None => bodies.push(change.as_ref().to_vec()),
        }
    }
    bodies
        .iter()
        .map(|body| Builder::new(content::PEER_STATE_CHANGES).body(body))
        .collect()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn connection(router: &str) -> Arc<RouterConnection> {
        RouterConnection::unconnected(router)
    }

    /// The changes in each message that waits for a router.
    fn told(connection: &RouterConnection) -> Vec<Vec<(String, PeerState)>> {
        let next = || connection.outbox.next().now_or_never().flatten();
        let changes = |frame: Frame| PeerStateChanges::decode(frame.body()).unwrap().changes;
        let of_message = |frame| {
            changes(frame)
                .into_iter()
                .map(|change| (change.id.clone(), change.state()))
                .collect()
        };
        std::iter::from_fn(next).map(of_message).collect()
    }

    fn healthy(router: &str) -> (String, PeerState) {
        (router.into(), PeerState::Healthy)
    }

    fn lost(router: &str) -> (String, PeerState) {
        (router.into(), PeerState::Unhealthy)
    }

    #[test]
    fn changes_are_told_in_one_message() {
        let announcements = Announcements::default();
        let [a, b, c] = ["a", "b", "c"].map(connection);
        let all = [a.clone(), b.clone(), c.clone()];
        for connection in &all {
            announcements.connected(connection);
        }
        assert!(!announcements.announce(&all, announcements.last()));
        assert_eq!(told(&a), [[healthy("b"), healthy("c")]]);
        assert_eq!(
            (told(&b), told(&c)),
            (
                vec![vec![healthy("a")], vec![healthy("c")]],
                vec![vec![healthy("a"), healthy("b")]]
            )
        );
        announcements.announce(&all, announcements.last());
        assert!(
            all.iter().all(|connection| told(connection).is_empty()),
            "nothing has changed"
        );

        // A router that has come back was lost meanwhile; of a router that is away only the loss
        // matters.
        let b_again = connection("b");
        announcements.lost("b", PeerState::Unhealthy);
        announcements.connected(&b_again);
        announcements.connected(&c);
        announcements.lost("c", PeerState::Removed);
        announcements.lost("c", PeerState::Unhealthy);
        announcements.announce(&[a.clone(), b_again.clone()], announcements.last());
        let removed = ("c".to_owned(), PeerState::Removed);
        assert_eq!(told(&a), [vec![lost("b"), healthy("b"), removed.clone()]]);
        assert_eq!(
            told(&b_again),
            [vec![healthy("a"), healthy("c")], vec![removed]]
        );
        let later = connection("later");
        announcements.connected(&later);
        // One that was away while another was deleted may still know it.
        let deleted = ("c".to_owned(), PeerState::Removed);
        assert_eq!(
            told(&later),
            [vec![deleted], vec![healthy("a"), healthy("b")]]
        );
        assert_eq!(
            announcements.routers.lock().positions.len(),
            3,
            "a router that is gone is forgotten"
        );
    }

    #[test]
    fn full_queues_get_changes_later() {
        let announcements = Announcements::default();
        let [slow, other] = ["slow", "other"].map(connection);
        let both = [slow.clone(), other.clone()];
        for connection in &both {
            announcements.connected(connection);
        }
        announcements.announce(&both, announcements.last());
        told(&slow);
        slow.send(Builder::new(content::SETTINGS).body(&vec![0; 2 << 20]));
        for number in 0..3 {
            announcements.lost(&format!("lost {number}"), PeerState::Unhealthy);
            assert!(
                announcements.announce(&both, announcements.last()),
                "one queue is full"
            );
        }
        assert_eq!(
            slow.outbox
                .next()
                .now_or_never()
                .flatten()
                .unwrap()
                .content_type(),
            content::SETTINGS
        );
        assert!(!announcements.announce(&both, announcements.last()));
        assert_eq!(
            told(&slow),
            [[lost("lost 0"), lost("lost 1"), lost("lost 2")]]
        );
    }

    #[test]
    fn long_lists_take_several_messages() {
        let announcements = Announcements::default();
        for number in 0..20_000 {
            let connected = encoded(connection(&format!("router {number}")).as_peer());
            announcements
                .routers
                .lock()
                .record(&number.to_string(), None, Some(connected));
        }
        let router = connection("router");
        announcements.connected(&router);
        let told = told(&router);
        assert!(told.len() > 1 && told.concat().len() == 20_000);
    }
}
