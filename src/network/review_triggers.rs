//! Which committed changes may end access, and the notes of what to review.

use std::collections::HashSet;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::basis::Basis;
use crate::{
    entity::{
        ApiSession, AuthPolicy, EdgeRouter, EdgeRouterPolicy, Entity, Identity, Mfa, PostureCheck, Service, ServiceEdgeRouterPolicy,
        ServicePolicy, Session,
    },
    store::Event,
};

/// Beyond this many notes everything is reviewed.
const MOST_NOTES: usize = 4096;
/// The notes of what to review.
#[derive(Default)]
pub struct PendingReviews {
    noted: Mutex<Noted>,
    added: Notify,
}

#[derive(Default)]
pub struct Noted {
    /// Everything, whatever else is noted.
    pub everything: bool,
    pub some: HashSet<Basis>,
}

impl PendingReviews {
    /// Adds a note.
    pub fn note(&self, trigger: ReviewTrigger) {
        let mut noted = self.noted.lock();
        match trigger {
            ReviewTrigger::Of(ground) if noted.some.len() < MOST_NOTES => drop(noted.some.insert(ground)),
            _ => noted.everything = true,
        }
        drop(noted);
        self.added.notify_one();
    }

    /// Notes what to review after a committed change. `is_ours` selects the edge routers whose own changes count.
    pub fn hear(&self, event: &Event, is_ours: impl Fn(&str) -> bool) {
        if let Some(trigger) = trigger(event, is_ours) {
            self.note(trigger);
        }
    }

    /// Waits for notes and takes them.
    pub async fn take(&self) -> Noted {
        loop {
            let noted = std::mem::take(&mut *self.noted.lock());
            if noted.everything || !noted.some.is_empty() {
                return noted;
            }
            self.added.notified().await;
        }
    }
}

/// What to review after a change.
pub enum ReviewTrigger {
    Everything,
    Of(Basis),
}

fn trigger(event: &Event, is_ours: impl Fn(&str) -> bool) -> Option<ReviewTrigger> {
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
    let is_of_router = is(EdgeRouter::KIND) && is_ours(&event.id);
    let is_changed_policy = policies.contains(&event.kind) && (has_old || is(PostureCheck::KIND));
    (is_of_router || is_changed_policy).then_some(ReviewTrigger::Everything)
}
