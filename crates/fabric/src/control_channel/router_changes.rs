//! What a commit changes for routers in other processes: their rights, their records, and what they
//! are told.

use std::sync::atomic::Ordering;

use model::entity::{EdgeRouter, Entity, Record, TransitRouter, edge_router::State};
use store::Event;

use super::{
    control_core::ControlCore, data_model, revoked_routers::RevokedRouter, sync_notices,
    unfit_tokens,
};

/// Records what a committed change affects. Runs on the writer's thread.
pub(crate) fn on_commit(core: &ControlCore, event: &Event) {
    core.network.follow(event);
    sync_notices::on_commit(core, event);
    data_model::on_commit(core, event);
    unfit_tokens::on_commit(core, event);
    if let Some((Some(old), new)) = event.of::<EdgeRouter>() {
        // The built-in router has no connection, and follows its record itself.
        if !old.is_built_in() {
            close_if_changed(
                core,
                old,
                new,
                new.is_some_and(|router| !router.spec.disabled),
            );
            set_weight(
                core,
                old.id.as_str(),
                new.map(|router| (router.spec.cost, router.spec.no_traversal)),
            );
        }
    }
    if let Some((Some(old), new)) = event.of::<TransitRouter>() {
        set_weight(
            core,
            old.id.as_str(),
            new.map(|router| (router.spec.cost, router.spec.no_traversal)),
        );
        close_if_changed(
            core,
            old,
            new,
            new.is_some_and(|router| !router.spec.disabled),
        );
    }
}

/// Ends what goes over a router that was deleted, disabled, re-enrolled or given another
/// certificate, and its connection.
fn close_if_changed<E: Entity<State = State>>(
    core: &ControlCore,
    old: &Record<E>,
    new: Option<&Record<E>>,
    is_enabled: bool,
) {
    let is_same = new.is_some_and(|new| {
        let fingerprint = new.state.fingerprint.as_deref().unwrap_or_default();
        new.state.is_verified && old.state.has_fingerprint(fingerprint)
    });
    if is_same && is_enabled {
        return;
    }
    if new.is_none() {
        core.earlier.router_started(old.id.as_str());
        core.registry.announce_deleted(old.id.as_str());
        core.online().router_deleted(old.id.as_str());
    }
    let connection = core.registry.find(old.id.as_str());
    if let Some(connection) = &connection {
        connection.is_deleted.store(new.is_none(), Ordering::SeqCst);
        connection.is_revoked.store(true, Ordering::SeqCst);
        tracing::info!(router = %connection.router, "the router was deleted, disabled or enrolled again; its connection is closed");
    }
    core.revoked.add(RevokedRouter {
        id: old.id.to_string(),
        is_deleted: new.is_none(),
        connection,
    });
}

/// Takes the cost and the `noTraversal` of a changed record.
fn set_weight(core: &ControlCore, router: &str, weight: Option<(u16, bool)>) {
    let (Some((cost, is_end_only)), Some(connection)) = (weight, core.registry.find(router)) else {
        return;
    };
    connection.set_weight(cost, is_end_only);
    core.network.paths.changed();
}
