//! Logins beside one another, and API tokens as logins.

use std::{path::Path, process::Stdio};

use serde_json::json;

use crate::{
    command_line::{Ran, on_host, program},
    harness::{TestServer, fresh},
};

/// Runs a command elsewhere, with variables.
pub fn run(home: &Path, variables: &[(&str, &str)], words: &[&str]) -> Ran {
    let output = program(home)
        .envs(variables.iter().copied())
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Ran::of(words.join(" "), output)
}

/// The address of a server for `overkeep login`.
pub fn url(server: &TestServer) -> String {
    format!("https://{}", server.bound())
}

fn token(server: &TestServer, flags: &[&str]) -> String {
    let made = on_host(
        server,
        &[
            &["create", "api-token", &fresh("token"), "-o", "json"],
            flags,
        ]
        .concat(),
    )
    .json();
    made["token"].as_str().unwrap().to_owned()
}

#[test]
fn several_logins_are_kept() {
    let (one, other, home) = (
        TestServer::start(),
        TestServer::start(),
        tempfile::TempDir::new().unwrap(),
    );
    let run = |words: &[&str]| run(home.path(), &[], words);
    for (server, name, service) in [(&one, "one", "of-one"), (&other, "other", "of-other")] {
        std::fs::write(home.path().join("password"), &server.password).unwrap();
        on_host(server, &["create", "service", service]).good();
        run(&[
            "login",
            &url(server),
            "--password-file",
            "password",
            "--yes",
            "--context",
            name,
        ])
        .good();
    }
    let services = || run(&["list", "services", "-o", "name"]).good();
    assert_eq!(services(), "of-other");
    let listed = run(&["context", "list", "--json"]).json();
    let entry = |server, name, current| json!({ "name": name, "url": url(server), "user": "admin", "current": current });
    assert_eq!(
        listed,
        json!([entry(&one, "one", false), entry(&other, "other", true)])
    );
    run(&["context", "use", "one"]).good();
    assert_eq!(services(), "of-one");
    let chosen = self::run(
        home.path(),
        &[("OVERKEEP_CONTEXT", "other")],
        &["list", "services", "-o", "name"],
    )
    .good();
    assert_eq!(chosen, "of-other");
    run(&["context", "use", "third"]).bad(1, &["third", "one", "other"]);
    self::run(
        home.path(),
        &[("OVERKEEP_CONTEXT", "third")],
        &["list", "services"],
    )
    .bad(1, &["third"]);
    assert!(
        run(&["context", "delete", "other"])
            .good()
            .contains("logged out")
    );
    assert_eq!(services(), "of-one");
    run(&["logout"]).good();
    assert_eq!(run(&["context", "list", "--json"]).json(), json!([]));
    run(&["list", "services"]).bad(1, &["no controller answers"]);
}

#[test]
fn api_tokens_are_logins() {
    let (server, home) = (TestServer::start(), tempfile::TempDir::new().unwrap());
    let (at, secret) = (url(&server), token(&server, &["--actions", "read"]));
    let login = ["login", at.as_str(), "--token", "--yes"];
    let with = |token: &str, words: &[&str]| run(home.path(), &[("OVERKEEP_TOKEN", token)], words);
    with("a password", &login).bad(1, &["not an API token"]);
    with(&format!("ovk_{}", "A".repeat(43)), &login).bad(1, &["overkeep login"]);
    assert!(with(&secret, &login).good().contains("Default Admin"));
    run(home.path(), &[], &["list", "identities"]).good();
    run(home.path(), &[], &["create", "service", "x"]).bad(1, &[]);
    // A token in the environment replaces that of the login.
    let writer = token(&server, &[]);
    with(&writer, &["create", "service", "x"]).good();
    let told = run(home.path(), &[], &["logout"]).good();
    assert!(told.contains("stays valid"), "{told}");
    with(&writer, &["list", "services"]).bad(1, &["OVERKEEP_URL", "OVERKEEP_CA"]);
}

#[test]
fn variables_suffice_without_login() {
    let (server, home) = (TestServer::start(), tempfile::TempDir::new().unwrap());
    let (at, secret) = (url(&server), token(&server, &[]));
    run(
        home.path(),
        &[("OVERKEEP_TOKEN", &secret)],
        &["login", &at, "--token", "--yes"],
    )
    .good();
    let stored = std::fs::read_to_string(home.path().join("overkeep/contexts.json")).unwrap();
    let stored: serde_json::Value = serde_json::from_str(&stored).unwrap();
    let authority = stored["contexts"][server.bound().to_string()]["ca"]
        .as_str()
        .unwrap();
    let elsewhere = tempfile::TempDir::new().unwrap();
    std::fs::write(elsewhere.path().join("ca.pem"), authority).unwrap();
    let with = |url: &str, token: &str, words: &[&str]| {
        run(
            elsewhere.path(),
            &[
                ("OVERKEEP_URL", url),
                ("OVERKEEP_CA", "ca.pem"),
                ("OVERKEEP_TOKEN", token),
            ],
            words,
        )
    };
    with(&at, &secret, &["create", "service", "made-with-variables"]).good();
    assert_eq!(
        with(&at, &secret, &["list", "services", "-o", "name"]).good(),
        "made-with-variables"
    );
    with("http://localhost", &secret, &["list", "services"]).bad(2, &["OVERKEEP_URL"]);
    with(&at, "", &["list", "services"]).bad(2, &["OVERKEEP_URL", "OVERKEEP_TOKEN"]);
    with(
        &at,
        &format!("ovk_{}", "A".repeat(43)),
        &["list", "services"],
    )
    .bad(1, &[]);
    assert!(!elsewhere.path().join("overkeep").exists());
}
