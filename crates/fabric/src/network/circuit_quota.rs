//! The bound of open circuits: in all, and of one identity that dials.

use std::sync::Arc;

use model::{
    config,
    entity::{Id, Identity},
};
use parking_lot::Mutex;

use super::{identity_quota::IdentityQuota, request_failure::RequestFailure};

/// Counts the open circuits.
pub(crate) struct CircuitQuota {
    max: usize,
    open: Mutex<Open>,
}

struct Open {
    count: usize,
    /// By the identity that dials.
    by_identity: IdentityQuota,
}

impl CircuitQuota {
    pub(crate) fn new(config: &config::RouterConfig) -> Arc<Self> {
        let open = Open {
            count: 0,
            by_identity: IdentityQuota::new(config.max_circuits_per_identity),
        };
        Arc::new(Self {
            max: config.max_circuits,
            open: Mutex::new(open),
        })
    }

    /// Counts one more circuit of an identity, as long as the result lives.
    ///
    /// # Errors
    /// There are too many circuits, in all or of the identity.
    pub(crate) fn take(
        self: &Arc<Self>,
        identity: &Id<Identity>,
    ) -> Result<CircuitPermit, RequestFailure> {
        let mut open = self.open.lock();
        if open.count >= self.max {
            return Err(RequestFailure::busy(
                "too many circuits are open: router.max-circuits limits them",
            ));
        }
        if !open.by_identity.take(identity.as_str(), 1) {
            return Err(RequestFailure::busy(
                "the identity has as many circuits as router.max-circuits-per-identity allows",
            ));
        }
        open.count += 1;
        Ok(CircuitPermit {
            quota: self.clone(),
            identity: identity.clone(),
        })
    }
}

/// A counted circuit.
pub(crate) struct CircuitPermit {
    quota: Arc<CircuitQuota>,
    identity: Id<Identity>,
}

impl Drop for CircuitPermit {
    fn drop(&mut self) {
        let mut open = self.quota.open.lock();
        open.count -= 1;
        open.by_identity.give_back(self.identity.as_str(), 1);
    }
}
