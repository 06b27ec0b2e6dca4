//! The connections at this moment: routers, identities with a channel to a router, and the dynamic costs of terminators.
//!
//! The data plane (`network/`) writes it; everything that shows a record reads it through [`Facts`](crate::entity::Facts). It is in memory
//! and empty after a start. Invariant: nothing else decides whether a router or an identity is connected.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use crate::entity::RouterLink;

/// The registry of connections. Cheap to clone; all clones are the same registry.
#[derive(Clone, Default)]
pub struct Online(Arc<Inner>);

/// Called with the id of an identity that opened its first channel or lost its last one.
type Listener = Box<dyn Fn(&str) + Send + Sync>;

#[derive(Default)]
struct Inner {
    routers: RwLock<HashMap<String, RouterLink>>,
    /// Number of open channels by identity id; no entry is 0.
    channels: RwLock<HashMap<String, usize>>,
    /// Dynamic cost by terminator id; no entry is 0.
    costs: RwLock<HashMap<String, u16>>,
    listeners: RwLock<Vec<Listener>>,
}

impl Online {
    /// The connection of a router; `None` if it is not connected.
    pub fn router(&self, id: &str) -> Option<RouterLink> {
        self.0.routers.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    /// The connected routers and their connections.
    pub fn routers(&self) -> Vec<(String, RouterLink)> {
        let routers = self.0.routers.read().unwrap_or_else(PoisonError::into_inner);
        routers.iter().map(|(id, link)| (id.clone(), link.clone())).collect()
    }

    /// Whether a router is connected.
    pub fn is_router_connected(&self, id: &str) -> bool {
        self.0.routers.read().unwrap_or_else(PoisonError::into_inner).contains_key(id)
    }

    /// Sets the connection that a router reports; `None` means that it is not connected.
    pub fn set_router(&self, id: &str, link: Option<RouterLink>) {
        let mut routers = self.0.routers.write().unwrap_or_else(PoisonError::into_inner);
        match link {
            Some(link) => routers.insert(id.to_owned(), link),
            None => routers.remove(id),
        };
    }

    /// Whether an identity has a channel to a router.
    pub fn identity(&self, id: &str) -> bool {
        self.0.channels.read().unwrap_or_else(PoisonError::into_inner).contains_key(id)
    }

    /// Counts one more channel of an identity.
    pub fn channel_opened(&self, identity: &str) {
        let mut channels = self.0.channels.write().unwrap_or_else(PoisonError::into_inner);
        let open = channels.entry(identity.to_owned()).or_default();
        *open += 1;
        let is_first = *open == 1;
        drop(channels);
        if is_first {
            self.tell(identity);
        }
    }

    /// Counts one channel of an identity less.
    pub fn channel_closed(&self, identity: &str) {
        let mut channels = self.0.channels.write().unwrap_or_else(PoisonError::into_inner);
        let Some(open) = channels.get_mut(identity) else { return };
        *open -= 1;
        if *open > 0 {
            return;
        }
        channels.remove(identity);
        drop(channels);
        self.tell(identity);
    }

    /// The cost that open circuits and failed dials add to a terminator.
    pub fn dynamic_cost(&self, terminator: &str) -> u16 {
        self.0.costs.read().unwrap_or_else(PoisonError::into_inner).get(terminator).copied().unwrap_or_default()
    }

    /// Sets the dynamic cost of a terminator; 0 removes the entry.
    pub fn set_dynamic_cost(&self, terminator: &str, cost: u16) {
        let mut costs = self.0.costs.write().unwrap_or_else(PoisonError::into_inner);
        match costs.get_mut(terminator) {
            _ if cost == 0 => drop(costs.remove(terminator)),
            Some(known) => *known = cost,
            None => drop(costs.insert(terminator.to_owned(), cost)),
        }
    }

    /// Calls `listener` whenever an identity connects or disconnects. It must be quick and must not write to this registry.
    pub fn subscribe(&self, listener: impl Fn(&str) + Send + Sync + 'static) {
        self.0.listeners.write().unwrap_or_else(PoisonError::into_inner).push(Box::new(listener));
    }

    fn tell(&self, identity: &str) {
        for listener in &*self.0.listeners.read().unwrap_or_else(PoisonError::into_inner) {
            listener(identity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn identities_count_their_channels() {
        let (online, notified) = (Online::default(), Arc::new(Mutex::new(0)));
        let count = notified.clone();
        online.subscribe(move |_| *count.lock().unwrap() += 1);
        assert!(!online.identity("ann"));
        online.channel_opened("ann");
        online.channel_opened("ann");
        online.channel_closed("ann");
        assert!(online.identity("ann") && *notified.lock().unwrap() == 1);
        online.channel_closed("ann");
        online.channel_closed("ann");
        assert!(!online.identity("ann") && *notified.lock().unwrap() == 2);
    }
}
