//! The subjects of one kind and their role attributes; for each attribute the bitmap of its
//! carriers.

use super::names::{RowNames, at};
use roaring::RoaringBitmap;
use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

#[derive(Default)]
pub(super) struct Population {
    names: RowNames,
    everyone: RoaringBitmap,
    // The sorted attributes of each row.
    roles: Vec<Option<Arc<[u32]>>>,
    attributes: RowNames,
    carried: Vec<Attribute>,
    // Many identities have the same few attributes, so that each combination is allocated once.
    combinations: HashSet<Arc<[u32]>>,
    // The number of combinations at which unused ones are removed. Cached rights keep some alive
    // for a while.
    sweep_at: usize,
    // A keyed hash of the id of each row, see `fingerprint`.
    tokens: Vec<u64>,
    hasher: RandomState,
}

#[derive(Default)]
struct Attribute {
    carriers: RoaringBitmap,
    /// The number of role lists that name it. An attribute keeps its row while a subject carries it
    /// or a list names it.
    listings: usize,
}

impl Population {
    pub(crate) fn names(&self) -> &RowNames {
        &self.names
    }

    pub(crate) fn everyone(&self) -> &RoaringBitmap {
        &self.everyone
    }

    pub(crate) fn row(&self, id: &str) -> Option<u32> {
        self.names.row(id)
    }

    pub(crate) fn roles(&self, row: u32) -> Option<&Arc<[u32]>> {
        self.roles.get(row as usize)?.as_ref()
    }

    /// The names of a subject's attributes.
    pub(crate) fn attributes_of(&self, id: &str) -> Option<Vec<String>> {
        let roles = self.roles(self.row(id)?)?;
        Some(
            roles
                .iter()
                .filter_map(|attribute| self.attribute_name(*attribute))
                .map(ToString::to_string)
                .collect(),
        )
    }

    /// Id and roles, which is all that the match rule needs.
    pub(crate) fn subject(&self, row: u32) -> Option<(&Arc<str>, &[u32])> {
        Some((self.names.text(row)?, self.roles(row)?))
    }

    pub(crate) fn carriers(&self, attribute: u32) -> Option<&RoaringBitmap> {
        self.carried
            .get(attribute as usize)
            .map(|attribute| &attribute.carriers)
    }

    /// The subjects that carry an attribute, by its name.
    pub(crate) fn carriers_of(&self, name: &str) -> RoaringBitmap {
        self.attributes
            .row(name)
            .and_then(|attribute| self.carriers(attribute))
            .cloned()
            .unwrap_or_default()
    }

    pub(crate) fn attribute_name(&self, attribute: u32) -> Option<&Arc<str>> {
        self.attributes.text(attribute)
    }

    /// The attributes that a subject carries, in order of name.
    pub(crate) fn attributes_in_use(&self) -> impl Iterator<Item = &Arc<str>> {
        let in_use = |attribute: u32| {
            self.carriers(attribute)
                .is_some_and(|carriers| !carriers.is_empty())
        };
        self.attributes
            .in_order()
            .filter(move |(attribute, _)| in_use(*attribute))
            .map(|(_, name)| name)
    }

    /// A number for a set of subjects that does not depend on row numbers, which may be reused. It
    /// is a sum of keyed hashes: two sets collide with probability 2^-64, and nobody outside can
    /// search for a collision.
    pub(crate) fn fingerprint(&self, rows: &RoaringBitmap) -> u64 {
        rows.iter()
            .filter_map(|row| self.tokens.get(row as usize))
            .fold(0, |sum, token| sum.wrapping_add(*token))
    }

    /// Stores a subject. Returns its row, and whether anything changed.
    pub(crate) fn put(&mut self, id: &str, attributes: &[String]) -> (u32, bool) {
        let row = self.names.intern(id);
        let is_new = self.everyone.insert(row);
        let mut after: Vec<u32> = attributes
            .iter()
            .map(|name| self.attributes.intern(name))
            .collect();
        after.sort_unstable();
        after.dedup();
        let before = self
            .roles
            .get_mut(row as usize)
            .and_then(Option::take)
            .unwrap_or_default();
        for attribute in after
            .iter()
            .filter(|attribute| before.binary_search(attribute).is_err())
        {
            at(&mut self.carried, *attribute, |gained| {
                _ = gained.carriers.insert(row)
            });
        }
        let same = *before == *after;
        let after = self.combination(after);
        at(&mut self.roles, row, |roles| *roles = Some(after.clone()));
        at(&mut self.tokens, row, |token| {
            *token = self.hasher.hash_one(id)
        });
        self.drop_roles(row, &before, &after);
        (row, is_new || !same)
    }

    pub(crate) fn remove(&mut self, id: &str) -> Option<u32> {
        let row = self.names.row(id)?;
        if let Some(before) = self.roles.get_mut(row as usize).and_then(Option::take) {
            self.drop_roles(row, &before, &[]);
        }
        self.everyone.remove(row);
        self.names.release(row);
        Some(row)
    }

    /// The row of an attribute for a role list; valid until `unlist`.
    pub(crate) fn list(&mut self, name: &str) -> u32 {
        let attribute = self.attributes.intern(name);
        at(&mut self.carried, attribute, |listed| listed.listings += 1);
        attribute
    }

    pub(crate) fn unlist(&mut self, attribute: u32) {
        if let Some(listed) = self.carried.get_mut(attribute as usize) {
            listed.listings = listed.listings.saturating_sub(1);
        }
        self.release_if_unused(attribute);
    }

    fn combination(&mut self, roles: Vec<u32>) -> Arc<[u32]> {
        if let Some(known) = self.combinations.get(roles.as_slice()) {
            return known.clone();
        }
        if self.combinations.len() >= self.sweep_at {
            self.combinations.retain(|one| Arc::strong_count(one) > 1);
            self.sweep_at = 2 * self.combinations.len() + 64;
        }
        let new: Arc<[u32]> = roles.into();
        self.combinations.insert(new.clone());
        new
    }

    fn drop_roles(&mut self, row: u32, before: &[u32], after: &[u32]) {
        for attribute in before
            .iter()
            .filter(|attribute| after.binary_search(attribute).is_err())
        {
            if let Some(lost) = self.carried.get_mut(*attribute as usize) {
                lost.carriers.remove(row);
            }
            self.release_if_unused(*attribute);
        }
    }

    fn release_if_unused(&mut self, attribute: u32) {
        if self
            .carried
            .get(attribute as usize)
            .is_some_and(|known| known.listings == 0 && known.carriers.is_empty())
        {
            self.attributes.release(attribute);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn unused_role_combinations_are_forgotten() {
        let mut all = Population::default();
        let same = ["east".to_owned(), "web".to_owned()];
        all.put("bob", &same);
        for round in 0..10_000 {
            all.put("alice", &[format!("role {round}"), "web".to_owned()]);
        }
        assert!(
            all.combinations.len() < 200,
            "{} combinations for two subjects",
            all.combinations.len()
        );
        assert_eq!(all.attributes_of("bob").unwrap(), same);
        assert_eq!(
            BTreeSet::from_iter(all.attributes_of("alice").unwrap()),
            BTreeSet::from(["role 9999".to_owned(), "web".to_owned()])
        );
    }
}
