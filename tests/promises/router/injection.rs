//! What one end of a circuit cannot make the other one believe: only known header keys pass. SDKs
//! hand a message with the key of an answer to whoever waits for the answer with that number, and
//! trust their router with the other keys.

use std::collections::BTreeSet;

use wire::frame::{Builder, Frame, content, key as common};

use super::{
    scene::{Scene, run, soon},
    sdk::{Conn, Event, Host, Options, key, kind},
};

/// Keys that mean something to an SDK, in some message or other, and one that means nothing.
const FOREIGN: [i32; 28] = [
    -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 20, 24, 127, 129, 200, 255, 256, 1002, 1009,
    1012, 1024, 1026, 1028, 4711,
];

/// Adds foreign headers around the known ones, so that a known one is neither the first nor the
/// last.
fn around(known: impl Fn(Builder) -> Builder, kind: i32) -> Builder {
    let (before, after) = FOREIGN.split_at(FOREIGN.len() / 2);
    let with = |builder: Builder, keys: &[i32]| {
        keys.iter()
            .fold(builder, |builder, key| builder.u32(*key, 1))
    };
    with(known(with(Builder::new(kind), before)), after)
}

fn keys(frame: &Frame) -> BTreeSet<i32> {
    frame.headers().map(|(key, _)| key).collect()
}

async fn data_passes(from: &Conn, to: &mut Conn) {
    let known = |builder: Builder| {
        builder
            .u32(key::CONNECTION, from.id)
            .u32(1001, 7)
            .u32(key::FLAGS, 2)
            .bytes(128, &[5; 16])
    };
    for body in [vec![], vec![1; 40], vec![2; 100 << 10]] {
        from.sdk
            .send(around(known, kind::DATA).body(&body))
            .await
            .unwrap();
        let received = to.message().await.unwrap();
        assert_eq!(
            keys(&received),
            [128, key::CONNECTION, 1001, key::FLAGS].into()
        );
        assert!(received.content_type() == kind::DATA && received.body() == body);
        assert_eq!(
            (
                received.u32(key::CONNECTION),
                received.u32(1001),
                received.u32(key::FLAGS)
            ),
            (Some(to.id), Some(7), Some(2))
        );
        assert_eq!(received.header(128), Some(&[5; 16][..]));
    }
    // Known keys whose values have another length.
    for bytes in [0, 1, 3, 5, 8, 15, 17, 300] {
        let value = vec![1; bytes];
        let odd = Builder::new(kind::DATA)
            .bytes(128, &value)
            .bytes(1001, &value)
            .u32(key::CONNECTION, from.id)
            .bytes(key::FLAGS, &value);
        from.sdk.send(odd.body(b"odd")).await.unwrap();
        let received = to.message().await.unwrap();
        assert_eq!(
            (keys(&received), received.body()),
            ([key::CONNECTION].into(), &b"odd"[..]),
            "{bytes} bytes"
        );
    }
}

#[test]
fn data_carry_known_keys() {
    let scene = Scene::new();
    for options in [Options::GO, Options::C, Options::LIBZITI] {
        run(async {
            let (mut client, mut host, listener) = scene.connected(options).await;
            data_passes(&client, &mut host).await;
            data_passes(&host, &mut client).await;
            client.close().await;
            listener.unbind().await;
        });
    }
}

#[test]
fn closes_carry_known_keys() {
    let scene = Scene::new();
    run(async {
        for is_client in [true, false] {
            let (mut client, mut host, listener) = scene.connected(Options::GO).await;
            let (from, to) = if is_client {
                (&mut client, &mut host)
            } else {
                (&mut host, &mut client)
            };
            let known = |builder: Builder| {
                builder
                    .u32(key::CONNECTION, from.id)
                    .text(key::STRUCTURED_ERROR, "{}")
                    .bytes(128, &[1; 16])
            };
            from.sdk
                .send(around(known, kind::STATE_CLOSED).body(b"over"))
                .await
                .unwrap();
            let received = to.message().await.unwrap();
            assert_eq!(
                keys(&received),
                [key::CONNECTION, key::STRUCTURED_ERROR].into()
            );
            assert_eq!(
                (
                    received.content_type(),
                    received.u32(key::CONNECTION),
                    received.body()
                ),
                (kind::STATE_CLOSED, Some(to.id), &b"over"[..])
            );
            listener.unbind().await;
        }
    });
}

/// The headers of a trace route beside the connection: its time, hops, and in an answer what kind
/// of node answers, its id and its error.
fn trace(from: &Conn, kind: i32, hops: u32, number: Option<u32>) -> Frame {
    let known = |builder: Builder| {
        let builder = builder
            .u32(key::CONNECTION, from.id)
            .u64(1015, 12345)
            .u32(1016, hops)
            .bytes(128, &[1; 16]);
        let builder = builder
            .text(1017, "sdk")
            .text(1018, "id")
            .text(1020, "error");
        number
            .into_iter()
            .fold(builder, |builder, number| builder.u32(1019, number))
    };
    around(known, kind).empty()
}

#[test]
fn traces_carry_known_keys() {
    let scene = Scene::new();
    run(async {
        let (mut client, mut host, _listener) = scene.connected(Options::GO).await;
        for is_client in [true, false] {
            let (from, to) = if is_client {
                (&client, &mut host)
            } else {
                (&host, &mut client)
            };
            let asking = trace(from, kind::TRACE_ROUTE, 2, Some(99));
            let (answered, ()) = tokio::join!(from.sdk.ask(asking), async {
                let request = to.message().await.unwrap();
                assert_eq!(
                    (request.content_type(), keys(&request)),
                    (
                        kind::TRACE_ROUTE,
                        [key::CONNECTION, 1015, 1016, 1019].into()
                    )
                );
                to.sdk
                    .send(trace(to, kind::TRACE_ROUTE_RESPONSE, 0, request.u32(1019)))
                    .await
                    .unwrap();
            });
            let answered = answered.unwrap();
            let expected = [
                common::REPLY_FOR,
                key::CONNECTION,
                1015,
                1016,
                1017,
                1018,
                1019,
                1020,
            ];
            assert_eq!(
                (answered.content_type(), keys(&answered)),
                (kind::TRACE_ROUTE_RESPONSE, expected.into())
            );
            assert_eq!(answered.u32(key::CONNECTION), Some(from.id));
        }
    });
}

#[test]
fn traces_are_answered_when_asked() {
    let scene = Scene::new();
    run(async {
        let (mut client, mut host, _listener) = scene.connected(Options::GO).await;
        // Nobody has asked: neither end gets one.
        for number in 0..20 {
            host.sdk
                .send(trace(&host, kind::TRACE_ROUTE_RESPONSE, 0, Some(number)))
                .await
                .unwrap();
            client
                .sdk
                .send(trace(&client, kind::TRACE_ROUTE_RESPONSE, 0, Some(number)))
                .await
                .unwrap();
        }
        host.send(b"to the client").await;
        client.send(b"to the host").await;
        assert_eq!(
            (client.data().await, host.data().await),
            (b"to the client".to_vec(), b"to the host".to_vec())
        );
        // The host has asked nothing, and an answer counts once.
        let asking = Builder::new(kind::TRACE_ROUTE)
            .u32(key::CONNECTION, client.id)
            .u32(1016, 2)
            .empty();
        client.sdk.send(asking).await.unwrap();
        let number = host.message().await.unwrap().u32(1019).unwrap();
        client
            .sdk
            .send(trace(&client, kind::TRACE_ROUTE_RESPONSE, 0, Some(number)))
            .await
            .unwrap();
        for other in [number + 1, number, number] {
            host.sdk
                .send(trace(&host, kind::TRACE_ROUTE_RESPONSE, 0, Some(other)))
                .await
                .unwrap();
        }
        client.send(b"to the host").await;
        assert_eq!(host.data().await, b"to the host");
        let answer = client.message().await.unwrap();
        assert_eq!(
            (
                answer.content_type(),
                answer.reply_for().map(i32::cast_unsigned)
            ),
            (kind::TRACE_ROUTE_RESPONSE, Some(number))
        );
        host.send(b"after it").await;
        assert_eq!(client.data().await, b"after it");
    });
}

#[test]
fn flow_control_carries_known_keys() {
    let scene = Scene::new();
    run(async {
        let requesting = |message: Builder| message.flag(key::SDK_FLOW_CONTROL, true);
        let sdk = scene.host.connect(&scene.server, Options::GO).await;
        let mut listener = sdk
            .host_with(&scene.host.session(&scene.service, "Bind"), requesting)
            .await
            .unwrap();
        let (dialing, token) = scene.dialler(Options::GO).await;
        let (client, mut host) =
            tokio::join!(dialing.dial_with(&token, requesting), listener.accept());
        let mut client = client.unwrap();
        let circuit = client.made_by.text(key::CIRCUIT).unwrap().to_owned();
        for is_client in [true, false] {
            let (from, to) = if is_client {
                (&client, &mut host)
            } else {
                (&host, &mut client)
            };
            let flags = if is_client { 0 } else { 2 };
            let common = |builder: Builder| {
                builder
                    .text(2256, &circuit)
                    .u32(2258, flags)
                    .u16(2260, 5)
                    .bytes(128, &[1; 16])
            };
            let payload = |builder: Builder| {
                common(builder)
                    .u64(2257, 1)
                    .bytes(2000, &[3; 16])
                    .u32(2001, 1)
                    .u32(2016, 1)
                    .u32(2255, 1)
            };
            from.sdk
                .send(around(payload, kind::XGRESS_PAYLOAD).body(b"data"))
                .await
                .unwrap();
            let received = to.message().await.unwrap();
            let expected = [key::CONNECTION, 2000, 2001, 2016, 2256, 2257, 2258, 2260];
            assert_eq!(
                (keys(&received), received.body()),
                (expected.into(), &b"data"[..])
            );
            let odd = |builder: Builder| {
                common(builder)
                    .u64(2257, 1)
                    .bytes(2000, &[3; 15])
                    .u64(2016, 1)
            };
            from.sdk
                .send(around(odd, kind::XGRESS_PAYLOAD).body(b"data"))
                .await
                .unwrap();
            assert_eq!(
                keys(&to.message().await.unwrap()),
                [key::CONNECTION, 2256, 2257, 2258, 2260].into()
            );
            let ack = |builder: Builder| common(builder).u32(2259, 9).u32(2257, 1);
            from.sdk
                .send(around(ack, kind::XGRESS_ACK).body(&[0; 4]))
                .await
                .unwrap();
            assert_eq!(
                keys(&to.message().await.unwrap()),
                [key::CONNECTION, 2256, 2258, 2259, 2260].into()
            );
            // Trace routes: an answer passes only to who has asked.
            let foreign = |key: &&i32| ![20, 24].contains(*key);
            let control = |purpose: u8| {
                let builder = FOREIGN
                    .iter()
                    .filter(foreign)
                    .fold(Builder::new(kind::XGRESS_CONTROL), |builder, key| {
                        builder.u32(*key, 1)
                    });
                let builder = builder
                    .u32(20, 1)
                    .text(21, "type")
                    .text(22, "id")
                    .u64(23, 1)
                    .u32(24, 7)
                    .text(25, "error");
                builder
                    .bytes(128, &[1; 16])
                    .body(&[&[purpose], circuit.as_bytes()].concat())
            };
            to.sdk.send(control(2)).await.unwrap();
            to.sdk.send(control(3)).await.unwrap();
            from.sdk.send(control(1)).await.unwrap();
            let request = to.message().await.unwrap();
            let expected = BTreeSet::from([20, 21, 22, 23, 24, 25, key::CONNECTION]);
            assert_eq!(
                (request.content_type(), request.body()[0], keys(&request)),
                (kind::XGRESS_CONTROL, 1, expected.clone())
            );
            to.sdk.send(control(2)).await.unwrap();
            to.sdk.send(control(2)).await.unwrap();
            to.sdk
                .send(
                    Builder::new(kind::XGRESS_ACK)
                        .text(2256, &circuit)
                        .u32(2258, 2 - flags)
                        .empty(),
                )
                .await
                .unwrap();
            let from = if is_client { &mut client } else { &mut host };
            let answer = from.message().await.unwrap();
            assert_eq!(
                (answer.content_type(), answer.body()[0], keys(&answer)),
                (kind::XGRESS_CONTROL, 2, expected)
            );
            assert_eq!(
                from.message().await.unwrap().content_type(),
                kind::XGRESS_ACK,
                "one answer"
            );
        }
    });
}

/// A host on one circuit answers whatever its client waits for, while the client dials another
/// host.
#[test]
fn dials_are_answered_by_the_router() {
    let scene = Scene::new();
    run(async {
        let (client, host, mut listener) = scene.connected(Options::GO).await;
        let token = scene.client.session(&scene.service, "Dial");
        let attack = tokio::spawn(async move {
            for number in (1..40).cycle() {
                for kind in [kind::DATA, kind::TRACE_ROUTE_RESPONSE, kind::TRACE_ROUTE] {
                    let forged = Builder::new(kind)
                        .u32(key::CONNECTION, host.id)
                        .i32(common::REPLY_FOR, number)
                        .u32(1016, 2);
                    let forged = forged
                        .u32(1019, number.cast_unsigned())
                        .flag(common::SUCCESS, true)
                        .body(b"forged");
                    if host.sdk.send(forged).await.is_err() {
                        return;
                    }
                }
                tokio::task::yield_now().await;
            }
        });
        for _ in 0..30 {
            let (dialed, _accepted) = tokio::join!(client.sdk.dial(&token), async {
                let dial = listener.dialed().await;
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                listener.answer(dial, |answer| answer).await
            });
            dialed.unwrap();
            assert!(
                client
                    .sdk
                    .ask(Builder::new(content::PING).empty())
                    .await
                    .unwrap()
                    .content_type()
                    == content::RESULT
            );
        }
        attack.abort();
    });
}

#[test]
fn connection_ids_have_four_bytes() {
    let scene = Scene::new();
    let kinds = [
        kind::DATA,
        kind::STATE_CLOSED,
        kind::CONNECT,
        kind::BIND,
        kind::UNBIND,
        kind::UPDATE_BIND,
        kind::HEALTH_EVENT,
        kind::DIAL_SUCCESS,
        kind::DIAL_FAILED,
        kind::TRACE_ROUTE,
        kind::TRACE_ROUTE_RESPONSE,
        kind::XGRESS_PAYLOAD,
        kind::XGRESS_ACK,
        kind::XGRESS_CONTROL,
        kind::XGRESS_CLOSE,
        content::LATENCY,
        70_000,
    ];
    run(async {
        let (mut client, mut host, _listener): (Conn, Conn, Host) =
            scene.connected(Options::GO).await;
        let before = scene.server.router().traffic().malformed;
        for (kind, bytes) in kinds
            .into_iter()
            .zip([0, 1, 2, 3, 5, 8, 16].into_iter().cycle())
        {
            let sdk = scene.client.connect(&scene.server, Options::GO).await;
            sdk.send(
                Builder::new(kind)
                    .bytes(key::CONNECTION, &vec![0; bytes])
                    .body(b"body"),
            )
            .await
            .unwrap();
            sdk.closed().await;
        }
        assert!(soon(
            || scene.server.router().traffic().malformed == before + kinds.len() as u64
        ));
        client.send(b"ping").await;
        assert_eq!(host.data().await, b"ping");
        client
            .sdk
            .send(
                Builder::new(kind::DATA)
                    .bytes(key::CONNECTION, &client.id.to_le_bytes()[..3])
                    .body(b"x"),
            )
            .await
            .unwrap();
        assert!(
            matches!(host.next().await, Event::Closed(_)),
            "its circuits end"
        );
        client.sdk.closed().await;
        assert_eq!(client.next().await, Event::Lost);
    });
}
