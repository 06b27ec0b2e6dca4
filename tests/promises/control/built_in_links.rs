//! Links between the built-in router and routers in other processes, and circuits over them. The
//! other router is simulated.

mod linked;

pub use linked::{LINK, Linked, links};

use std::time::{Duration, Instant};

use tokio::{io::AsyncWriteExt, time::timeout};
use wire::{
    control::{
        content,
        fabric::{self, DestinationType},
    },
    frame::{Builder, Frame, content as common},
    link::{flag, key, kind},
};

use super::{
    mock::{Enrolled, run, soon},
    mock_link::{MockLink, content_of, trace, trace_answer},
};
use crate::{
    harness::Base,
    router::{
        scene::Scene,
        sdk::{self, Event, Options},
    },
};

/// The header with the hops of a trace route of an SDK.
const HOPS: i32 = 1016;

#[test]
fn routers_hear_of_built_in_one() {
    run(async {
        let scene = Scene::new();
        let far = Enrolled::new(&scene.server);
        let mut router = far.connect(&scene.server).await;
        let change = router
            .receive::<fabric::PeerStateChanges>(content::PEER_STATE_CHANGES)
            .await
            .changes
            .remove(0);
        let listener = &change.listeners[0];
        assert_eq!(
            (
                change.id.as_str(),
                listener.protocol.as_str(),
                &listener.groups[..]
            ),
            ("built-in", "tls", &["default".to_owned()][..])
        );
        assert_eq!(listener.address, format!("tls:{}", scene.server.bound()));
    });
}

#[test]
fn client_here_reaches_host_there() {
    run(async {
        let mut linked = Linked::new().await;
        linked.host_there().await;
        let (sdk, token) = linked.scene.dialler(Options::GO).await;
        let (client, route) = tokio::join!(sdk.dial(&token), linked.router.accept_route());
        let mut client = client.unwrap();
        let egress = route.egress.unwrap();
        assert_eq!(
            (egress.binding.as_str(), egress.destination.as_str()),
            ("edge", "terminator")
        );
        let to_link =
            |forward: &&fabric::Forward| forward.destination_type() == DestinationType::Link;
        assert_eq!(
            route.forwards.iter().find(to_link).unwrap().destination,
            LINK
        );
        let (circuit, link, mut known) = (route.circuit_id.as_str(), &mut linked.link, 0);
        assert!(link.take(circuit, &mut known).await.is_start());
        client.send(b"ping").await;
        // It is sent again until it is acknowledged.
        let payloads = [link.payload().await, link.payload().await]
            .map(|payload| (payload.sequence, payload.data.to_vec()));
        assert_eq!(payloads, [(1, b"ping".to_vec()), (1, b"ping".to_vec())]);
        assert_eq!(link.take(circuit, &mut known).await.data[..], b"ping"[..]);
        // Lost, out of order and repeated.
        for (sequence, data) in [
            (0, b"a"),
            (2, b"c"),
            (3, b"d"),
            (2, b"c"),
            (1, b"b"),
            (0, b"a"),
        ] {
            link.give(circuit, sequence, flag::FROM_HOST, data).await;
        }
        for data in [b"a", b"b", b"c", b"d"] {
            assert_eq!(client.data().await, data);
        }
        let asked = Builder::new(sdk::kind::TRACE_ROUTE)
            .u32(sdk::key::CONNECTION, client.id)
            .u32(HOPS, 2)
            .u64(1015, 12345)
            .empty();
        let (answered, ()) = tokio::join!(client.sdk.ask(asked), async {
            let arrived = link.next_of(kind::CONTROL).await;
            let request = arrived.u32(key::TRACE_REQUEST).unwrap();
            assert_eq!(
                (arrived.u32(key::TRACE_HOPS), arrived.body()),
                (Some(1), format!("\u{1}{circuit}").as_bytes())
            );
            link.send(&trace_answer(circuit, request, ("xgress/edge", "far")))
                .await;
        });
        let answered = answered.unwrap();
        assert_eq!(
            (answered.text(1017), answered.text(1018), answered.u64(1015)),
            (Some("xgress/edge"), Some("far"), Some(12345))
        );
        // Payloads that claim to come from the client, and those of other circuits, change nothing.
        link.give(circuit, 4, 0, b"x").await;
        link.give("another", 4, flag::FROM_HOST, b"x").await;
        client.close().await;
        assert!(link.take(circuit, &mut known).await.is_end());
        let unroute = linked
            .router
            .receive::<fabric::Unroute>(content::UNROUTE)
            .await;
        assert_eq!(unroute.circuit_id, circuit);
        assert!(soon(|| linked.scene.server.router().queued_bytes() == 0).await);
    });
}

#[test]
fn reconnected_router_is_told_too() {
    run(async {
        let mut linked = Linked::new().await;
        linked.host_there().await;
        let (sdk, token) = linked.scene.dialler(Options::GO).await;
        let (client, route) = tokio::join!(sdk.dial(&token), linked.router.accept_route());
        let (_client, mut known) = (client.unwrap(), 0);
        assert!(
            linked
                .link
                .take(&route.circuit_id, &mut known)
                .await
                .is_start()
        );
        let again = linked
            .far
            .tls(linked.scene.server.bound(), "ziti-ctrl")
            .await;
        linked
            .scene
            .server
            .admin
            .delete(&format!("/service-policies/{}", linked.scene.dial))
            .expect(200);
        assert!(
            linked
                .link
                .take(&route.circuit_id, &mut known)
                .await
                .is_end()
        );
        // The removal is still to be sent: the end goes over the link first.
        let mut router = linked
            .far
            .try_connect_over(again, linked.far.hello(Some("1")))
            .await
            .unwrap_or_else(|reason| panic!("{reason}"));
        assert_eq!(
            router
                .receive::<fabric::Unroute>(content::UNROUTE)
                .await
                .circuit_id,
            route.circuit_id
        );
    });
}

#[test]
fn a_lost_right_ends_a_circuit_over_a_link_whose_router_acknowledges_nothing() {
    run(async {
        let mut linked = Linked::new().await;
        linked.host_there().await;
        let (sdk, token) = linked.scene.dialler(Options::GO).await;
        let (client, route) = tokio::join!(sdk.dial(&token), linked.router.accept_route());
        let mut client = client.unwrap();
        client.send(b"ping").await;
        // The session is deleted alone, so that there is one review.
        let admin = &linked.scene.server.admin;
        let sessions = admin.get("/sessions").expect(200);
        let mut sessions = sessions.data().as_array().unwrap().iter();
        let dialed = sessions.find(|session| session["type"] == "Dial").unwrap();
        let id = dialed["id"].as_str().unwrap();
        admin.delete(&format!("/sessions/{id}")).expect(200);
        assert!(matches!(client.next().await, Event::Closed(_)));
        // Far less than what an end waits for acknowledgements.
        let unroute = linked.router.receive::<fabric::Unroute>(content::UNROUTE);
        let unroute = timeout(Duration::from_secs(10), unroute).await.unwrap();
        assert_eq!((unroute.circuit_id, unroute.now), (route.circuit_id, true));
    });
}

#[test]
fn a_client_is_told_that_an_administrator_ended_its_circuit_over_a_link() {
    run(async {
        let mut linked = Linked::new().await;
        linked.host_there().await;
        let (sdk, token) = linked.scene.dialler(Options::GO).await;
        let (client, route) = tokio::join!(sdk.dial(&token), linked.router.accept_route());
        let mut client = client.unwrap();
        linked
            .scene
            .server
            .admin
            .at(Base::Overkeep)
            .delete(&format!("/circuits/{}", route.circuit_id))
            .expect(200);
        let ended = client.ended().await;
        assert_eq!(ended.text, "an administrator ended the circuit");
        let unroute = linked.router.receive::<fabric::Unroute>(content::UNROUTE);
        assert_eq!(unroute.await.circuit_id, route.circuit_id);
    });
}

#[test]
fn client_there_reaches_host_here() {
    run(async {
        let mut linked = Linked::new().await;
        let mut listener = linked.scene.hosted(Options::GO).await;
        let token = linked.scene.client.session(&linked.scene.service, "Dial");
        let fingerprint = linked.scene.client.fingerprint();
        let request = linked.router.dial(&token, &fingerprint).await;
        let (mut host, route) = tokio::join!(listener.accept(), linked.router.accept_route());
        let answer = linked
            .router
            .next_of(content::CREATE_CIRCUIT_RESPONSE)
            .await;
        assert_eq!(answer.reply_for(), Some(request));
        let (circuit, link, mut known) = (route.circuit_id.as_str(), &mut linked.link, 0);
        host.send(b"early").await;
        link.give(circuit, 0, flag::START, b"").await;
        link.give(circuit, 1, 0, b"ping").await;
        assert_eq!(host.data().await, b"ping");
        let first = link.take(circuit, &mut known).await;
        assert_eq!(
            (&first.data[..], first.is_from_host()),
            (&b"early"[..], true)
        );
        link.send(&trace(circuit, 1)).await;
        let node = ("xgress/edge", "built-in");
        assert_eq!(
            content_of(&link.next_of(kind::CONTROL).await),
            content_of(&trace_answer(circuit, 7, node))
        );
        link.send(&trace(circuit, 2)).await;
        let request = host.message().await.unwrap();
        assert_eq!(
            (request.content_type(), request.u32(HOPS)),
            (sdk::kind::TRACE_ROUTE, Some(1))
        );
        let of_host = Builder::new(sdk::kind::TRACE_ROUTE_RESPONSE)
            .u32(sdk::key::CONNECTION, host.id)
            .u32(HOPS, 0)
            .text(1017, "sdk");
        host.sdk
            .send(
                of_host
                    .u64(1015, 12345)
                    .text(1018, "id")
                    .u32(1019, request.u32(1019).unwrap())
                    .empty(),
            )
            .await
            .unwrap();
        assert_eq!(
            content_of(&link.next_of(kind::CONTROL).await),
            content_of(&trace_answer(circuit, 7, ("sdk", "id")))
        );
        // The end of the right ends both sides at once.
        let began = Instant::now();
        linked
            .scene
            .server
            .admin
            .delete(&format!("/service-policies/{}", linked.scene.dial))
            .expect(200);
        assert!(link.take(circuit, &mut known).await.is_end());
        assert!(matches!(host.next().await, Event::Closed(_)));
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "not by a timeout"
        );
        assert!(
            soon(|| linked
                .scene
                .server
                .admin
                .at(Base::Overkeep)
                .get("/circuits")
                .expect(200)
                .data()
                == &serde_json::json!([]))
            .await
        );
    });
}

#[test]
fn known_headers_come_over_links() {
    run(async {
        let mut linked = Linked::new().await;
        linked.host_there().await;
        let (sdk, token) = linked.scene.dialler(Options::GO).await;
        let (client, route) = tokio::join!(sdk.dial(&token), linked.router.accept_route());
        let (mut client, circuit, link) =
            (client.unwrap(), route.circuit_id.as_str(), &mut linked.link);
        let payload = |sequence: u64| {
            let builder = Builder::new(kind::PAYLOAD)
                .text(key::CIRCUIT, circuit)
                .u64(key::SEQUENCE, sequence);
            [1, 2, 5, 128, 255, 1000]
                .iter()
                .fold(builder.u32(key::FLAGS, flag::FROM_HOST), |builder, key| {
                    builder.u64(*key, 1)
                })
        };
        link.send(
            &payload(0)
                .bytes(key::UUID, &[5; 16])
                .u32(key::DATA_FLAGS, 2)
                .body(b"known"),
        )
        .await;
        let received = client.message().await.unwrap();
        let content = |frame: &Frame| {
            (
                content_of(frame).0.into_keys().collect::<Vec<_>>(),
                frame.body().to_vec(),
            )
        };
        assert_eq!(
            content(&received),
            (
                vec![128, sdk::key::CONNECTION, sdk::key::FLAGS],
                b"known".to_vec()
            )
        );
        for (sequence, bytes) in (1..).zip([0, 1, 15, 17, 300]) {
            link.send(
                &payload(sequence)
                    .bytes(key::UUID, &vec![5; bytes])
                    .bytes(key::DATA_FLAGS, &vec![1; bytes])
                    .body(b"odd"),
            )
            .await;
            let received = client.message().await.unwrap();
            assert_eq!(
                content(&received),
                (vec![sdk::key::CONNECTION], b"odd".to_vec()),
                "{bytes} bytes"
            );
        }
        // Answers to trace routes that the client has not asked for.
        for number in 0..40 {
            link.send(&trace_answer(circuit, number, ("xgress/edge", "far")))
                .await;
        }
        link.send(&payload(6).body(b"after them")).await;
        assert_eq!(client.data().await, b"after them");
    });
}

#[test]
fn malformed_messages_close_their_link() {
    run(async {
        let mut linked = Linked::new().await;
        let hello = MockLink::hello("second", &linked.far.id);
        let mut second = MockLink::try_open(&linked.scene.server, &linked.far, hello)
            .await
            .unwrap();
        second
            .send(
                &Builder::new(kind::PAYLOAD)
                    .text(key::CIRCUIT, "circuit")
                    .body(b"no sequence"),
            )
            .await;
        while second.next().await.is_some() {}
        linked.link.send(&Builder::new(common::PING).empty()).await;
        linked.link.next_of(common::RESULT).await;
        linked.link.stream.write_all(&[7; 64]).await.unwrap();
        while linked.link.next().await.is_some() {}
        assert!(
            soon(|| links(&linked.scene.server).is_empty()).await,
            "the loss is known"
        );
        let fault = linked.router.receive::<fabric::Fault>(content::FAULT).await;
        assert_eq!(fault.id, LINK);
    });
}

#[test]
fn links_need_certificate_of_router() {
    run(async {
        let linked = Linked::new().await;
        let (server, other) = (&linked.scene.server, Enrolled::new(&linked.scene.server));
        let refused = async |router: &Enrolled, hello: Frame| {
            MockLink::try_open(server, router, hello)
                .await
                .err()
                .unwrap()
        };
        let text = "the client certificate is not one of an enrolled router with this id";
        assert_eq!(
            refused(&other, MockLink::hello("new", &linked.far.id)).await,
            text
        );
        assert_eq!(
            refused(&other, MockLink::hello("new", "built-in")).await,
            text
        );
        assert_eq!(
            refused(&other, MockLink::hello(LINK, &other.id)).await,
            "a link with this id belongs to another router"
        );
        assert_eq!(
            refused(&other, MockLink::hello("", &other.id)).await,
            "a hello must carry the id of the link"
        );
        server
            .admin
            .patch(
                &format!("/edge-routers/{}", other.id),
                serde_json::json!({ "disabled": true }),
            )
            .expect(200);
        assert_eq!(
            refused(&other, MockLink::hello("new", &other.id)).await,
            text
        );
    });
}
