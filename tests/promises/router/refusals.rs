//! Refused dials and binds are recorded in the history, counted together so that a flood costs few
//! rows.

use std::time::Duration;

use model::clock::Clock;
use serde_json::{Value as Json, json};

use super::{
    scene::{Scene, run},
    sdk::{Options, Sdk},
};
use crate::harness::{TestServer, fresh};

/// The history rows about refused dials and binds, the oldest first, with their identities.
fn refusal_rows(scene: &Scene) -> Vec<(String, Json)> {
    let rows = scene
        .server
        .admin
        .list(
            "/overkeep/v1/history",
            "action = \"refusal\" sort by sequence asc limit 100",
            "",
        )
        .expect(200);
    let rows = rows.data().as_array().unwrap().iter();
    let of_traffic = rows.filter(|row| {
        ["dial", "bind", "traffic"]
            .iter()
            .any(|what| row["after"]["what"] == *what)
    });
    of_traffic
        .map(|row| (row["id"].as_str().unwrap().to_owned(), row["after"].clone()))
        .collect()
}

fn times(rows: &[(String, Json)]) -> u64 {
    rows.iter()
        .map(|(_, after)| after["times"].as_u64().unwrap())
        .sum()
}

/// Waits until this many refusals are in the history: a row is written after the answer to its
/// caller.
fn wait_for(scene: &Scene, count: u64) -> Vec<(String, Json)> {
    assert!(
        super::scene::soon(|| times(&refusal_rows(scene)) >= count),
        "{:?}",
        refusal_rows(scene)
    );
    refusal_rows(scene)
}

async fn refused(sdk: &Sdk, token: &str) {
    assert!(sdk.dial(token).await.is_err());
}

/// Moves the clock beyond the pause between two writes.
fn next_minute(scene: &Scene) {
    scene.server.clock.advance(Duration::from_secs(61));
    scene.server.run_due_jobs();
}

fn scene_with_manual_clock() -> Scene {
    let server = TestServer::with(Clock::manual(Clock::system().now()), |config| {
        config.router.enabled = true
    });
    Scene::on(server.unverified(), false)
}

#[test]
fn refused_dials_are_told_with_reasons() {
    let scene = scene_with_manual_clock();
    run(async {
        let (sdk, token) = scene.dialler(Options::GO).await;
        // A dial that fails because there is no host is not a refusal: it counts nowhere below.
        refused(&sdk, &token).await;
        refused(&sdk, "no-such-token").await;
        let first = wait_for(&scene, 1);
        assert_eq!(first[0].0, scene.client.id);
        assert_eq!(
            (&first[0].1["what"], &first[0].1["reason"]),
            (&json!("dial"), &json!("the session is not known"))
        );
        assert_eq!(
            (&first[0].1["times"], &first[0].1["service"]),
            (&json!(1), &Json::Null)
        );

        // A session of the other type, and a router that is no longer in common.
        let bind = scene.host.session(&scene.service, "Bind");
        let host = scene.host.connect(&scene.server, Options::GO).await;
        refused(&host, &bind).await;
        let policy = scene
            .server
            .admin
            .get("/service-edge-router-policies")
            .expect(200)
            .each("id")[0]
            .to_owned();
        scene
            .server
            .admin
            .delete(&format!("/service-edge-router-policies/{policy}"))
            .expect(200);
        refused(&sdk, &token).await;
        refused(&sdk, &token).await;
        assert!(host.host(&bind).await.is_err());
        next_minute(&scene);
    });
    let rows = wait_for(&scene, 5);
    let row = |what: &str, reason: &str| {
        let found = rows
            .iter()
            .find(|(_, after)| after["what"] == what && after["reason"] == reason);
        found.unwrap_or_else(|| panic!("{what}, {reason}: {rows:#?}"))
    };
    let (who, after) = row("dial", "identity and service may not both use the router");
    assert_eq!(
        (who, &after["times"], &after["service"]),
        (&scene.client.id, &json!(2), &json!(scene.service))
    );
    assert!(
        after["serviceName"]
            .as_str()
            .unwrap()
            .starts_with("service"),
        "{after:#}"
    );
    assert_eq!(
        row("dial", "the session is of the other type").0,
        scene.host.id
    );
    assert_eq!(
        row("bind", "identity and service may not both use the router").0,
        scene.host.id
    );
    assert_eq!(times(&rows), 5, "{rows:#?}");
}

#[test]
fn floods_of_dials_hide_no_login() {
    let scene = scene_with_manual_clock();
    let services: Vec<String> = (0..40)
        .map(|_| {
            scene
                .server
                .service(&fresh("service"), json!({ "encryptionRequired": true }))
        })
        .collect();
    let all: Vec<String> = services
        .iter()
        .map(|service| format!("@{service}"))
        .collect();
    scene.server.service_policy(
        "Dial",
        &[&format!("@{}", scene.client.id)],
        &all.iter().map(String::as_str).collect::<Vec<_>>(),
    );
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
    scene
        .server
        .anonymous()
        .post("/authenticate?method=password", wrong)
        .expect(401);
    let logins = || {
        scene
            .server
            .admin
            .list("/overkeep/v1/history", "action = \"refusal\"", "")
            .expect(200)
    };
    let has_password_row = |rows: &Json| {
        rows.as_array()
            .unwrap()
            .iter()
            .any(|row| row["after"]["what"] == "password")
    };
    assert!(
        has_password_row(logins().data()),
        "log-ins are counted separately from dials"
    );
    next_minute(&scene);
    let rows = wait_for(&scene, 200);
    assert_eq!(times(&rows), 200, "every refusal is counted");
    assert!(rows.len() <= 18, "{}", rows.len());
    assert!(
        rows.iter()
            .any(|(who, after)| after["what"] == "traffic" && who.is_empty()),
        "the rest is one row"
    );
}
