//! What passes through the built-in router.

use super::*;

#[test]
fn circuits_pass_through_built_in_router() {
    run(async {
        let mut net = Far::new().await;
        let circuit = net.circuit().await;
        let shown = net.shown(&circuit);
        let ids: Vec<_> = shown["routers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|router| router["id"].clone())
            .collect();
        assert_eq!(
            (ids, &shown["links"]),
            (
                vec![json!(net.near.id), json!("built-in"), json!(net.far.id)],
                &json!(["near", "far"])
            )
        );
        // Headers of the payload stay, those of the connection do not.
        let sent = Builder::new(kind::PAYLOAD)
            .text(key::CIRCUIT, &circuit)
            .u64(key::SEQUENCE, 7)
            .u16(key::CLOCK, 9)
            .u32(key::CAPABILITIES, 1);
        net.near
            .link
            .send(
                &sent
                    .u64(common_key::HEARTBEAT, 5)
                    .u64(common_key::HEARTBEAT_ECHO, 6)
                    .body(b"ping"),
            )
            .await;
        let arrived = net.far.link.next_of(kind::PAYLOAD).await;
        let expected = Builder::new(kind::PAYLOAD)
            .text(key::CIRCUIT, &circuit)
            .u64(key::SEQUENCE, 7)
            .u16(key::CLOCK, 9)
            .u32(key::CAPABILITIES, 1);
        assert_eq!(content_of(&arrived), content_of(&expected.body(b"ping")));
        let acknowledgement = Acknowledgement {
            flags: flag::FROM_HOST,
            buffered: 3,
            clock: 9,
            sequences: vec![7],
        };
        net.far.link.send(&acknowledgement.encode(&circuit)).await;
        let arrived = net.near.link.next_of(kind::ACKNOWLEDGEMENT).await;
        assert_eq!(
            Acknowledgement::decode(&arrived).unwrap(),
            (circuit.as_str(), acknowledgement)
        );
        net.far
            .link
            .give(&circuit, 0, flag::FROM_HOST, b"answer")
            .await;
        assert_eq!(net.near.link.payload().await.data[..], b"answer"[..]);
        let shown = net.shown(&circuit);
        assert_eq!(
            (&shown["client"]["sentBytes"], &shown["host"]["sentBytes"]),
            (&json!(4), &json!(6))
        );
        // The end of the right ends it at once: the data after it go nowhere.
        net.scene
            .server
            .admin
            .delete(&format!("/service-policies/{}", net.scene.dial))
            .expect(200);
        for router in [&mut net.near.router, &mut net.far.router] {
            let unroute: fabric::Unroute = router.receive(content::UNROUTE).await;
            assert_eq!((&unroute.circuit_id, unroute.now), (&circuit, true));
        }
        net.near.link.give(&circuit, 8, 0, b"late").await;
        net.near
            .link
            .send(&Builder::new(common::PING).empty())
            .await;
        net.near.link.next_of(common::RESULT).await;
        assert!(soon(|| net.queued() == 0).await);
    });
}

#[test]
fn trace_routes_name_built_in_router() {
    run(async {
        let mut net = Far::new().await;
        let circuit = net.circuit().await;
        net.near.link.send(&trace(&circuit, 1)).await;
        let arrived = net.near.link.next_of(kind::CONTROL).await;
        assert_eq!(
            content_of(&arrived),
            content_of(&trace_answer(&circuit, 7, ("forwarder", "built-in")))
        );
        net.near.link.send(&trace(&circuit, 2)).await;
        assert_eq!(
            content_of(&net.far.link.next_of(kind::CONTROL).await),
            content_of(&trace(&circuit, 1))
        );
        let of_far = trace_answer(&circuit, 7, ("xgress/edge", "far"));
        net.far.link.send(&of_far).await;
        assert_eq!(
            content_of(&net.near.link.next_of(kind::CONTROL).await),
            content_of(&of_far)
        );
    });
}

#[test]
fn known_headers_pass_through() {
    let injected = [
        -1, 0, 1, 2, 3, 5, 6, 7, 9, 19, 26, 128, 200, 255, 1000, 1009, 1999, 2261, 4711,
    ];
    let around = |builder: Builder| {
        injected
            .iter()
            .fold(builder, |builder, key| builder.u64(*key, 1))
    };
    let keys = |frame: &Frame| frame.headers().map(|(key, _)| key).collect::<BTreeSet<_>>();
    run(async {
        let mut net = Far::new().await;
        let circuit = net.circuit().await;
        for is_client in [true, false] {
            let (from, to) = if is_client {
                (&mut net.near, &mut net.far)
            } else {
                (&mut net.far, &mut net.near)
            };
            let of_circuit = |kind: i32| {
                Builder::new(kind)
                    .text(key::CIRCUIT, &circuit)
                    .u32(key::FLAGS, 0)
                    .u16(key::CLOCK, 1)
            };
            let payload = of_circuit(kind::PAYLOAD)
                .u64(key::SEQUENCE, 0)
                .bytes(key::UUID, &[1; 16])
                .u32(2001, 1)
                .u32(2016, 1)
                .u32(2255, 1);
            from.link.send(&around(payload).body(b"data")).await;
            let arrived = to.link.next_of(kind::PAYLOAD).await;
            assert_eq!(
                (keys(&arrived), arrived.body()),
                (
                    [2000, 2001, 2016, 2256, 2257, 2258, 2260].into(),
                    &b"data"[..]
                )
            );
            let odd = of_circuit(kind::PAYLOAD)
                .u64(key::SEQUENCE, 1)
                .bytes(key::UUID, &[1; 17])
                .u64(2016, 1)
                .u32(key::BUFFERED, 1);
            from.link.send(&around(odd).body(b"odd")).await;
            assert_eq!(
                keys(&to.link.next_of(kind::PAYLOAD).await),
                [2256, 2257, 2258, 2260].into()
            );
            from.link
                .send(
                    &around(of_circuit(kind::ACKNOWLEDGEMENT))
                        .u32(key::BUFFERED, 1)
                        .body(&[0; 4]),
                )
                .await;
            assert_eq!(
                keys(&to.link.next_of(kind::ACKNOWLEDGEMENT).await),
                [2256, 2258, 2259, 2260].into()
            );
            // Answers that nobody has asked for, and what is no trace route, go nowhere.
            for body in [b"\x02", b"\x03", b"\x00"] {
                let body = [&body[..], circuit.as_bytes()].concat();
                to.link
                    .send(
                        &Builder::new(kind::CONTROL)
                            .u32(key::TRACE_HOPS, 0)
                            .u32(key::TRACE_REQUEST, 7)
                            .body(&body),
                    )
                    .await;
            }
            let asked = Builder::new(kind::CONTROL)
                .u32(key::TRACE_HOPS, 2)
                .u64(key::TRACE_TIME, 1)
                .u32(key::TRACE_REQUEST, 7);
            from.link
                .send(
                    &around(asked)
                        .text(key::CIRCUIT, &circuit)
                        .body(&[b"\x01", circuit.as_bytes()].concat()),
                )
                .await;
            let arrived = to.link.next_of(kind::CONTROL).await;
            assert_eq!(
                (arrived.body()[0], keys(&arrived)),
                (1, [20, 23, 24].into())
            );
            for _ in 0..2 {
                to.link
                    .send(&trace_answer(&circuit, 7, ("xgress/edge", "there")))
                    .await;
            }
            to.link
                .send(
                    &Builder::new(kind::CONTROL)
                        .u32(key::TRACE_HOPS, 2)
                        .body(&[b"\x01", circuit.as_bytes()].concat()),
                )
                .await;
            let answers = [
                from.link.next_of(kind::CONTROL).await,
                from.link.next_of(kind::CONTROL).await,
            ];
            assert_eq!(answers.map(|frame| frame.body()[0]), [2, 1], "one answer");
        }
    });
}

#[test]
fn data_flow_until_ends_are_quiet() {
    run(async {
        let mut net = Far::new().await;
        let circuit = net.circuit().await;
        net.near.router.fault(FaultSubject::Ingress, &circuit).await;
        for router in [&mut net.near.router, &mut net.far.router] {
            let unroute: fabric::Unroute = router.receive(content::UNROUTE).await;
            assert_eq!((&unroute.circuit_id, unroute.now), (&circuit, false));
        }
        net.near.link.give(&circuit, 0, flag::END, b"").await;
        assert!(
            net.far.link.payload().await.is_end(),
            "what is on the way arrives"
        );
    });
}
