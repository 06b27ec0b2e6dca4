//! Updates of subjects and policies, applied for good or temporarily.

use super::{Engine, Policy, PolicyEntityKind, PolicyKind};

/// A subject or a policy as it is from now on; `None` means deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    Subject {
        kind: PolicyEntityKind,
        id: String,
        roles: Option<Vec<String>>,
    },
    Policy {
        kind: PolicyKind,
        id: String,
        policy: Option<Policy>,
    },
}

/// The engine with changes that are undone when this is dropped. No other caller may see it
/// meanwhile. Observers are not informed: what identities were shown, and when that changed, stays.
pub(super) struct WhatIf<'e> {
    engine: &'e mut Engine,
    undo: Vec<Delta>,
}

impl Engine {
    /// Applies an update.
    pub fn apply(&mut self, delta: &Delta, now: u64) {
        match delta {
            Delta::Subject {
                kind,
                id,
                roles: Some(roles),
            } => self.put_subject(*kind, id, roles, now),
            Delta::Subject {
                kind,
                id,
                roles: None,
            } => self.remove_subject(*kind, id, now),
            Delta::Policy {
                id,
                policy: Some(policy),
                ..
            } => self.put_policy(id, policy, now),
            Delta::Policy {
                kind,
                id,
                policy: None,
            } => self.remove_policy(*kind, id, now),
        }
    }

    /// Applies updates temporarily. Each subject and policy must be there once, and deletions of
    /// subjects last: their rows are then not reused, so that a subject that stays keeps its row,
    /// and a new one gets an unused row.
    pub(super) fn as_if(&mut self, delta: &[Delta]) -> WhatIf<'_> {
        let undo = delta.iter().map(|delta| self.exchange(delta)).collect();
        WhatIf { engine: self, undo }
    }

    /// Applies an update without informing observers. Returns the update that undoes it.
    pub(super) fn exchange(&mut self, delta: &Delta) -> Delta {
        let before = self.current(delta);
        match delta {
            Delta::Subject {
                kind,
                id,
                roles: Some(roles),
            } => _ = self.all.population_mut(*kind).put(id, roles),
            Delta::Subject {
                kind,
                id,
                roles: None,
            } => _ = self.all.population_mut(*kind).remove(id),
            Delta::Policy {
                id,
                policy: Some(policy),
                ..
            } => _ = self.write(id, policy),
            Delta::Policy {
                kind,
                id,
                policy: None,
            } => _ = self.erase(*kind, id),
        }
        before
    }

    /// The current state of what an update is about.
    pub(super) fn current(&self, delta: &Delta) -> Delta {
        match delta {
            Delta::Subject { kind, id, .. } => Delta::Subject {
                kind: *kind,
                id: id.clone(),
                roles: self.all.population(*kind).attributes_of(id),
            },
            Delta::Policy { kind, id, .. } => {
                let index = self.index(*kind);
                let known = index
                    .names()
                    .row(id)
                    .and_then(|row| Some((row, index.lists(row, &self.all)?)));
                let policy = known.map(|(row, (semantic, lists))| {
                    let right = self
                        .types
                        .right(row)
                        .filter(|_| *kind == PolicyKind::Service);
                    Policy {
                        kind: *kind,
                        semantic,
                        right,
                        lists,
                    }
                });
                Delta::Policy {
                    kind: *kind,
                    id: id.clone(),
                    policy,
                }
            }
        }
    }
}

impl WhatIf<'_> {
    /// The engine with the changes.
    pub(super) fn engine(&self) -> &Engine {
        self.engine
    }
}

impl Drop for WhatIf<'_> {
    /// Undoes the updates in reverse order, which gives every subject its row back.
    fn drop(&mut self) {
        let undo = std::mem::take(&mut self.undo);
        for delta in undo.iter().rev() {
            self.engine.exchange(delta);
        }
        // An attribute without carriers that only a policy lists may have another row now, and
        // cached results are found by such rows.
        if undo
            .iter()
            .any(|delta| matches!(delta, Delta::Policy { .. }))
        {
            self.engine.forget_evaluated();
        }
    }
}
