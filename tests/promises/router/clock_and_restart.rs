//! Clocks that jump, and controllers that are restarted under load.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use model::clock::Clock;

use super::{
    revocation_load::{MANY, dial},
    scene::{Member, Scene, run, runtime, soon},
    sdk::{Conn, Event, Options},
};
use crate::harness::TestServer;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn assert_carries(client: &mut Conn, host: &mut Conn, text: &[u8]) {
    client.send(text).await;
    assert_eq!(host.data().await, text);
    host.send(text).await;
    assert_eq!(client.data().await, text);
}

#[test]
fn clock_jumps_leave_circuits_standing() {
    let clock = Clock::manual(Clock::system().now());
    let server = TestServer::with(clock.clone(), |config| config.router.enabled = true);
    let scene = Scene::on(server.unverified(), false);
    run(async {
        let (mut client, mut host, listener) = scene.connected(Options::GO).await;
        assert_carries(&mut client, &mut host, b"before").await;
        let now = clock.now();
        for jump in [now.plus(DAY), now.minus(DAY), now.plus(400 * DAY), now] {
            clock.set(jump);
            scene.server.run_due_jobs();
            assert_carries(&mut client, &mut host, b"meanwhile").await;
            assert_eq!(scene.server.router().circuits().len(), 1, "{jump}");
        }
        // New circuits open as well, and circuits still end with their session.
        let token = scene.client.session(&scene.service, "Dial");
        let mut listener = listener;
        let (second, accepted) = tokio::join!(client.sdk.dial(&token), listener.accept());
        assert_carries(&mut second.unwrap(), &mut { accepted }, b"after").await;
        clock.set(now.plus(DAY));
        scene
            .server
            .admin
            .delete(&format!("/service-policies/{}", scene.dial))
            .expect(200);
        client.ended().await;
    });
}

#[test]
fn circuits_end_with_an_expired_session() {
    const PART: Duration = Duration::from_secs(20 * 60);
    let clock = Clock::manual(Clock::system().now());
    let server = TestServer::with(clock.clone(), |config| config.router.enabled = true);
    let scene = Scene::on(server.unverified(), false);
    let other = Member::new(&scene.server, "other");
    scene.server.service_policy(
        "Dial",
        &[&format!("@{}", other.id)],
        &[&format!("@{}", scene.service)],
    );
    run(async {
        let (mut client, mut host, mut listener) = scene.connected(Options::GO).await;
        let sdk = other.connect(&scene.server, Options::GO).await;
        let token = other.session(&scene.service, "Dial");
        let (other_client, mut other_host) = tokio::join!(sdk.dial(&token), listener.accept());
        let mut other_client = other_client.unwrap();
        assert_carries(&mut client, &mut host, b"before").await;
        let token = scene.client.session(&scene.service, "Dial");
        let (many, _accepted) = tokio::join!(dial(&client.sdk, &token, MANY), async {
            let mut accepted = Vec::new();
            while accepted.len() < MANY {
                accepted.push(listener.accept().await);
            }
            accepted
        });
        // An open channel is marked as active now and then, by the time of the host. If that falls
        // between two moves of the clock, they do not expire the session.
        let expires = || {
            for _ in 0..2 {
                clock.advance(PART);
                for used in [&other.caller, &scene.host.caller, &scene.server.admin] {
                    used.get("/current-api-session").expect(200);
                }
            }
            scene.server.run_due_jobs();
            scene.client.caller.get("/current-api-session").status == 401
        };
        assert!((0..5).any(|_| expires()), "the session does not expire");
        client.sdk.closed().await;
        assert!(!host.ended().await.text.is_empty());
        drop(many);
        assert!(
            soon(|| scene.server.router().circuits().len() == 1),
            "{}",
            scene.server.router().circuits().len()
        );
        assert_carries(&mut other_client, &mut other_host, b"after").await;
    });
}

/// Sends a message and waits for its echo, repeatedly until the circuit ends.
async fn ping(mut client: Conn, echoes: Arc<AtomicU64>) {
    loop {
        client.send(&[7; 2000]).await;
        match client.next().await {
            Event::Data(data) => assert_eq!(data, [7; 2000]),
            Event::Fin => panic!("nobody finishes"),
            Event::Closed(_) | Event::Lost => return,
        }
        echoes.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn restarts_under_load_lose_no_session() {
    let mut scene = Scene::new();
    let tokens = (
        scene.host.session(&scene.service, "Bind"),
        scene.client.session(&scene.service, "Dial"),
    );
    let echoes = Arc::<AtomicU64>::default();
    for _ in 0..2 {
        let pings = run(async {
            let host = scene
                .host
                .connect(&scene.server, Options::GO)
                .await
                .host(&tokens.0)
                .await
                .unwrap();
            tokio::spawn(host.echo());
            let sdk = scene.client.connect(&scene.server, Options::GO).await;
            let mut pings = Vec::new();
            for _ in 0..50 {
                pings.push(
                    runtime().spawn(ping(sdk.dial(&tokens.1).await.unwrap(), echoes.clone())),
                );
            }
            pings
        });
        assert_eq!(
            scene.server.admin.get("/terminators").expect(200).total(),
            1
        );
        let before = echoes.load(Ordering::Relaxed);
        assert!(soon(|| echoes.load(Ordering::Relaxed) > before + 500));
        let Scene {
            server,
            service,
            host,
            client,
            bind,
            dial,
        } = scene;
        let server = server.restarted(|config| config.router.enabled = true);
        scene = Scene {
            server,
            service,
            host,
            client,
            bind,
            dial,
        };
        // Each end was either told or lost its channel.
        run(async {
            for ping in pings {
                tokio::time::timeout(super::sdk::PATIENCE, ping)
                    .await
                    .unwrap()
                    .unwrap();
            }
        });
        assert!(
            scene.server.router().circuits().is_empty()
                && scene.server.router().queued_bytes() == 0
        );
        assert_eq!(
            scene.server.admin.get("/terminators").expect(200).total(),
            0
        );
    }
}
