//! Keys that data, closes and flow control carry.

use super::*;

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
