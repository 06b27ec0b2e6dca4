//! What this router has of circuits over links, by the id of the circuit.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

pub(crate) struct ByCircuit<T>(Mutex<HashMap<Arc<str>, Arc<T>>>);

impl<T> Default for ByCircuit<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> ByCircuit<T> {
    /// Adds an item. Returns false if the circuit has one.
    pub(crate) fn add(&self, circuit: &Arc<str>, item: &Arc<T>) -> bool {
        let mut items = self.0.lock();
        let is_new = !items.contains_key(circuit);
        if is_new {
            items.insert(circuit.clone(), item.clone());
        }
        is_new
    }

    pub(crate) fn find(&self, circuit: &str) -> Option<Arc<T>> {
        self.0.lock().get(circuit).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.0.lock().values().cloned().collect()
    }

    /// Removes an item. Returns whether it was there.
    pub(crate) fn remove(&self, circuit: &str, item: &Arc<T>) -> bool {
        let mut items = self.0.lock();
        let is_current = items.get(circuit).is_some_and(|known| Arc::ptr_eq(known, item));
        if is_current {
            items.remove(circuit);
        }
        is_current
    }
}
