//! How circuits and terminators at routers elsewhere end, and how terminators follow their records.

use std::{sync::Arc, time::Duration};

use tokio::time::interval;

use super::{answers::unroute, circuit::Circuit, core::Core, hosted::HostedTerminator};
use crate::{
    entity::{EdgeRouter, FactsExt, Record, Terminator},
    error::Result,
    store::Event,
};

/// How often failures of hosts are forgiven.
const FORGIVE: Duration = Duration::from_secs(60);

impl Core {
    /// Ends a circuit and tells its router: `now`, or once its data has passed.
    pub fn end_circuit(&self, circuit: &Arc<Circuit>, now: bool, reason: &str) {
        if !self.circuits.remove(circuit) {
            return;
        }
        let host = circuit.close();
        if !self.send(&circuit.router, unroute(&circuit.id, now)) {
            self.circuits.note_ended(circuit);
        }
        if let Some(host) = host {
            host.load.circuit_ended();
            self.show_cost(&host);
        }
        tracing::debug!(circuit = %circuit.id, router = %circuit.router, reason, "circuit ended");
    }

    /// Ends what is hosted, with its record. Its circuits go on.
    pub fn end_hosted(&self, hosted: &Arc<HostedTerminator>) {
        if self.hosted.remove(hosted) {
            self.online().set_dynamic_cost(hosted.id.as_str(), 0);
            self.records.remove([hosted.id.clone()]);
        }
    }

    /// Shows what a terminator costs now.
    pub fn show_cost(&self, hosted: &HostedTerminator) {
        if self.hosted.find(hosted.id.as_str()).is_some() {
            self.online().set_dynamic_cost(hosted.id.as_str(), hosted.load.value());
        }
    }
}

/// Keeps what is hosted in step with the records, which administrators may change and delete as well.
pub fn follow(core: &Core, event: &Event) {
    let Some((old, new)) = event.of::<Terminator>() else { return };
    let Some(hosted) = new.or(old).and_then(|record| core.hosted.find(record.id.as_str())) else { return };
    hosted.list(new.is_some());
    if let Some(record) = new {
        hosted.weigh(record.spec.cost, record.spec.precedence);
    }
}

/// Deletes what connections of earlier runs made at routers elsewhere. Blocks.
///
/// # Errors
/// The store cannot be read or written.
pub fn clear(core: &Core) -> Result<()> {
    let mut routers = Vec::new();
    core.parts.rights.store.read(|tx| {
        tx.each_readable::<EdgeRouter>(|router| {
            if !router.is_built_in() && tx.linked::<Terminator>("router", router.id.as_str())?.iter().any(Record::is_of_a_connection) {
                routers.push(router.id.to_string());
            }
            Ok(())
        })
    })?;
    routers.iter().try_for_each(|router| core.records.clear(router))
}

/// Forgives failures of hosts, for ever.
pub async fn forgive(core: Arc<Core>) {
    let mut ticks = interval(FORGIVE);
    loop {
        ticks.tick().await;
        core.hosted.all().iter().filter(|hosted| hosted.load.forgive()).for_each(|hosted| core.show_cost(hosted));
    }
}
