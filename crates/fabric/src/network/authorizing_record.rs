//! The records that circuits and terminators depend on, and an index by them.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
};

/// A record that an open item depends on, by id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum AuthorizingRecord {
    Session(String),
    ApiSession(String),
    Identity(String),
    Service(String),
}

/// Items by the records that they depend on.
#[derive(Debug)]
pub(crate) struct AuthorizingIndex<M>(HashMap<AuthorizingRecord, HashSet<M>>);

impl<M> Default for AuthorizingIndex<M> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<M: Clone + Eq + Hash> AuthorizingIndex<M> {
    /// Adds an item that depends on all of these.
    pub(crate) fn add(&mut self, member: M, all: Vec<AuthorizingRecord>) {
        for record in all {
            self.0.entry(record).or_default().insert(member.clone());
        }
    }

    /// Removes an item that depended on all of these.
    pub(crate) fn remove(&mut self, member: &M, all: Vec<AuthorizingRecord>) {
        for record in all {
            if let Some(members) = self.0.get_mut(&record) {
                members.remove(member);
                if members.is_empty() {
                    self.0.remove(&record);
                }
            }
        }
    }

    /// The items that depend on a record.
    pub(crate) fn of(&self, record: &AuthorizingRecord) -> impl Iterator<Item = &M> {
        self.0.get(record).into_iter().flatten()
    }
}
