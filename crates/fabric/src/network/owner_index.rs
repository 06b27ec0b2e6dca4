//! An index of circuits, terminators and links, by the id of what they belong to, such as a router
//! or link.

use std::{
    borrow::Borrow,
    collections::{HashMap, HashSet},
    hash::Hash,
    sync::Arc,
};

/// The ids of the members by the id of their owner. An owner without members has no entry.
#[derive(Default)]
pub(crate) struct OwnerIndex(HashMap<String, HashSet<String>>);

impl OwnerIndex {
    /// Adds a member to each of `owners`.
    pub(crate) fn add(&mut self, owners: &[String], member: &str) {
        for owner in owners {
            self.0
                .entry(owner.clone())
                .or_default()
                .insert(member.to_owned());
        }
    }

    /// Removes a member from each of `owners`.
    pub(crate) fn remove(&mut self, owners: &[String], member: &str) {
        for owner in owners {
            if let Some(members) = self.0.get_mut(owner) {
                members.remove(member);
                if members.is_empty() {
                    self.0.remove(owner);
                }
            }
        }
    }

    /// The ids of the members of an owner.
    pub(crate) fn ids(&self, owner: &str) -> impl Iterator<Item = &String> {
        self.0.get(owner).into_iter().flatten()
    }

    /// The members of an owner, which are found in `all` by their ids.
    pub(crate) fn of<'m, K: Borrow<str> + Eq + Hash, T>(
        &'m self,
        owner: &str,
        all: &'m HashMap<K, Arc<T>>,
    ) -> impl Iterator<Item = Arc<T>> + use<'m, K, T> {
        self.0
            .get(owner)
            .into_iter()
            .flatten()
            .filter_map(|id| all.get(id.as_str()).cloned())
    }

    pub(crate) fn count(&self, owner: &str) -> usize {
        self.0.get(owner).map_or(0, HashSet::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_without_members_are_forgotten() {
        let (mut index, owners) = (OwnerIndex::default(), ["one", "other"].map(String::from));
        index.add(&owners, "member");
        index.remove(&owners[..1], "member");
        assert_eq!(
            (index.count("one"), index.count("other"), index.0.len()),
            (0, 1, 1)
        );
    }
}
