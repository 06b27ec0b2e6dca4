//! Whatever a peer sends or does, other connections are not affected and nothing of the peer
//! remains.

use bytes::BytesMut;
use fabric::network::ChannelPeer;
use serde_json::json;
use wire::frame::{Builder, Frame, content, key as common};

use super::{
    scene::{Member, Scene, run, soon},
    sdk::{Event, Options, key, kind},
};
use crate::harness::{Rng, fresh};

/// A message of a random type with random headers, some of them valid.
fn random_message(rng: &mut Rng, token: &str) -> Frame {
    let types = [
        0, 1, 2, 3, 4, 5, 1100, 1101, 1102, 1103, 60783, 60784, 60785, 60786, 60787, 60788, 60789,
        60790, 60791, 60794, 60795, 60796, 60797, 60800,
    ];
    let mut builder = Builder::new(types[rng.below(types.len())]);
    let keys = [
        0, 1, 2, 9, 128, 1000, 1001, 1003, 1004, 1005, 1006, 1007, 1010, 1011, 1012, 1013, 1016,
        1019, 1021, 1024, 1027, 1028, 2256, 2258,
    ];
    let first = rng.below(keys.len());
    for step in 0..rng.below(6) {
        let key = keys[(first + step * 5) % keys.len()];
        let value: Vec<u8> = (0..[0, 1, 2, 4, 4, 4, 8, 200][rng.below(8)])
            .map(|_| u8::try_from(rng.below(4)).unwrap())
            .collect();
        builder = builder.bytes(key, &value);
    }
    let body: Vec<u8> = match rng.below(3) {
        0 => token.as_bytes().to_vec(),
        1 => (0..rng.below(40))
            .map(|_| u8::try_from(rng.below(256)).unwrap())
            .collect(),
        _ => vec![1; rng.below(70_000)],
    };
    builder.body(&body)
}

#[test]
fn random_messages_harm_nobody_else() {
    let scene = Scene::new();
    let stranger = Member::new(&scene.server, "stranger");
    scene.server.service_policy(
        "Dial",
        &[&format!("@{}", stranger.id)],
        &[&format!("@{}", scene.service)],
    );
    scene.server.service_policy(
        "Bind",
        &[&format!("@{}", stranger.id)],
        &[&format!("@{}", scene.service)],
    );
    let tokens = [
        stranger.session(&scene.service, "Dial"),
        stranger.session(&scene.service, "Bind"),
    ];
    // Both ends stay open until the last assertion.
    let _ends = run(async {
        let (mut client, mut host, listener) = scene.connected(Options::GO).await;
        tokio::spawn(listener.echo());
        for seed in 0..60 {
            let mut rng = Rng::new(seed);
            let sdk = stranger.connect(&scene.server, Options::C).await;
            for _ in 0..rng.below(60) {
                let token = &tokens[rng.below(2)];
                if sdk.send(random_message(&mut rng, token)).await.is_err() {
                    break;
                }
            }
            if rng.below(2) == 0 {
                let garbage: Vec<u8> = (0..rng.below(300))
                    .map(|_| u8::try_from(rng.below(256)).unwrap())
                    .collect();
                let _ = sdk.send_bytes(&garbage).await;
            }
            sdk.leave().await;
            client.send(&seed.to_le_bytes()).await;
            assert_eq!(host.data().await, seed.to_le_bytes());
            host.send(b"back").await;
            assert_eq!(client.data().await, b"back");
        }
        (client, host)
    });
    let router = scene.server.router();
    assert!(
        soon(|| router.channels().len() == 2 && router.circuits().len() == 1),
        "{:?}",
        router.channels()
    );
    assert!(
        soon(|| router.queued_bytes() == 0),
        "{}",
        router.queued_bytes()
    );
    assert!(soon(|| scene
        .server
        .admin
        .get("/terminators")
        .expect(200)
        .total()
        == 1));
}

#[test]
fn invalid_bytes_close_the_connection() {
    let scene = Scene::new();
    run(async {
        let bad = [
            BytesMut::from(&b"\x03\x06\x09\x0d"[..]),
            BytesMut::from(
                &[
                    &b"\x03\x06\x09\x0c"[..],
                    &[0; 8],
                    &(-1_i32).to_le_bytes(),
                    &[0; 4],
                ]
                .concat()[..],
            ),
            BytesMut::from(
                &[
                    &b"\x03\x06\x09\x0c"[..],
                    &[0; 8],
                    &(1_i32 << 20).to_le_bytes(),
                    &[0; 4],
                ]
                .concat()[..],
            ),
            Builder::new(1)
                .flag(7, true)
                .flag(7, true)
                .empty()
                .into_bytes(),
        ];
        for bytes in bad {
            let mut listener = scene.hosted(Options::GO).await;
            let (sdk, token) = scene.dialler(Options::GO).await;
            let (client, host) = tokio::join!(sdk.dial(&token), listener.accept());
            let (client, mut host) = (client.unwrap(), host);
            client.send(b"good").await;
            assert_eq!(host.data().await, b"good");
            sdk.send_bytes(&bytes).await.unwrap();
            let _ = sdk.send_bytes(&[0; 40]).await;
            sdk.closed().await;
            assert!(matches!(host.next().await, Event::Closed(_)));
            listener.sdk.leave().await;
            listener.sdk.closed().await;
        }
    });
}

#[test]
fn killed_peers_leave_nothing() {
    let scene = Scene::new();
    run(async {
        for client_dies in [true, false] {
            let (client, host, listener) = scene.connected(Options::GO).await;
            let (dying, mut other) = if client_dies {
                (client, host)
            } else {
                (host, client)
            };
            // In the middle of a message.
            let message = Builder::new(kind::DATA)
                .u32(key::CONNECTION, dying.id)
                .body(&[1; 100_000])
                .into_bytes();
            dying.sdk.send_bytes(&message[..50_000]).await.unwrap();
            dying.sdk.leave().await;
            other.ended().await;
            listener.sdk.leave().await;
            other.sdk.leave().await;
        }
    });
    let router = scene.server.router();
    assert!(soon(|| router.channels().is_empty()
        && router.circuits().is_empty()
        && router.queued_bytes() == 0));
    assert!(soon(|| scene
        .server
        .admin
        .get("/terminators")
        .expect(200)
        .total()
        == 0));
}

#[test]
fn hello_stampede_is_served() {
    const STAMPEDE: usize = 10_000;
    let scene = Scene::new();
    let members: Vec<_> = (0..20)
        .map(|_| Member::new(&scene.server, "member"))
        .collect();
    let name = fresh("user");
    scene.server.user(&name, json!({}));
    run(async {
        let connecting: Vec<_> = (0..STAMPEDE)
            .map(|number| {
                let member = members[number % members.len()].clone();
                let (stream, theirs) = tokio::io::duplex(4096);
                scene
                    .server
                    .router()
                    .serve(
                        theirs,
                        ChannelPeer {
                            address: None,
                            leaf: Some(member.leaf.clone()),
                        },
                    )
                    .unwrap();
                tokio::spawn(async move {
                    super::sdk::Sdk::connect(stream, member.token(), Options::GO).await
                })
            })
            .collect();
        // Log-ins meanwhile.
        for _ in 0..3 {
            scene.server.log_in_again(&name);
        }
        let (mut open, mut returned) = (Vec::new(), 0);
        for (number, one) in connecting.into_iter().enumerate() {
            open.push(match one.await.unwrap() {
                Ok(sdk) => sdk,
                // A hello that takes too long on a busy machine is refused, and the client comes
                // back.
                Err(_) => {
                    returned += 1;
                    members[number % members.len()]
                        .connect(&scene.server, Options::GO)
                        .await
                }
            });
        }
        assert!(returned < STAMPEDE / 10, "{returned} were refused");
        assert_eq!(scene.server.router().channels().len(), STAMPEDE);
    });
    assert!(soon(|| scene.server.router().channels().is_empty()));
}

#[test]
fn peers_return_after_a_kill() {
    let scene = Scene::new();
    let (client, _host, _listener) = run(scene.connected(Options::GO));
    let again = Scene {
        server: scene.server.killed(|config| config.router.enabled = true),
        service: scene.service.clone(),
        host: scene.host.clone(),
        client: scene.client.clone(),
        bind: String::new(),
        dial: String::new(),
    };
    run(async {
        assert!(!client.sdk.is_closed());
        // Their sessions are still valid.
        let bind = scene.host.session(&scene.service, "Bind");
        let sdk = again.host.connect(&again.server, Options::GO).await;
        let mut listener = sdk.host(&bind).await.unwrap();
        let dialler = again.client.connect(&again.server, Options::GO).await;
        let token = scene.client.session(&scene.service, "Dial");
        let (client, mut host) = tokio::join!(dialler.dial(&token), listener.accept());
        client.unwrap().send(b"back").await;
        assert_eq!(host.data().await, b"back");
        assert_eq!(
            again.server.admin.get("/terminators").expect(200).total(),
            1
        );
    });
}

#[test]
fn odd_replies_are_harmless() {
    let scene = Scene::new();
    run(async {
        let sdk = scene.client.connect(&scene.server, Options::GO).await;
        for number in [i32::MIN, -1, 0, 1, i32::MAX] {
            let frame = Builder::new(kind::DIAL_SUCCESS)
                .i32(common::REPLY_FOR, number)
                .body(&u32::MAX.to_le_bytes());
            sdk.send(frame).await.unwrap();
            let mut ping = Builder::new(content::PING).empty();
            ping.set_sequence(number);
            sdk.send_bytes(ping.as_bytes()).await.unwrap();
        }
        assert!(sdk.ask(Builder::new(content::PING).empty()).await.is_some());
    });
    let none = scene
        .server
        .admin
        .post("/edge-routers/built-in/re-enroll", json!({}));
    assert_ne!(none.status, 200);
}
