//! Access that ends: a committed change is followed by a look at the circuits and terminators that rest on it, and what has no right any
//! more ends.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::time::sleep;

use super::{circuit::Circuit, core::Core, ends, hosted::HostedTerminator, sync};
use crate::{
    access::Right,
    entity::{ApiSession, EdgeRouter, Entity, FactsExt, Id, Record, Session, TransitRouter, edge_router::State},
    error::Result,
    network::{Failure, Holder, Noted, PendingReviews, ReviewTrigger},
    store::Event,
};

/// After a look that failed, such as for a disk that cannot be read.
const AGAIN: Duration = Duration::from_secs(1);

/// Notes what a committed change means. On the writer's thread.
pub fn hear(core: &Core, reviews: &PendingReviews, event: &Event) {
    ends::follow(core, event);
    sync::hear(core, event);
    if let Some((Some(old), new)) = event.of::<EdgeRouter>() {
        judge_connection(core, old, new, new.is_some_and(|router| !router.spec.disabled));
    }
    if let Some((Some(old), new)) = event.of::<TransitRouter>() {
        judge_connection(core, old, new, new.is_some_and(|router| !router.spec.disabled));
    }
    reviews.hear(event, |router| router != EdgeRouter::BUILT_IN);
}

/// Closes the connection of a router that was deleted, disabled, enrolled anew or given another certificate.
fn judge_connection<E: Entity<State = State>>(core: &Core, old: &Record<E>, new: Option<&Record<E>>, is_enabled: bool) {
    let is_same = new.is_some_and(|new| new.state.is_verified && new.state.fingerprint == old.state.fingerprint);
    if is_same && is_enabled {
        return;
    }
    if let Some(connection) = core.registry.find(old.id.as_str()) {
        tracing::info!(router = %connection.router, "the router was deleted, disabled or enrolled again: its connection is closed");
        connection.close();
    }
}

/// Reviews what was noted, for ever.
pub async fn run(core: Arc<Core>, reviews: Arc<PendingReviews>) {
    loop {
        let noted = reviews.take().await;
        let looking = core.clone();
        let looked = tokio::task::spawn_blocking(move || look(&looking, noted)).await;
        match looked {
            Ok(Ok(ended)) if ended.is_empty() => {}
            Ok(Ok(ended)) => drop(tokio::spawn(end_soon(core.clone(), ended))),
            failed => {
                tracing::warn!(?failed, "whether access has ended could not be looked up; trying again");
                sleep(AGAIN).await;
                reviews.note(ReviewTrigger::Everything);
            }
        }
    }
}

impl std::fmt::Debug for Circuit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Circuit").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Ends circuits whose session is gone. Their routers were told that it is, and close both ends at once; a router of version 1.1 that is
/// told to unroute a circuit before leaves them open for half a minute.
async fn end_soon(core: Arc<Core>, circuits: Vec<Arc<Circuit>>) {
    sleep(core.times.ending).await;
    circuits.iter().for_each(|circuit| core.end_circuit(circuit, true, "its session has ended"));
}

/// Ends what has no right, and answers the circuits that are to end soon.
fn look(core: &Core, noted: Noted) -> Result<Vec<Arc<Circuit>>> {
    let (hosted, circuits) = if noted.everything {
        (core.hosted.all(), core.circuits.all())
    } else {
        let some = || noted.some.iter();
        (
            some().flat_map(|basis| core.hosted.resting_on(basis)).collect(),
            some().flat_map(|basis| core.circuits.resting_on(basis)).collect(),
        )
    };
    let (mut review, mut soon) = (Review { core, known: HashMap::new() }, Vec::new());
    for hosted in &hosted {
        if review.of_host(hosted)?.is_some() {
            core.end_hosted(hosted);
        }
    }
    for circuit in circuits {
        let mut problem = review.problem(&circuit.session.id, (&circuit.api_session, &circuit.token), Right::Dial, &circuit.router)?;
        if let (None, Some(host)) = (&problem, circuit.host()) {
            problem = review.of_host(&host)?;
        }
        match problem {
            Some(Problem::Gone) => soon.push(circuit),
            Some(Problem::Denied(failure)) => core.end_circuit(&circuit, true, &failure.text),
            None => {}
        }
    }
    Ok(soon)
}

/// What is in the way of something that stands.
#[derive(Clone)]
enum Problem {
    /// The session has ended, which routers are told.
    Gone,
    Denied(Failure),
}

/// One look, in which each session is judged once.
struct Review<'c> {
    core: &'c Core,
    /// What is in the way, by session, right and router.
    known: HashMap<(String, Right, String), Option<Problem>>,
}

impl Review<'_> {
    fn of_host(&mut self, hosted: &HostedTerminator) -> Result<Option<Problem>> {
        self.problem(&hosted.session, (&hosted.api_session, &hosted.token), Right::Bind, &hosted.router)
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
        let rights = &self.core.parts.rights;
        let (found, holder) = rights.store.read(|tx| Ok((tx.find(session)?, tx.find(api_session)?)))?;
        let problem = match (found, holder) {
            (Some(session), Some(_)) => rights.judge(Holder { api_session, token }, &session, right, router)?.err().map(Problem::Denied),
            _ => Some(Problem::Gone),
        };
        self.known.insert(key, problem.clone());
        Ok(problem)
    }
}
