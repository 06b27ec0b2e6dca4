//! Refused dials and binds are in the history, counted so that a flood of them costs a few rows.

use std::time::Duration;

use overkeep::clock::Clock;
use serde_json::{Value as Json, json};

use super::{
    scene::{Scene, run},
    sdk::{Options, Sdk},
};
use crate::harness::{TestServer, fresh};

/// What the rows about refused dials and binds say, the oldest first, with the identity of each.
fn told(scene: &Scene) -> Vec<(String, Json)> {
    let rows = scene.server.admin.list("/overkeep/v1/history", "action = \"refusal\" sort by sequence asc limit 100", "").expect(200);
    let rows = rows.data().as_array().unwrap().iter();
    let of_traffic = rows.filter(|row| ["dial", "bind", "traffic"].iter().any(|what| row["after"]["what"] == *what));
    of_traffic.map(|row| (row["id"].as_str().unwrap().to_owned(), row["after"].clone())).collect()
}

fn times(rows: &[(String, Json)]) -> u64 {
    rows.iter().map(|(_, after)| after["times"].as_u64().unwrap()).sum()
}

/// Waits for so many refusals to be in the history: a row is written behind the answer to its caller.
fn wait_for(scene: &Scene, count: u64) -> Vec<(String, Json)> {
    assert!(super::scene::soon(|| times(&told(scene)) >= count), "{:?}", told(scene));
    told(scene)
}

async fn refused(sdk: &Sdk, token: &str) {
    assert!(sdk.dial(token).await.is_err());
}

/// Lets the pause between two writes pass.
fn next_minute(scene: &Scene) {
    scene.server.clock.advance(Duration::from_secs(61));
    scene.server.look_after();
}

fn standing_still() -> Scene {
    let server = TestServer::with(Clock::manual(Clock::system().now()), |config| config.router.enabled = true);
    Scene::on(server.unverified(), false)
}

#[test]
fn refused_dials_are_told_with_reasons() {
    let scene = standing_still();
    run(async {
        let (sdk, token) = scene.dialler(Options::GO).await;
        refused(&sdk, "no-such-token").await;
        let first = wait_for(&scene, 1);
        assert_eq!(first[0].0, scene.client.id);
        assert_eq!((&first[0].1["what"], &first[0].1["reason"]), (&json!("dial"), &json!("the session is not known")));
        assert_eq!((&first[0].1["times"], &first[0].1["service"]), (&json!(1), &Json::Null));

        // Of the other type, and over a router that is not in common any more.
        let bind = scene.host.session(&scene.service, "Bind");
        let host = scene.host.connect(&scene.server, Options::GO).await;
        refused(&host, &bind).await;
        let policy = scene.server.admin.get("/service-edge-router-policies").expect(200).each("id")[0].to_owned();
        scene.server.admin.delete(&format!("/service-edge-router-policies/{policy}")).expect(200);
        refused(&sdk, &token).await;
        refused(&sdk, &token).await;
        assert!(host.host(&bind).await.is_err());
        // A dial that fails for want of a host is none that was refused.
        next_minute(&scene);
    });
    let rows = wait_for(&scene, 5);
    let row = |what: &str, reason: &str| {
        let found = rows.iter().find(|(_, after)| after["what"] == what && after["reason"] == reason);
        found.unwrap_or_else(|| panic!("{what}, {reason}: {rows:#?}"))
    };
    let (who, after) = row("dial", "identity and service may not both use the router");
    assert_eq!((who, &after["times"], &after["service"]), (&scene.client.id, &json!(2), &json!(scene.service)));
    assert!(after["serviceName"].as_str().unwrap().starts_with("service"), "{after:#}");
    assert_eq!(row("dial", "the session is of the other type").0, scene.host.id);
    assert_eq!(row("bind", "identity and service may not both use the router").0, scene.host.id);
    assert_eq!(times(&rows), 5, "{rows:#?}");
}

#[test]
fn failed_dials_are_no_refusals() {
    let scene = standing_still();
    run(async {
        let (sdk, token) = scene.dialler(Options::GO).await;
        refused(&sdk, &token).await;
        refused(&sdk, "no-such-token").await;
    });
    let rows = wait_for(&scene, 1);
    next_minute(&scene);
    assert_eq!(told(&scene), rows, "no host is no refusal");
}

#[test]
fn floods_of_dials_hide_no_login() {
    let scene = standing_still();
    let services: Vec<String> = (0..40).map(|_| scene.server.service(&fresh("service"), json!({ "encryptionRequired": true }))).collect();
    let all: Vec<String> = services.iter().map(|service| format!("@{service}")).collect();
    scene.server.service_policy("Dial", &[&format!("@{}", scene.client.id)], &all.iter().map(String::as_str).collect::<Vec<_>>());
    run(async {
        let sdk = scene.client.connect(&scene.server, Options::GO).await;
        for service in &services {
            // Without a key.
            let token = scene.client.session(service, "Dial");
            for _ in 0..5 {
                refused(&sdk, &token).await;
            }
        }
    });
    let wrong = json!({ "username": scene.host.name, "password": "not the password" });
    scene.server.nobody().post("/authenticate?method=password", wrong).expect(401);
    let logins = || scene.server.admin.list("/overkeep/v1/history", "action = \"refusal\"", "").expect(200);
    let is_told = |rows: &Json| rows.as_array().unwrap().iter().any(|row| row["after"]["what"] == "password");
    assert!(is_told(logins().data()), "a log-in is counted apart from dials");
    next_minute(&scene);
    let rows = wait_for(&scene, 200);
    assert_eq!(times(&rows), 200, "none is forgotten");
    assert!(rows.len() <= 18, "{}", rows.len());
    assert!(rows.iter().any(|(who, after)| after["what"] == "traffic" && who.is_empty()), "the rest is one row");
}
