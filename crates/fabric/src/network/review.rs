//! Loss of access: after each commit, reviews the channels, circuits and terminators that depend on
//! the changed records and ends those without a right.

use std::{collections::HashMap, sync::Arc, time::Duration};

use model::{
    entity::{ApiSession, EdgeRouter, Id, Session, TypedLookup},
    error::Result,
};
use policy::access::Right;
use tokio::{
    sync::{OwnedRwLockReadGuard, RwLock},
    time::sleep,
};

use super::{
    circuit::Circuit,
    live_terminators::LiveTerminator,
    request_failure::{Refusal, RequestFailure},
    review_triggers::{PendingReviews, PendingSet, ReviewTrigger},
    session_authorizer::PresentedSession,
    shared_state::Network,
};

/// Pause after a failed review, for example when the disk cannot be read.
const RETRY: Duration = Duration::from_secs(1);
/// How long a router has to end a circuit after it was told that the session has ended.
const ENDING: Duration = Duration::from_millis(500);

/// Reviews what was recorded. Never ends.
pub(crate) async fn run(network: Arc<Network>) {
    loop {
        let (turn, pending) = next(&network.reviewing, &network.reviews).await;
        let reviewing = network.clone();
        let outcome = tokio::task::spawn_blocking(move || review(&reviewing, pending)).await;
        match outcome {
            Ok(Ok(ended)) if ended.is_empty() => {}
            Ok(Ok(ended)) => drop(tokio::spawn(end_soon(network.clone(), ended, turn))),
            failed => {
                tracing::warn!(?failed, "a review of access failed and is repeated");
                network.reviews.record(ReviewTrigger::Everything);
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
async fn end_soon<T>(network: Arc<Network>, circuits: Vec<Arc<Circuit>>, turn: T) {
    sleep(ENDING).await;
    for circuit in &circuits {
        network.end_circuit(circuit, true, "its session has ended");
    }
    drop(turn);
}

/// Ends what has lost its access up to now, before the controller stops. A later run would not know
/// of it.
pub(crate) async fn finish(network: &Arc<Network>) {
    // Reviews in progress end first.
    let turn = network.reviewing.write().await;
    if let Some(pending) = network.reviews.try_take() {
        let reviewing = network.clone();
        match tokio::task::spawn_blocking(move || review(&reviewing, pending)).await {
            Ok(Ok(ended)) if ended.is_empty() => {}
            Ok(Ok(ended)) => end_soon(network.clone(), ended, turn).await,
            failed => {
                tracing::warn!(failed = ?failed.map(|reviewed| reviewed.map(|_| ())), "the access of open circuits cannot be reviewed before the stop")
            }
        }
    }
}

/// Ends everything without a right. Returns the circuits to end soon.
fn review(network: &Network, pending: PendingSet) -> Result<Vec<Arc<Circuit>>> {
    // First, because a host whose channel ends gets no message about its terminator.
    if let Some(router) = network.routers.find(EdgeRouter::BUILT_IN) {
        router.end_lost_channels(&pending)?;
    }
    let terminators = if pending.everything {
        network.terminators.all()
    } else {
        network.terminators.depending_on(&pending.some)
    };
    let (mut pass, mut soon) = (
        Review {
            network,
            known: HashMap::new(),
        },
        Vec::new(),
    );
    for terminator in &terminators {
        if pass.of_host(terminator)?.is_some() {
            network.end_terminator(terminator);
        }
    }
    // After the terminators: no circuit is established to one that has ended.
    let circuits = if pending.everything {
        network.circuits.all()
    } else {
        let depending = |record| network.circuits.depending_on(record);
        pending.some.iter().flat_map(depending).collect()
    };
    for circuit in circuits {
        let Some((problem, router)) = pass.of_circuit(&circuit)? else {
            continue;
        };
        // An SDK here is told at once. Over links the circuit itself ends below: the router at the
        // other end may not read.
        if let Some(router) = network.routers.find(&router) {
            router.fail(
                &circuit.id,
                &RequestFailure::access_denied("session closed"),
            );
        }
        match problem {
            // The end at a router here may have ended it.
            _ if network.circuits.find(&circuit.id).is_none() => {}
            Problem::Gone => soon.push(circuit),
            Problem::Denied(failure) => network.end_circuit(&circuit, true, &failure.text),
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
struct Review<'n> {
    network: &'n Network,
    /// The problem by session, right and router.
    known: HashMap<(String, Right, String), Option<Problem>>,
}

impl Review<'_> {
    /// The problem of an end of a circuit, and the router where the end is.
    fn of_circuit(&mut self, circuit: &Circuit) -> Result<Option<(Problem, String)>> {
        let problem = self.problem(
            &circuit.session.id,
            (&circuit.api_session, &circuit.token),
            Right::Dial,
            &circuit.router,
        )?;
        if let Some(problem) = problem {
            return Ok(Some((problem, circuit.router.clone())));
        }
        let Some(host) = circuit.host() else {
            return Ok(None);
        };
        let problem = self.of_host(&host)?;
        Ok(problem.map(|problem| (problem, host.hosted.router.clone())))
    }

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
        let authorizer = &self.network.authorizer;
        let (found, caller) = authorizer
            .store
            .read(|tx| Ok((tx.find(session)?, tx.find(api_session)?)))?;
        let presented = PresentedSession { api_session, token };
        let problem = match (found, caller) {
            (Some(session), Some(_)) => {
                match authorizer.authorize(presented, &session, right, router) {
                    Ok(_) => None,
                    Err(Refusal::Refused(failure)) => Some(Problem::Denied(failure)),
                    Err(Refusal::Unreadable(error)) => return Err(error),
                }
            }
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
