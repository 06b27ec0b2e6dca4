//! `lastChangeAt` per identity: when its services or rights last changed.
//!
//! A change does no work per identity, even if a policy covers all of them. A change that may
//! matter to more than one identity gets the next step number. When an identity asks, its rights
//! are compared (by a fingerprint) with those that it was shown last, and the subjects changed
//! since then are checked. So the answer is right at any time. A change that was reverted before
//! the identity asked does not count. An identity that never asked has no entry here.

use super::{PolicyEntityKind, ServiceRights};
use std::collections::{BTreeMap, HashMap};

#[derive(Default)]
pub(super) struct Observers {
    step: u64,
    /// The last change of any rights.
    rights: Change,
    /// Services and posture checks by the step that changed them last, and the reverse.
    changed: BTreeMap<u64, SubjectChange>,
    latest: HashMap<(PolicyEntityKind, u32), u64>,
    observers: HashMap<u32, Observer>,
}

#[derive(Clone, Copy, Default)]
struct Change {
    step: u64,
    at: u64,
}

struct SubjectChange {
    what: (PolicyEntityKind, u32),
    at: u64,
}

/// The state kept for an identity that asked.
#[derive(Default)]
struct Observer {
    /// Everything up to this step is considered.
    seen: u64,
    fingerprint: u64,
    changed_at: Option<u64>,
    /// The latest time ever returned, including a time that the caller passed as `otherwise`. The
    /// next one must be later, whatever the clock does.
    last_answer: u64,
    /// The identity's own roles changed and were not considered yet.
    own_change: Option<u64>,
}

impl Observer {
    fn move_to(&mut self, at: u64) {
        let last = self.last_answer.max(self.changed_at.unwrap_or_default());
        self.changed_at = Some(at.max(last + 1));
    }
}

impl Observers {
    pub(crate) fn rights_changed(&mut self, now: u64) {
        self.step += 1;
        self.rights = Change {
            step: self.step,
            at: now,
        };
    }

    pub(crate) fn roles_changed(&mut self, identity: u32, now: u64) {
        if let Some(observer) = self.observers.get_mut(&identity) {
            observer.own_change = Some(now);
        }
    }

    pub(crate) fn subject_changed(&mut self, what: (PolicyEntityKind, u32), now: u64) {
        self.forget_subject(what);
        self.step += 1;
        self.changed
            .insert(self.step, SubjectChange { what, at: now });
        self.latest.insert(what, self.step);
    }

    /// Must be called when a row is freed, because another subject may get it.
    pub(crate) fn forget_subject(&mut self, what: (PolicyEntityKind, u32)) {
        if let Some(step) = self.latest.remove(&what) {
            self.changed.remove(&step);
        }
    }

    pub(crate) fn forget(&mut self, identity: u32) {
        self.observers.remove(&identity);
    }

    pub(crate) fn is_current(&self, identity: u32) -> bool {
        self.observers
            .get(&identity)
            .is_some_and(|observer| observer.seen == self.step && observer.own_change.is_none())
    }

    /// Records what the identity is shown now, and sets a later time of change if that differs from
    /// before.
    ///
    /// A change of rights is dated by the last change of any rights, which is not before its own
    /// and not after now.
    pub(crate) fn update(&mut self, identity: u32, rights: &ServiceRights) {
        let first_sight = || Observer {
            seen: self.step,
            fingerprint: rights.fingerprint(),
            ..Observer::default()
        };
        let observer = self.observers.entry(identity).or_insert_with(first_sight);
        if observer.seen == self.step && observer.own_change.is_none() {
            return;
        }
        let since = observer.seen + 1;
        let shown = self.changed.range(since..).map(|(_, change)| change);
        let changed = shown
            .filter(
                |SubjectChange {
                     what: (subject, row),
                     ..
                 }| rights.shows(*subject, *row),
            )
            .map(|change| change.at)
            .max();
        let others = (self.rights.step >= since).then_some(self.rights.at);
        let gained_or_lost = if observer.fingerprint == rights.fingerprint() {
            None
        } else {
            observer.own_change.max(others)
        };
        if let Some(at) = changed.max(gained_or_lost) {
            observer.move_to(at);
        }
        (observer.seen, observer.fingerprint, observer.own_change) =
            (self.step, rights.fingerprint(), None);
    }

    /// Sets the time of an identity for which [`Observers::update`] was called.
    pub(crate) fn move_to(&mut self, identity: u32, at: u64) {
        if let Some(observer) = self.observers.get_mut(&identity) {
            observer.move_to(at);
        }
    }

    /// The time of an identity for which [`Observers::update`] was called.
    pub(crate) fn last_change(&mut self, identity: u32, otherwise: u64) -> u64 {
        let Some(observer) = self.observers.get_mut(&identity) else {
            return otherwise;
        };
        let answer = observer.changed_at.unwrap_or(otherwise);
        observer.last_answer = observer.last_answer.max(answer);
        answer
    }
}
