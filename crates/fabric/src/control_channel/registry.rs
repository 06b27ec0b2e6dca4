//! The connected routers: at most one connection each.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use model::{clock::Timestamp, entity::RouterInfo};
use parking_lot::Mutex;
use store::online::Online;
use wire::control::fabric::PeerState;

use super::{
    announcements::Announcements,
    connection::{RouterConnection, RouterKind},
};
use crate::network::Network;

/// A live connection that is not older than this is not replaced by another process with the same
/// certificate.
const REPLACE_AFTER: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(crate) struct ConnectionRegistry {
    connections: Mutex<HashMap<String, Arc<RouterConnection>>>,
    count: AtomicUsize,
    pub announcements: Announcements,
}

impl ConnectionRegistry {
    /// Adds a connection, and closes and replaces an older one of the same router. With
    /// `is_reconnect`, the same process was connected before, and its new connection always
    /// replaces the older one. A connection that answered a heartbeat within `alive` is alive.
    ///
    /// # Errors
    /// Another process is connected as this router.
    pub(crate) fn add(
        &self,
        connection: &Arc<RouterConnection>,
        is_reconnect: bool,
        alive: Duration,
        network: &Network,
    ) -> Result<(), &'static str> {
        let mut connections = self.connections.lock();
        if let Some(old) = connections
            .get(&connection.router)
            .filter(|old| !old.is_closed())
        {
            let is_alive =
                old.last_answer().elapsed() < alive && old.since.elapsed() < REPLACE_AFTER;
            if is_alive && !is_reconnect {
                return Err("a router with this certificate is already connected");
            }
            old.close();
        }
        connections.insert(connection.router.clone(), connection.clone());
        self.count.store(count(&connections), Ordering::SeqCst);
        // Under the lock, so that every router learns of the others in the order of the events.
        self.announcements.connected(connection);
        network.routers.add(&connection.router, connection.clone());
        let link = connection.link.lock().clone();
        network.online().set_router(&connection.router, Some(link));
        Ok(())
    }

    /// Adds the built-in router.
    pub(crate) fn admit(&self, built_in: &Arc<RouterConnection>) {
        let mut connections = self.connections.lock();
        connections.insert(built_in.router.clone(), built_in.clone());
        self.announcements.connected(built_in);
    }

    /// Removes a connection. Returns whether it was the current one of its router.
    pub(crate) fn remove(
        &self,
        connection: &Arc<RouterConnection>,
        network: &Network,
        now: Timestamp,
    ) -> bool {
        let mut connections = self.connections.lock();
        let is_current = connections
            .get(&connection.router)
            .is_some_and(|known| Arc::ptr_eq(known, connection));
        if is_current {
            connections.remove(&connection.router);
            network.routers.remove(&connection.router);
            let state = if connection.is_deleted.load(Ordering::SeqCst) {
                PeerState::Removed
            } else {
                PeerState::Unhealthy
            };
            self.announcements.lost(&connection.router, state);
            network.online().router_left(&connection.router, now);
            self.count.store(count(&connections), Ordering::SeqCst);
        }
        is_current
    }

    /// Changes the link shown on a router's record, if this is its current connection.
    pub(crate) fn update_link(
        &self,
        connection: &Arc<RouterConnection>,
        online: &Online,
        change: impl FnOnce(&mut RouterInfo),
    ) {
        let connections = self.connections.lock();
        let mut link = connection.link.lock();
        change(&mut link);
        if connections
            .get(&connection.router)
            .is_some_and(|known| Arc::ptr_eq(known, connection))
        {
            online.set_router(&connection.router, Some(link.clone()));
        }
    }

    /// The connection of a router.
    pub(crate) fn find(&self, router: &str) -> Option<Arc<RouterConnection>> {
        self.connections
            .lock()
            .get(router)
            .filter(|connection| !connection.is_closed())
            .cloned()
    }

    /// Passes the connection of each remote router to `each`.
    pub(crate) fn each(&self, each: impl FnMut(&Arc<RouterConnection>)) {
        self.connections
            .lock()
            .values()
            .filter(|connection| is_remote(connection))
            .for_each(each);
    }

    /// Tells all routers that one that is not connected was deleted.
    pub(crate) fn announce_deleted(&self, router: &str) {
        self.announcements.lost(router, PeerState::Removed);
    }

    /// Tells routers what they were not told yet of others. Returns whether one has to wait until
    /// its queue has room, and the number of routers.
    pub(crate) fn announce(&self) -> (bool, u32) {
        let until = self.announcements.last();
        let connections: Vec<_> = self.connections.lock().values().cloned().collect();
        (
            self.announcements.announce(&connections, until),
            u32::try_from(connections.len()).unwrap_or(u32::MAX),
        )
    }

    /// Whether no remote router is connected. Does not lock.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }
}

fn is_remote(connection: &Arc<RouterConnection>) -> bool {
    connection.kind != RouterKind::BuiltIn
}

fn count(connections: &HashMap<String, Arc<RouterConnection>>) -> usize {
    connections
        .values()
        .filter(|connection| is_remote(connection))
        .count()
}
