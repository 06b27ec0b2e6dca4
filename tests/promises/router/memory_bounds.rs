//! A slow peer delays others only as long as memory lasts, and memory is bounded.

use std::time::Duration;

use model::clock::Clock;
use serde_json::json;
use wire::frame::{Builder, content};

use super::{
    scene::{Member, Scene, run, soon},
    sdk::{Conn, Options},
};
use crate::harness::{TestServer, fresh};

/// A scene with bounds in KiB for a circuit, and in MiB for a channel and for all.
pub fn bounded(circuit: usize, channel: usize, total: usize) -> Scene {
    let server = TestServer::with(Clock::system(), |config| {
        config.router.enabled = true;
        config.router.max_circuit_kib = circuit;
        config.router.max_channel_mib = channel;
        config.router.max_total_mib = total;
    });
    Scene::on(server, false)
}

/// Another service with its own host, and a circuit to it from a channel of `from`.
pub async fn another(scene: &Scene, from: &Member) -> (Conn, Conn, super::sdk::Host) {
    between(scene, from, &Member::new(&scene.server, "host")).await
}

/// A circuit to another service between new channels of two identities.
pub async fn between(
    scene: &Scene,
    from: &Member,
    host: &Member,
) -> (Conn, Conn, super::sdk::Host) {
    let service = scene
        .server
        .service(&fresh("service"), json!({ "encryptionRequired": false }));
    scene.server.service_policy(
        "Bind",
        &[&format!("@{}", host.id)],
        &[&format!("@{service}")],
    );
    scene.server.service_policy(
        "Dial",
        &[&format!("@{}", from.id)],
        &[&format!("@{service}")],
    );
    let mut listener = host
        .connect(&scene.server, Options::GO)
        .await
        .host(&host.session(&service, "Bind"))
        .await
        .unwrap();
    let sdk = from.connect(&scene.server, Options::GO).await;
    let token = from.session(&service, "Dial");
    let (client, host) = tokio::join!(sdk.dial(&token), listener.accept());
    (client.unwrap(), host, listener)
}

const PART: usize = 16 << 10;

#[test]
fn slow_host_slows_no_other_channel() {
    let scene = bounded(64, 1, 8);
    run(async {
        let (stalled, mut stalled_host, _listener) = scene.connected(Options::GO).await;
        let (client, mut host, _listener) = another(&scene, &scene.client).await;
        stalled_host.sdk.pause();
        let sending = tokio::spawn(async move {
            for number in 0..400_u32 {
                stalled.send(&number.to_le_bytes().repeat(PART / 4)).await;
            }
            stalled.finish().await;
            stalled
        });
        assert!(soon(|| scene.server.router().queued_bytes() > 40 << 10));
        for _ in 0..100 {
            client.send(&[1; PART]).await;
            assert_eq!(host.data().await.len(), PART);
        }
        assert!(!sending.is_finished(), "the sender waits for its host");
        // The queue, and what the writer holds.
        assert!(
            scene.server.router().queued_bytes() <= (64 + 80) << 10,
            "{}",
            scene.server.router().queued_bytes()
        );
        stalled_host.sdk.resume();
        for number in 0..400_u32 {
            assert_eq!(
                stalled_host.data().await,
                number.to_le_bytes().repeat(PART / 4)
            );
        }
        assert_eq!(stalled_host.rest().await, b"");
        drop(sending.await.unwrap());
        assert!(soon(|| scene.server.router().queued_bytes() == 0));
    });
}

#[test]
fn unread_connection_leaves_its_channel_working() {
    let scene = bounded(512, 16, 64);
    run(async {
        let (stalled, stalled_host, _listener) = scene.connected(Options::GO).await;
        stalled_host.sdk.pause();
        // On the same channel of the client, to another host.
        let service = scene
            .server
            .service(&fresh("service"), json!({ "encryptionRequired": false }));
        let other = Member::new(&scene.server, "other");
        scene.server.service_policy(
            "Bind",
            &[&format!("@{}", other.id)],
            &[&format!("@{service}")],
        );
        scene.server.service_policy(
            "Dial",
            &[&format!("@{}", scene.client.id)],
            &[&format!("@{service}")],
        );
        let mut listener = other
            .connect(&scene.server, Options::GO)
            .await
            .host(&other.session(&service, "Bind"))
            .await
            .unwrap();
        let token = scene.client.session(&service, "Dial");
        let (client, mut host) = tokio::join!(stalled.sdk.dial(&token), listener.accept());
        let client = client.unwrap();
        // The connection between the router and the host buffers some of it.
        for _ in 0..40 {
            stalled.send(&[0; PART]).await;
        }
        for _ in 0..20 {
            client.send(b"passes").await;
            assert_eq!(host.data().await, b"passes");
        }
        assert!(
            client
                .sdk
                .ask(Builder::new(content::PING).empty())
                .await
                .is_some()
        );
    });
}

#[test]
fn stalled_circuits_stay_within_bounds() {
    let scene = bounded(512, 4, 8);
    run(async {
        let mut stalled = Vec::new();
        for _ in 0..5 {
            let (first, host, mut listener) = another(&scene, &scene.client).await;
            let service = scene
                .server
                .router()
                .circuits()
                .last()
                .unwrap()
                .service_id
                .clone();
            let token = scene.client.session(&service, "Dial");
            let mut circuits = vec![(first, host)];
            for _ in 0..199 {
                // Each from its own channel, so that none waits behind another.
                let sdk = if circuits.len() % 20 == 0 {
                    scene.client.connect(&scene.server, Options::GO).await
                } else {
                    circuits.last().unwrap().0.sdk.clone()
                };
                let (client, accepted) = tokio::join!(sdk.dial(&token), listener.accept());
                circuits.push((client.unwrap(), accepted));
            }
            listener.sdk.pause();
            stalled.push((circuits, listener));
        }
        assert_eq!(scene.server.router().circuits().len(), 1000);
        let mut sending = Vec::new();
        let (mut ends, mut listeners) = (Vec::new(), Vec::new());
        for (circuits, listener) in stalled {
            for (client, host) in circuits {
                sending.push(tokio::spawn(async move {
                    for _ in 0..40 {
                        client.send(&[0; PART]).await;
                    }
                    client
                }));
                ends.push(host);
            }
            listeners.push(listener);
        }
        let router = scene.server.router();
        assert!(
            soon(|| router.queued_bytes() > 4 << 20),
            "{}",
            router.queued_bytes()
        );
        let (client, mut host, _listener) = another(&scene, &scene.host).await;
        for _ in 0..100 {
            client.send(&[1; PART]).await;
            assert_eq!(host.data().await.len(), PART);
            assert!(
                router.queued_bytes() <= (8 << 20) + (1 << 20),
                "{}",
                router.queued_bytes()
            );
        }
        assert!(router.circuits().len() >= 1000);
        sending.iter().for_each(tokio::task::JoinHandle::abort);
    });
}

#[test]
fn full_memory_cuts_off_stalled_peers() {
    let (scene, part) = (bounded(64, 4, 8), vec![0; 1900 << 10]);
    run(async {
        let router = scene.server.router();
        let (quick, mut quick_host, _listener) = another(&scene, &scene.client).await;
        let (large, mut large_host, _other) = another(&scene, &scene.client).await;
        let (mut hosts, mut sending) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            let (client, host, listener) = another(&scene, &scene.client).await;
            host.sdk.pause();
            let part = part.clone();
            sending.push(tokio::spawn(async move {
                for _ in 0..10 {
                    client.send(&part).await;
                }
                client
            }));
            hosts.push((host, listener));
        }
        assert!(
            soon(|| router.queued_bytes() > 7 << 20),
            "{}",
            router.queued_bytes()
        );
        assert_eq!(router.traffic().cut_off, 0);
        let waiting = tokio::spawn(async move {
            large.send(&part).await;
            large
        });
        // A circuit with little data is not delayed.
        while router.traffic().cut_off == 0 {
            quick.send(b"ping").await;
            assert_eq!(quick_host.data().await, b"ping");
            assert!(
                router.queued_bytes() <= (8 << 20) + (64 << 10),
                "{}",
                router.queued_bytes()
            );
        }
        assert_eq!(
            large_host.data().await.len(),
            1900 << 10,
            "the message waited until there was room"
        );
        assert!(
            router.channels().len() < 14,
            "the channel of a host that did not read is closed"
        );
        drop((waiting.await.unwrap(), sending));
    });
}

#[test]
fn message_beyond_memory_ends_its_circuit() {
    let scene = bounded(64, 1, 4);
    run(async {
        let (mut client, mut host, _listener) = scene.connected(Options::GO).await;
        // The limit is a quarter of the memory budget, although max-message-mib is 16.
        client.send(&vec![1; 900 << 10]).await;
        assert_eq!(host.data().await.len(), 900 << 10);
        client.send(&vec![1; 5 << 20]).await;
        assert_eq!(client.ended().await.text, "a message is too long");
        assert_eq!(host.ended().await.text, "a message is too long");
        assert!(
            client
                .sdk
                .ask(Builder::new(content::PING).empty())
                .await
                .is_some(),
            "the channel stays open"
        );
    });
}

#[test]
fn non_reading_peer_waits() {
    let scene = Scene::new();
    run(async {
        let (mut client, mut host, _listener) = scene.connected(Options::GO).await;
        let asking = scene.client.connect(&scene.server, Options::GO).await;
        asking.pause();
        let flood = tokio::spawn(async move {
            for _ in 0..100_000 {
                if asking
                    .send(
                        Builder::new(content::LATENCY)
                            .bytes(128, &[1; 1000])
                            .empty(),
                    )
                    .await
                    .is_err()
                {
                    return;
                }
            }
        });
        for _ in 0..100 {
            client.send(b"ping").await;
            host.data().await;
            host.send(b"pong").await;
            client.data().await;
        }
        assert!(
            scene.server.router().queued_bytes() < 256 << 10,
            "{}",
            scene.server.router().queued_bytes()
        );
        flood.abort();
    });
}

#[test]
fn bulk_data_yields_to_small_messages() {
    let scene = Scene::new();
    run(async {
        let (bulk, mut bulk_host, mut listener) = scene.connected(Options::GO).await;
        // Both circuits end on the same channel of the host; the small one comes from another
        // channel.
        let sdk = scene.client.connect(&scene.server, Options::GO).await;
        let token = scene.client.session(&scene.service, "Dial");
        let (small, mut small_host) = tokio::join!(sdk.dial(&token), listener.accept());
        let mut small = small.unwrap();
        let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
        let flow = tokio::spawn(async move {
            let mut sent = 0_usize;
            while stopped.try_recv().is_err() {
                bulk.send(&[0; 32 << 10]).await;
                sent += 1;
            }
            (bulk, sent)
        });
        let drain = tokio::spawn(async move {
            let mut received = 0_usize;
            while let Ok(Some(_)) =
                tokio::time::timeout(Duration::from_secs(1), bulk_host.messages()).await
            {
                received += 1;
            }
            received
        });
        for _ in 0..200 {
            small.send(b"1").await;
            small_host.data().await;
            small_host.send(b"2").await;
            small.data().await;
        }
        let _ = stop.send(());
        let (_bulk, sent) = flow.await.unwrap();
        assert!(sent > 0 && drain.await.unwrap() == sent);
    });
}
