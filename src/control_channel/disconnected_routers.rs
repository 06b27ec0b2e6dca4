//! What happens to the circuits, terminators and links of a router that has disconnected.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
};

use super::{connection::RouterConnection, core::Core, reroute};

impl Core {
    /// Cleans up after a connection has ended.
    pub(crate) async fn left(self: &Arc<Self>, connection: &Arc<RouterConnection>, reason: &str) {
        let now = self.context.authorizer.clock.now();
        if !self.registry.remove(connection, self.online(), now) {
            return;
        }
        self.paths.changed();
        let circuits = self.circuits.of_router(&connection.router);
        // Established circuits go on while the router is disconnected.
        circuits.iter().filter(|circuit| !circuit.is_open()).for_each(|circuit| circuit.give_up());
        if !connection.is_deleted.load(Ordering::SeqCst) {
            tokio::join!(tokio::time::sleep(self.times.absence), self.note_disconnected(connection, reason));
        }
        // A router that came back and left again meanwhile is forgotten after its later absence.
        let is_last = self.online().left_at(&connection.router).is_none_or(|at| at == now);
        if is_last && self.registry.find(&connection.router).is_none() {
            self.forget(&connection.router, "its router has been disconnected for too long");
        }
    }

    /// Ends the circuits that begin or end at a router, moves those that pass through it, and removes its terminators and the links that it
    /// has dialed.
    pub(crate) fn forget(self: &Arc<Self>, router: &str, reason: &str) {
        if !self.links.remove_dialed(router, &HashSet::new(), self.loss(reason)).is_empty() {
            self.paths.changed();
        }
        let (ending, passing): (Vec<_>, Vec<_>) =
            self.circuits.of_router(router).into_iter().partition(|circuit| circuit.path().ends_at(router));
        ending.iter().for_each(|circuit| self.end_circuit(circuit, true, reason));
        reroute::begin(self, passing, reason);
        let hosted = self.hosted.of_router(router);
        hosted.iter().for_each(|hosted| self.end_hosted(hosted));
        self.measurements.forget(router);
    }
}
