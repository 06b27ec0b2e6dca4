//! The line that an invitation prints.

use std::{thread::sleep, time::Duration};

use super::*;

/// The token in the line of an invitation.
fn token(told: &str) -> String {
    let line = told.lines().last().unwrap();
    let word = line.split(' ').nth(1);
    word.unwrap_or_else(|| panic!("{told}")).to_owned()
}

fn invite(server: &TestServer, words: &[&str]) -> Ran {
    on_host(server, &[&["invite"], words].concat())
}

fn shown(server: &TestServer, name: &str) -> Json {
    on_host(server, &["show", "identity", name, "-o", "json"]).json()
}

#[test]
fn the_line_enrolls_once() {
    let server = TestServer::start();
    let there = LoggedIn::to(&server);
    let [name, role] = ["alice", "sales"].map(fresh);
    let told = there.run(&["invite", &name, "--role", &role, "--role", "all-day"]);
    // The address of a test leads to this host only.
    let warning = format!("warning: {} is reachable only from", server.bound());
    assert!(told.err.contains(&warning), "{}", told.err);
    let told = told.good();
    let address = format!("https://{}:", server.bound());
    assert!(
        told.contains(&address) && told.contains(&format!("create identities {name}")),
        "{told}"
    );
    let mut roles = vec![role, "all-day".to_owned()];
    roles.sort();
    let mut given: Vec<String> =
        serde_json::from_value(shown(&server, &name)["roleAttributes"].clone()).unwrap();
    given.sort();
    assert_eq!(given, roles);
    let line = told.lines().last().unwrap();
    let file = format!("{name}.json");
    assert!(line.ends_with(&format!(" -o {file}")), "{line}");
    there.typed(line).good();
    assert!(there.typed(&format!("grep -c ztAPI {file}")).good() == "1");
    assert!(shown(&server, &name)["authenticators"]["cert"]["id"].is_string());
    let again = there.typed(&line.replace(&file, "other.json"));
    assert_eq!(again.status, 1, "{}", again.err);
    there
        .run(&["invite", &name])
        .bad(1, &[&name, "has enrolled", "delete authenticator"]);
}

#[test]
fn a_token_is_shown_again_until_it_is_renewed() {
    let server = TestServer::start();
    let name = fresh("alice");
    let first = invite(&server, &[&name]).good();
    let again = invite(&server, &[&name]).good();
    assert!(again.contains("has not enrolled"), "{again}");
    assert_eq!(token(&again), token(&first));
    let renewed = invite(&server, &[&name, "--renew"]).good();
    assert_ne!(token(&renewed), token(&first));
    // A role of an identity that exists is named, and not added.
    let roles = invite(&server, &[&name, "--role", "sales"]);
    assert!(
        roles.err.contains("does not have the role sales"),
        "{}",
        roles.err
    );
    assert_eq!(token(&roles.good()), token(&renewed));
    assert_eq!(shown(&server, &name)["roleAttributes"], json!([]));
}

#[test]
fn a_token_that_has_ended_or_is_missing_is_made() {
    let server = TestServer::start();
    let there = LoggedIn::to(&server);
    let [ended, bare] = ["ended", "bare"].map(fresh);
    for name in [&ended, &bare] {
        server.identity(name, json!({}));
    }
    // Long enough for a busy machine to get there before.
    let end = std::time::SystemTime::now() + Duration::from_secs(6);
    let id = shown(&server, &ended)["id"].clone();
    let expires_at = model::clock::Timestamp::from(end).to_string();
    let body = json!({ "identityId": id, "method": "ott", "expiresAt": expires_at });
    server.admin.post("/enrollments", body).expect(201);
    while let Ok(left) = end.duration_since(std::time::SystemTime::now()) {
        sleep(left + Duration::from_millis(1));
    }
    for (name, words) in [(&ended, "has ended"), (&bare, "had no token")] {
        let told = there.run(&["invite", name]).good();
        assert!(told.contains(words), "{told}");
        there.typed(told.lines().last().unwrap()).good();
    }
}

#[test]
fn an_address_of_others_is_named_without_a_warning() {
    let server = TestServer::with(model::clock::Clock::system(), |config| {
        config.advertise = vec!["overlay.example.org:1280".parse().unwrap()];
    });
    let name = "o'brien / the \u{e4}lder";
    let ran = invite(&server, &[name]);
    assert!(!ran.err.contains("warning"), "{}", ran.err);
    let told = ran.good();
    assert!(told.contains("https://overlay.example.org:1280:"), "{told}");
    // The name of the file has no meaning for a shell.
    assert!(told.ends_with(" -o o-brien---the--lder.json"), "{told}");
}

#[test]
fn a_token_is_drawn_as_a_code() {
    let server = TestServer::start();
    let told = invite(&server, &[&fresh("alice"), "--qr"]).good();
    let drawn = |line: &&str| line.chars().all(|letter| " █▀▄".contains(letter));
    let code: Vec<&str> = told.lines().filter(drawn).collect();
    let width = code[0].chars().count();
    assert!(width > 60 && code.len() == width.div_ceil(2), "{told}");
    assert!(
        code.iter().all(|line| line.chars().count() == width),
        "{told}"
    );
    assert!(told.lines().last().unwrap().starts_with("echo "), "{told}");
}
