//! What happens to the circuits, terminators and links of a router that has disconnected, or that
//! may no longer connect.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time::sleep;

use super::{
    connection::RouterConnection, control_core::ControlCore, revoked_routers::RevokedRouter,
};
use crate::network::begin_reroute;

/// How long a router that may no longer connect has to read which circuits end.
const LAST_MESSAGES: Duration = Duration::from_secs(1);

/// Ends the links and circuits of routers that may no longer connect, and closes their connections.
/// Never ends.
pub(crate) async fn end_revoked(core: Arc<ControlCore>) {
    loop {
        for RevokedRouter {
            id,
            is_deleted,
            connection,
        } in core.revoked.next().await
        {
            let reason = if is_deleted {
                "its router was deleted"
            } else {
                "its router was disabled or enrolled again"
            };
            // Without links, no circuit that passes through the router finds a path through it
            // again.
            let links = core
                .network
                .links
                .remove_all_of(&id, core.network.loss(reason));
            core.network.paths.changed();
            // Other routers close the links to a router that was deleted when they are told so.
            for link in links.iter().filter(|_| !is_deleted) {
                core.network.close_link_at(link.other_end(&id), link);
            }
            core.forget(&id, reason);
            if is_deleted {
                core.network.removals.forget(&id);
            }
            if let Some(connection) = connection {
                connection.outbox.finish();
                tokio::spawn(async move {
                    sleep(LAST_MESSAGES).await;
                    connection.close();
                });
            }
        }
    }
}

impl ControlCore {
    /// Cleans up after a connection has ended.
    pub(crate) async fn left(self: &Arc<Self>, connection: &Arc<RouterConnection>, reason: &str) {
        let now = self.network.now();
        if !self.registry.remove(connection, &self.network, now) {
            return;
        }
        self.network.paths.changed();
        let circuits = self.network.circuits.of_router(&connection.router);
        // Established circuits go on while the router is disconnected.
        circuits
            .iter()
            .filter(|circuit| !circuit.is_open())
            .for_each(|circuit| circuit.give_up());
        if connection.is_revoked.load(Ordering::SeqCst) {
            let (core, connection, reason) = (self.clone(), connection.clone(), reason.to_owned());
            tokio::spawn(async move { core.note_disconnected(&connection, &reason).await });
        } else {
            tokio::join!(
                sleep(self.times.absence),
                self.note_disconnected(connection, reason)
            );
        }
        // A router that came back and left again meanwhile is forgotten after its later absence.
        let is_last = self
            .online()
            .disconnected_at(&connection.router)
            .is_none_or(|at| at == now);
        if is_last && self.registry.find(&connection.router).is_none() {
            self.forget(
                &connection.router,
                "its router has been disconnected for too long",
            );
        }
    }

    /// Ends the circuits that begin or end at a router, moves those that pass through it, and
    /// removes its terminators and the links that it has dialed.
    pub(crate) fn forget(self: &Arc<Self>, router: &str, reason: &str) {
        if !self
            .network
            .links
            .remove_dialed(router, &HashSet::new(), self.network.loss(reason))
            .is_empty()
        {
            self.network.paths.changed();
        }
        let (ending, passing): (Vec<_>, Vec<_>) = self
            .network
            .circuits
            .of_router(router)
            .into_iter()
            .partition(|circuit| circuit.path().ends_at(router));
        for circuit in &ending {
            self.network.end_circuit(circuit, true, reason);
        }
        begin_reroute(&self.network, passing, reason);
        let hosted = self.network.terminators.of_router(router);
        for terminator in &hosted {
            self.network.end_terminator(terminator);
        }
        self.network.links.forget_accepted(router);
        self.measurements.forget(router);
    }
}
