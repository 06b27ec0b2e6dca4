//! How circuits over routers with a control channel end, and what of earlier runs is deleted.

use std::sync::Arc;

use super::{circuit::Circuit, core::ControlCore};
use crate::{
    entity::{EdgeRouter, Record, Terminator, TypedLookup},
    error::Result,
};

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
            // The built-in router counts the circuits of its hosts itself.
            if host.hosted.router != EdgeRouter::BUILT_IN {
                host.load.circuit_ended();
                self.network.show_cost(&host);
            }
        }
        tracing::debug!(circuit = %circuit.id, router = %circuit.router, reason, "circuit ended");
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
