//! What a committed change ends at this router: everything if it is disabled, and the channels of
//! SDKs that are no longer logged in. `network/review.rs` reviews terminators and circuits.

use std::sync::atomic::Ordering;

use model::{entity::EdgeRouter, error::Result};
use store::Event;

use super::router_core::RouterCore;
use crate::network::{PendingSet, RequestFailure, ReviewTrigger};

/// Takes what a committed change of its record says.
pub(crate) fn on_commit(core: &RouterCore, event: &Event) {
    let own = event
        .of::<EdgeRouter>()
        .filter(|_| event.id == core.context.id.as_str());
    let Some((_, new)) = own else { return };
    let is_disabled = new.is_none_or(|router| router.spec.disabled);
    core.is_disabled.store(is_disabled, Ordering::Release);
    if let Some(router) = new {
        *core.weight.lock() = (router.spec.cost, router.spec.no_traversal);
        core.network.paths.changed();
    }
    core.network.reviews.record(ReviewTrigger::Everything);
}

/// Ends the channels that may no longer be open, and the links if the router is disabled.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn end_lost_channels(core: &RouterCore, pending: &PendingSet) -> Result<()> {
    let is_disabled = core.is_disabled.load(Ordering::Acquire);
    if is_disabled {
        for link in &core.links.all() {
            link.close();
        }
    }
    let channels = if pending.everything {
        core.registry.everything().channels
    } else {
        core.registry.channels_depending_on(&pending.some)
    };
    for channel in &channels {
        let reason = if is_disabled {
            "the router is disabled"
        } else if !core.is_logged_in(channel)? {
            "the API session has ended"
        } else {
            continue;
        };
        core.end_channel(channel, &RequestFailure::access_denied(reason));
    }
    Ok(())
}
