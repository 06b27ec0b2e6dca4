//! Ends lost access: after a committed change, the items that depend on the changed record are checked, and those without a right are
//! closed.
//!
//! The listener on the writer's thread only notes what to review; the review runs in its own task. Nothing is reviewed without a note.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::sleep};

use super::{
    channel::Channel,
    core::Core,
    message::Failure,
    registry::{Affected as Members, Basis},
    terminators,
};
use crate::{
    access::Right,
    entity::{
        ApiSession, AuthPolicy, EdgeRouter, EdgeRouterPolicy, Entity, FactsExt, Id, Identity, Mfa, PostureCheck, Record, Service,
        ServiceEdgeRouterPolicy, ServicePolicy, Session,
    },
    error::Result,
    store::Event,
};

/// Beyond this many notes everything is reviewed.
const MOST_NOTES: usize = 4096;
/// The delay after a failed review, for example when the disk cannot be read.
const AGAIN: Duration = Duration::from_secs(1);

/// The notes of what to review.
#[derive(Default)]
pub struct PendingReviews {
    noted: Mutex<Noted>,
    added: Notify,
}

#[derive(Default)]
struct Noted {
    everything: bool,
    some: HashSet<Basis>,
}

impl PendingReviews {
    fn note(&self, trigger: ReviewTrigger) {
        let mut noted = self.noted.lock();
        match trigger {
            ReviewTrigger::Of(ground) if noted.some.len() < MOST_NOTES => drop(noted.some.insert(ground)),
            _ => noted.everything = true,
        }
        drop(noted);
        self.added.notify_one();
    }

    async fn take(&self) -> Noted {
        loop {
            let noted = std::mem::take(&mut *self.noted.lock());
            if noted.everything || !noted.some.is_empty() {
                return noted;
            }
            self.added.notified().await;
        }
    }
}

enum ReviewTrigger {
    Everything,
    Of(Basis),
}

/// Notes what to review after a committed change.
pub fn hear(core: &Core, triggers: &PendingReviews, event: &Event) {
    terminators::follow(core, event);
    if let Some((_, new)) = event.of::<EdgeRouter>().filter(|_| event.id == core.parts.id.as_str()) {
        core.is_disabled.store(new.is_none_or(|router| router.spec.disabled), Ordering::Release);
    }
    if let Some(trigger) = trigger(core, event) {
        triggers.note(trigger);
    }
}

fn trigger(core: &Core, event: &Event) -> Option<ReviewTrigger> {
    let is = |kind: crate::entity::Kind| event.kind == kind;
    let has_old = event.old.is_some();
    // The event of a mass deletion does not name the deleted records.
    if event.ending.is_some() {
        return (is(Session::KIND) || is(ApiSession::KIND)).then_some(ReviewTrigger::Everything);
    }
    let of = |ground: fn(String) -> Basis| Some(ReviewTrigger::Of(ground(event.id.clone())));
    if is(Session::KIND) && has_old {
        return of(Basis::Session);
    }
    if let Some((Some(old), new)) = event.of::<ApiSession>() {
        let stays = new.is_some_and(|new| new.spec.is_mfa_complete == old.spec.is_mfa_complete && new.spec.token == old.spec.token);
        return if stays { None } else { of(Basis::ApiSession) };
    }
    if is(Identity::KIND) && has_old {
        return of(Basis::Identity);
    }
    if let Some((old, new)) = event.of::<Mfa>() {
        return Some(ReviewTrigger::Of(Basis::Identity(new.or(old)?.spec.identity_id.to_string())));
    }
    if is(Service::KIND) && has_old {
        return of(Basis::Service);
    }
    let policies = [ServicePolicy::KIND, EdgeRouterPolicy::KIND, ServiceEdgeRouterPolicy::KIND, PostureCheck::KIND, AuthPolicy::KIND];
    let is_of_router = is(EdgeRouter::KIND) && event.id == core.parts.id.as_str();
    let is_changed_policy = policies.contains(&event.kind) && (has_old || is(PostureCheck::KIND));
    (is_of_router || is_changed_policy).then_some(ReviewTrigger::Everything)
}

/// Reviews noted items as long as the router runs.
pub async fn run(core: Arc<Core>, triggers: Arc<PendingReviews>) {
    loop {
        let noted = triggers.take().await;
        let looking = core.clone();
        let looked = tokio::task::spawn_blocking(move || look(&looking, noted)).await;
        if !matches!(looked, Ok(Ok(()))) {
            tracing::warn!(?looked, "the review of open connections failed; retrying");
            sleep(AGAIN).await;
            triggers.note(ReviewTrigger::Everything);
        }
    }
}

fn look(core: &Core, noted: Noted) -> Result<()> {
    let members = if noted.everything {
        vec![core.registry.everything()]
    } else {
        noted.some.iter().map(|ground| core.registry.resting_on(ground)).collect()
    };
    let mut review = Review { core, known: HashMap::new() };
    members.iter().try_for_each(|members| review.look(members))
}

/// One review, in which each session is judged once.
struct Review<'c> {
    core: &'c Core,
    /// The failure of each session, by channel, session and right; `None` if it is valid.
    known: HashMap<(u64, String, Right), Option<Failure>>,
}

impl Review<'_> {
    fn look(&mut self, members: &Members) -> Result<()> {
        let core = self.core;
        for channel in &members.channels {
            if core.is_disabled.load(Ordering::Acquire) {
                core.end_channel(channel, &Failure::access_denied("the router is disabled"));
            } else if !core.is_logged_in(channel)? {
                core.end_channel(channel, &Failure::access_denied("the API session has ended"));
            }
        }
        for binding in &members.bindings {
            if self.problem(&binding.channel, &binding.session, Right::Bind)?.is_some() {
                core.end_binding(binding, Some(&Failure::access_denied("session ended")));
            }
        }
        for circuit in &members.circuits {
            let Some(rests) = circuit.rests() else { continue };
            let mut problem = self.problem(&circuit.client.channel, &rests.session, Right::Dial)?;
            if let (None, Some(host)) = (&problem, circuit.host()) {
                problem = self.problem(&host.end.channel, &host.binding.session, Right::Bind)?;
            }
            if problem.is_some() {
                core.fail_circuit(circuit, &Failure::access_denied("session closed"));
            }
        }
        Ok(())
    }

    fn problem(&mut self, channel: &Channel, session: &Id<Session>, right: Right) -> Result<Option<Failure>> {
        let key = (channel.number, session.to_string(), right);
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let found: Option<Record<Session>> = self.core.parts.store.read(|tx| tx.find(session))?;
        let problem = match found {
            Some(session) => self.core.judge(channel, &session, right)?.err(),
            None => Some(Failure::invalid_session()),
        };
        self.known.insert(key, problem.clone());
        Ok(problem)
    }
}
