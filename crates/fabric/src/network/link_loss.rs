//! The loss of links: the router at the other end is told, and circuits get another path.

use std::sync::Arc;

use super::{links::ReportedLink, reroute, shared_state::Network};
use crate::peer_lines::may_log;

impl Network {
    /// Reports the loss of a link by the router at one of its ends: the other one is told, and the
    /// circuits over it get another path. Ignored if it is about an older iteration.
    pub(crate) fn lose_link(self: &Arc<Self>, id: &str, router: &str, iteration: u32) {
        let reason = "a router at its end reports the loss of the link";
        if let Some(link) = self.links.remove(id, router, iteration, self.loss(reason)) {
            self.close_link_at(link.other_end(router), &link);
            self.link_gone(&link, reason);
        }
    }

    /// Tells a router that a link is no longer used.
    pub(crate) fn close_link_at(&self, router: &str, link: &ReportedLink) {
        if let Some(router) = self.routers.find(router) {
            router.close_link(link);
        }
    }

    /// Moves the circuits of a link that was removed.
    pub(crate) fn link_gone(self: &Arc<Self>, link: &ReportedLink, reason: &str) {
        if may_log(&link.source) {
            tracing::info!(link = %link.id, source = %link.source, destination = %link.destination, reason, "link lost");
        }
        self.paths.changed();
        reroute::begin(self, self.circuits.of_link(&link.id), reason);
    }
}
