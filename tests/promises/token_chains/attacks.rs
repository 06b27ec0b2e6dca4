//! Chains of requests by which a token could get more than its scope.

use super::*;

fn names<'a>(attacks: &[&'a (&'a str, Attack)]) -> Vec<&'a str> {
    attacks.iter().map(|(name, _)| *name).collect()
}

fn assert_leads_nowhere(world: &World, scope: &Json, attacks: &[&(&str, Attack)]) {
    assert_eq!(
        names(&won(world, scope, attacks)),
        Vec::<&str>::new(),
        "{scope}"
    );
}

#[test]
fn documented_kinds_lead_to_everything() {
    let world = World::new();
    let all: Vec<_> = ATTACKS.iter().collect();
    let (kinds, actions) = words();
    assert!(
        kinds.len() > 30 && actions.len() > 10,
        "{kinds:?} {actions:?}"
    );
    let (leading, harmless): (Vec<&String>, Vec<&String>) = kinds
        .iter()
        .partition(|kind| ESCALATIONS.iter().any(|one| one.kind == **kind));
    assert_leads_nowhere(&world, &json!({ "kinds": harmless }), &all);
    let listed: BTreeSet<&str> = ESCALATIONS
        .iter()
        .flat_map(|one| one.actions)
        .copied()
        .collect();
    let others: Vec<&String> = actions
        .iter()
        .filter(|action| !listed.contains(action.as_str()))
        .collect();
    for scope in [json!({ "actions": others }), json!({ "selfService": true })] {
        assert_leads_nowhere(&world, &scope, &all);
    }
    for kind in leading {
        let found = won(&world, &json!({ "kinds": [kind] }), &all);
        assert!(!found.is_empty(), "{kind} leads nowhere");
        actions_of(&world, kind, &actions, &found);
    }
}

/// Tries the documented actions of a kind with the attacks that succeed with all actions.
fn actions_of(world: &World, kind: &str, actions: &BTreeSet<String>, attacks: &[&(&str, Attack)]) {
    let documented: Vec<_> = ESCALATIONS.iter().filter(|one| one.kind == kind).collect();
    for one in &documented {
        let scope = |left_out: Option<&str>| {
            let actions = one
                .actions
                .iter()
                .copied()
                .chain(["read"])
                .filter(|action| Some(*action) != left_out);
            json!({ "kinds": [kind], "actions": actions.collect::<Vec<_>>() })
        };
        assert!(
            !won(world, &scope(None), attacks).is_empty(),
            "{one:?} leads nowhere"
        );
        for action in one.actions {
            assert_leads_nowhere(world, &scope(Some(action)), attacks);
        }
    }
    let listed: BTreeSet<&str> = documented
        .iter()
        .flat_map(|one| one.actions)
        .copied()
        .collect();
    let others: Vec<&String> = actions
        .iter()
        .filter(|action| !listed.contains(action.as_str()))
        .collect();
    assert_leads_nowhere(
        world,
        &json!({ "kinds": [kind], "actions": others }),
        attacks,
    );
}

#[test]
fn escalating_tokens_are_flagged() {
    let world = World::new();
    let flags = |scope: Json| {
        let (made, _) = world.token(&scope);
        let shown = world
            .server
            .admin
            .at(Base::Overkeep)
            .get(&format!("/api-tokens/{}", made["id"].as_str().unwrap()))
            .expect(200);
        assert_eq!(made["escalations"], shown.data()["escalations"], "{scope}");
        made["escalations"].clone()
    };
    let cas = json!({ "kinds": ["cas", "services"], "actions": ["read", "create", "verify"] });
    assert_eq!(flags(cas), json!(["create and verify cas"]));
    let deploy = json!({ "kinds": ["services", "service-policies", "configs"], "actions": ["read", "create", "update"] });
    assert_eq!(flags(deploy), json!([]));
    assert_eq!(
        flags(json!({ "kinds": ["cas"], "actions": ["create"] })),
        json!([])
    );
    assert_eq!(flags(json!({ "actions": ["read"] })), json!([]));
    assert_eq!(flags(json!({ "selfService": true })), json!([]));
    let creating = ESCALATIONS
        .iter()
        .filter(|one| one.actions == ["create"])
        .count();
    assert!(creating > 4);
    assert_eq!(
        flags(json!({ "actions": ["create"] }))
            .as_array()
            .unwrap()
            .len(),
        creating
    );
    // A token without a scope has every right anyway.
    assert_eq!(flags(json!({})), json!([]));
}

#[test]
fn escalations_are_documented_as_tried() {
    let page = std::fs::read_to_string(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/security.md"),
    )
    .unwrap();
    let part = page
        .split("## Scopes that lead to every right")
        .nth(1)
        .unwrap()
        .split("\n## ")
        .next()
        .unwrap();
    let rows: BTreeSet<String> = part
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(str::to_owned)
        .collect();
    let row = |one: &model::entity::Escalation| {
        let actions = one
            .actions
            .iter()
            .map(|action| format!("`{action}`"))
            .collect::<Vec<_>>()
            .join(" and ");
        format!("| `{}` | {actions} | {} |", one.kind, one.way)
    };
    assert_eq!(rows, ESCALATIONS.iter().map(row).collect());
}
