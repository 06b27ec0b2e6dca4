//! The terminators of bindings, in step with their records.

use super::{binding::Binding, core::RouterCore};
use crate::{
    entity::{EdgeRouter, Id, Identity, Terminator},
    fabric::{EDGE, NewTerminator, RequestFailure, Weight},
    store::Event,
};

/// Writes the terminator of a binding. `secret` must be equal for all hosts with the same instance
/// id.
///
/// # Errors
/// The instance id is in use with another secret, or the store fails.
pub(crate) async fn add(
    core: &RouterCore,
    binding: &Binding,
    identity: &Id<Identity>,
    secret: &[u8],
) -> Result<(), RequestFailure> {
    let new = NewTerminator {
        id: binding.id.clone(),
        router: core.context.id.to_string(),
        service: binding.service.clone(),
        weight: binding.weight(),
        instance: binding.instance.clone(),
        secret: secret.to_vec(),
        host: identity.clone(),
        binding: EDGE,
    };
    core.network.records.add(new).await
}

/// Writes a host's new cost and precedence. The binding follows the record.
pub(crate) async fn update(core: &RouterCore, binding: &Binding, weight: Weight) {
    core.network
        .records
        .update(EdgeRouter::BUILT_IN, binding.id.clone(), weight)
        .await;
}

/// Updates bindings from their records, which administrators may change and delete.
pub(crate) fn follow(core: &RouterCore, event: &Event) {
    let Some((old, new)) = event.of::<Terminator>() else {
        return;
    };
    let Some(record) = new.or(old) else { return };
    let Some(binding) = core.registry.binding(record.id.as_str()) else {
        return;
    };
    match new {
        Some(record) => binding.set_weight(record.spec.cost, record.spec.precedence),
        // The connection stays, but is not dialed until the host binds again.
        None => binding.set_listed(false),
    }
}
