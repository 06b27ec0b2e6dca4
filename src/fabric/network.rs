//! What all routers of the network share, of whichever kind they are.

use std::{sync::Arc, time::Duration};

use tokio::time::interval;

use super::{
    circuit_quota::CircuitQuota,
    id_generator::IdGenerator,
    live_terminators::{LiveTerminator, LiveTerminators},
    session_authorizer::SessionAuthorizer,
    terminator_records::TerminatorRecords,
};
use crate::{
    authentication::{Refusals, RejectedCaller},
    change::Changes,
    clock::Timestamp,
    config,
    entity::Terminator,
    hosting::Hosting,
    online::Online,
    store::{Event, Store},
};

/// The interval at which the cost of failed dials is reduced.
const REDUCE_INTERVAL: Duration = Duration::from_secs(60);

/// The parts that routers of both kinds use.
pub(crate) struct Network {
    pub(crate) authorizer: SessionAuthorizer,
    refusals: Refusals,
    pub(crate) hosting: Hosting,
    /// Counts the open circuits over routers of both kinds.
    pub(crate) circuit_quota: Arc<CircuitQuota>,
    pub(crate) terminators: LiveTerminators,
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
            terminators: LiveTerminators::default(),
            records: TerminatorRecords::new(changes),
            ids: IdGenerator::default(),
        }
    }

    /// Counts a dial or bind that was refused for lack of a right, for the history.
    pub(crate) async fn note_refusal(&self, refused: RejectedCaller) {
        self.refusals.note(self.store(), refused, self.now()).await;
    }

    /// Removes a terminator of a router in another process, and its record. Its circuits stay open.
    /// A terminator of the built-in router ends with its binding.
    pub(crate) fn end_terminator(&self, terminator: &Arc<LiveTerminator>) {
        let router = &terminator.hosted.router;
        let is_removed = self
            .terminators
            .remove(terminator, |id| self.records.remove(router, [id]));
        if is_removed {
            self.online().set_dynamic_cost(terminator.id().as_str(), 0);
        }
    }

    /// Publishes the dynamic cost of a terminator.
    pub(crate) fn show_cost(&self, terminator: &LiveTerminator) {
        if terminator.is_open() {
            let cost = terminator.load.value();
            self.online()
                .set_dynamic_cost(terminator.id().as_str(), cost);
        }
    }

    /// Updates a terminator when its record changes or is deleted. One without a record stays, and
    /// cannot be dialed until its host binds again.
    pub(crate) fn follow(&self, event: &Event) {
        let Some((old, new)) = event.of::<Terminator>() else {
            return;
        };
        let Some(terminator) = new
            .or(old)
            .and_then(|record| self.terminators.find(record.id.as_str()))
        else {
            return;
        };
        match new {
            Some(record) => terminator.set_weight(record.spec.cost, record.spec.precedence),
            None => terminator.set_listed(false),
        }
    }

    /// Reduces the cost of failed dials periodically. Never ends.
    pub(crate) async fn reduce_failures(&self) {
        let mut ticks = interval(REDUCE_INTERVAL);
        loop {
            ticks.tick().await;
            self.terminators
                .all()
                .iter()
                .filter(|terminator| terminator.load.reduce_failures())
                .for_each(|terminator| self.show_cost(terminator));
        }
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
