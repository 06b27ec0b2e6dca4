//! Time and clock changes: sessions end after they have idled for the timeout, and for no other
//! reason.

use std::time::Duration;

use model::{clock::Clock, config::Config};
use overkeep::testing::controller;
use serde_json::json;
use tempfile::TempDir;

use crate::harness::{TestServer, fresh, trusting};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[test]
fn clock_changes_do_not_move_sessions() {
    let server = TestServer::with_manual_clock();
    let (_, alice) = server.user(&fresh("alice"), json!({}));
    let (_, bob) = server.user(&fresh("bob"), json!({}));
    let start = server.clock.now();
    let minutes = |count: u64| Duration::from_secs(60 * count);
    for time in [
        start.plus(10 * DAY),
        start.minus(300 * DAY),
        start.plus(3650 * DAY),
        start,
    ] {
        server.clock.set(time);
        server.clock.advance(minutes(9));
        server.run_due_jobs();
        let session = alice.get("/current-api-session").expect(200);
        let end = server.clock.now().plus(minutes(30)).to_string();
        assert_eq!(
            session.data()["expiresAt"],
            end,
            "the end follows the current clock"
        );
    }
    bob.get("/current-api-session")
        .refused(401, "UNAUTHORIZED", "");
    server.clock.advance(minutes(31));
    server.clock.set(start);
    server.run_due_jobs();
    alice
        .get("/current-api-session")
        .refused(401, "UNAUTHORIZED", "");
}

#[test]
fn sessions_survive_restart_with_wrong_clock() {
    let directory = TempDir::new().unwrap();
    let (config, start) = (settings(&directory), Clock::system().now());
    let running = controller::start(&config, Clock::manual(start)).unwrap();
    let password = running.generated_password().unwrap().to_owned();
    let anonymous = trusting(&format!("https://{}", running.bound()));
    let [used, idle] = [
        anonymous.log_in("admin", &password),
        anonymous.log_in("admin", &password),
    ]
    .map(|caller| caller.token.unwrap());
    running.stop();

    let clock = Clock::manual(start.minus(3650 * DAY));
    let running = controller::start(&config, clock.clone()).unwrap();
    let anonymous = trusting(&format!("https://{}", running.bound()));
    for _ in 0..2 {
        clock.advance(Duration::from_secs(20 * 60));
        running.run_due_jobs();
        anonymous
            .with_token(&used)
            .get("/current-api-session")
            .expect(200);
        clock.set(start);
    }
    anonymous
        .with_token(&idle)
        .get("/current-api-session")
        .refused(401, "UNAUTHORIZED", "");
}

#[test]
fn clock_setback_makes_nobody_wait() {
    let server = TestServer::with_manual_clock();
    server
        .admin
        .post("/database/snapshot", json!({}))
        .expect(200);
    server
        .admin
        .post("/database/snapshot", json!({}))
        .refused(429, "RATE_LIMITED", "");
    let guess = || {
        server
            .anonymous()
            .ask(
                "POST",
                "/enroll?method=ott&token=6f5b6d4e-0000-4000-8000-000000000000",
            )
            .send()
            .expect(400)
    };
    let refusals = || {
        server
            .admin
            .list("/overkeep/v1/history", "action = \"refusal\"", "")
            .expect(200)
            .total()
    };
    guess();
    assert_eq!(refusals(), 1);
    server.clock.set(server.clock.now().minus(DAY));
    server.clock.advance(Duration::from_secs(61));
    server
        .admin
        .post("/database/snapshot", json!({}))
        .expect(200);
    guess();
    server.run_due_jobs();
    assert_eq!(refusals(), 2);
}

#[test]
fn last_activity_is_shown() {
    let server = TestServer::with_manual_clock();
    let (id, alice) = server.user(&fresh("alice"), json!({}));
    let opened = server.clock.now();
    server.clock.advance(Duration::from_secs(60));
    let own = alice.get("/current-api-session").expect(200);
    let listed = server
        .admin
        .list("/api-sessions", &format!("identity = \"{id}\""), "")
        .expect(200);
    let shown = server
        .admin
        .get(&format!("/api-sessions/{}", own.id()))
        .expect(200);
    for session in [own.data(), &listed.data()[0], shown.data()] {
        assert_eq!(
            session["cachedLastActivityAt"],
            server.clock.now().to_string()
        );
        assert_eq!(
            session["lastActivityAt"],
            opened.to_string(),
            "the stored time is not updated with each request"
        );
    }
}

fn settings(directory: &TempDir) -> Config {
    let mut config = Config {
        data: directory.path().join("data"),
        ..Config::default()
    };
    config.listen = "127.0.0.1:0".parse().unwrap();
    config.passwords.cost = 10;
    config
}
