//! Random histories: the engine, one freshly loaded and the naive model agree.

use super::*;

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
