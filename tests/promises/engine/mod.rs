//! The access engine answers according to the rules. A naive model, written from the rules, is
//! asked the same questions after random histories, and so is a freshly loaded engine.

mod grants;
mod histories;
mod last_change;

use overkeep::testing::{
    access::{
        AccessDiff, Delta, Difference, Engine, GrantReason, MatchRule, Policy, PolicyEntityKind,
        PolicyGrant, PolicyKind, Right, RoleMatch,
    },
    entity::{Counted, PairCount},
};
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use {
    MatchRule::{AllOf, AnyOf},
    PolicyEntityKind::{EdgeRouter, Identity, PostureCheck, Service},
    Right::{Bind, Dial},
};

const SUBJECTS: [PolicyEntityKind; 4] = [Identity, Service, EdgeRouter, PostureCheck];
const KINDS: [PolicyKind; 3] = [
    PolicyKind::Service,
    PolicyKind::EdgeRouter,
    PolicyKind::ServiceEdgeRouter,
];
const RIGHTS: [Right; 2] = [Dial, Bind];

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(String::from).collect()
}

// --- the rules, naively
// ------------------------------------------------------------------------------------------------

fn matches(semantic: MatchRule, list: &[String], id: &str, roles: &[String]) -> bool {
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

fn sides(kind: PolicyKind) -> &'static [PolicyEntityKind] {
    match kind {
        PolicyKind::Service => &[Identity, Service, PostureCheck],
        PolicyKind::EdgeRouter => &[Identity, EdgeRouter],
        PolicyKind::ServiceEdgeRouter => &[Service, EdgeRouter],
    }
}

#[derive(Clone, Debug)]
struct PolicyState {
    semantic: MatchRule,
    right: Right,
    /// As many lists as the kind of policy has sides; the rest is unused.
    lists: [Vec<String>; 3],
}

#[derive(Clone, Default)]
struct Model {
    subjects: BTreeMap<(PolicyEntityKind, String), Vec<String>>,
    policies: BTreeMap<(PolicyKind, String), PolicyState>,
}

type Visible = BTreeSet<(Right, String, BTreeSet<String>)>;

impl Model {
    fn ids(&self, of: PolicyEntityKind) -> impl Iterator<Item = &String> {
        self.subjects
            .keys()
            .filter(move |(subject, _)| *subject == of)
            .map(|(_, id)| id)
    }

    fn policy_matches(
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

    fn policies(&self, of: PolicyKind) -> impl Iterator<Item = (&String, &PolicyState)> {
        self.policies
            .iter()
            .filter(move |((kind, _), _)| *kind == of)
            .map(|((_, id), policy)| (id, policy))
    }

    fn with(&self, kind: PolicyKind, subject: PolicyEntityKind, id: &str) -> BTreeSet<String> {
        self.policies(kind)
            .filter(|(_, policy)| self.policy_matches(kind, policy, subject, id))
            .map(|(id, _)| id.clone())
            .collect()
    }

    fn members(&self, kind: PolicyKind, policy: &str, side: PolicyEntityKind) -> BTreeSet<String> {
        let Some(policy) = self.policies.get(&(kind, policy.to_string())) else {
            return BTreeSet::new();
        };
        self.ids(side)
            .filter(|id| self.policy_matches(kind, policy, side, id))
            .cloned()
            .collect()
    }

    fn related(
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

    fn granting(&self, identity: &str, service: &str, right: Right) -> BTreeSet<String> {
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

    fn visible(&self, identity: &str) -> Visible {
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

    fn apply(&mut self, event: &Event) {
        match event.clone() {
            Event::Put(subject, id, roles) => _ = self.subjects.insert((subject, id), roles),
            Event::Remove(subject, id) => _ = self.subjects.remove(&(subject, id)),
            Event::Write(kind, id, policy) => _ = self.policies.insert((kind, id), policy),
            Event::Erase(kind, id) => _ = self.policies.remove(&(kind, id)),
            Event::Touch(..) | Event::Look(_) | Event::Ask(_) | Event::Try(_) => {}
        }
    }
}

// --- histories
// ---------------------------------------------------------------------------------------------------------

#[derive(Clone, Debug)]
enum Event {
    Put(PolicyEntityKind, String, Vec<String>),
    Remove(PolicyEntityKind, String),
    Write(PolicyKind, String, PolicyState),
    Erase(PolicyKind, String),
    Touch(PolicyEntityKind, String),
    Look(String),
    Ask(String),
    /// Previewed only.
    Try(Vec<Event>),
}

fn policy(kind: PolicyKind, written: &PolicyState) -> Policy {
    let [first, second, third] = written.lists.clone();
    match kind {
        PolicyKind::Service => {
            Policy::service(written.right, written.semantic, first, second, third)
        }
        PolicyKind::EdgeRouter => Policy::edge_router(written.semantic, first, second),
        PolicyKind::ServiceEdgeRouter => {
            Policy::service_edge_router(written.semantic, first, second)
        }
    }
}

fn news(events: &[Event]) -> Vec<Delta> {
    let news = |event: &Event| match event.clone() {
        Event::Put(subject, id, roles) => Some(Delta::PolicyEntityKind {
            subject,
            id,
            roles: Some(roles),
        }),
        Event::Remove(subject, id) => Some(Delta::PolicyEntityKind {
            subject,
            id,
            roles: None,
        }),
        Event::Write(kind, id, written) => Some(Delta::Policy {
            kind,
            id,
            policy: Some(policy(kind, &written)),
        }),
        Event::Erase(kind, id) => Some(Delta::Policy {
            kind,
            id,
            policy: None,
        }),
        Event::Touch(..) | Event::Look(_) | Event::Ask(_) | Event::Try(_) => None,
    };
    events.iter().filter_map(news).collect()
}

fn apply(engine: &mut Engine, event: &Event, now: u64) {
    match event {
        Event::Put(..) | Event::Remove(..) | Event::Write(..) | Event::Erase(..) => {
            news(std::slice::from_ref(event))
                .iter()
                .for_each(|news| engine.apply(news, now));
        }
        Event::Try(events) => _ = engine.preview(&news(events), 1),
        Event::Touch(Identity, id) => engine.identity_changed(id, now),
        Event::Touch(PostureCheck, id) => engine.posture_check_changed(id, now),
        Event::Touch(_, id) => engine.service_changed(id, now),
        Event::Look(id) => _ = engine.services(id, Dial),
        Event::Ask(_) => {}
    }
}

fn id() -> impl Strategy<Value = String> {
    (0..5).prop_map(|n| format!("x{n}"))
}

fn subject() -> impl Strategy<Value = PolicyEntityKind> {
    prop::sample::select(vec![
        Identity,
        Identity,
        Service,
        Service,
        EdgeRouter,
        PostureCheck,
    ])
}

fn touchable() -> impl Strategy<Value = PolicyEntityKind> {
    prop::sample::select(vec![Identity, Service, PostureCheck])
}

fn kind() -> impl Strategy<Value = PolicyKind> {
    prop::sample::select(vec![
        PolicyKind::Service,
        PolicyKind::Service,
        PolicyKind::EdgeRouter,
        PolicyKind::ServiceEdgeRouter,
    ])
}

fn roles() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(prop::sample::select(words("a b c d e")), 0..4)
}

fn list() -> impl Strategy<Value = Vec<String>> {
    let entry = prop::sample::select(words("#a #a #b #b #c #d #e @x0 @x1 @x2 @x4 @ghost"));
    prop_oneof![8 => prop::collection::vec(entry, 0..4), 1 => Just(words("#all"))]
}

fn written() -> impl Strategy<Value = PolicyState> {
    let semantic = prop::sample::select(vec![AllOf, AnyOf]);
    let right = prop::sample::select(RIGHTS.to_vec());
    (semantic, right, [list(), list(), list()]).prop_map(|(semantic, right, lists)| PolicyState {
        semantic,
        right,
        lists,
    })
}

fn change() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (subject(), id(), roles()).prop_map(|(subject, id, roles)| Event::Put(subject, id, roles)),
        1 => (subject(), id()).prop_map(|(subject, id)| Event::Remove(subject, id)),
        3 => (kind(), id(), written()).prop_map(|(kind, id, policy)| Event::Write(kind, id, policy)),
        1 => (kind(), id()).prop_map(|(kind, id)| Event::Erase(kind, id)),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        18 => change(),
        2 => prop::collection::vec(change(), 1..5).prop_map(Event::Try),
        2 => (touchable(), id()).prop_map(|(subject, id)| Event::Touch(subject, id)),
        1 => id().prop_map(Event::Look),
        6 => id().prop_map(Event::Ask),
    ]
}

// --- every question against the model
// ----------------------------------------------------------------------------------

fn set<'a>(named: impl Iterator<Item = &'a Arc<str>>) -> BTreeSet<String> {
    named.map(ToString::to_string).collect()
}

fn loaded(model: &Model, policies_first: bool) -> Engine {
    let mut engine = Engine::new();
    for subjects in [!policies_first, policies_first] {
        if subjects {
            model
                .subjects
                .iter()
                .for_each(|((subject, id), roles)| engine.put_subject(*subject, id, roles, 0));
        } else {
            model.policies.iter().for_each(|((kind, id), written)| {
                engine.put_policy(id, &policy(*kind, written), 0)
            });
        }
    }
    engine
}

/// alice (sales, eu) and bob; db (sql) and web; one check; alice may dial db.
fn office() -> Engine {
    let mut engine = Engine::new();
    engine.put_subject(Identity, "alice", &words("sales eu"), 0);
    engine.put_subject(Identity, "bob", &[], 0);
    engine.put_subject(Service, "db", &words("sql"), 0);
    engine.put_subject(Service, "web", &[], 0);
    engine.put_subject(PostureCheck, "os", &words("strict"), 0);
    dial(
        &mut engine,
        "base",
        AllOf,
        Dial,
        "#sales #eu",
        "#sql",
        "",
        0,
    );
    engine
}

#[allow(clippy::too_many_arguments)]
fn dial(
    engine: &mut Engine,
    id: &str,
    semantic: MatchRule,
    right: Right,
    who: &str,
    what: &str,
    checks: &str,
    now: u64,
) {
    engine.put_policy(
        id,
        &Policy::service(right, semantic, words(who), words(what), words(checks)),
        now,
    );
}

#[test]
fn pages_are_ordered_by_id() {
    let mut engine = Engine::new();
    for n in (0..200).rev() {
        engine.put_subject(
            Service,
            &format!("s{n:03}"),
            &words(if n % 50 == 0 { "few many" } else { "many" }),
            0,
        );
    }
    engine.put_subject(Identity, "me", &[], 0);
    dial(&mut engine, "many", AnyOf, Dial, "@me", "#many", "", 0);
    dial(&mut engine, "few", AnyOf, Bind, "@me", "#few", "", 0);
    let mut page = |right, skip, take| -> Vec<String> {
        engine
            .services("me", right)
            .in_order()
            .skip(skip)
            .take(take)
            .map(|(_, id)| id.to_string())
            .collect()
    };
    assert_eq!(page(Dial, 10, 3), words("s010 s011 s012"));
    assert_eq!(page(Bind, 1, 9), words("s050 s100 s150"));
}
