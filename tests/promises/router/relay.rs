//! Relaying data from one SDK to another.

use serde_json::json;
use wire::frame::Builder;

use super::{
    scene::{Scene, run, soon},
    sdk::{Event, FIN, Options, key, kind},
};
use crate::harness::Base;

#[test]
fn messages_are_relayed_both_ways() {
    let scene = Scene::new();
    for options in [Options::GO, Options::C] {
        run(async {
            let (mut client, mut host, _listener) = scene.connected(options).await;
            client.send(b"ping").await;
            assert_eq!(host.data().await, b"ping");
            host.send(b"pong").await;
            assert_eq!(client.data().await, b"pong");
            client.finish().await;
            assert_eq!(host.next().await, Event::Fin);
            host.send(b"still here").await;
            assert_eq!(client.data().await, b"still here");
            host.close().await;
            assert!(matches!(client.next().await, Event::Closed(reason) if reason.text == "done"));
        });
    }
    assert!(scene.server.router().circuits().is_empty());
}

#[test]
fn relayed_messages_keep_known_headers() {
    let scene = Scene::new();
    run(async {
        let (mut client, mut host, _listener) = scene.connected(Options::GO).await;
        let message = |id: u32| {
            let headers = Builder::new(kind::DATA)
                .u32(key::CONNECTION, id)
                .u32(1001, 77);
            headers
                .u32(key::FLAGS, 2 | 4 | 8 | 16 | 32)
                .bytes(128, &[5; 16])
                .body(b"body")
        };
        client.sdk.send(message(client.id)).await.unwrap();
        let received = host.message().await.unwrap();
        assert_eq!(
            received.headers().collect::<Vec<_>>(),
            message(host.id).headers().collect::<Vec<_>>()
        );
        assert_eq!(
            (received.content_type(), received.body()),
            (kind::DATA, &b"body"[..])
        );
        host.sdk.send(message(host.id)).await.unwrap();
        let received = client.message().await.unwrap();
        assert_eq!(
            received.headers().collect::<Vec<_>>(),
            message(client.id).headers().collect::<Vec<_>>()
        );
    });
}

#[test]
fn messages_arrive_in_order() {
    let scene = Scene::new();
    run(async {
        let (client, mut host, _listener) = scene.connected(Options::GO).await;
        let sizes = [
            0,
            1,
            17,
            4096,
            32_785,
            65_535,
            65_536,
            65_537,
            1 << 20,
            16,
            5 << 20,
            3,
        ];
        let sent = sizes.map(|size| vec![u8::try_from(size % 251).unwrap(); size]);
        let sending = {
            let sent = sent.clone();
            tokio::spawn(async move {
                for data in &sent {
                    client.send(data).await;
                }
                client
            })
        };
        for data in &sent {
            assert!(host.data().await == *data, "{} bytes", data.len());
        }
        drop(sending.await.unwrap());
        assert!(soon(|| scene.server.router().queued_bytes() == 0));
    });
}

#[test]
fn closing_follows_all_data() {
    let scene = Scene::new();
    run(async {
        let part = vec![7; 40_000];
        let (client, mut host, _listener) = scene.connected(Options::GO).await;
        for _ in 0..50 {
            client.send(&part).await;
        }
        client.finish().await;
        assert_eq!(host.rest().await.len(), 2_000_000);
        let (client, mut host, _listener) = scene.connected(Options::C).await;
        for _ in 0..50 {
            client.send(&part).await;
        }
        client.close().await;
        let mut received = 0;
        let reason = loop {
            match host.next().await {
                Event::Data(data) => received += data.len(),
                Event::Closed(reason) => break reason,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((received, reason.text.as_str()), (2_000_000, "done"));
        // No data, and then the end.
        let (client, mut host, _listener) = scene.connected(Options::C).await;
        client.finish().await;
        assert_eq!(host.rest().await, b"");
    });
}

#[test]
fn data_follows_a_half_close() {
    let scene = Scene::new();
    run(async {
        for options in [Options::GO, Options::C] {
            let (mut client, mut host, _listener) = scene.connected(options).await;
            client.send(b"question").await;
            client.finish().await;
            assert_eq!(host.rest().await, b"question");
            for _ in 0..32 {
                host.send(&[7; 32 << 10]).await;
            }
            host.finish().await;
            assert!(client.rest().await == vec![7; 1 << 20]);
        }
    });
}

#[test]
fn crossing_closes_are_harmless() {
    let scene = Scene::new();
    run(async {
        let (client, host, mut listener) = scene.connected(Options::GO).await;
        tokio::join!(client.close(), host.close());
        for conn in [&client, &host] {
            conn.send(b"late").await;
            conn.finish().await;
            conn.close().await;
        }
        // The channels still work.
        let token = scene.client.session(&scene.service, "Dial");
        let (again, mut accepted) = tokio::join!(client.sdk.dial(&token), listener.accept());
        again.unwrap().send(b"again").await;
        assert_eq!(accepted.data().await, b"again");
    });
}

#[test]
fn long_message_ends_one_connection() {
    let scene = Scene::new();
    run(async {
        let (mut client, mut host, mut listener) = scene.connected(Options::GO).await;
        let token = scene.client.session(&scene.service, "Dial");
        let (other, mut other_host) = tokio::join!(client.sdk.dial(&token), listener.accept());
        client.send(&vec![1; (16 << 20) + 1]).await;
        assert_eq!(client.ended().await.text, "a message is too long");
        assert_eq!(host.ended().await.text, "a message is too long");
        other.unwrap().send(b"not concerned").await;
        assert_eq!(other_host.data().await, b"not concerned");
    });
}

#[test]
fn a_hundred_connections_share_a_channel() {
    let scene = Scene::new();
    run(async {
        let host = scene.hosted(Options::GO).await;
        tokio::spawn(host.echo());
        let (sdk, token) = scene.dialler(Options::C).await;
        let one = |number: u32| {
            let (sdk, token) = (sdk.clone(), token.clone());
            async move {
                let mut conn = sdk.dial(&token).await.unwrap();
                let data: Vec<u8> = number.to_le_bytes().repeat(5000);
                for _ in 0..5 {
                    conn.send(&data).await;
                }
                conn.finish().await;
                assert!(conn.rest().await == data.repeat(5));
                conn.close().await;
            }
        };
        let all: Vec<_> = (0..100).map(|number| tokio::spawn(one(number))).collect();
        for conn in all {
            conn.await.unwrap();
        }
    });
    assert!(soon(|| scene.server.router().circuits().is_empty()));
}

#[test]
fn lost_channel_ends_its_circuits() {
    let scene = Scene::new();
    run(async {
        let (mut client, host, listener) = scene.connected(Options::GO).await;
        host.sdk.leave().await;
        assert!(client.ended().await.text.starts_with("the peer has left"));
        drop(listener);
        let (client, mut host, _listener) = scene.connected(Options::C).await;
        client.sdk.leave().await;
        assert!(host.ended().await.text.starts_with("the peer has left"));
    });
    assert!(soon(|| scene.server.router().circuits().is_empty()));
}

#[test]
fn both_ends_may_share_a_channel() {
    let scene = Scene::new();
    scene.server.service_policy(
        "Dial",
        &[&format!("@{}", scene.host.id)],
        &[&format!("@{}", scene.service)],
    );
    run(async {
        let host = scene.hosted(Options::GO).await;
        let sdk = host.sdk.clone();
        tokio::spawn(host.echo());
        let mut conn = sdk
            .dial(&scene.host.session(&scene.service, "Dial"))
            .await
            .unwrap();
        conn.send(b"to myself").await;
        assert_eq!(conn.data().await, b"to myself");
        conn.finish().await;
        assert_eq!(conn.next().await, Event::Fin);
    });
}

#[test]
fn circuits_are_listed_and_ended() {
    let scene = Scene::new();
    run(async {
        let (mut client, mut host, _listener) = scene.connected(Options::GO).await;
        client.send(b"12345").await;
        host.data().await;
        host.send(b"123").await;
        client.data().await;
        let router = scene.server.router();
        let shown = router.circuits();
        let circuit = &shown[0];
        assert_eq!(
            (shown.len(), circuit.service_id.as_str()),
            (1, scene.service.as_str())
        );
        let ends = [&circuit.client, circuit.host.as_ref().unwrap()];
        assert_eq!(
            ends.map(|end| end.identity_id.as_str()),
            [scene.client.id.as_str(), scene.host.id.as_str()]
        );
        let sent = ends.map(|end| {
            (
                end.channel.as_ref().unwrap().connection,
                end.sent.unwrap().bytes,
            )
        });
        assert_eq!(sent, [(client.id, 5), (host.id, 3)]);
        assert_eq!((circuit.routers.len(), circuit.links.len()), (1, 0));
        assert_eq!(router.circuit(&circuit.id).as_ref(), Some(circuit));
        let overkeep = scene.server.admin.at(Base::Overkeep);
        for status in [200, 404] {
            overkeep
                .delete(&format!("/circuits/{}", circuit.id))
                .expect(status);
        }
        for conn in [&mut client, &mut host] {
            assert_eq!(
                conn.ended().await.text,
                "an administrator ended the circuit"
            );
        }
    });
}

#[test]
fn rest_shows_and_ends_circuits() {
    let scene = Scene::new();
    let overkeep = scene.server.admin.at(Base::Overkeep);
    run(async {
        let (mut client, mut host, _listener) = scene.connected(Options::GO).await;
        // Rates are measured every 10 seconds.
        let measured = || {
            overkeep.get("/circuits").expect(200).data()[0]["client"]["sentBytesPerSecond"]
                .as_u64()
                .unwrap()
                > 0
        };
        while !measured() {
            for _ in 0..50 {
                client.send(&[7; 1000]).await;
                assert_eq!(host.data().await.len(), 1000);
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        let shown = overkeep.get("/circuits").expect(200);
        let circuit = &shown.data()[0];
        assert_eq!(
            (shown.total(), &circuit["service"]["id"]),
            (1, &json!(scene.service))
        );
        let names = [
            &circuit["client"]["identity"]["name"],
            &circuit["host"]["identity"]["name"],
        ];
        assert_eq!(names, [&json!(scene.client.name), &json!(scene.host.name)]);
        assert!(
            circuit["client"]["sentBytes"].as_u64().unwrap() >= 50_000,
            "{circuit}"
        );
        assert_eq!(
            (
                &circuit["host"]["sentBytes"],
                &circuit["host"]["sentBytesPerSecond"]
            ),
            (&json!(0), &json!(0))
        );
        let path = format!("/circuits/{}", circuit["id"].as_str().unwrap());
        overkeep.delete(&path).expect(200);
        for conn in [&mut client, &mut host] {
            assert_eq!(
                conn.ended().await.text,
                "an administrator ended the circuit"
            );
        }
        overkeep.get(&path).refused(404, "NOT_FOUND", "");
    });
}

#[test]
fn close_flags_are_relayed_unread() {
    let scene = Scene::new();
    run(async {
        let (client, mut host, _listener) = scene.connected(Options::GO).await;
        let last = Builder::new(kind::DATA)
            .u32(key::CONNECTION, client.id)
            .u32(key::FLAGS, FIN)
            .body(b"data and end in one");
        client.sdk.send(last).await.unwrap();
        let received = host.message().await.unwrap();
        assert_eq!(
            (received.u32(key::FLAGS), received.body()),
            (Some(FIN), &b"data and end in one"[..])
        );
    });
}
