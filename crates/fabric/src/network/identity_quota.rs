//! Counts how much of a shared resource each identity uses, up to a maximum, so that one identity
//! cannot use up the resource.

use std::collections::HashMap;

/// Counts items or bytes by identity.
#[derive(Debug, Default)]
pub(crate) struct IdentityQuota {
    /// For one identity.
    max: usize,
    /// By the id of the identity. Identities that use nothing are not in it.
    used: HashMap<String, usize>,
}

impl IdentityQuota {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            used: HashMap::new(),
        }
    }

    /// Counts `amount` more of an identity. Returns false, and counts nothing, if that is more than
    /// the maximum.
    pub(crate) fn take(&mut self, identity: &str, amount: usize) -> bool {
        let known = self.used.get_mut(identity);
        let used = known
            .as_deref()
            .copied()
            .unwrap_or_default()
            .saturating_add(amount);
        if used > self.max {
            return false;
        }
        match known {
            Some(known) => *known = used,
            None => drop(self.used.insert(identity.to_owned(), used)),
        }
        true
    }

    /// Counts `amount` less.
    pub(crate) fn give_back(&mut self, identity: &str, amount: usize) {
        let Some(used) = self.used.get_mut(identity) else {
            return;
        };
        *used = used.saturating_sub(amount);
        if *used == 0 {
            self.used.remove(identity);
        }
    }
}
