//! What all routers of the network share, of whichever kind they are.

use std::sync::Arc;

use super::{
    circuit_quota::CircuitQuota, id_generator::IdGenerator, session_authorizer::SessionAuthorizer,
    terminator_records::TerminatorRecords,
};
use crate::{
    authentication::{Refusals, RejectedCaller},
    change::Changes,
    clock::Timestamp,
    config,
    hosting::Hosting,
    online::Online,
    store::Store,
};

/// The parts that routers of both kinds use.
pub(crate) struct Network {
    pub(crate) authorizer: SessionAuthorizer,
    refusals: Refusals,
    pub(crate) hosting: Hosting,
    /// Counts the open circuits over routers of both kinds.
    pub(crate) circuit_quota: Arc<CircuitQuota>,
    pub(crate) records: TerminatorRecords,
    pub(crate) ids: IdGenerator,
}

impl Network {
    pub(crate) fn new(
        authorizer: SessionAuthorizer,
        changes: Changes,
        refusals: Refusals,
        hosting: Hosting,
        config: &config::RouterConfig,
    ) -> Self {
        Self {
            authorizer,
            refusals,
            hosting,
            circuit_quota: CircuitQuota::new(config),
            records: TerminatorRecords::new(changes),
            ids: IdGenerator::default(),
        }
    }

    /// Counts a dial or bind that was refused for lack of a right, for the history.
    pub(crate) async fn note_refusal(&self, refused: RejectedCaller) {
        self.refusals.note(self.store(), refused, self.now()).await;
    }

    pub(crate) fn store(&self) -> &Store {
        &self.authorizer.store
    }

    pub(crate) fn online(&self) -> &Online {
        self.store().online()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.authorizer.clock.now()
    }
}
