//! The state that all transactions of a store share besides its rows: the kinds, who is connected,
//! and which damaged records were logged.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use super::{history::visits::Visits, registry::KindRegistry};
use crate::online::Online;
use model::error::Error;

/// The greatest number of damaged records that are logged by name.
const NAMED: usize = 1000;

/// What transactions share.
pub(crate) struct Context {
    pub registry: KindRegistry,
    pub online: Online,
    /// The log-ins that are counted.
    pub visits: Visits,
    /// The messages already logged about damaged records that were skipped.
    named: Mutex<BTreeSet<String>>,
}

impl Context {
    /// The context of a store with these kinds.
    pub(crate) fn new(registry: KindRegistry, online: Online) -> Self {
        Self {
            registry,
            online,
            visits: Visits::default(),
            named: Mutex::default(),
        }
    }

    /// Logs a damaged record that is skipped, the first time only.
    pub(crate) fn name(&self, damage: &Error) {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if named.len() < NAMED && named.insert(damage.to_string()) {
            tracing::error!(%damage, "a damaged record is skipped");
        }
    }
}
