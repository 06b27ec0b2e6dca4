//! The last change of what an identity sees.

use super::*;

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
