//! Traces, dials and the ids of connections.

use super::*;

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
