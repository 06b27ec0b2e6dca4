//! The connections at this moment: routers, the links between them, identities with a channel to a
//! router, and the dynamic costs of terminators.
//!
//! The data plane (`built_in_router/`) and the control channel (`control_channel/`) write it;
//! everything that shows a record reads it through [`Lookup`](model::entity::Lookup). It is in
//! memory and empty after a start. Invariant: nothing else decides whether a router or an identity
//! is connected.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, PoisonError, RwLock},
};

use model::{
    clock::Timestamp,
    entity::{EdgeRouter, RouterInfo},
};

/// Maximum disconnected routers that are remembered. Deleted ones are among them.
const MAX_LEFT: usize = 1000;
/// Maximum lost links that are remembered.
const MAX_LOST: usize = 100;

/// The registry of connections. Cheap to clone; all clones are the same registry.
#[derive(Clone, Default)]
pub struct Online(Arc<Inner>);

/// Called with the id of an identity that opened its first channel or lost its last one, or of a
/// router that connected or disconnected.
type ConnectionHandler = Box<dyn Fn(&str) + Send + Sync>;

/// A link between two routers that was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostLink {
    /// The routers.
    pub ends: [String; 2],
    pub reason: String,
    pub at: Timestamp,
}

#[derive(Default)]
struct Inner {
    routers: RwLock<HashMap<String, RouterInfo>>,
    /// When each router that is not connected was last connected.
    left: RwLock<HashMap<String, Timestamp>>,
    /// Whether each router that has introduced itself reads only signed tokens of sessions, also
    /// while it is not connected.
    reads_signed: RwLock<HashMap<String, bool>>,
    /// The edge routers that have enrolled, without the built-in one.
    enrolled: RwLock<HashSet<String>>,
    links: RwLock<Links>,
    /// Number of open channels by identity id. An identity without a channel has no entry.
    channels: RwLock<HashMap<String, usize>>,
    /// Dynamic cost by terminator id. A terminator without dynamic cost has no entry.
    costs: RwLock<HashMap<String, u16>>,
    listeners: RwLock<Vec<ConnectionHandler>>,
    router_listeners: RwLock<Vec<ConnectionHandler>>,
}

#[derive(Default)]
struct Links {
    /// The routers of each link, by the id of the link.
    open: HashMap<String, [String; 2]>,
    /// Oldest first.
    lost: VecDeque<LostLink>,
}

impl Online {
    /// Records that a router has disconnected.
    pub fn router_left(&self, id: &str, at: Timestamp) {
        self.set_router(id, None);
        let mut left = self.0.left.write().unwrap_or_else(PoisonError::into_inner);
        left.insert(id.to_owned(), at);
        if left.len() > MAX_LEFT {
            let oldest = left
                .iter()
                .min_by_key(|(_, at)| **at)
                .map(|(id, _)| id.clone());
            oldest.map(|id| left.remove(&id));
        }
    }

    /// The routers that have disconnected last and are not back, with the time.
    pub fn disconnected(&self) -> Vec<(String, Timestamp)> {
        let left = self.0.left.read().unwrap_or_else(PoisonError::into_inner);
        left.iter().map(|(id, at)| (id.clone(), *at)).collect()
    }

    /// When a router has disconnected that is not back; `None` if that is not known.
    pub fn disconnected_at(&self, router: &str) -> Option<Timestamp> {
        self.0
            .left
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(router)
            .copied()
    }

    /// Records whether a router reads only signed tokens of sessions. Returns whether it is known
    /// since now that it does.
    pub fn set_reads_signed(&self, router: &str, reads_signed: bool) -> bool {
        let before = self
            .0
            .reads_signed
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(router.to_owned(), reads_signed);
        reads_signed && before != Some(true)
    }

    /// Records whether an edge router has enrolled.
    pub fn set_enrolled(&self, router: &str, is_enrolled: bool) {
        let mut enrolled = self
            .0
            .enrolled
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if is_enrolled {
            enrolled.insert(router.to_owned());
        } else {
            enrolled.remove(router);
        }
    }

    /// Whether a router for which `is_used` holds reads only signed tokens of sessions.
    pub fn reads_signed(&self, mut is_used: impl FnMut(&str) -> bool) -> bool {
        let known = self
            .0
            .reads_signed
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        known
            .iter()
            .any(|(router, reads_signed)| *reads_signed && is_used(router))
    }

    /// As [`reads_signed`](Self::reads_signed), also for edge routers that have enrolled and not
    /// introduced themselves since the start.
    pub fn may_read_signed(&self, mut is_used: impl FnMut(&str) -> bool) -> bool {
        if self.reads_signed(&mut is_used) {
            return true;
        }
        let known = self
            .0
            .reads_signed
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let enrolled = self
            .0
            .enrolled
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        enrolled
            .iter()
            .any(|router| !known.contains_key(router) && is_used(router))
    }

    /// Whether any router reads only signed tokens.
    pub fn is_any_signed(&self) -> bool {
        self.0
            .reads_signed
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .any(|reads_signed| *reads_signed)
    }

    /// Forgets a router that was deleted.
    pub fn router_deleted(&self, router: &str) {
        self.0
            .reads_signed
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(router);
    }

    /// Records a link between two routers.
    pub fn link_opened(&self, id: &str, ends: [String; 2]) {
        self.0
            .links
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .open
            .insert(id.to_owned(), ends);
    }

    /// Records that a link was lost.
    pub fn link_lost(&self, id: &str, reason: &str, at: Timestamp) {
        let mut links = self.0.links.write().unwrap_or_else(PoisonError::into_inner);
        let Some(ends) = links.open.remove(id) else {
            return;
        };
        if links.lost.len() == MAX_LOST {
            links.lost.pop_front();
        }
        links.lost.push_back(LostLink {
            ends,
            reason: reason.to_owned(),
            at,
        });
    }

    /// Whether there is a link between two routers.
    pub fn are_linked(&self, one: &str, other: &str) -> bool {
        let links = self.0.links.read().unwrap_or_else(PoisonError::into_inner);
        links
            .open
            .values()
            .any(|ends| ends.iter().any(|end| end == one) && ends.iter().any(|end| end == other))
    }

    /// The links that were lost last, newest first.
    pub fn lost_links(&self) -> Vec<LostLink> {
        self.0
            .links
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .lost
            .iter()
            .rev()
            .cloned()
            .collect()
    }

    /// The routers with a link to a router.
    pub fn neighbours(&self, router: &str) -> HashSet<String> {
        let links = self.0.links.read().unwrap_or_else(PoisonError::into_inner);
        let other = |[one, other]: &[String; 2]| match router {
            router if router == one => Some(other.clone()),
            router if router == other => Some(one.clone()),
            _ => None,
        };
        links.open.values().filter_map(other).collect()
    }

    /// The routers with a link to the built-in router; `None` while that is not connected.
    pub fn linked_to_built_in(&self) -> Option<HashSet<String>> {
        self.is_router_connected(EdgeRouter::BUILT_IN)
            .then(|| self.neighbours(EdgeRouter::BUILT_IN))
    }

    /// The connected routers that can be reached over links from some that are connected, including
    /// these. `may_pass` says whether a path may lead through a router.
    pub fn reached_from<'r>(
        &self,
        routers: impl Iterator<Item = &'r str>,
        mut may_pass: impl FnMut(&str) -> bool,
    ) -> HashSet<String> {
        let mut found: HashSet<String> = routers.map(str::to_owned).collect();
        let mut waiting: Vec<String> = found.iter().cloned().collect();
        let connected = self
            .0
            .routers
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let links = self.0.links.read().unwrap_or_else(PoisonError::into_inner);
        let mut neighbours: HashMap<&str, Vec<&str>> = HashMap::new();
        for [one, other] in links.open.values() {
            neighbours.entry(one).or_default().push(other);
            neighbours.entry(other).or_default().push(one);
        }
        while let Some(router) = waiting.pop() {
            for next in neighbours.get(router.as_str()).into_iter().flatten() {
                if connected.contains_key(*next)
                    && found.insert((*next).to_owned())
                    && may_pass(next)
                {
                    waiting.push((*next).to_owned());
                }
            }
        }
        found
    }

    /// The connection of a router; `None` if it is not connected.
    pub fn router(&self, id: &str) -> Option<RouterInfo> {
        self.0
            .routers
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(id)
            .cloned()
    }

    /// The connected routers and their connections.
    pub fn routers(&self) -> Vec<(String, RouterInfo)> {
        let routers = self
            .0
            .routers
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        routers
            .iter()
            .map(|(id, link)| (id.clone(), link.clone()))
            .collect()
    }

    /// Whether a router is connected.
    pub fn is_router_connected(&self, id: &str) -> bool {
        self.0
            .routers
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .contains_key(id)
    }

    /// Sets the connection that a router reports; `None` means that it is not connected.
    pub fn set_router(&self, id: &str, link: Option<RouterInfo>) {
        let is_connected = link.is_some();
        let mut routers = self
            .0
            .routers
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let before = match link {
            Some(link) => {
                self.0
                    .left
                    .write()
                    .unwrap_or_else(PoisonError::into_inner)
                    .remove(id);
                routers.insert(id.to_owned(), link)
            }
            None => routers.remove(id),
        };
        drop(routers);
        if before.is_some() != is_connected {
            notify(&self.0.router_listeners, id);
        }
    }

    /// Whether an identity has a channel to a router.
    pub fn identity(&self, id: &str) -> bool {
        self.0
            .channels
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .contains_key(id)
    }

    /// Counts one more channel of an identity.
    pub fn channel_opened(&self, identity: &str) {
        let mut channels = self
            .0
            .channels
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let open = channels.entry(identity.to_owned()).or_default();
        *open += 1;
        let is_first = *open == 1;
        drop(channels);
        if is_first {
            notify(&self.0.listeners, identity);
        }
    }

    /// Counts one channel of an identity less.
    pub fn channel_closed(&self, identity: &str) {
        let mut channels = self
            .0
            .channels
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(open) = channels.get_mut(identity) else {
            return;
        };
        *open -= 1;
        if *open > 0 {
            return;
        }
        channels.remove(identity);
        drop(channels);
        notify(&self.0.listeners, identity);
    }

    /// The cost that open circuits and failed dials add to a terminator.
    pub fn dynamic_cost(&self, terminator: &str) -> u16 {
        self.0
            .costs
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(terminator)
            .copied()
            .unwrap_or_default()
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

    /// Calls `listener` whenever an identity connects or disconnects. It must be quick and must not
    /// write to this registry.
    pub fn subscribe(&self, listener: impl Fn(&str) + Send + Sync + 'static) {
        self.0
            .listeners
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(listener));
    }

    /// The same for routers.
    pub fn subscribe_routers(&self, listener: impl Fn(&str) + Send + Sync + 'static) {
        self.0
            .router_listeners
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(listener));
    }
}

fn notify(listeners: &RwLock<Vec<ConnectionHandler>>, id: &str) {
    for listener in &*listeners.read().unwrap_or_else(PoisonError::into_inner) {
        listener(id);
    }
}

#[cfg(test)]
mod tests;
