//! How circuits and terminators at routers with a control channel end, and how terminators follow
//! their records.

use std::{sync::Arc, time::Duration};

use tokio::time::interval;

use super::{circuit::Circuit, core::ControlCore, hosted_terminator::HostedTerminator};
use crate::{
    entity::{EdgeRouter, Record, Terminator, TypedLookup},
    error::Result,
    store::Event,
};

/// The interval at which the cost of failed dials is reduced.
const REDUCE_INTERVAL: Duration = Duration::from_secs(60);

impl ControlCore {
    /// Ends a circuit and tells its routers to remove it: at once if `now`, else after its queued
    /// data was delivered.
    pub(crate) fn end_circuit(&self, circuit: &Arc<Circuit>, now: bool, reason: &str) {
        if !self.circuits.remove(circuit) {
            return;
        }
        let host = circuit.close();
        self.unroute_all(circuit, now);
        if let Some(host) = host {
            host.load.circuit_ended();
            self.show_cost(&host);
        }
        tracing::debug!(circuit = %circuit.id, router = %circuit.router, reason, "circuit ended");
    }

    /// Removes a terminator and its record. Its circuits stay open.
    pub(crate) fn end_hosted(&self, hosted: &Arc<HostedTerminator>) {
        if self.hosted.remove(hosted, |id| {
            self.network.records.remove(&hosted.router, [id])
        }) {
            self.online().set_dynamic_cost(hosted.id.as_str(), 0);
        }
    }

    /// Publishes the current dynamic cost of a terminator.
    pub(crate) fn show_cost(&self, hosted: &HostedTerminator) {
        if self.hosted.find(hosted.id.as_str()).is_some() {
            self.online()
                .set_dynamic_cost(hosted.id.as_str(), hosted.load.value());
        }
    }
}

/// Updates a terminator when its record changes or is deleted.
pub(crate) fn follow(core: &ControlCore, event: &Event) {
    let Some((old, new)) = event.of::<Terminator>() else {
        return;
    };
    let Some(hosted) = new
        .or(old)
        .and_then(|record| core.hosted.find(record.id.as_str()))
    else {
        return;
    };
    hosted.set_listed(new.is_some());
    if let Some(record) = new {
        hosted.set_weight(record.spec.cost, record.spec.precedence);
    }
}

/// Deletes terminators that earlier runs created for connections. Blocks.
///
/// # Errors
/// The store cannot be read or written.
pub(crate) fn clear(core: &ControlCore) -> Result<()> {
    let mut routers = Vec::new();
    core.network.store().read(|tx| {
        tx.each_readable::<EdgeRouter>(|router| {
            if !router.is_built_in()
                && tx
                    .linked::<Terminator>("router", router.id.as_str())?
                    .iter()
                    .any(Record::is_of_a_connection)
            {
                routers.push(router.id.to_string());
            }
            Ok(())
        })
    })?;
    routers
        .iter()
        .try_for_each(|router| core.network.records.clear(router))
}

/// Reduces the cost of failed dials periodically. Never ends.
pub(crate) async fn reduce_failures(core: Arc<ControlCore>) {
    let mut ticks = interval(REDUCE_INTERVAL);
    loop {
        ticks.tick().await;
        core.hosted
            .all()
            .iter()
            .filter(|hosted| hosted.load.reduce_failures())
            .for_each(|hosted| core.show_cost(hosted));
    }
}
