//! The terminator records of hosted services: written when hosting starts, deleted when it ends, and all deleted at the start.
//!
//! They are written without history (`Entity::is_unlogged`) and in their own tasks: no reader of a connection waits for the disk.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

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
    ended: Arc<Mutex<Ended>>,
    added: Notify,
}

/// The queue of terminators to delete, each with a number that ascends. The writer looks into it when it deletes, so that a terminator with the
/// same id that was written meanwhile stays.
#[derive(Default)]
struct Ended {
    last: u64,
    waiting: BTreeMap<u64, OfRouter>,
}

/// A terminator, and the router that made it: no router deletes or changes the terminator of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OfRouter {
    id: Id<Terminator>,
    router: String,
}

impl OfRouter {
    /// The record, unless it does not exist, or an administrator or another router made it.
    fn find(&self, change: &Change<'_, '_>) -> Result<Option<Record<Terminator>>> {
        Ok(change.find_readable(&self.id)?.filter(|record| record.spec.router == self.router && record.is_of_a_connection()))
    }
}

impl Ended {
    fn add(&mut self, terminator: OfRouter) {
        self.last += 1;
        self.waiting.insert(self.last, terminator);
    }

    /// Up to [`BATCH`] of them, which stay in the queue.
    fn first(&self) -> Vec<(u64, OfRouter)> {
        self.waiting.iter().take(BATCH).map(|(number, terminator)| (*number, terminator.clone())).collect()
    }

    fn done(&mut self, numbers: &[u64]) {
        numbers.iter().for_each(|number| drop(self.waiting.remove(number)));
    }

    /// Removes a terminator that was queued up to a number and has been written again.
    /// Returns whether there was one.
    fn replaced(&mut self, written: &Id<Terminator>, until: u64) -> bool {
        let count = self.waiting.len();
        self.waiting.retain(|number, terminator| *number > until || terminator.id != *written);
        self.waiting.len() < count
    }
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
        Self { changes, ended: Arc::default(), added: Notify::new() }
    }

    /// Queues terminators of a router for deletion.
    pub(crate) fn remove(&self, router: &str, ids: impl IntoIterator<Item = Id<Terminator>>) {
        let mut ended = self.ended.lock();
        ids.into_iter().for_each(|id| ended.add(OfRouter { id, router: router.to_owned() }));
        drop(ended);
        self.added.notify_one();
    }

    /// Deletes queued terminators, as long as the router runs. `pause` is the delay after a failure.
    pub(crate) async fn remove_ended(&self, pause: Duration) {
        loop {
            if self.ended.lock().waiting.is_empty() {
                self.added.notified().await;
                continue;
            }
            let ended = self.ended.clone();
            let deleted = self.changes.run(move |change| {
                let (numbers, terminators): (Vec<_>, Vec<_>) = ended.lock().first().into_iter().unzip();
                delete(change, &terminators).map(|()| numbers)
            });
            match deleted.await {
                Ok(numbers) => self.ended.lock().done(&numbers),
                Err(error) => {
                    tracing::warn!(%error, "terminators of ended connections could not be deleted; the deletion is retried");
                    sleep(pause).await;
                }
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
                let own = of_router.into_iter().filter(Record::is_of_a_connection);
                let mut left: Vec<_> = own.map(|record| OfRouter { id: record.id, router: record.spec.router }).collect();
                let more = left.len() > BATCH;
                left.truncate(BATCH);
                delete(change, &left).map(|()| more)
            })?;
            if !more {
                return Ok(());
            }
        }
    }

    /// Writes a terminator; one of the router with the same id is replaced, and a deletion of it that was queued before this call is dropped.
    ///
    /// # Errors
    /// The id belongs to another terminator, the instance id is in use with another secret, or the store fails.
    pub(crate) async fn add(&self, new: NewTerminator) -> std::result::Result<(), RequestFailure> {
        let (ended, until, id, router) = (self.ended.clone(), self.ended.lock().last, new.id.clone(), new.router.clone());
        let is_dropped = Arc::new(AtomicBool::new(false));
        let dropped = is_dropped.clone();
        let replaced = id.clone();
        let written = self.changes.run(move |change| {
            let inserted = insert(change, new)?;
            if matches!(inserted, Inserted::Yes) {
                dropped.store(ended.lock().replaced(&replaced, until), Ordering::SeqCst);
            }
            Ok(inserted)
        });
        let written = written.await;
        if written.is_err() && is_dropped.load(Ordering::SeqCst) {
            self.remove(&router, [id]);
        }
        match written {
            Ok(Inserted::Yes) => Ok(()),
            Ok(Inserted::OtherId) => Err(RequestFailure::internal("another terminator has this id")),
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

    /// Writes cost and precedence of a terminator of a router, if it still exists.
    pub(crate) async fn update(&self, router: &str, id: Id<Terminator>, weight: Weight) {
        let (terminator, of_router) = (id.clone(), OfRouter { id, router: router.to_owned() });
        let updated = self.changes.run(move |change| {
            let Some(mut record) = of_router.find(change)? else { return Ok(()) };
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
    OtherId,
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
    if let Some(before) = change.find_readable(&id)? {
        if before.spec.router != spec.router || !before.is_of_a_connection() {
            return Ok(Inserted::OtherId);
        }
        change.delete_record(before)?;
    }
    let mut record = Record::new(id, change.now(), spec);
    record.state.host_id = host.to_string();
    change.insert(record).map(|_| Inserted::Yes)
}

fn delete(change: &Change<'_, '_>, terminators: &[OfRouter]) -> Result<()> {
    for terminator in terminators {
        terminator.find(change)?.map_or(Ok(()), |record| change.delete_record(record))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminators_written_again_stay() {
        let (mut ended, id) = (Ended::default(), |text: &str| Id::<Terminator>::from_text(text));
        let terminator = |text: &str| OfRouter { id: id(text), router: "router".into() };
        ["a", "b", "a"].into_iter().for_each(|text| ended.add(terminator(text)));
        let until = ended.last;
        ended.add(terminator("a"));
        assert!(ended.replaced(&id("a"), until) && !ended.replaced(&id("c"), until));
        assert_eq!(ended.first(), [(2, terminator("b")), (4, terminator("a"))], "what has ended since then is deleted");
        ended.add(terminator("b"));
        ended.done(&[2, 4]);
        assert_eq!(ended.first(), [(5, terminator("b"))]);
    }
}
