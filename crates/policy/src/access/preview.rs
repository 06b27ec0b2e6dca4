//! The access that changes would give and take: the difference between the engine now and with the
//! changes.
//!
//! Only few subjects can be affected: those that change themselves, and those on one side of what
//! changes in a policy; the side with fewer is taken. Their access is evaluated before and after,
//! once for all subjects of a class, in steps between which the lock is released.

use super::{
    Delta, Engine, Policy, PolicyEntityKind, PolicyKind, Right,
    policy_index::{PolicyIndex, SubjectClass},
    role_diff::{difference, only_loses},
};
use model::entity::{Counted, PairCount};
use roaring::{MultiOps, RoaringBitmap};
use schemars::JsonSchema;
use serde::Serialize;
use std::{collections::HashMap, iter::Zip, slice, sync::Arc, vec};

/// What changes would give and take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AccessDifference")]
pub struct Difference<N = Arc<str>> {
    /// Identities, and services that policies let them dial.
    pub dial: AccessDiff<N>,
    /// Identities, and services that policies let them bind.
    pub bind: AccessDiff<N>,
    /// Identities, and edge routers that they may use.
    pub identity_routers: AccessDiff<N>,
    /// Services, and edge routers that they may be reached over.
    pub service_routers: AccessDiff<N>,
}

/// The access gained and lost in one relation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "AccessDiff")]
pub struct AccessDiff<N> {
    /// What may be used after the change and not before.
    pub gained: PairCount<N>,
    /// What may be used before the change and not after.
    pub lost: PairCount<N>,
}

impl<N> Difference<N> {
    /// The difference that the opposite change would make.
    pub(super) fn reversed(self) -> Self {
        let reversed = |AccessDiff { gained, lost }: AccessDiff<N>| AccessDiff {
            gained: lost,
            lost: gained,
        };
        Self {
            dial: reversed(self.dial),
            bind: reversed(self.bind),
            identity_routers: reversed(self.identity_routers),
            service_routers: reversed(self.service_routers),
        }
    }
}

impl Difference {
    /// The same difference with each id replaced, or left out where `name` gives nothing. The
    /// counts stay.
    ///
    /// # Errors
    /// The first error of `name`.
    pub fn named<N, E>(
        &self,
        name: impl Fn(PolicyEntityKind, &str) -> Result<Option<N>, E>,
    ) -> Result<Difference<N>, E> {
        let counted = |subject, Counted { count, first }: &Counted<Arc<str>>| {
            let first: Result<Vec<N>, E> = first
                .iter()
                .filter_map(|id| name(subject, id).transpose())
                .collect();
            Ok(Counted {
                count: *count,
                first: first?,
            })
        };
        let count_pairs = |of: &Relation, PairCount { pairs, who, what }: &PairCount<Arc<str>>| {
            Ok(PairCount {
                pairs: *pairs,
                who: counted(of.who, who)?,
                what: counted(of.what, what)?,
            })
        };
        let changes_of = |of: &Relation, changes_of: &AccessDiff<Arc<str>>| {
            Ok(AccessDiff {
                gained: count_pairs(of, &changes_of.gained)?,
                lost: count_pairs(of, &changes_of.lost)?,
            })
        };
        Ok(Difference {
            dial: changes_of(&DIAL, &self.dial)?,
            bind: changes_of(&BIND, &self.bind)?,
            identity_routers: changes_of(&IDENTITY_ROUTERS, &self.identity_routers)?,
            service_routers: changes_of(&SERVICE_ROUTERS, &self.service_routers)?,
        })
    }
}

/// The size of a step: changes examined, subjects grouped, groups evaluated. The last two grow with
/// the number of changes, because a step also applies all changes.
const CHANGES: usize = 64;
const ROWS: usize = 1024;
const GROUPS: usize = 32;
/// Up to this many subjects are taken without counting the other side.
const FEW: u64 = 64;

/// The changes that a preview was made of.
#[derive(Default)]
pub struct PreviewedChanges {
    all: Vec<Delta>,
    /// Those that still change something if the subjects to be deleted are deleted. A policy that
    /// only loses such subjects is not among them: the deletion of an identity changes every policy
    /// that names it.
    effective: Vec<Delta>,
    generation: u64,
}

impl PreviewedChanges {
    /// Those that must be applied for the state after all changes.
    pub(super) fn to_apply(&self, engine: &Engine) -> &[Delta] {
        if engine.generation == self.generation {
            &self.effective
        } else {
            &self.all
        }
    }

    pub(super) fn len(&self) -> usize {
        self.effective.len()
    }
}

/// The result of a step.
pub(super) enum Step {
    Running,
    Done(Box<Difference>),
    /// The engine changed since the preview began.
    Stale,
}

/// A preview in progress.
pub(super) struct Preview<'n> {
    delta: &'n [Delta],
    /// As in [`PreviewedChanges`]; complete when all changes are examined.
    effective: Vec<Delta>,
    /// The changes not examined yet, each with the row of its subject.
    unseen: Zip<slice::Iter<'n, Delta>, vec::IntoIter<Option<u32>>>,
    /// The subjects that would be deleted. They reach nothing afterwards, so that nothing is
    /// evaluated for them.
    gone: HashMap<PolicyEntityKind, RoaringBitmap>,
    generation: u64,
    parts: [Part; 4],
}

/// The state of the preview for one relation.
struct Part {
    relation: &'static Relation,
    /// The affected subjects on the `who` side; pairs with them are not counted again from the
    /// other side.
    whos: RoaringBitmap,
    /// The subjects not grouped yet, on either side.
    loose: [RoaringBitmap; 2],
    /// Groups of subjects with the same reach before and the same after, by side and by class
    /// before and after.
    groups: HashMap<(PolicyEntityKind, [Option<SubjectClass>; 2]), RoaringBitmap>,
    gained: Pairs,
    lost: Pairs,
}

#[derive(Default)]
struct Pairs {
    count: u64,
    who: RoaringBitmap,
    what: RoaringBitmap,
}

/// A relation between two kinds of subjects.
pub(super) struct Relation {
    kind: PolicyKind,
    right: Option<Right>,
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

impl Engine {
    /// What changes would give and take, with at most `limit` ids in each list.
    pub fn preview(&mut self, delta: &[Delta], limit: usize) -> Difference {
        self.preview_changes(&in_order(delta), limit).0
    }

    /// The same for changes that are [`in_order`], with those changes.
    pub(super) fn preview_changes(
        &mut self,
        delta: &[Delta],
        limit: usize,
    ) -> (Difference, PreviewedChanges) {
        let mut preview = Preview::new(self, delta);
        loop {
            // The engine is borrowed, so that it cannot change and this ends.
            if let Step::Done(difference) = preview.step(self, limit) {
                return (*difference, preview.into_changes());
            }
        }
    }
}

impl<'n> Preview<'n> {
    /// Starts a preview of changes that are [`in_order`].
    pub(crate) fn new(engine: &mut Engine, delta: &'n [Delta]) -> Self {
        let rows = rows(engine, delta);
        let mut gone: HashMap<PolicyEntityKind, RoaringBitmap> = HashMap::new();
        for (delta, row) in delta.iter().zip(&rows) {
            if let Delta::PolicyEntityKind {
                subject,
                roles: None,
                ..
            } = delta
            {
                gone.entry(*subject).or_default().extend(row);
            }
        }
        let parts = [&DIAL, &BIND, &IDENTITY_ROUTERS, &SERVICE_ROUTERS].map(Part::new);
        let mut preview = Self {
            delta,
            effective: Vec::new(),
            unseen: delta.iter().zip(rows),
            gone,
            generation: engine.generation,
            parts,
        };
        // The first value of [`Preview::remaining`] must already count subjects.
        preview.find_affected(engine);
        preview
    }

    /// The number of changes and subjects known to be left.
    pub(crate) fn remaining(&self) -> u64 {
        let loose = |part: &Part| part.loose.iter().map(RoaringBitmap::len).sum::<u64>();
        self.unseen.len() as u64 + self.parts.iter().map(loose).sum::<u64>()
    }

    /// Does one step; the last one names the subjects found.
    pub(crate) fn step(&mut self, engine: &mut Engine, limit: usize) -> Step {
        if engine.generation != self.generation {
            return Step::Stale;
        }
        let many = self.effective.len();
        if self.unseen.len() > 0 {
            self.find_affected(engine);
        } else if self.remaining() > 0 {
            self.group(engine, ROWS.max(8 * many));
        } else if self.parts.iter().any(|part| !part.groups.is_empty()) {
            self.evaluate(engine, GROUPS.max(many));
        } else {
            return Step::Done(Box::new(self.difference(engine, limit)));
        }
        Step::Running
    }

    /// The changes, after the last step.
    pub(crate) fn into_changes(self) -> PreviewedChanges {
        PreviewedChanges {
            all: self.delta.to_vec(),
            effective: self.effective,
            generation: self.generation,
        }
    }

    fn difference(&self, engine: &mut Engine, limit: usize) -> Difference {
        let lost = self
            .parts
            .each_ref()
            .map(|part| part.relation.count_pairs(engine, &part.lost, limit));
        let gained = |engine: &Engine| {
            self.parts
                .each_ref()
                .map(|part| part.relation.count_pairs(engine, &part.gained, limit))
        };
        // A new subject has an id only with the changes applied.
        let is_any = self.parts.iter().any(|part| part.gained.count > 0);
        let gained = if is_any {
            gained(engine.as_if(&self.effective).engine())
        } else {
            gained(engine)
        };
        let (
            [dial, bind, of_identities, of_services],
            [no_dial, no_bind, not_of_identities, not_of_services],
        ) = (gained, lost);
        let changes_of = |gained, lost| AccessDiff { gained, lost };
        Difference {
            dial: changes_of(dial, no_dial),
            bind: changes_of(bind, no_bind),
            identity_routers: changes_of(of_identities, not_of_identities),
            service_routers: changes_of(of_services, not_of_services),
        }
    }

    /// Finds the subjects affected by the next changes.
    fn find_affected(&mut self, engine: &Engine) {
        for (delta, row) in self.unseen.by_ref().take(CHANGES) {
            let before = engine.known(delta);
            self.parts
                .iter_mut()
                .for_each(|part| part.concern(engine, &before, delta, row));
            let has_no_effect = matches!((&before, delta), (Delta::Policy { policy: Some(before), .. }, Delta::Policy { policy: Some(after), .. })
                if only_loses(engine, before, after, &self.gone));
            if !has_no_effect {
                self.effective.push(delta.clone());
            }
        }
        for part in &mut self.parts {
            let [whos, _] = &part.loose;
            part.whos.clone_from(whos);
        }
    }

    /// Puts up to `rows` subjects into groups.
    fn group(&mut self, engine: &mut Engine, rows: usize) {
        let mut room = rows;
        let mut some = Vec::new();
        for (at, part) in self.parts.iter_mut().enumerate() {
            for (side, loose) in [part.relation.who, part.relation.what]
                .into_iter()
                .zip(&mut part.loose)
            {
                let taken: Vec<u32> = loose.iter().take(room).collect();
                room -= taken.len();
                loose.remove_smallest(taken.len() as u64);
                some.extend(taken.into_iter().map(|row| (at, side, row)));
            }
        }
        let parts = &self.parts;
        let classes = |engine: &Engine| -> Vec<Option<SubjectClass>> {
            let class = |(at, side, row): &(usize, PolicyEntityKind, u32)| {
                parts
                    .get(*at)?
                    .relation
                    .index(engine)
                    .class(*side, *row, &engine.all)
            };
            some.iter().map(class).collect()
        };
        let is_gone = |(_, side, row): &(usize, PolicyEntityKind, u32)| {
            self.gone.get(side).is_some_and(|rows| rows.contains(*row))
        };
        let before = classes(engine);
        let after = if some.iter().all(is_gone) {
            vec![None; some.len()]
        } else {
            classes(engine.as_if(&self.effective).engine())
        };
        for ((at, side, row), classes) in some.iter().zip(before.into_iter().zip(after)) {
            if let Some(part) = self.parts.get_mut(*at) {
                part.groups
                    .entry((*side, classes.into()))
                    .or_default()
                    .insert(*row);
            }
        }
    }

    /// Evaluates up to `groups` groups.
    fn evaluate(&mut self, engine: &mut Engine, groups: usize) {
        let mut some = Vec::new();
        for (at, part) in self.parts.iter_mut().enumerate() {
            let taken = part
                .groups
                .extract_if(|_, _| true)
                .take(groups.saturating_sub(some.len()));
            let taken: Vec<_> = taken
                .map(|((side, [_, after]), rows)| (at, side, rows, after.is_some()))
                .collect();
            some.extend(taken);
        }
        let parts = &self.parts;
        let reach = |engine: &Engine| -> Vec<RoaringBitmap> {
            let reach = |(at, side, rows, _): &(usize, PolicyEntityKind, RoaringBitmap, bool)| {
                Some(parts.get(*at)?.relation.reach(engine, *side, rows.min()))
            };
            some.iter()
                .map(|group| reach(group).unwrap_or_default())
                .collect()
        };
        let before = reach(engine);
        // A subject without a class afterwards is deleted and reaches nothing.
        let stays = |group: &(usize, PolicyEntityKind, RoaringBitmap, bool)| group.3;
        let after = if some.iter().any(stays) {
            reach(engine.as_if(&self.effective).engine())
        } else {
            vec![RoaringBitmap::new(); some.len()]
        };
        for (((at, side, rows, _), before), after) in some.iter().zip(before).zip(after) {
            if let Some(part) = self.parts.get_mut(*at) {
                part.count_difference(*side, rows, before, after);
            }
        }
    }
}

/// The row of the subject of each change; for a new subject the row that it would get.
fn rows(engine: &mut Engine, delta: &[Delta]) -> Vec<Option<u32>> {
    let row = |engine: &Engine, delta: &Delta| match delta {
        Delta::PolicyEntityKind { subject, id, .. } => engine.row(*subject, id),
        Delta::Policy { .. } => None,
    };
    let now: Vec<_> = delta.iter().map(|delta| row(engine, delta)).collect();
    if !delta
        .iter()
        .zip(&now)
        .any(|(delta, row)| matches!(delta, Delta::PolicyEntityKind { .. }) && row.is_none())
    {
        return now;
    }
    let what_if = engine.as_if(delta);
    delta
        .iter()
        .zip(now)
        .map(|(delta, now)| now.or_else(|| row(what_if.engine(), delta)))
        .collect()
}

/// Each subject and policy once, with its last state; deleted subjects come last.
pub(super) fn in_order(delta: &[Delta]) -> Vec<Delta> {
    let about = |delta: &Delta| match delta {
        Delta::PolicyEntityKind { subject, id, .. } => (Some(*subject), None, id.clone()),
        Delta::Policy { kind, id, .. } => (None, Some(*kind), id.clone()),
    };
    let last: HashMap<_, &Delta> = delta.iter().map(|delta| (about(delta), delta)).collect();
    let mut last: Vec<Delta> = last.into_values().cloned().collect();
    last.sort_by_key(|delta| matches!(delta, Delta::PolicyEntityKind { roles: None, .. }));
    last
}

impl Part {
    fn new(relation: &'static Relation) -> Self {
        Self {
            relation,
            whos: RoaringBitmap::new(),
            loose: Default::default(),
            groups: HashMap::new(),
            gained: Pairs::default(),
            lost: Pairs::default(),
        }
    }

    /// Adds the subjects whose reach may change. Together they are part of every pair that is
    /// gained or lost.
    fn concern(&mut self, engine: &Engine, before: &Delta, after: &Delta, row: Option<u32>) {
        let of = self.relation;
        let [whos, whats] = &mut self.loose;
        match (before, after) {
            (_, Delta::PolicyEntityKind { subject, .. }) if *subject == of.who => whos.extend(row),
            (_, Delta::PolicyEntityKind { subject, .. }) if *subject == of.what => {
                whats.extend(row)
            }
            (
                Delta::Policy { policy: before, .. },
                Delta::Policy {
                    kind,
                    policy: after,
                    ..
                },
            ) if *kind == of.kind => {
                let [before, after] = [before, after]
                    .map(|policy| policy.as_ref().filter(|policy| policy.right == of.right));
                of.concerned_by(engine, before, after, whos, whats);
            }
            _ => {}
        }
    }

    /// Counts what subjects of one side reach before and after.
    fn count_difference(
        &mut self,
        side: PolicyEntityKind,
        rows: &RoaringBitmap,
        before: RoaringBitmap,
        after: RoaringBitmap,
    ) {
        let is_who = side == self.relation.who;
        let (mut gained, mut lost) = (&after - &before, before - after);
        if !is_who {
            gained -= &self.whos;
            lost -= &self.whos;
        }
        self.gained.add(is_who, rows, gained);
        self.lost.add(is_who, rows, lost);
    }
}

impl Pairs {
    /// Adds the pairs of each of `rows` with each of `reached`.
    fn add(&mut self, is_who: bool, rows: &RoaringBitmap, reached: RoaringBitmap) {
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

impl Relation {
    fn index<'e>(&self, engine: &'e Engine) -> &'e PolicyIndex {
        engine.index(self.kind)
    }

    /// Adds the subjects that a policy newly names or no longer names, or all subjects on its other
    /// side, whichever are fewer; for both sides.
    fn concerned_by(
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
            .map(|row| self.index(engine).of(from, row, &engine.all))
            .unwrap_or_default();
        if let Some(right) = self.right {
            policies &= engine.types.of(right);
        }
        self.index(engine).members(&policies, to, &engine.all)
    }

    fn count_pairs(&self, engine: &Engine, pairs: &Pairs, limit: usize) -> PairCount<Arc<str>> {
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
