//! The terminator records of hosted services: written when hosting starts, deleted when it ends,
//! and all deleted at the start.
//!
//! They are written without history (`Entity::is_unlogged`) and in their own tasks: no reader of a
//! connection waits for the disk.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use model::{
    entity::{Entity, Id, Identity, Lookup, Record, Terminator, TypedLookup},
    error::{Error, Result},
};
use parking_lot::Mutex;
use policy::change::{Change, Changes};
use tokio::{sync::Notify, time::sleep};

use super::{live_terminators::LiveTerminator, request_failure::RequestFailure, select::Weight};

/// The number of deletions per transaction.
const BATCH: usize = 500;
/// The maximum number of terminators of a service under one instance id: hosting under it reads
/// them all.
const MAX_INSTANCES: usize = 256;
/// The `binding` of terminators of SDKs.
pub(crate) const EDGE: &str = "edge";

/// Writes and deletes terminator records.
pub(crate) struct TerminatorRecords {
    changes: Changes,
    ended: Arc<Mutex<Ended>>,
    added: Notify,
}

/// The terminators to delete, each with the number of its last deletion, which ascends. The writer
/// looks into it when it deletes, so that a terminator with the same id that was written meanwhile
/// stays.
#[derive(Default)]
struct Ended {
    last: u64,
    waiting: BTreeMap<OfRouter, u64>,
}

/// A terminator, and the router that made it: no router deletes or changes the terminator of
/// another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OfRouter {
    id: Id<Terminator>,
    router: String,
}

impl OfRouter {
    /// The record, unless it does not exist, or an administrator or another router made it.
    fn find(&self, change: &Change<'_, '_>) -> Result<Option<Record<Terminator>>> {
        Ok(change
            .read()
            .find_readable(&self.id)?
            .filter(|record| record.spec.router == self.router && record.is_of_a_connection()))
    }
}

impl Ended {
    fn add(&mut self, terminator: OfRouter) {
        self.last += 1;
        self.waiting.insert(terminator, self.last);
    }

    /// Up to [`BATCH`] of them, which stay.
    fn first(&self) -> Vec<(OfRouter, u64)> {
        self.waiting
            .iter()
            .take(BATCH)
            .map(|(terminator, number)| (terminator.clone(), *number))
            .collect()
    }

    /// Drops the deletion of a terminator, unless there was another one after this number. Returns
    /// whether it was dropped.
    fn drop_until(&mut self, terminator: &OfRouter, until: u64) -> bool {
        let is_earlier = self
            .waiting
            .get(terminator)
            .is_some_and(|number| *number <= until);
        if is_earlier {
            self.waiting.remove(terminator);
        }
        is_earlier
    }
}

impl TerminatorRecords {
    pub(crate) fn new(changes: Changes) -> Self {
        Self {
            changes,
            ended: Arc::default(),
            added: Notify::new(),
        }
    }

    /// Queues terminators of a router for deletion.
    pub(crate) fn remove(&self, router: &str, ids: impl IntoIterator<Item = Id<Terminator>>) {
        let mut ended = self.ended.lock();
        for id in ids {
            ended.add(OfRouter {
                id,
                router: router.to_owned(),
            })
        }
        drop(ended);
        self.added.notify_one();
    }

    /// Deletes queued terminators. Never ends. `pause` is the delay after a
    /// failure.
    pub(crate) async fn remove_ended(&self, pause: Duration) {
        loop {
            if self.ended.lock().waiting.is_empty() {
                self.added.notified().await;
                continue;
            }
            let ended = self.ended.clone();
            let deleted = self.changes.run(move |change| {
                let first = ended.lock().first();
                delete(change, first.iter().map(|(terminator, _)| terminator)).map(|()| first)
            });
            match deleted.await {
                Ok(deleted) => {
                    let mut ended = self.ended.lock();
                    for (terminator, number) in &deleted {
                        ended.drop_until(terminator, *number);
                    }
                }
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
                let mut left: Vec<_> = own
                    .map(|record| OfRouter {
                        id: record.id,
                        router: record.spec.router,
                    })
                    .collect();
                let more = left.len() > BATCH;
                left.truncate(BATCH);
                delete(change, &left).map(|()| more)
            })?;
            if !more {
                return Ok(());
            }
        }
    }

    /// Writes the record of a terminator; one of the router with the same id is replaced, and a
    /// deletion of it that was queued before this call is dropped. `secret` must be equal for all
    /// hosts with the same instance id.
    ///
    /// # Errors
    /// The id belongs to another terminator, the instance id is in use with another secret, or the
    /// store fails.
    pub(crate) async fn add(
        &self,
        live: &LiveTerminator,
        secret: &[u8],
    ) -> std::result::Result<(), RequestFailure> {
        let (ended, until) = (self.ended.clone(), self.ended.lock().last);
        let terminator = OfRouter {
            id: live.id().clone(),
            router: live.hosted.router.clone(),
        };
        let record = record(live, secret);
        let is_dropped = Arc::new(AtomicBool::new(false));
        let dropped = is_dropped.clone();
        let replaced = terminator.clone();
        let written = self.changes.run(move |change| {
            let inserted = insert(change, record)?;
            if matches!(inserted, Inserted::Yes) {
                dropped.store(ended.lock().drop_until(&replaced, until), Ordering::SeqCst);
            }
            Ok(inserted)
        });
        let written = written.await;
        if written.is_err() && is_dropped.load(Ordering::SeqCst) {
            self.remove(&terminator.router, [terminator.id]);
        }
        match written {
            Ok(Inserted::Yes) => Ok(()),
            Ok(Inserted::OtherId) => {
                Err(RequestFailure::internal("another terminator has this id"))
            }
            Ok(Inserted::OtherSecret) => Err(RequestFailure::instance(
                "the service is already hosted under this instance id with another secret",
            )),
            Ok(Inserted::TooMany) => Err(RequestFailure::busy(format!(
                "the service is already hosted {MAX_INSTANCES} times under this instance id, which is the limit"
            ))),
            Err(Error::Busy { .. }) => Err(RequestFailure::busy("the controller is busy")),
            Err(Error::NotFound { .. }) => Err(RequestFailure::no_service()),
            Err(error) => {
                tracing::warn!(%error, "a terminator cannot be written");
                Err(RequestFailure::busy(
                    "the terminator cannot be written at the moment",
                ))
            }
        }
    }

    /// Writes cost and precedence of a terminator of a router, if it still exists.
    pub(crate) async fn update(&self, router: &str, id: Id<Terminator>, weight: Weight) {
        let (terminator, of_router) = (
            id.clone(),
            OfRouter {
                id,
                router: router.to_owned(),
            },
        );
        let updated = self.changes.run(move |change| {
            let Some(mut record) = of_router.find(change)? else {
                return Ok(());
            };
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

/// The content of the record of a terminator, its id, and the id of the identity that hosts.
type NewRecord = (Id<Terminator>, Terminator, Id<Identity>);

fn record(live: &LiveTerminator, secret: &[u8]) -> NewRecord {
    let (hosted, weight) = (&live.hosted, live.weight());
    let secret = if hosted.instance.is_empty() {
        &[]
    } else {
        secret
    };
    let spec = Terminator {
        address: hosted.id.to_string(),
        binding: hosted.binding.into(),
        router: hosted.router.clone(),
        service: hosted.service.clone(),
        cost: weight.cost,
        precedence: weight.precedence,
        identity: hosted.instance.clone(),
        identity_secret: STANDARD.encode(secret),
    };
    (hosted.id.clone(), spec, hosted.identity.clone())
}

fn insert(change: &Change<'_, '_>, (id, spec, host): NewRecord) -> Result<Inserted> {
    if !spec.identity.is_empty() {
        let mut others = change.ids(Terminator::KIND, "instance", &spec.instance_key())?;
        others.retain(|other| other != id.as_str());
        if others.len() >= MAX_INSTANCES {
            return Ok(Inserted::TooMany);
        }
        for other in others {
            let other = change
                .read()
                .find_readable(&Id::<Terminator>::from_text(other))?;
            if other.is_some_and(|other| other.spec.identity_secret != spec.identity_secret) {
                return Ok(Inserted::OtherSecret);
            }
        }
    }
    if let Some(before) = change.read().find_readable(&id)? {
        if before.spec.router != spec.router || !before.is_of_a_connection() {
            return Ok(Inserted::OtherId);
        }
        change.delete_record(before)?;
    }
    let mut record = Record::new(id, change.now(), spec);
    record.state.host_id = host.to_string();
    change.insert(record).map(|_| Inserted::Yes)
}

fn delete<'t>(
    change: &Change<'_, '_>,
    terminators: impl IntoIterator<Item = &'t OfRouter>,
) -> Result<()> {
    for terminator in terminators {
        terminator
            .find(change)?
            .map_or(Ok(()), |record| change.delete_record(record))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminators_written_again_stay() {
        let mut ended = Ended::default();
        let terminator = |text: &str| OfRouter {
            id: Id::from_text(text),
            router: "router".into(),
        };
        for text in ["b", "a"] {
            ended.add(terminator(text));
        }
        let until = ended.last;
        assert!(
            ended.drop_until(&terminator("a"), until) && !ended.drop_until(&terminator("c"), until)
        );
        let other = OfRouter {
            router: "other".into(),
            ..terminator("b")
        };
        assert!(!ended.drop_until(&other, until), "one of another router");
        assert_eq!(ended.first(), [(terminator("b"), 1)]);
        ended.add(terminator("b"));
        assert!(
            !ended.drop_until(&terminator("b"), until),
            "it has ended again since then"
        );
        assert_eq!(ended.first(), [(terminator("b"), 3)]);
    }
}
