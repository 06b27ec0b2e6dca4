//! The registry of open channels, circuits and bindings. Channels are indexed by the records they
//! depend on; the network has such an index of circuits and terminators.
//!
//! Invariant: no circuit or binding that has ended is in the registry. It is marked as ended before
//! it is removed, and is not added once it is marked. A channel is removed first, and its table then
//! takes no more entries.

use std::{collections::HashMap, sync::Arc};

use model::config;
use parking_lot::Mutex;

use super::{binding::Binding, channel::Channel, circuit::Circuit, connections::Connections};
use crate::network::{
    AuthorizingIndex, AuthorizingRecord, IdentityQuota, LiveTerminator, RequestFailure,
};

pub(crate) struct CircuitRegistry {
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    channels: HashMap<u64, Arc<Connections>>,
    circuits: HashMap<Arc<str>, Arc<Circuit>>,
    /// By terminator id.
    bindings: HashMap<Arc<str>, Arc<Binding>>,
    channels_by_identity: IdentityQuota,
    bindings_by_identity: IdentityQuota,
    channels_by_authorizing_record: AuthorizingIndex<u64>,
}

/// A selection of open items.
#[derive(Default)]
pub(crate) struct Affected {
    pub channels: Vec<Arc<Channel>>,
    pub circuits: Vec<Arc<Circuit>>,
    pub bindings: Vec<Arc<Binding>>,
}

impl CircuitRegistry {
    pub(crate) fn new(config: &config::RouterConfig) -> Self {
        let open = Open {
            channels_by_identity: IdentityQuota::new(config.max_channels_per_identity),
            bindings_by_identity: IdentityQuota::new(config.max_binds),
            ..Open::default()
        };
        Self {
            open: Mutex::new(open),
        }
    }

    /// Adds a channel. Returns false if its identity has as many channels as one may have.
    pub(crate) fn add_channel(&self, connections: Arc<Connections>) -> bool {
        let mut open = self.open.lock();
        let login = &connections.channel.login;
        if !open.channels_by_identity.take(login.identity.as_str(), 1) {
            return false;
        }
        open.channels_by_authorizing_record
            .add(login.number, bases_of_channel(&connections.channel));
        open.channels.insert(login.number, connections);
        true
    }

    /// Removes a channel and returns its table; `None` if it was removed before.
    pub(crate) fn remove_channel(&self, channel: &Channel) -> Option<Arc<Connections>> {
        let mut open = self.open.lock();
        let login = &channel.login;
        let connections = open.channels.remove(&login.number)?;
        open.channels_by_authorizing_record
            .remove(&login.number, bases_of_channel(channel));
        open.channels_by_identity
            .give_back(login.identity.as_str(), 1);
        Some(connections)
    }

    /// Adds a circuit whose client side is known.
    ///
    /// # Errors
    /// It has ended, or another has its id.
    pub(crate) fn add_circuit(&self, circuit: &Arc<Circuit>) -> Result<(), RequestFailure> {
        let mut open = self.open.lock();
        if circuit.is_closed() {
            return Err(RequestFailure::internal("the connection has ended"));
        }
        if open.circuits.contains_key(&circuit.id) {
            return Err(RequestFailure::busy("a circuit with this id exists"));
        }
        open.circuits.insert(circuit.id.clone(), circuit.clone());
        Ok(())
    }

    pub(crate) fn remove_circuit(&self, circuit: &Circuit) {
        let mut open = self.open.lock();
        // A circuit that was refused because of its id leaves the one that has the id.
        if open
            .circuits
            .get(&circuit.id)
            .is_some_and(|known| std::ptr::eq(&**known, circuit))
        {
            open.circuits.remove(&circuit.id);
        }
    }

    /// Adds a binding.
    ///
    /// # Errors
    /// It has ended, or its identity has as many bindings as an identity may have.
    pub(crate) fn add_binding(&self, binding: &Arc<Binding>) -> Result<(), RequestFailure> {
        let mut open = self.open.lock();
        if binding.terminator.is_ended() {
            return Err(RequestFailure::access_denied("the connection has ended"));
        }
        if !open
            .bindings_by_identity
            .take(binding.channel().login.identity.as_str(), 1)
        {
            return Err(RequestFailure::busy(
                "the identity hosts as many services as router.max-binds allows",
            ));
        }
        open.bindings
            .insert(binding.id().as_str().into(), binding.clone());
        Ok(())
    }

    pub(crate) fn remove_binding(&self, binding: &Arc<Binding>) {
        let mut open = self.open.lock();
        // A newer binding may have taken over its id.
        if open
            .bindings
            .get(binding.id().as_str())
            .is_some_and(|known| Arc::ptr_eq(known, binding))
        {
            open.bindings.remove(binding.id().as_str());
            open.bindings_by_identity
                .give_back(binding.channel().login.identity.as_str(), 1);
        }
    }

    pub(crate) fn circuit(&self, id: &str) -> Option<Arc<Circuit>> {
        self.open.lock().circuits.get(id).cloned()
    }

    pub(crate) fn binding(&self, terminator: &str) -> Option<Arc<Binding>> {
        self.open.lock().bindings.get(terminator).cloned()
    }

    /// The bindings of these terminators.
    pub(crate) fn bindings_of(&self, terminators: &[Arc<LiveTerminator>]) -> Vec<Arc<Binding>> {
        let open = self.open.lock();
        let known =
            |terminator: &Arc<LiveTerminator>| open.bindings.get(terminator.id().as_str()).cloned();
        terminators.iter().filter_map(known).collect()
    }

    /// The number of circuits, including those that wait for their host.
    pub(crate) fn count_circuits(&self) -> usize {
        self.open.lock().circuits.len()
    }

    /// The number of circuits that are not known to go over another router.
    pub(crate) fn count_circuits_here(&self) -> usize {
        self.open
            .lock()
            .circuits
            .values()
            .filter(|circuit| !circuit.is_over_routers())
            .count()
    }

    /// How many channels, circuits and bindings there are.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let open = self.open.lock();
        (
            open.channels.len(),
            open.circuits.len(),
            open.bindings.len(),
        )
    }

    /// Whether all channels are so.
    pub(crate) fn all_channels(&self, are_so: impl Fn(&Channel) -> bool) -> bool {
        self.open
            .lock()
            .channels
            .values()
            .all(|connections| are_so(&connections.channel))
    }

    /// The table of the channel with this number; `None` if it has ended.
    pub(crate) fn connections(&self, number: u64) -> Option<Arc<Connections>> {
        self.open.lock().channels.get(&number).cloned()
    }

    /// The tables of all channels.
    pub(crate) fn all_connections(&self) -> Vec<Arc<Connections>> {
        self.open.lock().channels.values().cloned().collect()
    }

    /// The channels that depend on one of these records.
    pub(crate) fn channels_depending_on<'r>(
        &self,
        records: impl IntoIterator<Item = &'r AuthorizingRecord>,
    ) -> Vec<Arc<Channel>> {
        let open = self.open.lock();
        records
            .into_iter()
            .flat_map(|record| open.channels_by_authorizing_record.of(record))
            .filter_map(|number| Some(open.channels.get(number)?.channel.clone()))
            .collect()
    }

    pub(crate) fn everything(&self) -> Affected {
        let open = self.open.lock();
        Affected {
            channels: open
                .channels
                .values()
                .map(|connections| connections.channel.clone())
                .collect(),
            circuits: open.circuits.values().cloned().collect(),
            bindings: open.bindings.values().cloned().collect(),
        }
    }
}

fn bases_of_channel(channel: &Channel) -> Vec<AuthorizingRecord> {
    vec![
        AuthorizingRecord::ApiSession(channel.login.api_session.to_string()),
        AuthorizingRecord::Identity(channel.login.identity.to_string()),
    ]
}
