//! `lastChangeAt` per identity: when what it can see or do last changed.
//!
//! Nothing is done to identities when something changes, be it a policy over all of them. What may matter to others than
//! one identity gets the next step number; an identity that asks is compared with what it was shown last (a fingerprint of
//! its rights) and looks through what was touched since. So the answer is right at any moment, a change that went back
//! before anybody looked is none, and identities that never asked have no entry here: they have seen nothing that could
//! have changed.

use super::{Rights, Subject};
use std::collections::{BTreeMap, HashMap};

#[derive(Default)]
pub(super) struct Observers {
    step: u64,
    /// The last change of anybody's rights.
    rights: Change,
    /// Services and posture checks by the step at which they were touched last, and back.
    touched: BTreeMap<u64, Touch>,
    latest: HashMap<(Subject, u32), u64>,
    observers: HashMap<u32, Observer>,
}

#[derive(Clone, Copy, Default)]
struct Change {
    step: u64,
    at: u64,
}

struct Touch {
    what: (Subject, u32),
    at: u64,
}

/// What is remembered of an identity that asked.
#[derive(Default)]
struct Observer {
    /// Everything up to this step is accounted for.
    seen: u64,
    fingerprint: u64,
    changed_at: Option<u64>,
    /// The latest time ever answered, be it the caller's own: the next must be later, whatever the clock does.
    told: u64,
    /// Its own roles changed and were not looked at yet.
    own_change: Option<u64>,
}

impl Observer {
    fn move_to(&mut self, at: u64) {
        let last = self.told.max(self.changed_at.unwrap_or_default());
        self.changed_at = Some(at.max(last + 1));
    }
}

impl Observers {
    pub fn rights_changed(&mut self, now: u64) {
        self.step += 1;
        self.rights = Change { step: self.step, at: now };
    }

    pub fn roles_changed(&mut self, identity: u32, now: u64) {
        if let Some(observer) = self.observers.get_mut(&identity) {
            observer.own_change = Some(now);
        }
    }

    pub fn touch(&mut self, what: (Subject, u32), now: u64) {
        self.forget_touch(what);
        self.step += 1;
        self.touched.insert(self.step, Touch { what, at: now });
        self.latest.insert(what, self.step);
    }

    /// The row may be another's next.
    pub fn forget_touch(&mut self, what: (Subject, u32)) {
        if let Some(step) = self.latest.remove(&what) {
            self.touched.remove(&step);
        }
    }

    pub fn forget(&mut self, identity: u32) {
        self.observers.remove(&identity);
    }

    pub fn is_settled(&self, identity: u32) -> bool {
        self.observers.get(&identity).is_some_and(|observer| observer.seen == self.step && observer.own_change.is_none())
    }

    /// Notes what the identity is shown now, and moves its time if that is something else than before.
    ///
    /// A change of rights is dated by the last change of anybody's: not before its own, not after this moment.
    pub fn settle(&mut self, identity: u32, rights: &Rights) {
        let first_sight = || Observer { seen: self.step, fingerprint: rights.fingerprint(), ..Observer::default() };
        let observer = self.observers.entry(identity).or_insert_with(first_sight);
        if observer.seen == self.step && observer.own_change.is_none() {
            return;
        }
        let since = observer.seen + 1;
        let shown = self.touched.range(since..).map(|(_, touch)| touch);
        let touched = shown.filter(|Touch { what: (subject, row), .. }| rights.shows(*subject, *row)).map(|touch| touch.at).max();
        let others = (self.rights.step >= since).then_some(self.rights.at);
        let gained_or_lost = if observer.fingerprint == rights.fingerprint() { None } else { observer.own_change.max(others) };
        if let Some(at) = touched.max(gained_or_lost) {
            observer.move_to(at);
        }
        (observer.seen, observer.fingerprint, observer.own_change) = (self.step, rights.fingerprint(), None);
    }

    /// Moves the time of a settled identity.
    pub fn move_to(&mut self, identity: u32, at: u64) {
        if let Some(observer) = self.observers.get_mut(&identity) {
            observer.move_to(at);
        }
    }

    /// The time of a settled identity.
    pub fn tell(&mut self, identity: u32, otherwise: u64) -> u64 {
        let Some(observer) = self.observers.get_mut(&identity) else { return otherwise };
        let answer = observer.changed_at.unwrap_or(otherwise);
        observer.told = observer.told.max(answer);
        answer
    }
}
