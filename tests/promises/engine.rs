//! The access engine answers according to the rules. A naive model, written from the rules, is
//! asked the same questions after random histories, and so is a freshly loaded engine.

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

fn agree(engine: &mut Engine, model: &Model) {
    let ids: Vec<String> = (0..5)
        .map(|n| format!("x{n}"))
        .chain(words("ghost"))
        .collect();
    for id in &ids {
        services_agree(engine, model, id, &ids);
        for other in &ids {
            rights_agree(engine, model, id, other);
        }
        for kind in KINDS {
            policies_agree(engine, model, kind, id);
        }
    }
    for subject in SUBJECTS {
        let attributes: Vec<_> = engine
            .role_attributes(subject)
            .map(ToString::to_string)
            .collect();
        let all = model
            .subjects
            .iter()
            .filter(|((of, _), _)| *of == subject)
            .flat_map(|(_, roles)| roles.clone());
        assert_eq!(
            attributes,
            all.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
        );
        assert_eq!(engine.count(subject), model.ids(subject).count());
    }
}

fn services_agree(engine: &mut Engine, model: &Model, identity: &str, ids: &[String]) {
    for right in RIGHTS {
        let expected: BTreeSet<String> = ids
            .iter()
            .filter(|id| !model.granting(identity, id, right).is_empty())
            .cloned()
            .collect();
        let services = engine.services(identity, right);
        assert_eq!(set(services.ids()), expected);
        assert_eq!(services.len(), expected.len());
        let ordered: Vec<_> = services.in_order().map(|(_, id)| id.to_string()).collect();
        assert_eq!(ordered, expected.into_iter().collect::<Vec<_>>());
    }
    let either = |id: &&String| {
        RIGHTS
            .into_iter()
            .any(|right| !model.granting(identity, id, right).is_empty())
    };
    let expected: BTreeSet<&String> = ids.iter().filter(either).collect();
    let rights = engine.rights(identity);
    let visible = engine
        .visible(&rights)
        .iter()
        .map(|row| engine.id(Service, *row).unwrap().to_string());
    assert_eq!(
        visible.collect::<Vec<_>>(),
        expected.into_iter().cloned().collect::<Vec<_>>()
    );
}

fn rights_agree(engine: &mut Engine, model: &Model, identity: &str, service: &str) {
    for right in RIGHTS {
        let expected = model.granting(identity, service, right);
        assert_eq!(engine.may(identity, service, right), !expected.is_empty());
        assert_eq!(
            engine.identities(service, right).contains(identity),
            !expected.is_empty()
        );
        let granting = engine.granting(identity, service, right);
        assert_eq!(
            set(granting
                .iter()
                .map(|granting| &granting.policy_grant.policy)),
            expected
        );
        for GrantReason { policy_grant, .. } in &granting {
            assert_eq!(
                set(policy_grant.posture_checks.iter()),
                model.members(PolicyKind::Service, &policy_grant.policy, PostureCheck)
            );
        }
        let all: Vec<PolicyGrant> = granting
            .into_iter()
            .map(|granting| granting.policy_grant)
            .collect();
        assert_eq!(engine.all_grants(identity, service, right), all);
        let judged = (!all.is_empty()).then(|| {
            if engine.count(PostureCheck) > 0 {
                all
            } else {
                Vec::new()
            }
        });
        assert_eq!(
            engine
                .grants(identity, service, right, usize::MAX)
                .map(in_order),
            judged
        );
    }
    routers_agree(engine, model, identity, service);
}

fn in_order(mut grants: Vec<PolicyGrant>) -> Vec<PolicyGrant> {
    grants.sort_by(|one, other| one.policy.cmp(&other.policy));
    grants
}

fn routers_agree(engine: &mut Engine, model: &Model, identity: &str, service: &str) {
    let near = model.related(PolicyKind::EdgeRouter, Identity, identity, EdgeRouter);
    let far = model.related(PolicyKind::ServiceEdgeRouter, Service, service, EdgeRouter);
    assert_eq!(set(engine.edge_routers_of_identity(identity).ids()), near);
    assert_eq!(set(engine.edge_routers_of_service(service).ids()), far);
    let common = engine.common_edge_routers(identity, service);
    assert_eq!(
        set(common.ids()),
        near.intersection(&far).cloned().collect()
    );
    assert_eq!(common.len(), near.intersection(&far).count());
}

fn all_routers_agree(engine: &mut Engine, model: &Model) {
    (0..25).for_each(|n| {
        routers_agree(
            engine,
            model,
            &format!("x{}", n % 5),
            &format!("x{}", n / 5),
        )
    });
}

fn policies_agree(engine: &Engine, model: &Model, kind: PolicyKind, id: &str) {
    for side in SUBJECTS {
        assert_eq!(
            set(engine.members(kind, id, side).ids()),
            model.members(kind, id, side)
        );
        assert_eq!(
            set(engine.policies(kind, side, id).ids()),
            model.with(kind, side, id)
        );
        for to in SUBJECTS {
            assert_eq!(
                set(engine.related(kind, side, id, to).ids()),
                model.related(kind, side, id, to)
            );
        }
    }
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

/// What an identity was shown, and whether it was notified of every change since.
#[derive(Default)]
struct Watcher {
    shown: Visible,
    touched: BTreeSet<(PolicyEntityKind, String)>,
    moved: bool,
    told: Option<u64>,
}

impl Watcher {
    fn look(&mut self, visible: Visible) {
        let seen = |(subject, id): &(PolicyEntityKind, String)| match subject {
            Service => visible.iter().any(|(_, service, _)| service == id),
            PostureCheck => visible.iter().any(|(_, _, checks)| checks.contains(id)),
            _ => false,
        };
        self.moved |= visible != self.shown || self.touched.iter().any(seen);
        self.touched.clear();
        self.shown = visible;
    }
}

#[derive(Default)]
struct Watchers(BTreeMap<String, Watcher>);

impl Watchers {
    fn notice(&mut self, event: &Event, model: &Model) {
        match event {
            Event::Remove(Identity, id) => _ = self.0.remove(id),
            Event::Remove(subject, id) => self
                .0
                .values_mut()
                .for_each(|watcher| _ = watcher.touched.remove(&(*subject, id.clone()))),
            Event::Touch(Identity, id) => self
                .look(id, model)
                .into_iter()
                .for_each(|watcher| watcher.moved = true),
            Event::Touch(subject, id) if model.subjects.contains_key(&(*subject, id.clone())) => {
                self.0
                    .values_mut()
                    .for_each(|watcher| _ = watcher.touched.insert((*subject, id.clone())));
            }
            Event::Look(id) => _ = self.look(id, model),
            _ => {}
        }
    }

    fn look(&mut self, id: &str, model: &Model) -> Option<&mut Watcher> {
        model.subjects.get(&(Identity, id.to_string()))?;
        let visible = model.visible(id);
        let first_sight = || Watcher {
            shown: visible.clone(),
            ..Watcher::default()
        };
        let watcher = self.0.entry(id.to_string()).or_insert_with(first_sight);
        watcher.look(visible);
        Some(watcher)
    }

    fn ask(&mut self, id: &str, model: &Model, engine: &mut Engine) {
        let otherwise = 7;
        let answer = engine.last_change_at(id, otherwise);
        let Some(watcher) = self.look(id, model) else {
            return assert_eq!(answer, otherwise);
        };
        match (watcher.moved, watcher.told) {
            (true, Some(told)) => assert!(answer > told, "{answer} should have moved past {told}"),
            (true, None) => assert!(answer > 0),
            (false, told) => assert_eq!(answer, told.unwrap_or(otherwise)),
        }
        (watcher.moved, watcher.told) = (false, Some(answer));
    }
}

/// Rights as pairs of ids.
type Pairs = BTreeSet<(String, String)>;

/// Dial, bind, edge routers of identities, and edge routers of services.
fn pairs(model: &Model) -> [Pairs; 4] {
    let all = |one, other, linked: &dyn Fn(&str, &str) -> bool| -> Pairs {
        let others: Vec<&String> = model.ids(other).collect();
        let pairs = model.ids(one).flat_map(|one| {
            others
                .iter()
                .map(move |other| (one.clone(), (*other).clone()))
        });
        pairs.filter(|(one, other)| linked(one, other)).collect()
    };
    let routers = |kind, from, id: &str, router: &str| {
        model.related(kind, from, id, EdgeRouter).contains(router)
    };
    [
        all(Identity, Service, &|one, other| {
            !model.granting(one, other, Dial).is_empty()
        }),
        all(Identity, Service, &|one, other| {
            !model.granting(one, other, Bind).is_empty()
        }),
        all(Identity, EdgeRouter, &|one, other| {
            routers(PolicyKind::EdgeRouter, Identity, one, other)
        }),
        all(Service, EdgeRouter, &|one, other| {
            routers(PolicyKind::ServiceEdgeRouter, Service, one, other)
        }),
    ]
}

/// The changes, where policies lose what is deleted, as in the controller.
fn cascaded(model: &Model, changes: &[Event]) -> Vec<Event> {
    let (mut model, mut all) = (model.clone(), Vec::new());
    for change in changes {
        if let Event::Remove(subject, id) = change {
            let entry = format!("@{id}");
            let losing = model.policies.iter().filter_map(|((kind, policy), state)| {
                let side = sides(*kind).iter().position(|side| side == subject)?;
                let mut state = state.clone();
                let list = state
                    .lists
                    .get_mut(side)
                    .filter(|list| list.contains(&entry))?;
                list.retain(|one| *one != entry);
                Some(Event::Write(*kind, policy.clone(), state))
            });
            all.extend(losing.collect::<Vec<_>>());
            all.iter().for_each(|event| model.apply(event));
        }
        model.apply(change);
        all.push(change.clone());
    }
    all
}

fn turn(before: &Pairs, after: &Pairs) -> AccessDiff<Arc<str>> {
    fn counted<'a>(side: impl Iterator<Item = &'a String>) -> Counted<Arc<str>> {
        let first: BTreeSet<Arc<str>> = side.map(|id| id.as_str().into()).collect();
        Counted {
            count: first.len() as u64,
            first: first.into_iter().collect(),
        }
    }
    let count_pairs = |from: &Pairs, to: &Pairs| {
        let pairs: Pairs = to.difference(from).cloned().collect();
        let (who, what) = (
            counted(pairs.iter().map(|(who, _)| who)),
            counted(pairs.iter().map(|(_, what)| what)),
        );
        PairCount {
            pairs: pairs.len() as u64,
            who,
            what,
        }
    };
    AccessDiff {
        gained: count_pairs(before, after),
        lost: count_pairs(after, before),
    }
}

proptest! {
    #[test]
    fn preview_equals_the_difference(
        history in prop::collection::vec(event(), 0..60), changes in prop::collection::vec(change(), 1..6),
        removed in prop::collection::vec((subject(), id()), 0..3)
    ) {
        let (mut engine, mut model) = (Engine::new(), Model::default());
        let removed = removed.into_iter().map(|(subject, id)| Event::Remove(subject, id));
        let changes: Vec<Event> = changes.into_iter().chain(removed).collect();
        for (now, event) in history.iter().enumerate() {
            apply(&mut engine, event, now as u64);
            model.apply(event);
        }
        all_routers_agree(&mut engine, &model);
        let changes = cascaded(&model, &changes);
        let (before, mut then) = (pairs(&model), model.clone());
        changes.iter().for_each(|change| then.apply(change));
        let after = pairs(&then);
        let [dial, bind, identity_routers, service_routers] = std::array::from_fn(|n| turn(&before[n], &after[n]));
        let expected = Difference { dial, bind, identity_routers, service_routers };
        assert_eq!(engine.preview(&news(&changes), usize::MAX), expected);
        agree(&mut engine, &model);
    }

    #[test]
    fn engine_agrees_with_naive_rules(history in prop::collection::vec(event(), 1..60)) {
        let (mut engine, mut model) = (Engine::new(), Model::default());
        for (now, event) in history.iter().enumerate() {
            apply(&mut engine, event, now as u64);
            model.apply(event);
            // The answers are cached; the next event must invalidate them if it changes them.
            all_routers_agree(&mut engine, &model);
        }
        agree(&mut engine, &model);
        agree(&mut loaded(&model, false), &model);
        agree(&mut loaded(&model, true), &model);
    }

    #[test]
    fn last_change_follows_visible_changes(history in prop::collection::vec((event(), 0..20_u64), 1..80)) {
        let (mut engine, mut model, mut watchers) = (Engine::new(), Model::default(), Watchers::default());
        for (event, now) in &history {
            apply(&mut engine, event, *now);
            model.apply(event);
            watchers.notice(event, &model);
            if let Event::Ask(id) = event {
                watchers.ask(id, &model, &mut engine);
            }
        }
        (0..5).for_each(|n| watchers.ask(&format!("x{n}"), &model, &mut engine));
    }
}

// --- tables
// ------------------------------------------------------------------------------------------------------------

#[test]
fn role_lists_match_by_rule() {
    let cases = [
        (AnyOf, "", "a", false),
        (AllOf, "", "a", false),
        (AllOf, "", "", false),
        (AnyOf, "#a", "a", true),
        (AnyOf, "#a", "", false),
        (AnyOf, "#a #b", "b", true),
        (AnyOf, "#A", "a", false),
        (AllOf, "#a", "a", true),
        (AllOf, "#a #b", "a", false),
        (AllOf, "#a #b", "a b c", true),
        (AllOf, "#a #a", "a", true),
        (AnyOf, "#all", "", true),
        (AllOf, "#all", "", true),
        (AnyOf, "@me", "", true),
        (AnyOf, "@you", "a", false),
        (AnyOf, "@you #a", "a", true),
        (AllOf, "@me #a", "", true),
        (AllOf, "@you #a", "a", true),
        (AllOf, "@you #a #b", "a", false),
        (AnyOf, "me a", "a", false),
    ];
    for (semantic, entries, roles, expected) in cases {
        let mut engine = Engine::new();
        engine.put_subject(Identity, "me", &words(roles), 0);
        let all = words("#all");
        engine.put_policy("p", &Policy::edge_router(semantic, words(entries), all), 0);
        let why = format!("{semantic:?} [{entries}] on [{roles}]");
        assert_eq!(
            engine
                .policies(PolicyKind::EdgeRouter, Identity, "me")
                .contains("p"),
            expected,
            "{why}"
        );
        assert_eq!(
            engine
                .members(PolicyKind::EdgeRouter, "p", Identity)
                .contains("me"),
            expected,
            "{why}"
        );
    }
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
fn grants_name_role_or_id() {
    let mut engine = office();
    dial(
        &mut engine,
        "also",
        AnyOf,
        Dial,
        "@alice",
        "#all",
        "#strict",
        1,
    );
    let granting = engine.granting("alice", "db", Dial);
    let told: Vec<_> = granting
        .iter()
        .map(|one| {
            (
                &*one.policy_grant.policy,
                &one.identity,
                &one.service,
                one.policy_grant.posture_checks.len(),
            )
        })
        .collect();
    let roles = RoleMatch::Attributes(vec!["sales".into(), "eu".into()]);
    let sql = RoleMatch::Attributes(vec!["sql".into()]);
    assert_eq!(
        told,
        [
            ("also", &RoleMatch::Id, &RoleMatch::Everyone, 1),
            ("base", &roles, &sql, 0)
        ]
    );
    assert!(
        engine.may("alice", "db", Dial)
            && !engine.may("alice", "db", Bind)
            && !engine.may("bob", "db", Dial)
    );
    assert!(!engine.may("alice", "nothing", Dial) && !engine.may("nobody", "db", Dial));
}

#[test]
fn grounds_prefer_policies_without_checks() {
    let mut engine = office();
    let asks = |engine: &Engine| -> Vec<bool> {
        let grants = engine.grants("alice", "db", Dial, 16).unwrap_or_default();
        grants
            .iter()
            .map(|policy_grant| !policy_grant.posture_checks.is_empty())
            .collect()
    };
    engine.remove_policy(PolicyKind::Service, "base", 1);
    assert_eq!(engine.grants("alice", "db", Dial, 16), None);
    (0..40).for_each(|n| {
        dial(
            &mut engine,
            &format!("asks {n}"),
            AnyOf,
            Dial,
            "@alice",
            "#all",
            "#strict",
            2,
        )
    });
    assert_eq!(asks(&engine), [true; 16]);
    assert_eq!(
        engine.all_grants("alice", "db", Dial).len(),
        40,
        "every policy must be listed: any of them may be the one that passes"
    );
    (0..40).for_each(|n| {
        dial(
            &mut engine,
            &format!("free {n}"),
            AnyOf,
            Dial,
            "@alice",
            "#all",
            "",
            3,
        )
    });
    assert_eq!(asks(&engine), [false; 16]);
}

#[test]
fn many_attributes_are_judged_alike() {
    let mut engine = Engine::new();
    let of = |sign: &str, range: std::ops::Range<usize>| {
        range
            .map(|n| format!("{sign}r{n}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    engine.put_subject(Identity, "alice", &words(&of("", 0..30)), 0);
    engine.put_subject(Service, "db", &words(&of("", 0..30)), 0);
    // Every attribute of either is named in some policy, but never of both in one.
    for n in 0..30 {
        dial(
            &mut engine,
            &format!("near-{n}"),
            AnyOf,
            Dial,
            &format!("#r{n}"),
            "#elsewhere",
            "",
            0,
        );
        dial(
            &mut engine,
            &format!("far-{n}"),
            AnyOf,
            Dial,
            "#nobody",
            &format!("#r{n}"),
            "",
            0,
        );
    }
    assert!(!engine.may("alice", "db", Dial) && engine.granting("alice", "db", Dial).is_empty());
    dial(
        &mut engine,
        "both",
        AllOf,
        Dial,
        &of("#", 0..30),
        &of("#", 0..31),
        "",
        1,
    );
    assert!(
        !engine.may("alice", "db", Dial),
        "one attribute of the service is missing"
    );
    dial(
        &mut engine,
        "both",
        AllOf,
        Dial,
        &of("#", 0..30),
        &of("#", 0..30),
        "",
        2,
    );
    assert!(engine.may("alice", "db", Dial) && !engine.may("alice", "db", Bind));
    assert_eq!(engine.granting("alice", "db", Dial).len(), 1);
}

#[test]
fn type_or_semantic_changes_grants() {
    let mut engine = office();
    dial(
        &mut engine,
        "base",
        AllOf,
        Bind,
        "#sales #eu",
        "#sql",
        "",
        1,
    );
    assert!(engine.may("alice", "db", Bind) && !engine.may("alice", "db", Dial));
    engine.put_subject(Identity, "bob", &words("eu"), 2);
    assert!(!engine.may("bob", "db", Bind));
    dial(
        &mut engine,
        "base",
        AnyOf,
        Bind,
        "#sales #eu",
        "#sql",
        "",
        3,
    );
    assert!(engine.may("bob", "db", Bind));
}

type Act = fn(&mut Engine);

#[test]
fn last_change_ignores_invisible_changes() {
    let cases: [(&str, bool, Act); 26] = [
        ("nothing", false, |_| {}),
        ("gaining Dial", true, |e| {
            dial(e, "p", AnyOf, Dial, "@alice", "@web", "", 50)
        }),
        ("gaining Bind of a service she may dial", true, |e| {
            dial(e, "p", AnyOf, Bind, "@alice", "@db", "", 50)
        }),
        ("losing the policy", true, |e| {
            e.remove_policy(PolicyKind::Service, "base", 50)
        }),
        ("losing a role it needs", true, |e| {
            e.put_subject(Identity, "alice", &words("eu"), 50)
        }),
        ("the service losing its role", true, |e| {
            e.put_subject(Service, "db", &[], 50)
        }),
        ("the service being deleted", true, |e| {
            e.remove_subject(Service, "db", 50)
        }),
        ("a new service that matches", true, |e| {
            e.put_subject(Service, "new", &words("sql"), 50)
        }),
        ("the type changing", true, |e| {
            dial(e, "base", AllOf, Bind, "#sales #eu", "#sql", "", 50)
        }),
        ("a check joining the policy", true, |e| {
            dial(e, "base", AllOf, Dial, "#sales #eu", "#sql", "#strict", 50)
        }),
        ("an update of the service", true, |e| {
            e.service_changed("db", 50)
        }),
        ("an override, a posture response", true, |e| {
            e.identity_changed("alice", 50)
        }),
        ("a second policy granting under a check", true, |e| {
            dial(e, "p", AnyOf, Dial, "@alice", "@db", "@os", 50)
        }),
        ("a second policy granting the same", false, |e| {
            dial(e, "p", AnyOf, Dial, "@alice", "@db", "", 50)
        }),
        ("the first of two going", false, |e| {
            dial(e, "p", AnyOf, Dial, "@alice", "@db", "", 50);
            e.remove_policy(PolicyKind::Service, "base", 51);
        }),
        ("renaming a policy", false, |e| {
            dial(e, "base", AllOf, Dial, "#sales #eu", "#sql", "", 50)
        }),
        ("a change undone before she looks", false, |e| {
            e.remove_policy(PolicyKind::Service, "base", 50);
            dial(e, "base", AllOf, Dial, "#sales #eu", "#sql", "", 51);
        }),
        ("the same rights by other roles", false, |e| {
            dial(e, "base", AnyOf, Dial, "#eu", "@db", "", 50)
        }),
        ("a role that matches nothing", false, |e| {
            e.put_subject(Identity, "alice", &words("sales eu tall"), 50)
        }),
        ("somebody else's rights", false, |e| {
            dial(e, "p", AnyOf, Dial, "@bob", "#all", "", 50)
        }),
        ("an update of a service she does not see", false, |e| {
            e.service_changed("web", 50)
        }),
        ("a check nothing of hers asks for", false, |e| {
            e.posture_check_changed("os", 50)
        }),
        ("a policy without services", false, |e| {
            dial(e, "p", AnyOf, Dial, "@alice", "#none", "@os", 50)
        }),
        ("somebody else's override", false, |e| {
            e.identity_changed("bob", 50)
        }),
        ("edge router policies", false, |e| {
            let all = || words("#all");
            e.put_subject(EdgeRouter, "er", &[], 50);
            e.put_policy("er", &Policy::edge_router(AnyOf, all(), all()), 50);
            e.put_policy("er", &Policy::service_edge_router(AnyOf, all(), all()), 50);
        }),
        ("an unused check being deleted", false, |e| {
            e.remove_subject(PostureCheck, "os", 50)
        }),
    ];
    for (what, moves, act) in cases {
        let mut engine = office();
        assert_eq!(
            engine.last_change_at("alice", 20),
            20,
            "{what}: nothing was recorded yet"
        );
        act(&mut engine);
        let after = engine.last_change_at("alice", 20);
        assert_eq!(after, if moves { 50 } else { 20 }, "{what}");
        assert_eq!(
            engine.last_change_at("alice", 20),
            after,
            "{what}: a repeated call must return the same"
        );
    }
}

#[test]
fn last_change_follows_granting_checks() {
    let cases: [(&str, bool, Act); 5] = [
        ("an update of the check", true, |e| {
            e.posture_check_changed("os", 50)
        }),
        ("the check losing its role", true, |e| {
            e.put_subject(PostureCheck, "os", &[], 50)
        }),
        ("the check being deleted", true, |e| {
            e.remove_subject(PostureCheck, "os", 50)
        }),
        ("another check joining", true, |e| {
            e.put_subject(PostureCheck, "mac", &words("strict"), 50)
        }),
        ("a check without the role", false, |e| {
            e.put_subject(PostureCheck, "mac", &words("lax"), 50)
        }),
    ];
    for (what, moves, act) in cases {
        let mut engine = office();
        dial(
            &mut engine,
            "base",
            AllOf,
            Dial,
            "#sales #eu",
            "#sql",
            "#strict",
            10,
        );
        engine.last_change_at("alice", 20);
        act(&mut engine);
        assert_eq!(
            engine.last_change_at("alice", 20),
            if moves { 50 } else { 20 },
            "{what}"
        );
    }
}

#[test]
fn last_change_never_goes_back() {
    let mut engine = office();
    assert_eq!(engine.last_change_at("alice", 100), 100);
    engine.service_changed("db", 90);
    assert_eq!(engine.last_change_at("alice", 100), 101);
    engine.identity_changed("alice", 90);
    assert_eq!(engine.last_change_at("alice", 100), 102);
    engine.service_changed("db", 500);
    assert_eq!(engine.last_change_at("alice", 100), 500);
    engine.remove_subject(Identity, "alice", 501);
    engine.put_subject(Identity, "alice", &words("sales eu"), 502);
    assert_eq!(
        engine.last_change_at("alice", 600),
        600,
        "a new identity has seen nothing"
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
