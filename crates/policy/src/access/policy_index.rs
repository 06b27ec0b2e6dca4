//! All policies of one kind: their rows and their sides.

use super::{
    Lists, MatchRule, PolicyEntityKind,
    names::RowNames,
    population::Population,
    role_index::RoleIndex,
    roles::{List, MatchReason},
};
use roaring::{MultiOps, RoaringBitmap};
use std::sync::Arc;

/// Up to this many pairs of bitmaps are intersected one by one.
const PAIRS: usize = 64;

pub(super) struct PolicyIndex {
    names: RowNames,
    role_indexes: Vec<(PolicyEntityKind, RoleIndex)>,
}

/// The key of subjects that are matched by the same policies: their attributes, and the id if a
/// policy names it.
pub(super) type SubjectClass = (Arc<[u32]>, Option<Arc<str>>);

/// The subjects of all kinds.
#[derive(Default)]
pub(super) struct Populations {
    identities: Population,
    services: Population,
    edge_routers: Population,
    posture_checks: Population,
}

impl Populations {
    pub(crate) fn population(&self, kind: PolicyEntityKind) -> &Population {
        match kind {
            PolicyEntityKind::Identity => &self.identities,
            PolicyEntityKind::Service => &self.services,
            PolicyEntityKind::EdgeRouter => &self.edge_routers,
            PolicyEntityKind::PostureCheck => &self.posture_checks,
        }
    }

    pub(crate) fn population_mut(&mut self, kind: PolicyEntityKind) -> &mut Population {
        match kind {
            PolicyEntityKind::Identity => &mut self.identities,
            PolicyEntityKind::Service => &mut self.services,
            PolicyEntityKind::EdgeRouter => &mut self.edge_routers,
            PolicyEntityKind::PostureCheck => &mut self.posture_checks,
        }
    }
}

impl PolicyIndex {
    pub(crate) fn new(role_indexes: &[PolicyEntityKind]) -> PolicyIndex {
        PolicyIndex {
            names: RowNames::default(),
            role_indexes: role_indexes
                .iter()
                .map(|subject| (*subject, RoleIndex::default()))
                .collect(),
        }
    }

    pub(crate) fn names(&self) -> &RowNames {
        &self.names
    }

    pub(crate) fn role_index(&self, subject: PolicyEntityKind) -> Option<&RoleIndex> {
        self.role_indexes
            .iter()
            .find(|(of, _)| *of == subject)
            .map(|(_, role_index)| role_index)
    }

    /// Stores a policy. Returns its row, and whether any list changed.
    pub(crate) fn put(
        &mut self,
        id: &str,
        semantic: MatchRule,
        lists: &Lists,
        all: &mut Populations,
    ) -> (u32, bool) {
        let is_new = self.names.row(id).is_none();
        let policy = self.names.intern(id);
        let mut changed = is_new;
        for (subject, role_index) in &mut self.role_indexes {
            let population = all.population_mut(*subject);
            let entries = lists
                .iter()
                .find(|(of, _)| of == subject)
                .map_or(&[][..], |(_, entries)| entries);
            let list = List::parse(semantic, entries, |name| population.list(name));
            changed |= role_index.list(policy) != Some(&list);
            // The new list is added before the old one is removed, so that an attribute in both
            // keeps its row.
            let before = role_index.remove(policy);
            role_index.put(policy, list, population);
            unlist(before, population);
        }
        (policy, changed)
    }

    /// The semantic and role lists of a policy.
    pub(crate) fn lists(&self, policy: u32, all: &Populations) -> Option<(MatchRule, Lists)> {
        let lists: Option<Vec<_>> = self
            .role_indexes
            .iter()
            .map(|(subject, role_index)| Some((*subject, role_index.list(policy)?)))
            .collect();
        let lists = lists?;
        let semantic = lists.first()?.1.semantic();
        let entries = |(subject, list): (PolicyEntityKind, &List)| {
            (
                subject,
                list.entries(|attribute| all.population(subject).attribute_name(attribute)),
            )
        };
        Some((semantic, lists.into_iter().map(entries).collect()))
    }

    /// The class of a subject. Subjects of one class are matched by the same policies: they have
    /// the same attributes, and no policy names one of them by id.
    pub(crate) fn class(
        &self,
        subject: PolicyEntityKind,
        row: u32,
        all: &Populations,
    ) -> Option<SubjectClass> {
        let population = all.population(subject);
        let id = population.names().text(row)?;
        let named = self
            .role_index(subject)
            .is_some_and(|role_index| role_index.names(id));
        Some((population.roles(row)?.clone(), named.then(|| id.clone())))
    }

    pub(crate) fn remove(&mut self, id: &str, all: &mut Populations) -> Option<u32> {
        let policy = self.names.row(id)?;
        for (subject, role_index) in &mut self.role_indexes {
            unlist(role_index.remove(policy), all.population_mut(*subject));
        }
        self.names.release(policy);
        Some(policy)
    }

    /// The policies that match a subject on its side.
    pub(crate) fn policies_of(
        &self,
        subject: PolicyEntityKind,
        row: u32,
        all: &Populations,
    ) -> RoaringBitmap {
        let of = |role_index: &RoleIndex| {
            all.population(subject)
                .subject(row)
                .map(|(id, roles)| role_index.policies_of(id, roles))
        };
        self.role_index(subject).and_then(of).unwrap_or_default()
    }

    /// The subjects that at least one of the policies matches on one side.
    pub(crate) fn members(
        &self,
        policies: &RoaringBitmap,
        subject: PolicyEntityKind,
        all: &Populations,
    ) -> RoaringBitmap {
        self.role_index(subject)
            .map(|role_index| role_index.members(policies, all.population(subject)))
            .unwrap_or_default()
    }

    /// Whether any policy matches both subjects. Gives the same answer as [`PolicyIndex::linking`],
    /// but if few bitmaps are proposed on both sides, they are not united.
    pub(crate) fn links(
        &self,
        one: (PolicyEntityKind, u32),
        other: (PolicyEntityKind, u32),
        among: &RoaringBitmap,
        all: &Populations,
    ) -> bool {
        let Some((near, far)) = self.end(one, all).zip(self.end(other, all)) else {
            return false;
        };
        let (ones, others) = (near.proposals(), far.proposals());
        if ones.len() * others.len() > PAIRS {
            return self.linking(one, other, among, all).next().is_some();
        }
        let matches =
            |policy: u32| near.match_reason(policy).is_some() && far.match_reason(policy).is_some();
        let mut pairs = ones
            .iter()
            .flat_map(|some| others.iter().map(move |others| (*some, *others)));
        pairs.any(|(some, others)| {
            !some.is_disjoint(others) && (some & others & among).into_iter().any(matches)
        })
    }

    /// The policies that match both subjects, with the reason for each: the one evaluator behind
    /// permission, lists and explanations. Lazy, so that permission costs no more than finding the
    /// first policy.
    pub(crate) fn linking<'a>(
        &'a self,
        one: (PolicyEntityKind, u32),
        other: (PolicyEntityKind, u32),
        among: &RoaringBitmap,
        all: &'a Populations,
    ) -> impl Iterator<Item = (u32, MatchReason<'a>, MatchReason<'a>)> + use<'a> {
        let ends = self.end(one, all).zip(self.end(other, all));
        let proposed = ends.map(|(near, far)| {
            (
                (near.proposals().union() & far.proposals().union() & among),
                near,
                far,
            )
        });
        proposed.into_iter().flat_map(|(proposed, near, far)| {
            proposed.into_iter().filter_map(move |policy| {
                Some((
                    policy,
                    near.match_reason(policy)?,
                    far.match_reason(policy)?,
                ))
            })
        })
    }

    fn end<'a>(
        &'a self,
        (subject, row): (PolicyEntityKind, u32),
        all: &'a Populations,
    ) -> Option<End<'a>> {
        let (id, roles) = all.population(subject).subject(row)?;
        Some(End {
            role_index: self.role_index(subject)?,
            id,
            roles,
        })
    }
}

/// A subject, and the side on which policies may match it.
#[derive(Clone, Copy)]
struct End<'a> {
    role_index: &'a RoleIndex,
    id: &'a str,
    roles: &'a [u32],
}

impl<'a> End<'a> {
    fn proposals(self) -> Vec<&'a RoaringBitmap> {
        self.role_index.proposals(self.id, self.roles)
    }

    fn match_reason(self, policy: u32) -> Option<MatchReason<'a>> {
        self.role_index.match_reason(policy, self.id, self.roles)
    }
}

fn unlist(list: Option<List>, population: &mut Population) {
    for attribute in list.iter().flat_map(|list| list.attributes()) {
        population.unlist(*attribute);
    }
}
