//! The rules, naively: who matches a list, and what follows for everybody.

use std::collections::{BTreeMap, BTreeSet};

use policy::access::{
    MatchRule::{self, AllOf, AnyOf},
    PolicyEntityKind::{self, EdgeRouter, Identity, PostureCheck, Service},
    PolicyKind,
    Right::{self, Bind, Dial},
};

use crate::histories::Event;

pub const RIGHTS: [Right; 2] = [Dial, Bind];

pub fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(String::from).collect()
}

pub fn matches(semantic: MatchRule, list: &[String], id: &str, roles: &[String]) -> bool {
    let attributes: Vec<&str> = list
        .iter()
        .filter(|entry| *entry != "#all")
        .filter_map(|entry| entry.strip_prefix('#'))
        .collect();
    let has = |attribute: &&str| roles.iter().any(|role| role == attribute);
    let by_attribute = match semantic {
        AllOf => !attributes.is_empty() && attributes.iter().all(has),
        AnyOf => attributes.iter().any(has),
    };
    by_attribute
        || list
            .iter()
            .any(|entry| entry == "#all" || entry.strip_prefix('@') == Some(id))
}

pub fn sides(kind: PolicyKind) -> &'static [PolicyEntityKind] {
    match kind {
        PolicyKind::Service => &[Identity, Service, PostureCheck],
        PolicyKind::EdgeRouter => &[Identity, EdgeRouter],
        PolicyKind::ServiceEdgeRouter => &[Service, EdgeRouter],
    }
}

#[derive(Clone, Debug)]
pub struct PolicyState {
    pub semantic: MatchRule,
    pub right: Right,
    /// As many lists as the kind of policy has sides; the rest is unused.
    pub lists: [Vec<String>; 3],
}

#[derive(Clone, Default)]
pub struct Model {
    pub subjects: BTreeMap<(PolicyEntityKind, String), Vec<String>>,
    pub policies: BTreeMap<(PolicyKind, String), PolicyState>,
}

pub type Visible = BTreeSet<(Right, String, BTreeSet<String>)>;

impl Model {
    pub fn ids(&self, of: PolicyEntityKind) -> impl Iterator<Item = &String> {
        self.subjects
            .keys()
            .filter(move |(subject, _)| *subject == of)
            .map(|(_, id)| id)
    }

    pub fn policy_matches(
        &self,
        kind: PolicyKind,
        policy: &PolicyState,
        side: PolicyEntityKind,
        id: &str,
    ) -> bool {
        let list = sides(kind)
            .iter()
            .zip(&policy.lists)
            .find(|(of, _)| **of == side)
            .map(|(_, list)| list);
        let roles = self.subjects.get(&(side, id.to_string()));
        list.zip(roles)
            .is_some_and(|(list, roles)| matches(policy.semantic, list, id, roles))
    }

    pub fn policies(&self, of: PolicyKind) -> impl Iterator<Item = (&String, &PolicyState)> {
        self.policies
            .iter()
            .filter(move |((kind, _), _)| *kind == of)
            .map(|((_, id), policy)| (id, policy))
    }

    pub fn with(&self, kind: PolicyKind, subject: PolicyEntityKind, id: &str) -> BTreeSet<String> {
        self.policies(kind)
            .filter(|(_, policy)| self.policy_matches(kind, policy, subject, id))
            .map(|(id, _)| id.clone())
            .collect()
    }

    pub fn members(
        &self,
        kind: PolicyKind,
        policy: &str,
        side: PolicyEntityKind,
    ) -> BTreeSet<String> {
        let Some(policy) = self.policies.get(&(kind, policy.to_string())) else {
            return BTreeSet::new();
        };
        self.ids(side)
            .filter(|id| self.policy_matches(kind, policy, side, id))
            .cloned()
            .collect()
    }

    pub fn related(
        &self,
        kind: PolicyKind,
        from: PolicyEntityKind,
        id: &str,
        to: PolicyEntityKind,
    ) -> BTreeSet<String> {
        self.with(kind, from, id)
            .iter()
            .flat_map(|policy| self.members(kind, policy, to))
            .collect()
    }

    pub fn granting(&self, identity: &str, service: &str, right: Right) -> BTreeSet<String> {
        let kind = PolicyKind::Service;
        let links = |policy: &PolicyState| {
            let near = self.policy_matches(kind, policy, Identity, identity);
            policy.right == right && near && self.policy_matches(kind, policy, Service, service)
        };
        self.policies(kind)
            .filter(|(_, policy)| links(policy))
            .map(|(id, _)| id.clone())
            .collect()
    }

    pub fn visible(&self, identity: &str) -> Visible {
        let services: Vec<_> = self.ids(Service).collect();
        let mut visible = Visible::new();
        for right in RIGHTS {
            for service in &services {
                for policy in self.granting(identity, service, right) {
                    let checks = self.members(PolicyKind::Service, &policy, PostureCheck);
                    visible.insert((right, service.to_string(), checks));
                }
            }
        }
        visible
    }

    pub fn apply(&mut self, event: &Event) {
        match event.clone() {
            Event::Put(subject, id, roles) => _ = self.subjects.insert((subject, id), roles),
            Event::Remove(subject, id) => _ = self.subjects.remove(&(subject, id)),
            Event::Write(kind, id, policy) => _ = self.policies.insert((kind, id), policy),
            Event::Erase(kind, id) => _ = self.policies.remove(&(kind, id)),
            Event::Touch(..) | Event::Look(_) | Event::Ask(_) | Event::Try(_) => {}
        }
    }
}
