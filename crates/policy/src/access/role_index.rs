//! One side of one kind of policy, such as the services of all service policies: the role lists,
//! and an index from a subject to the policies that may match it. The other direction, from
//! policies to their members, reads the lists.

use super::{
    names::at,
    population::Population,
    roles::{List, MatchReason},
};
use roaring::{MultiOps, RoaringBitmap};
use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
    sync::Arc,
};

#[derive(Default)]
pub(super) struct RoleIndex {
    lists: Vec<Option<Entry>>,
    // Policies by what a subject must have to be a candidate.
    by_attribute: HashMap<u32, RoaringBitmap>,
    by_id: HashMap<Arc<str>, RoaringBitmap>,
    everyone: RoaringBitmap,
    // Policies whose list is not empty.
    listing: RoaringBitmap,
}

struct Entry {
    list: List,
    /// The attribute by which a policy with AllOf is found. One is enough; the one with the fewest
    /// carriers at the time is taken, because `#tenant-17` proposes few policies and `#production`
    /// proposes all.
    pivot: Option<u32>,
}

impl Entry {
    fn new(list: List, population: &Population) -> Entry {
        let carriers = |attribute: &&u32| {
            population
                .carriers(**attribute)
                .map_or(0, RoaringBitmap::len)
        };
        let pivot = list.all_of().iter().min_by_key(carriers).copied();
        Entry { list, pivot }
    }

    fn handles(&self) -> impl Iterator<Item = &u32> {
        self.list.any_of().iter().chain(&self.pivot)
    }
}

impl RoleIndex {
    pub(crate) fn list(&self, policy: u32) -> Option<&List> {
        Some(&self.lists.get(policy as usize)?.as_ref()?.list)
    }

    pub(crate) fn put(&mut self, policy: u32, list: List, population: &Population) {
        let entry = Entry::new(list, population);
        for attribute in entry.handles() {
            self.by_attribute
                .entry(*attribute)
                .or_default()
                .insert(policy);
        }
        for id in entry.list.ids() {
            self.by_id.entry(id.clone()).or_default().insert(policy);
        }
        if entry.list.everyone() {
            self.everyone.insert(policy);
        }
        if !entry.list.is_empty() {
            self.listing.insert(policy);
        }
        at(&mut self.lists, policy, |place| *place = Some(entry));
    }

    pub(crate) fn remove(&mut self, policy: u32) -> Option<List> {
        let entry = self.lists.get_mut(policy as usize)?.take()?;
        for attribute in entry.handles() {
            remove_policy_of(&mut self.by_attribute, attribute, policy);
        }
        for id in entry.list.ids() {
            remove_policy_of(&mut self.by_id, id, policy);
        }
        self.everyone.remove(policy);
        self.listing.remove(policy);
        Some(entry.list)
    }

    /// Whether any list names this id.
    pub(crate) fn names(&self, id: &str) -> bool {
        self.by_id.contains_key(id)
    }

    /// The policies whose list is not empty.
    pub(crate) fn listing(&self) -> &RoaringBitmap {
        &self.listing
    }

    /// The policies whose list has `#all`.
    pub(crate) fn everyone(&self) -> &RoaringBitmap {
        &self.everyone
    }

    /// The policies that may match the subject, possibly with duplicates. No other policy matches
    /// it.
    pub(crate) fn proposals(&self, id: &str, roles: &[u32]) -> Vec<&RoaringBitmap> {
        let by_role = roles
            .iter()
            .filter_map(|attribute| self.by_attribute.get(attribute));
        by_role
            .chain(self.by_id.get(id))
            .chain([&self.everyone])
            .collect()
    }

    /// Why a policy matches the subject; `None` if it does not.
    pub(crate) fn match_reason(
        &self,
        policy: u32,
        id: &str,
        roles: &[u32],
    ) -> Option<MatchReason<'_>> {
        self.list(policy)?.match_reason(id, roles)
    }

    /// The policies that match the subject.
    pub(crate) fn policies_of(&self, id: &str, roles: &[u32]) -> RoaringBitmap {
        let mut policies = self.proposals(id, roles).union();
        policies.retain(|policy| self.match_reason(policy, id, roles).is_some());
        policies
    }

    /// The subjects that at least one of the policies matches: the rule of `List::match_reason` for
    /// all subjects at once. Lists repeat each other, so that their entries are collected first and
    /// looked up once.
    pub(crate) fn members(
        &self,
        policies: &RoaringBitmap,
        population: &Population,
    ) -> RoaringBitmap {
        let (mut any_of, mut all_of, mut ids) =
            (RoaringBitmap::new(), HashSet::new(), RoaringBitmap::new());
        for list in policies.iter().filter_map(|policy| self.list(policy)) {
            if list.everyone() {
                return population.everyone().clone();
            }
            any_of.extend(list.any_of());
            ids.extend(list.ids().iter().filter_map(|id| population.row(id)));
            if !list.all_of().is_empty() {
                all_of.insert(list.all_of());
            }
        }
        let together = all_of
            .into_iter()
            .map(|needed| carriers(needed.iter().copied(), population).intersection());
        together
            .chain([carriers(any_of.iter(), population).union(), ids])
            .union()
    }
}

fn carriers(
    attributes: impl Iterator<Item = u32>,
    population: &Population,
) -> impl Iterator<Item = &RoaringBitmap> {
    attributes.filter_map(|attribute| population.carriers(attribute))
}

fn remove_policy_of<K: Hash + Eq>(index: &mut HashMap<K, RoaringBitmap>, key: &K, policy: u32) {
    if let Some(policies) = index.get_mut(key) {
        policies.remove(policy);
        if policies.is_empty() {
            index.remove(key);
        }
    }
}
