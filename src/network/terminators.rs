//! The terminator records of hosted services: written when hosting starts, deleted when it ends, and all deleted at the start.
//!
//! They are written without history (`Entity::is_fleeting`) and in their own tasks: no reader of a channel waits for the disk.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use tokio::time::sleep;

use super::{binding::Binding, core::Core, message::Failure, select::Weight};
use crate::{
    change::{Change, Changes},
    entity::{EdgeRouter, FactsExt, Id, Identity, Record, Terminator},
    error::{Error, Result},
    store::Event,
};

/// The number of deletions per transaction.
const BATCH: usize = 500;
/// The `binding` of terminators of SDKs.
const EDGE: &str = "edge";

/// Deletes terminators of ended bindings, as long as the router runs.
pub async fn remove_ended(core: Arc<Core>) {
    loop {
        let ids = core.removals.take(BATCH);
        if ids.is_empty() {
            core.removals.wait().await;
            continue;
        }
        let batch = ids.clone();
        let outcome = core.parts.changes.run(move |change| delete(change, &batch)).await;
        if let Err(error) = outcome {
            tracing::warn!(%error, "terminators of ended connections could not be deleted; retrying");
            core.removals.add(ids);
            sleep(core.times.refusal).await;
        }
    }
}

fn delete(change: &Change<'_, '_>, ids: &[Id<Terminator>]) -> Result<()> {
    for id in ids {
        if change.find_readable(id)?.is_some() {
            change.delete(id)?;
        }
    }
    Ok(())
}

/// Deletes the terminators of earlier runs. Blocks.
///
/// # Errors
/// The store cannot be read or written.
pub fn clear(changes: &Changes, router: &Id<EdgeRouter>) -> Result<()> {
    loop {
        let router = router.clone();
        let more = changes.run_blocking(move |change| {
            let of_router = change.linked::<Terminator>("router", router.as_str())?;
            let mut left: Vec<_> = of_router.into_iter().filter(Record::is_of_a_connection).map(|record| record.id).collect();
            let more = left.len() > BATCH;
            left.truncate(BATCH);
            delete(change, &left).map(|()| more)
        })?;
        if !more {
            return Ok(());
        }
    }
}

/// Writes the terminator of a binding. `secret` must be equal for all hosts with the same instance id.
///
/// # Errors
/// The instance id is in use with another secret, or the store fails.
pub async fn add(core: &Core, binding: &Binding, identity: &Id<Identity>, secret: &[u8]) -> std::result::Result<(), Failure> {
    let Weight { cost, precedence, .. } = binding.weight();
    let spec = Terminator {
        address: binding.id.to_string(),
        binding: EDGE.into(),
        router: core.parts.id.to_string(),
        service: binding.service.clone(),
        cost,
        precedence,
        identity: binding.instance.clone(),
        identity_secret: STANDARD.encode(secret),
    };
    let (id, identity) = (binding.id.clone(), identity.clone());
    let written = core.parts.changes.run(move |change| {
        if !spec.identity.is_empty() {
            let hosts = change.linked::<Terminator>("service", spec.service.as_str())?;
            let is_other = |host: &Record<Terminator>| {
                host.id != id && host.spec.identity == spec.identity && host.spec.identity_secret != spec.identity_secret
            };
            if hosts.iter().any(is_other) {
                return Ok(false);
            }
        }
        if change.find_readable(&id)?.is_some() {
            change.delete(&id)?;
        }
        let mut record = Record::new(id, change.now(), spec);
        record.state.host_id = identity.to_string();
        change.insert(record).map(|_| true)
    });
    match written.await {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::instance("the service is already hosted under this instance id with another secret")),
        Err(Error::Busy { .. }) => Err(Failure::busy("the controller is busy")),
        Err(Error::NotFound { .. }) => Err(Failure::no_service()),
        Err(error) => {
            tracing::warn!(%error, "a terminator cannot be written");
            Err(Failure::busy("the terminator cannot be written at the moment"))
        }
    }
}

/// Writes a host's new cost and precedence. The binding follows the record.
pub async fn update(core: &Core, binding: &Binding, weight: Weight) {
    let id = binding.id.clone();
    let updated = core.parts.changes.run(move |change| {
        let Some(mut record) = change.find_readable(&id)? else { return Ok(()) };
        (record.spec.cost, record.spec.precedence) = (weight.cost, weight.precedence);
        change.put(record)
    });
    if let Err(error) = updated.await {
        tracing::warn!(%error, terminator = %binding.id, "cost and precedence cannot be written");
    }
}

/// Updates bindings from their records, which administrators may change and delete.
pub fn follow(core: &Core, event: &Event) {
    let Some((old, new)) = event.of::<Terminator>() else { return };
    let Some(record) = new.or(old) else { return };
    let Some(binding) = core.registry.binding(record.id.as_str()) else { return };
    match new {
        Some(record) => binding.weigh(record.spec.cost, record.spec.precedence),
        // The connection stays, but is not dialled until the host binds again.
        None => binding.list(false),
    }
}
