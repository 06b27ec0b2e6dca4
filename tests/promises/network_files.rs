//! Networks as files that people write: what they may leave out, and what they are told about plans
//! and errors.

use std::path::PathBuf;

use serde_json::json;

use crate::{
    command_line::{Ran, on_host},
    harness::{TestServer, fresh},
};

/// Writes a file beside the data of a controller.
fn file(server: &TestServer, text: &str) -> PathBuf {
    let path = server.data().with_file_name(fresh("network.yaml"));
    std::fs::write(&path, text).unwrap();
    path
}

/// Runs `plan` or `apply` on a text.
fn run(server: &TestServer, command: &str, text: &str) -> Ran {
    on_host(server, &[command, file(server, text).to_str().unwrap()])
}

#[test]
fn required_members_have_defaults() {
    let server = TestServer::start();
    let text = "identities:\n  - name: alice\n  - {name: bob, isAdmin: true}\nservices:\n  - name: web\nservice-policies:\n  \
                - {name: p, type: Dial, identityRoles: ['@alice'], serviceRoles: ['@web']}\n";
    run(&server, "apply", text).good();
    let show =
        |kind: &str, name: &str| on_host(&server, &["show", kind, name, "-o", "json"]).json();
    let (alice, bob) = (show("identity", "alice"), show("identity", "bob"));
    assert_eq!(
        (&alice["typeId"], &alice["isAdmin"], &bob["isAdmin"]),
        (&json!("Default"), &json!(false), &json!(true))
    );
    assert_eq!(show("service", "web")["encryptionRequired"], true);
    assert_eq!(show("service-policy", "p")["semantic"], "AllOf");
    assert_eq!(run(&server, "plan", text).good(), "nothing to do");
    // What is left out has its default also if it had another value; the type of an identity cannot
    // change.
    let planned = run(&server, "plan", "identities:\n  - name: bob\n");
    assert!(
        planned.status == 3 && planned.out.contains("isAdmin: true -> false"),
        "{}",
        planned.out
    );
    let router = fresh("router");
    server
        .admin
        .post(
            "/edge-routers",
            json!({ "name": router, "isTunnelerEnabled": true }),
        )
        .expect(201);
    assert_eq!(
        run(
            &server,
            "plan",
            &format!("identities:\n  - name: {router}\n")
        )
        .good(),
        "nothing to do"
    );
    // A policy without a type is still refused.
    run(&server, "plan", "service-policies:\n  - name: q\n").bad(1, &["service-policies.q.type"]);
}

#[test]
fn plans_count_by_service() {
    let server = TestServer::start();
    let people = ["ann", "bob", "cid"];
    for (at, name) in people.into_iter().enumerate() {
        server.identity(
            name,
            json!({ "roleAttributes": people.iter().skip(at).collect::<Vec<_>>() }),
        );
    }
    ["one", "three", "two"]
        .into_iter()
        .for_each(|name| drop(server.service(name, json!({}))));
    let policy = |role: &str, service: &str| {
        format!(
            "  - {{name: to-{service}, type: Dial, semantic: AnyOf, identityRoles: ['#{role}'], serviceRoles: ['@{service}']}}\n"
        )
    };
    // Six of nine pairs.
    let text = format!(
        "service-policies:\n{}{}{}",
        policy("ann", "one"),
        policy("bob", "two"),
        policy("cid", "three")
    );
    let planned = run(&server, "plan", &text);
    let lines: Vec<&str> = planned
        .out
        .lines()
        .filter(|line| line.starts_with("gains"))
        .collect();
    let expected = [
        "gains: ann may dial one (1 in all)",
        "gains: ann, bob, cid may dial three (3 in all)",
        "gains: ann, bob may dial two (2 in all)",
    ];
    assert_eq!(lines, expected, "{}", planned.out);
    run(&server, "apply", &text).good();
    let lost = run(
        &server,
        "plan",
        "identities:\n  - {name: cid, roleAttributes: []}\n",
    );
    assert!(
        lost.out.contains("loses: cid may dial three (1 in all)"),
        "{}",
        lost.out
    );
    let preview = on_host(&server, &["delete", "identity", "ann", "--preview"]).good();
    let lines: Vec<&str> = preview
        .lines()
        .filter(|line| line.starts_with("loses"))
        .collect();
    assert_eq!(lines.len(), 3, "{preview}");
}

#[test]
fn plans_and_applies_keep_one_order() {
    let server = TestServer::start();
    let names: Vec<String> = (0..30).map(|at| format!("identity-{at:02}")).collect();
    let services: Vec<String> = (0..5).map(|at| format!("service-{at}")).collect();
    let listed = |names: &[String], more: &str| {
        names
            .iter()
            .rev()
            .map(|name| format!("  - {{name: {name}{more}}}\n"))
            .collect::<String>()
    };
    let text = format!(
        "identities:\n{}services:\n{}service-policies:\n  - {{name: p, type: Dial, identityRoles: ['#a'], serviceRoles: ['#all']}}\n",
        listed(&names, ", roleAttributes: [a]"),
        listed(&services, "")
    );
    let lines = |ran: Ran| {
        let mut lines: Vec<String> = ran.out.lines().map(str::to_owned).collect();
        lines.pop();
        lines
    };
    let first = lines(run(&server, "plan", &text));
    assert!(
        first
            .iter()
            .any(|line| line.starts_with("gains: identity-00, identity-01, ")
                && line.contains("may dial service-0 (30 in all)")),
        "{first:#?}"
    );
    assert_eq!(lines(run(&server, "plan", &text)), first);
    assert_eq!(lines(run(&server, "apply", &text)), first);
}

#[test]
fn errors_name_object_and_line() {
    let server = TestServer::start();
    let bad = |text: &str, words: &[&str]| {
        run(&server, "plan", text).bad(1, words);
        run(&server, "apply", text).bad(1, words);
    };
    bad(
        "services:\n  - name: web\nidentities:\n  - name: bob\n  - name: alice\n    isAdmin: false\n    type: Robot\n",
        &["identities.alice.type", "(line 7)"],
    );
    bad(
        "identities:\n  - name: alice\n    isAdmin: maybe\n",
        &["identities.alice.isAdmin", "(line 3)"],
    );
    bad(
        "identities:\n  - isAdmin: true\n",
        &["identities.0.name", "(line 2)"],
    );
    bad(
        "assertions: [a must dial b]\nidentities:\n\n  - name: alice\n    colour: red\n",
        &["identities.alice", "colour", "line"],
    );
    // Found by the controller while it applies the file.
    let policy = "service-policies:\n  - name: p\n    type: Dial\n    identityRoles: ['@nobody']\n";
    bad(policy, &["service-policies.p.identityRoles", "(line 4)"]);
    bad(
        "services:\n  - name: a b\n    configs: [none]\n",
        &["services.a b.configs", "(line 3)"],
    );
    bad(
        "services:\n  - name: a\n  - name: a\n",
        &["services.a", "twice", "line"],
    );
}
