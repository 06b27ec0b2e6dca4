//! The relations between subjects that policies make: who may dial and bind what, and which edge
//! routers identities and services reach.

use std::sync::Arc;

use model::entity::{Counted, PairCount};
use roaring::{MultiOps, RoaringBitmap};

use super::{
    Engine, Policy, PolicyEntityKind, PolicyKind, Right, policy_index::PolicyIndex,
    role_diff::difference,
};

/// Up to this many subjects are taken without counting the other side.
const FEW: u64 = 64;

/// A relation between two kinds of subjects.
pub(super) struct Relation {
    pub(super) kind: PolicyKind,
    pub(super) right: Option<Right>,
    pub(super) who: PolicyEntityKind,
    pub(super) what: PolicyEntityKind,
}

pub(super) static DIAL: Relation = Relation {
    kind: PolicyKind::Service,
    right: Some(Right::Dial),
    who: PolicyEntityKind::Identity,
    what: PolicyEntityKind::Service,
};
pub(super) static BIND: Relation = Relation {
    kind: PolicyKind::Service,
    right: Some(Right::Bind),
    who: PolicyEntityKind::Identity,
    what: PolicyEntityKind::Service,
};
pub(super) static IDENTITY_ROUTERS: Relation = Relation {
    kind: PolicyKind::EdgeRouter,
    right: None,
    who: PolicyEntityKind::Identity,
    what: PolicyEntityKind::EdgeRouter,
};
pub(super) static SERVICE_ROUTERS: Relation = Relation {
    kind: PolicyKind::ServiceEdgeRouter,
    right: None,
    who: PolicyEntityKind::Service,
    what: PolicyEntityKind::EdgeRouter,
};

impl Relation {
    pub(super) fn index<'e>(&self, engine: &'e Engine) -> &'e PolicyIndex {
        engine.index(self.kind)
    }

    /// Adds the subjects that a policy newly names or no longer names, or all subjects on its other
    /// side, whichever are fewer; for both sides.
    pub(super) fn concerned_by(
        &self,
        engine: &Engine,
        before: Option<&Policy>,
        after: Option<&Policy>,
        whos: &mut RoaringBitmap,
        whats: &mut RoaringBitmap,
    ) {
        for (side, other, is_who) in [(self.who, self.what, true), (self.what, self.who, false)] {
            let turned = difference(engine, side, before, after);
            if turned.is_empty() {
                continue;
            }
            let (near, far) = if is_who {
                (&mut *whos, &mut *whats)
            } else {
                (&mut *whats, &mut *whos)
            };
            if turned.len() <= FEW {
                *near |= turned;
                continue;
            }
            let all = before
                .into_iter()
                .chain(after)
                .map(|policy| policy.named(engine, other))
                .union();
            let is_nearer = turned.len() < all.len() || (is_who && turned.len() == all.len());
            if is_nearer {
                *near |= turned
            } else {
                *far |= all
            }
        }
    }

    /// What one subject reaches on the other side.
    pub(super) fn reach(
        &self,
        engine: &Engine,
        from: PolicyEntityKind,
        row: Option<u32>,
    ) -> RoaringBitmap {
        let to = if from == self.who {
            self.what
        } else {
            self.who
        };
        let mut policies = row
            .map(|row| self.index(engine).policies_of(from, row, &engine.all))
            .unwrap_or_default();
        if let Some(right) = self.right {
            policies &= engine.types.granting(right);
        }
        self.index(engine).members(&policies, to, &engine.all)
    }

    pub(super) fn count_pairs(
        &self,
        engine: &Engine,
        pairs: &Pairs,
        limit: usize,
    ) -> PairCount<Arc<str>> {
        let counted = |subject, rows: &RoaringBitmap| {
            let named = engine.subjects(subject, rows.clone());
            Counted {
                count: rows.len(),
                first: named
                    .in_order()
                    .take(limit)
                    .map(|(_, id)| id.clone())
                    .collect(),
            }
        };
        PairCount {
            pairs: pairs.count,
            who: counted(self.who, &pairs.who),
            what: counted(self.what, &pairs.what),
        }
    }
}

/// Pairs of a relation: how many there are, and who and what is in one.
#[derive(Default)]
pub(super) struct Pairs {
    pub(super) count: u64,
    who: RoaringBitmap,
    what: RoaringBitmap,
}

impl Pairs {
    /// Adds the pairs of each of `rows` with each of `reached`.
    pub(super) fn add(&mut self, is_who: bool, rows: &RoaringBitmap, reached: RoaringBitmap) {
        if reached.is_empty() {
            return;
        }
        self.count += rows.len() * reached.len();
        let (near, far) = if is_who {
            (&mut self.who, &mut self.what)
        } else {
            (&mut self.what, &mut self.who)
        };
        *near |= rows;
        *far |= reached;
    }
}
