//! One identity cannot use up the memory that all identities share, and who has most is cut off
//! first.

use wire::frame::Builder;

use super::{
    memory_bounds::{another, between, bounded},
    scene::{Member, Scene, run, soon},
    sdk::{Conn, Options, key, kind},
};
use crate::harness::TestServer;

const MIB: usize = 1 << 20;
/// Nearly the longest message with 8 MiB in total.
const LONG: usize = 1900 << 10;

/// Has a client send messages for ever. Keeps its connection.
fn fill(client: Conn, bytes: usize) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            client.send(&vec![0; bytes]).await;
        }
    })
}

fn is_open(server: &TestServer, identity: &str) -> bool {
    server
        .router()
        .channels()
        .iter()
        .any(|channel| channel.identity_id == identity)
}

#[test]
fn one_identity_leaves_memory_to_others() {
    let scene = bounded(64, 4, 8);
    run(async {
        let router = scene.server.router();
        let (mut ends, mut sending) = (Vec::new(), Vec::new());
        for _ in 0..6 {
            // All hosts are channels of one identity.
            let (client, host, listener) = between(&scene, &scene.client, &scene.host).await;
            host.sdk.pause();
            sending.push(fill(client, LONG));
            ends.push((host, listener));
        }
        assert!(soon(|| router.traffic().reader_pauses >= 2));
        let (quick, mut quick_host, _listener) =
            another(&scene, &Member::new(&scene.server, "quick")).await;
        for _ in 0..100 {
            quick.send(&[1; 32 << 10]).await;
            assert_eq!(quick_host.data().await.len(), 32 << 10);
            assert!(
                router.queued_bytes() <= 3 * MIB,
                "a third of all, and short messages: {}",
                router.queued_bytes()
            );
        }
        quick.send(&vec![1; LONG]).await;
        assert_eq!(quick_host.data().await.len(), LONG);
        assert_eq!(router.traffic().cut_off, 0, "there is memory left");
        sending.iter().for_each(tokio::task::JoinHandle::abort);
    });
}

#[test]
fn who_has_most_is_cut_off() {
    let scene = bounded(512, 4, 8);
    run(async {
        let router = scene.server.router();
        let (mut ends, mut sending) = (Vec::new(), Vec::new());
        // The first one stalls for the longest time, and has little.
        let modest = Member::new(&scene.server, "modest");
        let (client, host, _listener) = between(&scene, &scene.client, &modest).await;
        host.sdk.pause();
        // A paused host still takes the first message, and its connection a part of the others.
        for _ in 0..4 {
            client.send(&vec![0; 150 << 10]).await;
        }
        let is_little = |bytes| (100 << 10..MIB).contains(&bytes);
        assert!(soon(|| is_little(router.queued_bytes())));
        for _ in 0..6 {
            let (client, host, listener) =
                another(&scene, &Member::new(&scene.server, "client")).await;
            host.sdk.pause();
            sending.push(fill(client, LONG));
            ends.push((host, listener));
        }
        let open = router.channels().len();
        assert!(soon(|| router.channels().len() < open), "nobody is cut off");
        assert!(router.traffic().cut_off > 0 && is_open(&scene.server, &modest.id));
        sending.iter().for_each(tokio::task::JoinHandle::abort);
    });
}

/// Sends the first part of a message that is not relayed.
async fn begin(scene: &Scene, from: &Member) -> super::sdk::Sdk {
    let sdk = from.connect(&scene.server, Options::GO).await;
    let message = Builder::new(kind::CONNECT)
        .u32(key::CONNECTION, 1)
        .bytes(key::APP_DATA, &[0; 60 << 10])
        .body(&[0; 60 << 10]);
    sdk.send_bytes(&message.as_bytes()[..40 << 10])
        .await
        .unwrap();
    sdk
}

#[test]
fn unfinished_messages_count() {
    let scene = bounded(64, 4, 8);
    run(async {
        let router = scene.server.router();
        let mut open = Vec::new();
        for number in 1..=20 {
            open.push(begin(&scene, &scene.client).await);
            assert!(
                soon(|| router.queued_bytes() >= number * (120 << 10)),
                "{number}: {}",
                router.queued_bytes()
            );
        }
        // Those that have no room any more wait, and others are not held up.
        for _ in 0..20 {
            open.push(begin(&scene, &scene.client).await);
        }
        assert!(soon(|| router.traffic().reader_pauses >= 15));
        let (quick, mut quick_host, _listener) =
            another(&scene, &Member::new(&scene.server, "quick")).await;
        for _ in 0..20 {
            quick.send(&[1; 32 << 10]).await;
            assert_eq!(quick_host.data().await.len(), 32 << 10);
            assert!(
                router.queued_bytes() <= 3 * MIB,
                "{}",
                router.queued_bytes()
            );
        }
        assert!(is_open(&scene.server, &scene.client.id));
        for sdk in open {
            sdk.leave().await;
        }
        assert!(
            soon(|| router.queued_bytes() == 0),
            "{}",
            router.queued_bytes()
        );
    });
}
