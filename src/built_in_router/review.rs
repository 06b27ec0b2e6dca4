//! Ends lost access: after a committed change, the items that depend on the changed record are
//! checked, and those without a right are closed.
//!
//! The listener on the writer's thread only records what to review; the review runs in its own
//! task, and only if something was recorded.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time::sleep;

use super::{channel::Channel, core::RouterCore, registry::Affected};
use crate::{
    access::Right,
    entity::{EdgeRouter, Id, Record, Session, TypedLookup},
    error::Result,
    fabric::{PendingReviews, PendingSet, RequestFailure, ReviewTrigger},
    store::Event,
};

/// The delay after a failed review, for example when the disk cannot be read.
const RETRY: Duration = Duration::from_secs(1);

/// Records what to review after a committed change.
pub(crate) fn on_commit(core: &RouterCore, triggers: &PendingReviews, event: &Event) {
    if let Some((_, new)) = event
        .of::<EdgeRouter>()
        .filter(|_| event.id == core.context.id.as_str())
    {
        core.is_disabled.store(
            new.is_none_or(|router| router.spec.disabled),
            Ordering::Release,
        );
    }
    triggers.on_commit(event, |router| router == core.context.id.as_str());
}

/// Reviews what was recorded, as long as the router runs.
pub(crate) async fn run(core: Arc<RouterCore>, triggers: Arc<PendingReviews>) {
    loop {
        let pending = triggers.take().await;
        let reviewing = core.clone();
        let outcome = tokio::task::spawn_blocking(move || review(&reviewing, pending)).await;
        if !matches!(outcome, Ok(Ok(()))) {
            tracing::warn!(?outcome, "the review of open connections failed; retrying");
            sleep(RETRY).await;
            triggers.record(ReviewTrigger::Everything);
        }
    }
}

fn review(core: &RouterCore, pending: PendingSet) -> Result<()> {
    if core.is_disabled.load(Ordering::Acquire) {
        core.links.all().iter().for_each(|link| link.close());
    }
    let members = if pending.everything {
        vec![core.registry.everything()]
    } else {
        let some = pending.some.iter();
        let mut all: Vec<Affected> = some
            .map(|basis| core.registry.depending_on(basis))
            .collect();
        // After the channels: a host whose channel ends gets no message about its binding.
        let terminators = core.network.terminators.depending_on(&pending.some);
        all.push(Affected {
            bindings: core.registry.bindings_of(&terminators),
            ..Affected::default()
        });
        all
    };
    let mut pass = Review {
        core,
        known: HashMap::new(),
    };
    members.iter().try_for_each(|members| pass.review(members))
}

/// One review, in which each session is authorized once.
struct Review<'c> {
    core: &'c RouterCore,
    /// The failure of each session, by channel, session and right; `None` if it is valid.
    known: HashMap<(u64, String, Right), Option<RequestFailure>>,
}

impl Review<'_> {
    fn review(&mut self, members: &Affected) -> Result<()> {
        let core = self.core;
        for channel in &members.channels {
            if core.is_disabled.load(Ordering::Acquire) {
                core.end_channel(
                    channel,
                    &RequestFailure::access_denied("the router is disabled"),
                );
            } else if !core.is_logged_in(channel)? {
                core.end_channel(
                    channel,
                    &RequestFailure::access_denied("the API session has ended"),
                );
            }
        }
        for binding in &members.bindings {
            if self
                .problem(
                    binding.channel(),
                    &binding.terminator.hosted.session,
                    Right::Bind,
                )?
                .is_some()
            {
                core.end_binding(
                    binding,
                    Some(&RequestFailure::access_denied("session ended")),
                );
            }
        }
        for circuit in &members.circuits {
            // The end at another router is reviewed by the control channel.
            let mut problem = match circuit.basis() {
                Some(basis) => {
                    self.problem(&circuit.client.channel, &basis.session, Right::Dial)?
                }
                None => None,
            };
            let host = circuit
                .host()
                .and_then(|host| Some((&host.end.channel, host.binding.as_ref()?)));
            if let (None, Some((channel, binding))) = (&problem, host) {
                problem = self.problem(channel, &binding.terminator.hosted.session, Right::Bind)?;
            }
            if problem.is_some() {
                core.fail_circuit(circuit, &RequestFailure::access_denied("session closed"));
            }
        }
        Ok(())
    }

    fn problem(
        &mut self,
        channel: &Channel,
        session: &Id<Session>,
        right: Right,
    ) -> Result<Option<RequestFailure>> {
        let key = (channel.number, session.to_string(), right);
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let found: Option<Record<Session>> =
            self.core.network.store().read(|tx| tx.find(session))?;
        let problem = match found {
            Some(session) => self.core.authorize(channel, &session, right)?.err(),
            None => Some(RequestFailure::invalid_session()),
        };
        self.known.insert(key, problem.clone());
        Ok(problem)
    }
}
