//! The terminator records of hosted services: written when hosting starts, deleted when it ends, and all deleted at the start.
//!
//! They are written without history (`Entity::is_unlogged`) and in their own tasks: no reader of a connection waits for the disk.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::sleep};

use super::{message::RequestFailure, select::Weight};
use crate::{
    change::{Change, Changes},
    entity::{Entity, Id, Identity, Lookup, Record, Service, Terminator, TypedLookup},
    error::{Error, Result},
};

/// The number of deletions per transaction.
const BATCH: usize = 500;
/// The maximum number of terminators of a service under one instance id: hosting under it reads them all.
const MAX_INSTANCES: usize = 256;
/// The `binding` of terminators of SDKs.
pub(crate) const EDGE: &str = "edge";

/// Writes and deletes terminator records.
pub(crate) struct TerminatorRecords {
    changes: Changes,
    /// The queue of terminators to delete.
    ended: Mutex<Vec<Id<Terminator>>>,
    added: Notify,
}

/// A terminator to write.
pub(crate) struct NewTerminator {
    /// Also the address of the terminator.
    pub id: Id<Terminator>,
    pub router: String,
    pub service: Id<Service>,
    pub weight: Weight,
    /// Empty: none.
    pub instance: String,
    /// Must be equal for all hosts with the same instance id.
    pub secret: Vec<u8>,
    pub host: Id<Identity>,
    /// [`EDGE`] or that of the tunneler of a router.
    pub binding: &'static str,
}

impl TerminatorRecords {
    pub(crate) fn new(changes: Changes) -> Self {
        Self { changes, ended: Mutex::default(), added: Notify::new() }
    }

    /// Queues terminators for deletion.
    pub(crate) fn remove(&self, ids: impl IntoIterator<Item = Id<Terminator>>) {
        self.ended.lock().extend(ids);
        self.added.notify_one();
    }

    /// Takes up to [`BATCH`] of them.
    fn take(&self) -> Vec<Id<Terminator>> {
        let mut ids = self.ended.lock();
        let count = ids.len().min(BATCH);
        ids.drain(..count).collect()
    }

    /// Deletes queued terminators, as long as the router runs. `pause` is the delay after a failure.
    pub(crate) async fn remove_ended(&self, pause: Duration) {
        loop {
            let ids = self.take();
            if ids.is_empty() {
                self.added.notified().await;
                continue;
            }
            let batch = ids.clone();
            let outcome = self.changes.run(move |change| delete(change, &batch)).await;
            if let Err(error) = outcome {
                tracing::warn!(%error, "terminators of ended connections could not be deleted; the deletion is retried");
                self.remove(ids);
                sleep(pause).await;
            }
        }
    }

    /// Deletes the terminators that earlier connections to a router made. Blocks.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub(crate) fn clear(&self, router: &str) -> Result<()> {
        loop {
            let router = router.to_owned();
            let more = self.changes.run_blocking(move |change| {
                let of_router = change.linked::<Terminator>("router", &router)?;
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

    /// Writes a terminator; one with the same id is replaced.
    ///
    /// # Errors
    /// The instance id is in use with another secret, or the store fails.
    pub(crate) async fn add(&self, new: NewTerminator) -> std::result::Result<(), RequestFailure> {
        match self.changes.run(move |change| insert(change, new)).await {
            Ok(Inserted::Yes) => Ok(()),
            Ok(Inserted::OtherSecret) => {
                Err(RequestFailure::instance("the service is already hosted under this instance id with another secret"))
            }
            Ok(Inserted::TooMany) => Err(RequestFailure::busy(format!(
                "the service is already hosted {MAX_INSTANCES} times under this instance id, which is the limit"
            ))),
            Err(Error::Busy { .. }) => Err(RequestFailure::busy("the controller is busy")),
            Err(Error::NotFound { .. }) => Err(RequestFailure::no_service()),
            Err(error) => {
                tracing::warn!(%error, "a terminator cannot be written");
                Err(RequestFailure::busy("the terminator cannot be written at the moment"))
            }
        }
    }

    /// Writes cost and precedence of a terminator that still exists.
    pub(crate) async fn update(&self, id: Id<Terminator>, weight: Weight) {
        let terminator = id.clone();
        let updated = self.changes.run(move |change| {
            let Some(mut record) = change.find_readable(&id)? else { return Ok(()) };
            (record.spec.cost, record.spec.precedence) = (weight.cost, weight.precedence);
            change.put(record)
        });
        if let Err(error) = updated.await {
            tracing::warn!(%error, %terminator, "cost and precedence cannot be written");
        }
    }
}

/// Whether a terminator was written, or why not.
enum Inserted {
    Yes,
    OtherSecret,
    TooMany,
}

fn insert(change: &Change<'_, '_>, new: NewTerminator) -> Result<Inserted> {
    let NewTerminator { id, router, service, weight, instance, secret, host, binding } = new;
    let spec = Terminator {
        address: id.to_string(),
        binding: binding.into(),
        router,
        service,
        cost: weight.cost,
        precedence: weight.precedence,
        identity: instance,
        identity_secret: STANDARD.encode(secret),
    };
    if !spec.identity.is_empty() {
        let mut others = change.ids(Terminator::KIND, "instance", &spec.instance_key())?;
        others.retain(|other| other != id.as_str());
        if others.len() >= MAX_INSTANCES {
            return Ok(Inserted::TooMany);
        }
        for other in others {
            let other = change.find_readable(&Id::<Terminator>::from_text(other))?;
            if other.is_some_and(|other| other.spec.identity_secret != spec.identity_secret) {
                return Ok(Inserted::OtherSecret);
            }
        }
    }
    delete(change, std::slice::from_ref(&id))?;
    let mut record = Record::new(id, change.now(), spec);
    record.state.host_id = host.to_string();
    change.insert(record).map(|_| Inserted::Yes)
}

fn delete(change: &Change<'_, '_>, ids: &[Id<Terminator>]) -> Result<()> {
    for id in ids {
        change.find_readable(id)?.map_or(Ok(()), |terminator| change.delete_record(terminator))?;
    }
    Ok(())
}
