//! After random histories the engine answers as the model and as a freshly loaded engine, a preview
//! is the difference, and who watches is told of what changed for them.

use std::{collections::BTreeSet, sync::Arc};

use model::entity::{Counted, PairCount};
use policy::access::{
    AccessDiff, Difference, Engine,
    PolicyEntityKind::{EdgeRouter, Identity, Service},
    PolicyKind,
    Right::{Bind, Dial},
};
use proptest::prelude::*;

use crate::{
    agreement::{agree, all_routers_agree, loaded},
    histories::{Event, apply, change, event, id, news, subject},
    rules::{Model, sides},
    watchers::Watchers,
};

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
        assert_eq!(engine.difference(&news(&changes), usize::MAX), expected);
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
