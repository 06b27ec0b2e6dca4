//! The access that changes would give and take: the difference between the engine now and with the
//! changes.
//!
//! Only few subjects can be affected: those that change themselves, and those on one side of what
//! changes in a policy; the side with fewer is taken. Their access is evaluated before and after,
//! once for all subjects of a class, in steps between which the lock is released.

use super::{
    AccessDiff, Delta, Difference, Engine, PolicyEntityKind,
    policy_index::SubjectClass,
    relation::{BIND, DIAL, IDENTITY_ROUTERS, Pairs, Relation, SERVICE_ROUTERS},
    role_diff::only_loses,
};
use roaring::RoaringBitmap;
use std::{collections::HashMap, iter::Zip, slice, vec};

/// The size of a step: changes examined, subjects grouped, groups evaluated. The last two grow with
/// the number of changes, because a step also applies all changes.
const CHANGES: usize = 64;
const ROWS: usize = 1024;
const GROUPS: usize = 32;
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

impl Engine {
    /// What changes would give and take, with at most `limit` ids in each list.
    pub fn difference(&mut self, delta: &[Delta], limit: usize) -> Difference {
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
            if let Delta::Subject {
                kind, roles: None, ..
            } = delta
            {
                gone.entry(*kind).or_default().extend(row);
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
            let before = engine.current(delta);
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
        Delta::Subject { kind, id, .. } => engine.row(*kind, id),
        Delta::Policy { .. } => None,
    };
    let now: Vec<_> = delta.iter().map(|delta| row(engine, delta)).collect();
    if !delta
        .iter()
        .zip(&now)
        .any(|(delta, row)| matches!(delta, Delta::Subject { .. }) && row.is_none())
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
        Delta::Subject { kind, id, .. } => (Some(*kind), None, id.clone()),
        Delta::Policy { kind, id, .. } => (None, Some(*kind), id.clone()),
    };
    let last: HashMap<_, &Delta> = delta.iter().map(|delta| (about(delta), delta)).collect();
    let mut last: Vec<Delta> = last.into_values().cloned().collect();
    last.sort_by_key(|delta| matches!(delta, Delta::Subject { roles: None, .. }));
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
            (_, Delta::Subject { kind, .. }) if *kind == of.who => whos.extend(row),
            (_, Delta::Subject { kind, .. }) if *kind == of.what => whats.extend(row),
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
