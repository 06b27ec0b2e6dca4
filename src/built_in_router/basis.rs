//! The records that circuits and terminators depend on, and an index by them.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
};

/// A record that an open item depends on, by id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Basis {
    Session(String),
    ApiSession(String),
    Identity(String),
    Service(String),
}

/// Items by the records that they depend on.
#[derive(Debug)]
pub(crate) struct BasisIndex<M>(HashMap<Basis, HashSet<M>>);

impl<M> Default for BasisIndex<M> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<M: Clone + Eq + Hash> BasisIndex<M> {
    /// Adds an item that depends on all of these.
    pub(crate) fn add(&mut self, member: M, all: Vec<Basis>) {
        for basis in all {
            self.0.entry(basis).or_default().insert(member.clone());
        }
    }

    /// Removes an item that depended on all of these.
    pub(crate) fn remove(&mut self, member: &M, all: Vec<Basis>) {
        for basis in all {
            if let Some(members) = self.0.get_mut(&basis) {
                members.remove(member);
                if members.is_empty() {
                    self.0.remove(&basis);
                }
            }
        }
    }

    /// The items that depend on a record.
    pub(crate) fn of(&self, basis: &Basis) -> impl Iterator<Item = &M> {
        self.0.get(basis).into_iter().flatten()
    }
}
