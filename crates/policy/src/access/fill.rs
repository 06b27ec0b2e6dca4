//! An engine filled with the stored records.

use std::{mem, sync::mpsc::sync_channel, thread};

use model::{
    entity::{
        EdgeRouter, EdgeRouterPolicy, Identity, PostureCheck, Service, ServiceEdgeRouterPolicy,
        ServicePolicy,
    },
    error::{Error, Result},
};
use store::Read;

use super::{
    Delta, Engine, PolicyEntityKind,
    record_deltas::{
        edge_router_policy, of_policy, of_subject, service_edge_router_policy, service_policy,
    },
};

/// The number of records per batch, and the number of batches that may wait.
const BATCH: usize = 1024;
const MAX_WAITING_BATCHES: usize = 4;

/// Fills an engine with the stored records. One thread reads while another updates the engine.
///
/// # Errors
/// The store cannot be read, or no thread can be started.
pub(super) fn fill(engine: &mut Engine, tx: &Read<'_>) -> Result<()> {
    let (sender, batches) = sync_channel::<Vec<Delta>>(MAX_WAITING_BATCHES);
    thread::scope(move |scope| {
        let apply = move || {
            for delta in batches.into_iter().flatten() {
                engine.apply(&delta, 0);
            }
        };
        let started = thread::Builder::new()
            .name("engine-fill".into())
            .spawn_scoped(scope, apply);
        started.map_err(|e| {
            Error::Internal(format!("cannot start a thread for the access engine: {e}"))
        })?;
        let mut batch = Vec::with_capacity(BATCH);
        // The receiver is only dropped after a panic, which the scope passes on.
        each_delta(tx, |delta| {
            batch.push(delta);
            if batch.len() == BATCH {
                drop(sender.send(mem::replace(&mut batch, Vec::with_capacity(BATCH))));
            }
        })?;
        drop(sender.send(batch));
        Ok(())
    })
}

/// Passes on everything that an engine needs as updates.
fn each_delta(tx: &Read<'_>, mut pass_on: impl FnMut(Delta)) -> Result<()> {
    let mut pass_on = |delta: Delta| {
        pass_on(delta);
        Ok(())
    };
    tx.each::<EdgeRouter>(|r| {
        pass_on(of_subject(
            PolicyEntityKind::EdgeRouter,
            &r,
            &r.spec.role_attributes,
        ))
    })?;
    tx.each::<Service>(|r| {
        pass_on(of_subject(
            PolicyEntityKind::Service,
            &r,
            &r.spec.role_attributes,
        ))
    })?;
    tx.each::<PostureCheck>(|r| {
        pass_on(of_subject(
            PolicyEntityKind::PostureCheck,
            &r,
            &r.spec.role_attributes,
        ))
    })?;
    tx.each::<Identity>(|r| {
        pass_on(of_subject(
            PolicyEntityKind::Identity,
            &r,
            &r.spec.role_attributes,
        ))
    })?;
    tx.each::<ServicePolicy>(|r| pass_on(of_policy(&r, service_policy)))?;
    tx.each::<EdgeRouterPolicy>(|r| pass_on(of_policy(&r, edge_router_policy)))?;
    tx.each::<ServiceEdgeRouterPolicy>(|r| pass_on(of_policy(&r, service_edge_router_policy)))
}
