//! Which committed changes may end access, and what is waiting for a review.

use std::collections::HashSet;

use model::entity::{
    ApiSession, AuthPolicy, EdgeRouter, EdgeRouterPolicy, Entity, Identity, Mfa, PostureCheck,
    Service, ServiceEdgeRouterPolicy, ServicePolicy, Session,
};
use parking_lot::Mutex;
use store::Event;
use tokio::sync::Notify;

use super::authorizing_record::AuthorizingRecord;

/// Beyond this many entries everything is reviewed.
const MAX_NOTES: usize = 4096;

/// What is waiting for a review.
#[derive(Default)]
pub(crate) struct PendingReviews {
    pending: Mutex<PendingSet>,
    added: Notify,
}

#[derive(Default)]
pub(crate) struct PendingSet {
    /// Review everything, whatever else is recorded.
    pub everything: bool,
    pub some: HashSet<AuthorizingRecord>,
}

impl PendingReviews {
    /// Records what to review.
    pub(crate) fn record(&self, trigger: ReviewTrigger) {
        let mut pending = self.pending.lock();
        match trigger {
            ReviewTrigger::Of(record) if pending.some.len() < MAX_NOTES => {
                let _ = pending.some.insert(record);
            }
            _ => pending.everything = true,
        }
        drop(pending);
        self.added.notify_one();
    }

    /// Records what to review after a committed change.
    pub(crate) fn on_commit(&self, event: &Event) {
        if let Some(trigger) = trigger(event) {
            self.record(trigger);
        }
    }

    /// Waits until something was recorded since the last call.
    pub(crate) async fn added(&self) {
        self.added.notified().await;
    }

    /// Takes what there is to review; `None` if that is nothing.
    pub(crate) fn try_take(&self) -> Option<PendingSet> {
        let pending = std::mem::take(&mut *self.pending.lock());
        (pending.everything || !pending.some.is_empty()).then_some(pending)
    }
}

/// What to review after a change.
pub(crate) enum ReviewTrigger {
    Everything,
    Of(AuthorizingRecord),
}

fn trigger(event: &Event) -> Option<ReviewTrigger> {
    let is = |kind: model::entity::Kind| event.kind == kind;
    let has_old = event.old.is_some();
    // The event of a mass deletion does not name the deleted records.
    if event.tombstone.is_some() {
        return (is(Session::KIND) || is(ApiSession::KIND)).then_some(ReviewTrigger::Everything);
    }
    let of =
        |record: fn(String) -> AuthorizingRecord| Some(ReviewTrigger::Of(record(event.id.clone())));
    if is(Session::KIND) && has_old {
        return of(AuthorizingRecord::Session);
    }
    if let Some((Some(old), new)) = event.of::<ApiSession>() {
        let stays = new.is_some_and(|new| {
            new.spec.is_mfa_complete == old.spec.is_mfa_complete && new.spec.token == old.spec.token
        });
        return if stays {
            None
        } else {
            of(AuthorizingRecord::ApiSession)
        };
    }
    if is(Identity::KIND) && has_old {
        return of(AuthorizingRecord::Identity);
    }
    if let Some((old, new)) = event.of::<Mfa>() {
        return Some(ReviewTrigger::Of(AuthorizingRecord::Identity(
            new.or(old)?.spec.identity_id.to_string(),
        )));
    }
    if is(Service::KIND) && has_old {
        return of(AuthorizingRecord::Service);
    }
    let policies = [
        ServicePolicy::KIND,
        EdgeRouterPolicy::KIND,
        ServiceEdgeRouterPolicy::KIND,
        PostureCheck::KIND,
        AuthPolicy::KIND,
    ];
    let is_changed_policy = policies.contains(&event.kind) && (has_old || is(PostureCheck::KIND));
    (is(EdgeRouter::KIND) && has_old || is_changed_policy).then_some(ReviewTrigger::Everything)
}
