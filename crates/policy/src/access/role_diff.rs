//! The subjects that the role lists of a policy name, and those for whom a change of the lists may
//! matter. The result may contain too many subjects; the caller applies the match rule.

use super::{Engine, MatchRule, Policy, PolicyEntityKind};
use roaring::{MultiOps, RoaringBitmap};
use std::collections::{HashMap, HashSet};

impl Policy {
    /// The subjects named on a side.
    pub(super) fn named(&self, engine: &Engine, side: PolicyEntityKind) -> RoaringBitmap {
        named(
            engine,
            side,
            self.semantic,
            self.entries(side).map(String::as_str),
        )
    }

    fn entries(&self, side: PolicyEntityKind) -> impl Iterator<Item = &String> {
        self.lists
            .iter()
            .filter(move |(of, _)| *of == side)
            .flat_map(|(_, entries)| entries)
    }
}

/// The subjects that may be named on a side by only one of two policies.
pub(super) fn difference(
    engine: &Engine,
    side: PolicyEntityKind,
    before: Option<&Policy>,
    after: Option<&Policy>,
) -> RoaringBitmap {
    let (Some(before), Some(after)) = (before, after) else {
        return before
            .or(after)
            .map(|policy| policy.named(engine, side))
            .unwrap_or_default();
    };
    let [now, then] = [before, after].map(|policy| {
        policy
            .entries(side)
            .map(String::as_str)
            .collect::<HashSet<_>>()
    });
    let turned = || now.symmetric_difference(&then).copied();
    // Under AllOf, adding or removing an attribute changes which subjects the other attributes
    // name. Every other entry names subjects independently of the rest.
    let is_together = |entry: &str| {
        before.semantic == MatchRule::AllOf && entry.starts_with('#') && entry != EVERYONE
    };
    if before.semantic != after.semantic || turned().any(is_together) {
        return before.named(engine, side) | after.named(engine, side);
    }
    named(engine, side, before.semantic, turned())
}

/// Whether a policy changes only by the loss of subjects that are `gone`, by kind.
pub(super) fn only_loses(
    engine: &Engine,
    before: &Policy,
    after: &Policy,
    gone: &HashMap<PolicyEntityKind, RoaringBitmap>,
) -> bool {
    if gone.is_empty() {
        return false;
    }
    let is_gone = |side: PolicyEntityKind, entry: &str| {
        let row = entry.strip_prefix('@').and_then(|id| engine.row(side, id));
        row.zip(gone.get(&side))
            .is_some_and(|(row, gone)| gone.contains(row))
    };
    let loses = |side: PolicyEntityKind| {
        let [now, then] = [before, after].map(|policy| {
            policy
                .entries(side)
                .map(String::as_str)
                .collect::<HashSet<_>>()
        });
        then.is_subset(&now) && now.difference(&then).all(|entry| is_gone(side, entry))
    };
    let mut sides = before
        .lists
        .iter()
        .chain(&after.lists)
        .map(|(side, _)| *side);
    before.semantic == after.semantic && before.right == after.right && sides.all(loses)
}

const EVERYONE: &str = "#all";

fn named<'n>(
    engine: &Engine,
    side: PolicyEntityKind,
    semantic: MatchRule,
    entries: impl Iterator<Item = &'n str>,
) -> RoaringBitmap {
    let population = engine.all.population(side);
    let (mut carriers, mut ids) = (Vec::new(), RoaringBitmap::new());
    for entry in entries {
        match (entry.strip_prefix('#'), entry.strip_prefix('@')) {
            _ if entry == EVERYONE => return population.everyone().clone(),
            (Some(attribute), _) => carriers.push(population.carriers_of(attribute)),
            (_, Some(id)) => ids.extend(population.row(id)),
            _ => {}
        }
    }
    ids | match semantic {
        MatchRule::AllOf => carriers.intersection(),
        MatchRule::AnyOf => carriers.union(),
    }
}
