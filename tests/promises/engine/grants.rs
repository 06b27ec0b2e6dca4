//! Which policies grant a right, and on which grounds.

use super::*;

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
