//! Loss of access: after each commit, reviews the circuits and terminators that depend on the
//! changed records and ends those without a right.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{
    sync::{OwnedRwLockReadGuard, RwLock},
    time::sleep,
};

use super::{
    circuit::Circuit, core::ControlCore, data_model, revoked_routers::RevokedRouter, sync,
    unfit_tokens,
};
use crate::{
    access::Right,
    entity::{
        ApiSession, EdgeRouter, Entity, Id, Record, Session, TransitRouter, TypedLookup,
        edge_router::State,
    },
    error::Result,
    fabric::{
        LiveTerminator, PendingReviews, PendingSet, PresentedSession, RequestFailure, ReviewTrigger,
    },
    store::Event,
};

/// Pause after a failed review, for example when the disk cannot be read.
const RETRY: Duration = Duration::from_secs(1);

/// Records what a committed change affects. Runs on the writer's thread.
pub(crate) fn on_commit(core: &ControlCore, reviews: &PendingReviews, event: &Event) {
    core.network.follow(event);
    sync::on_commit(core, event);
    data_model::on_commit(core, event);
    unfit_tokens::on_commit(core, event);
    if let Some((Some(old), new)) = event.of::<EdgeRouter>() {
        // The built-in router has no connection.
        if !old.is_built_in() {
            close_if_changed(
                core,
                old,
                new,
                new.is_some_and(|router| !router.spec.disabled),
            );
        }
        set_weight(
            core,
            old.id.as_str(),
            new.map(|router| (router.spec.cost, router.spec.no_traversal)),
        );
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
    reviews.on_commit(event, |router| router != EdgeRouter::BUILT_IN);
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
    core.paths.changed();
}

/// Reviews what was recorded. Never ends.
pub(crate) async fn run(core: Arc<ControlCore>, reviews: Arc<PendingReviews>) {
    loop {
        let (turn, pending) = next(&core.reviewing, &reviews).await;
        let reviewing = core.clone();
        let outcome = tokio::task::spawn_blocking(move || review(&reviewing, pending)).await;
        match outcome {
            Ok(Ok(ended)) if ended.is_empty() => {}
            Ok(Ok(ended)) => drop(tokio::spawn(end_soon(core.clone(), ended, turn))),
            failed => {
                tracing::warn!(?failed, "a review of access failed and is repeated");
                reviews.record(ReviewTrigger::Everything);
                drop(turn);
                sleep(RETRY).await;
            }
        }
    }
}

/// Waits for something to review. It is taken under the lock, so that it is either pending or under
/// review when the controller stops.
async fn next(
    reviewing: &Arc<RwLock<()>>,
    reviews: &PendingReviews,
) -> (OwnedRwLockReadGuard<()>, PendingSet) {
    loop {
        reviews.added().await;
        let turn = reviewing.clone().read_owned().await;
        if let Some(pending) = reviews.try_take() {
            return (turn, pending);
        }
    }
}

impl std::fmt::Debug for Circuit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Circuit")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Ends circuits whose session is gone. Their routers were told that the session has ended, and
/// close both ends at once; a router of version 1.1 that is told earlier to remove a circuit leaves
/// both ends open for half a minute. Holds `turn` until then.
async fn end_soon<T>(core: Arc<ControlCore>, circuits: Vec<Arc<Circuit>>, turn: T) {
    sleep(core.times.ending).await;
    circuits
        .iter()
        .for_each(|circuit| core.end_circuit(circuit, true, "its session has ended"));
    drop(turn);
}

/// Ends what has lost its access up to now, before the controller stops. A later run would not know
/// of it.
pub(crate) async fn finish(core: &Arc<ControlCore>, reviews: &PendingReviews) {
    // Reviews in progress end first.
    let turn = core.reviewing.write().await;
    if let Some(pending) = reviews.try_take() {
        let reviewing = core.clone();
        match tokio::task::spawn_blocking(move || review(&reviewing, pending)).await {
            Ok(Ok(ended)) if ended.is_empty() => {}
            Ok(Ok(ended)) => end_soon(core.clone(), ended, turn).await,
            failed => {
                tracing::warn!(failed = ?failed.map(|reviewed| reviewed.map(|_| ())), "the access of open circuits cannot be reviewed before the stop")
            }
        }
    }
    core.flush().await;
}

/// Ends everything without a right. Returns the circuits to end soon.
fn review(core: &ControlCore, pending: PendingSet) -> Result<Vec<Arc<Circuit>>> {
    let (terminators, circuits) = if pending.everything {
        (core.network.terminators.all(), core.circuits.all())
    } else {
        (
            core.network.terminators.depending_on(&pending.some),
            pending
                .some
                .iter()
                .flat_map(|record| core.circuits.depending_on(record))
                .collect(),
        )
    };
    let (mut pass, mut soon) = (
        Review {
            core,
            known: HashMap::new(),
        },
        Vec::new(),
    );
    // The built-in router reviews its own terminators, because it tells their hosts.
    let is_here = |terminator: &LiveTerminator| terminator.hosted.router == EdgeRouter::BUILT_IN;
    for terminator in terminators.iter().filter(|terminator| !is_here(terminator)) {
        if pass.of_host(terminator)?.is_some() {
            core.network.end_terminator(terminator);
        }
    }
    for circuit in circuits {
        let mut problem = pass.problem(
            &circuit.session.id,
            (&circuit.api_session, &circuit.token),
            Right::Dial,
            &circuit.router,
        )?;
        if let (None, Some(host)) = (&problem, circuit.host()) {
            problem = pass.of_host(&host)?;
        }
        match problem {
            Some(Problem::Gone) => soon.push(circuit),
            Some(Problem::Denied(failure)) => core.end_circuit(&circuit, true, &failure.text),
            None => {}
        }
    }
    Ok(soon)
}

/// Why a circuit or terminator must end.
#[derive(Clone)]
enum Problem {
    /// The session has ended, which routers are told.
    Gone,
    Denied(RequestFailure),
}

/// One review, in which each session is authorized once.
struct Review<'c> {
    core: &'c ControlCore,
    /// The problem by session, right and router.
    known: HashMap<(String, Right, String), Option<Problem>>,
}

impl Review<'_> {
    fn of_host(&mut self, terminator: &LiveTerminator) -> Result<Option<Problem>> {
        let hosted = &terminator.hosted;
        self.problem(
            &hosted.session,
            (&hosted.api_session, &hosted.token),
            Right::Bind,
            &hosted.router,
        )
    }

    fn problem(
        &mut self,
        session: &Id<Session>,
        (api_session, token): (&Id<ApiSession>, &str),
        right: Right,
        router: &str,
    ) -> Result<Option<Problem>> {
        let key = (session.to_string(), right, router.to_owned());
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let authorizer = &self.core.network.authorizer;
        let (found, caller) = authorizer
            .store
            .read(|tx| Ok((tx.find(session)?, tx.find(api_session)?)))?;
        let problem = match (found, caller) {
            (Some(session), Some(_)) => authorizer
                .authorize(
                    PresentedSession { api_session, token },
                    &session,
                    right,
                    router,
                )?
                .err()
                .map(Problem::Denied),
            _ => Some(Problem::Gone),
        };
        self.known.insert(key, problem.clone());
        Ok(problem)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn stops_wait_for_running_reviews() {
        let (reviewing, reviews) = (Arc::<RwLock<()>>::default(), PendingReviews::default());
        reviews.record(ReviewTrigger::Everything);
        let (turn, pending) = next(&reviewing, &reviews).now_or_never().unwrap();
        assert!(pending.everything && reviewing.write().now_or_never().is_none());
        drop(turn);
        // A stop that comes first reviews what is pending.
        let stop = reviewing.write().now_or_never().unwrap();
        reviews.record(ReviewTrigger::Everything);
        let mut waiting = Box::pin(next(&reviewing, &reviews));
        assert!(waiting.as_mut().now_or_never().is_none() && reviews.try_take().is_some());
        drop(stop);
        assert!(waiting.now_or_never().is_none());
    }
}
