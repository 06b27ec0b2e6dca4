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

    /// Adds an item in the place of the one that the circuit has.
    pub(crate) fn replace(&self, circuit: &Arc<str>, item: &Arc<T>) {
        self.0.lock().insert(circuit.clone(), item.clone());
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
        let is_current = items
            .get(circuit)
            .is_some_and(|known| Arc::ptr_eq(known, item));
        if is_current {
            items.remove(circuit);
        }
        is_current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn former_items_remove_no_later_ones() {
        let (items, circuit): (_, Arc<str>) = (ByCircuit::default(), "circuit".into());
        let (former, later) = (Arc::new(1), Arc::new(2));
        assert!(items.add(&circuit, &former) && !items.add(&circuit, &later));
        items.replace(&circuit, &later);
        assert!(!items.remove(&circuit, &former));
        assert_eq!(items.find(&circuit), Some(later));
    }
}
