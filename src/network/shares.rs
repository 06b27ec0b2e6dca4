//! How much of something each identity uses, with the maximum for one identity: one cannot use up what all share.

use std::collections::{HashMap, hash_map::Entry};

/// Counts items or bytes by identity.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// For one identity.
    max: usize,
    /// By the id of the identity. Identities that use nothing are not in it.
    used: HashMap<String, usize>,
}

impl Shares {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, used: HashMap::new() }
    }

    /// Counts `amount` more of an identity. Returns false, and counts nothing, if that is more than the maximum.
    pub(crate) fn take(&mut self, identity: &str, amount: usize) -> bool {
        let used = self.used.get(identity).copied().unwrap_or_default().saturating_add(amount);
        let fits = used <= self.max;
        if fits {
            self.used.insert(identity.to_owned(), used);
        }
        fits
    }

    /// Counts `amount` less.
    pub(crate) fn give_back(&mut self, identity: &str, amount: usize) {
        if let Entry::Occupied(mut used) = self.used.entry(identity.to_owned()) {
            *used.get_mut() = used.get().saturating_sub(amount);
            if *used.get() == 0 {
                used.remove();
            }
        }
    }
}
