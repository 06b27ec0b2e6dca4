//! Circuits that pass through the built-in router, from a link of one simulated router to a link of
//! another one.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use wire::{
    control::{
        content,
        edge::CreateTerminatorResult,
        fabric::{self, FaultSubject},
    },
    frame::{Builder, Frame, content as common, key as common_key},
    link::{Acknowledgement, flag, key, kind},
};

use super::{
    mock::{Enrolled, MockRouter, run, soon},
    mock_link::{MockLink, content_of, report, trace, trace_answer},
};
use crate::{harness::Base, router::scene::Scene};

/// A router with a link to the built-in router only.
struct Neighbour {
    id: String,
    enrolled: Enrolled,
    router: MockRouter,
    link: MockLink,
}

impl Neighbour {
    /// `link` is the id of its link.
    async fn new(scene: &Scene, link: &str) -> Self {
        let enrolled = Enrolled::new(&scene.server);
        let mut router = enrolled.online(&scene.server).await;
        let hello = MockLink::hello(link, &enrolled.id);
        let connection = MockLink::try_open(&scene.server, &enrolled, hello)
            .await
            .unwrap();
        report(&mut router, link, "built-in").await;
        let is_listed = || {
            scene
                .server
                .admin
                .at(Base::Overkeep)
                .get(&format!("/links/{link}"))
                .status
                == 200
        };
        assert!(soon(is_listed).await);
        Self {
            id: enrolled.id.clone(),
            enrolled,
            router,
            link: connection,
        }
    }

    /// Has the host of the scene host the service here.
    async fn host(&mut self, scene: &Scene, terminator: &str) {
        scene
            .server
            .allow_service_over(&scene.host.id, &scene.service, &self.id);
        let token = scene.host.session(&scene.service, "Bind");
        let answer = self
            .router
            .bind(terminator, &token, &scene.host.fingerprint())
            .await;
        assert_eq!(
            answer.result(),
            CreateTerminatorResult::Success,
            "{answer:?}"
        );
    }
}

/// The client's router and the host's router, without a link between them.
struct Far {
    scene: Scene,
    near: Neighbour,
    far: Neighbour,
}

impl Far {
    async fn new() -> Self {
        let scene = Scene::new();
        let (near, mut far) = (
            Neighbour::new(&scene, "near").await,
            Neighbour::new(&scene, "far").await,
        );
        scene
            .server
            .allow_service_over(&scene.client.id, &scene.service, &near.id);
        far.host(&scene, "terminator").await;
        Self { scene, near, far }
    }

    async fn dial(&mut self) {
        let token = self.scene.client.session(&self.scene.service, "Dial");
        self.near
            .router
            .dial(&token, &self.scene.client.fingerprint())
            .await;
    }

    /// The id of a new circuit.
    async fn circuit(&mut self) -> String {
        self.dial().await;
        let route = self.near.router.accept_route().await;
        assert_eq!(
            self.far.router.accept_route().await.circuit_id,
            route.circuit_id
        );
        self.near
            .router
            .next_of(content::CREATE_CIRCUIT_RESPONSE)
            .await;
        route.circuit_id
    }

    fn shown(&self, circuit: &str) -> Json {
        self.scene
            .server
            .admin
            .at(Base::Overkeep)
            .get(&format!("/circuits/{circuit}"))
            .expect(200)
            .data()
            .clone()
    }

    fn queued(&self) -> usize {
        self.scene.server.router().queued_bytes()
    }
}

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

#[test]
fn others_cannot_reach_passing_circuits() {
    run(async {
        let mut net = Far::new().await;
        let circuit = net.circuit().await;
        let mut liar = Neighbour::new(&net.scene, "liar").await;
        liar.link.give(&circuit, 0, 0, b"lie").await;
        liar.link.give(&circuit, 0, flag::FROM_HOST, b"lie").await;
        liar.link
            .send(
                &Acknowledgement {
                    flags: 0,
                    buffered: 0,
                    clock: 0,
                    sequences: vec![0],
                }
                .encode(&circuit),
            )
            .await;
        liar.link.send(&Builder::new(common::PING).empty()).await;
        liar.link.next_of(common::RESULT).await;
        net.near.link.give(&circuit, 0, 0, b"truth").await;
        net.far
            .link
            .give(&circuit, 0, flag::FROM_HOST, b"answer")
            .await;
        assert_eq!(net.far.link.payload().await.data[..], b"truth"[..]);
        assert_eq!(net.near.link.payload().await.data[..], b"answer"[..]);
        // A malformed message closes the link of its sender only.
        liar.link
            .send(
                &Builder::new(kind::PAYLOAD)
                    .text(key::CIRCUIT, &circuit)
                    .body(b"no sequence"),
            )
            .await;
        while liar.link.next().await.is_some() {}
        net.near.link.give(&circuit, 1, 0, b"more").await;
        assert_eq!(net.far.link.payload().await.data[..], b"more"[..]);
    });
}

#[test]
fn unread_links_stop_no_others() {
    const PAYLOAD: usize = 64 << 10;
    run(async {
        let mut net = Far::new().await;
        let stuck = net.circuit().await;
        let mut third = Neighbour::new(&net.scene, "third").await;
        net.scene
            .server
            .admin
            .delete("/terminators/terminator")
            .expect(200);
        third.host(&net.scene, "another").await;
        net.dial().await;
        let route = net.near.router.accept_route().await;
        assert_eq!(
            third.router.accept_route().await.circuit_id,
            route.circuit_id
        );
        net.near
            .router
            .next_of(content::CREATE_CIRCUIT_RESPONSE)
            .await;
        // Nobody reads the link of the far router. The sockets take up to four megabytes.
        rustix::net::sockopt::set_socket_recv_buffer_size(net.far.link.stream.get_ref().0, PAYLOAD)
            .unwrap();
        for sequence in 0..128 {
            net.near.link.give(&stuck, sequence, 0, &[0; PAYLOAD]).await;
        }
        net.near.link.give(&route.circuit_id, 0, 0, b"ping").await;
        assert_eq!(third.link.payload().await.data[..], b"ping"[..]);
        let queued = net.queued();
        assert!(
            (PAYLOAD..6 << 20).contains(&queued),
            "{queued} bytes are queued"
        );
        net.scene
            .server
            .admin
            .at(Base::Overkeep)
            .delete(&format!("/circuits/{stuck}"))
            .expect(200);
        assert!(
            soon(|| net.queued() < 1 << 20).await,
            "{} bytes stay queued",
            net.queued()
        );
    });
}

#[test]
fn no_traversal_keeps_circuits_away() {
    run(async {
        let mut net = Far::new().await;
        let circuit = net.circuit().await;
        net.scene
            .server
            .admin
            .patch("/edge-routers/built-in", json!({ "noTraversal": true }))
            .expect(200);
        net.dial().await;
        let answer = net.near.router.next_of(content::ERROR).await;
        let text = String::from_utf8_lossy(answer.body()).into_owned();
        assert!(text.contains("no path from router"), "{text}");
        net.near.link.give(&circuit, 0, 0, b"ping").await;
        assert_eq!(
            net.far.link.payload().await.data[..],
            b"ping"[..],
            "open circuits stay"
        );
        // A direct link takes over when the link to the built-in router is lost.
        net.far.router.verify(&net.near.enrolled).await;
        report(&mut net.near.router, "direct", &net.far.id).await;
        let is_usable = || {
            net.scene
                .server
                .admin
                .at(Base::Overkeep)
                .get("/links/direct")
                .json["data"]["isUsable"]
                == true
        };
        assert!(soon(is_usable).await);
        drop(net.far.link);
        let [one, other] = [
            net.near.router.accept_route().await,
            net.far.router.accept_route().await,
        ];
        assert_eq!((&one.circuit_id, &other.circuit_id), (&circuit, &circuit));
        let routers = || {
            net.scene
                .server
                .admin
                .at(Base::Overkeep)
                .get(&format!("/circuits/{circuit}"))
                .expect(200)
                .data()["routers"]
                .clone()
        };
        assert!(soon(|| routers().as_array().unwrap().len() == 2).await);
    });
}
