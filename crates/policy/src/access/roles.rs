//! A parsed role list of a policy, and the rule that says which subjects it matches.

use super::MatchRule;
use std::{slice, sync::Arc};

/// One side of one policy: `#attribute`s as rows of the population's attributes; `@id`s as texts,
/// because a list may name an id before and after a subject with it exists.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct List {
    semantic: MatchRule,
    everyone: bool,
    ids: Box<[Arc<str>]>,
    attributes: Box<[u32]>,
}

/// Why a list matches a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MatchReason<'a> {
    Id,
    Everyone,
    /// All listed attributes under AllOf; the first one found under AnyOf.
    Attributes(&'a [u32]),
}

impl List {
    /// Entries that start with neither `#` nor `@` are ignored; the entity decides whether it
    /// accepts them.
    pub(crate) fn parse(
        semantic: MatchRule,
        entries: &[String],
        mut attribute: impl FnMut(&str) -> u32,
    ) -> List {
        let (mut everyone, mut ids, mut attributes) = (false, Vec::new(), Vec::new());
        for entry in entries {
            match (
                entry.as_str(),
                entry.strip_prefix('#'),
                entry.strip_prefix('@'),
            ) {
                ("#all", ..) => everyone = true,
                (_, Some(name), _) => attributes.push(attribute(name)),
                (_, _, Some(id)) => ids.push(Arc::from(id)),
                _ => {}
            }
        }
        ids.sort_unstable();
        ids.dedup();
        attributes.sort_unstable();
        attributes.dedup();
        List {
            semantic,
            everyone,
            ids: ids.into(),
            attributes: attributes.into(),
        }
    }

    /// The match rule. `roles` must be sorted. Ids and `#all` are alternatives to the attributes
    /// under either semantic. An empty list matches nobody, also under AllOf.
    pub(crate) fn match_reason(&self, id: &str, roles: &[u32]) -> Option<MatchReason<'_>> {
        if self
            .ids
            .binary_search_by(|listed| (**listed).cmp(id))
            .is_ok()
        {
            return Some(MatchReason::Id);
        }
        if self.everyone {
            return Some(MatchReason::Everyone);
        }
        let has = |attribute: &u32| roles.binary_search(attribute).is_ok();
        match self.semantic {
            MatchRule::AllOf if self.attributes.is_empty() => None,
            MatchRule::AllOf => self
                .attributes
                .iter()
                .all(has)
                .then_some(MatchReason::Attributes(&self.attributes)),
            MatchRule::AnyOf => self
                .attributes
                .iter()
                .find(|attribute| has(attribute))
                .map(|one| MatchReason::Attributes(slice::from_ref(one))),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.everyone && self.ids.is_empty() && self.attributes.is_empty()
    }

    /// The list as text entries.
    pub(crate) fn entries<'n>(&self, name: impl Fn(u32) -> Option<&'n Arc<str>>) -> Vec<String> {
        let attributes = self
            .attributes
            .iter()
            .filter_map(|attribute| name(*attribute))
            .map(|name| format!("#{name}"));
        let ids = self.ids.iter().map(|id| format!("@{id}"));
        self.everyone
            .then(|| "#all".into())
            .into_iter()
            .chain(attributes)
            .chain(ids)
            .collect()
    }

    pub(crate) fn semantic(&self) -> MatchRule {
        self.semantic
    }

    pub(crate) fn everyone(&self) -> bool {
        self.everyone
    }

    pub(crate) fn ids(&self) -> &[Arc<str>] {
        &self.ids
    }

    pub(crate) fn attributes(&self) -> &[u32] {
        &self.attributes
    }

    /// The attributes of which any one is enough.
    pub(crate) fn any_of(&self) -> &[u32] {
        if self.semantic == MatchRule::AnyOf {
            &self.attributes
        } else {
            &[]
        }
    }

    /// The attributes that are needed together.
    pub(crate) fn all_of(&self) -> &[u32] {
        if self.semantic == MatchRule::AllOf {
            &self.attributes
        } else {
            &[]
        }
    }
}
