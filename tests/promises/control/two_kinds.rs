//! Circuits over the built-in router and over remote ones at the same time: what holds for both
//! together.

use model::clock::Clock;
use prost::Message;
use serde_json::json;
use wire::{
    control::{
        content,
        edge::{self, CreateTerminatorResult},
        fabric::{self, FaultSubject},
    },
    frame::{Builder, content as common, key as common_key},
};

use super::{
    built_in_links::{LINK, Linked, links},
    links::measure,
    mock::{run, soon},
};
use crate::{
    harness::{Base, TestServer},
    router::{
        scene::{Member, Scene},
        sdk::{Event, Options, key},
    },
};

const REFUSED: &str =
    "the identity has as many circuits as router.max-circuits-per-identity allows";

/// Has the host of the scene host the service at the far router.
async fn host_there(linked: &mut Linked, terminator: &str, cost: u32) {
    let host = &linked.scene.host;
    let request = edge::CreateTerminator {
        address: terminator.into(),
        session_token: host.session(&linked.scene.service, "Bind"),
        fingerprints: vec![host.fingerprint()],
        cost,
        ..Default::default()
    };
    let frame = Builder::new(content::CREATE_TERMINATOR).body(&request.encode_to_vec());
    let answer = linked
        .router
        .ask(frame, content::CREATE_TERMINATOR_RESPONSE)
        .await;
    let answer = edge::CreateTerminatorResponse::decode(answer.body()).unwrap();
    assert_eq!(
        answer.result(),
        CreateTerminatorResult::Success,
        "{answer:?}"
    );
}

fn is_without_circuits(server: &TestServer) -> bool {
    server
        .admin
        .at(Base::Overkeep)
        .get("/circuits")
        .expect(200)
        .data()
        == &json!([])
}

#[test]
fn identities_have_one_circuit_quota() {
    let server = TestServer::with(Clock::system(), |config| {
        config.router.enabled = true;
        config.router.max_circuits_per_identity = 16;
    });
    run(async {
        let mut linked = Linked::on(Scene::on(server, false)).await;
        let other = Member::new(&linked.scene.server, "other");
        linked
            .scene
            .server
            .allow_service_over(&other.id, &linked.scene.service, &linked.far.id);
        linked.scene.server.service_policy(
            "Dial",
            &[&format!("@{}", other.id)],
            &[&format!("@{}", linked.scene.service)],
        );
        linked.host_there().await;
        let (sdk, token) = linked.scene.dialler(Options::GO).await;
        let (mut here, mut there) = (Vec::new(), Vec::new());
        for _ in 0..8 {
            let (client, route) = tokio::join!(sdk.dial(&token), linked.router.accept_route());
            here.push((client.unwrap(), route.circuit_id));
            there.push(
                linked
                    .router
                    .circuit(&token, &linked.scene.client.fingerprint())
                    .await,
            );
        }
        assert_eq!(sdk.dial(&token).await.err().unwrap().text, REFUSED);
        assert_eq!(
            linked
                .router
                .refused(&token, &linked.scene.client.fingerprint())
                .await,
            (1, REFUSED.to_owned())
        );
        linked
            .router
            .circuit(
                &other.session(&linked.scene.service, "Dial"),
                &other.fingerprint(),
            )
            .await;

        // A circuit that ends makes room for one of the other kind.
        linked.router.fault(FaultSubject::Egress, &there[0]).await;
        linked
            .router
            .receive::<fabric::Unroute>(content::UNROUTE)
            .await;
        let (client, route) = tokio::join!(sdk.dial(&token), linked.router.accept_route());
        here.push((client.unwrap(), route.circuit_id));
        assert_eq!(
            linked
                .router
                .refused(&token, &linked.scene.client.fingerprint())
                .await
                .1,
            REFUSED
        );
        let (mut client, circuit) = here.remove(0);
        linked.router.fault(FaultSubject::Egress, &circuit).await;
        assert!(matches!(client.next().await, Event::Closed(_)));
        linked
            .router
            .circuit(&token, &linked.scene.client.fingerprint())
            .await;
        assert_eq!(sdk.dial(&token).await.err().unwrap().text, REFUSED);
    });
}

#[test]
fn weights_hold_over_both_kinds() {
    const DIALS: usize = 80;
    run(async {
        let mut linked = Linked::new().await;
        // A new link is expensive until both routers have measured it.
        linked
            .link
            .send(
                &Builder::new(common::HEARTBEAT)
                    .u64(common_key::HEARTBEAT_ECHO, 0)
                    .empty(),
            )
            .await;
        measure(&mut linked.router, LINK, 1.0).await;
        let latency = || {
            links(&linked.scene.server)[0]["destLatency"]
                .as_u64()
                .zip(links(&linked.scene.server)[0]["sourceLatency"].as_u64())
        };
        let second = 1_000_000_000;
        assert!(
            soon(|| latency().is_some_and(|(one, other)| one < second && other < second)).await,
            "{:?}",
            latency()
        );
        let service = format!("/services/{}", linked.scene.service);
        linked
            .scene
            .server
            .admin
            .patch(&service, json!({ "terminatorStrategy": "weighted" }))
            .expect(200);
        host_there(&mut linked, "cheap", 1).await;
        host_there(&mut linked, "expensive", 10_000).await;
        let hosting = linked
            .scene
            .host
            .connect(&linked.scene.server, Options::GO)
            .await;
        let token = linked.scene.host.session(&linked.scene.service, "Bind");
        let mut here = hosting
            .host_with(&token, |bind| bind.u16(key::COST, 10_000))
            .await
            .unwrap();
        let (sdk, token) = linked.scene.dialler(Options::GO).await;
        let mut shares = [0; 3];
        for _ in 0..DIALS {
            let accepted = async {
                tokio::select! {
                    conn = here.accept() => (0, Ok(conn)),
                    route = linked.router.accept_route() => {
                        let is_cheap = route.egress.unwrap().destination == "cheap";
                        (if is_cheap { 1 } else { 2 }, Err(route.circuit_id))
                    }
                }
            };
            let dialed = async {
                let dialed = sdk.dial(&token).await;
                dialed.unwrap_or_else(|failure| panic!("{shares:?}: {}", failure.text))
            };
            let (_dialed, (at, accepted)) = tokio::join!(dialed, accepted);
            shares[at] += 1;
            // After the answer: a dial whose circuit ends before that goes to another host.
            match accepted {
                Ok(conn) => conn.close().await,
                Err(circuit) => linked.router.fault(FaultSubject::Egress, &circuit).await,
            }
            assert!(soon(|| is_without_circuits(&linked.scene.server)).await);
        }
        // A quarter, a half, a quarter. Each line fails by chance less often than once in a million
        // runs.
        let [here, cheap, expensive] = shares;
        assert!(here > 3 && expensive > 3, "{shares:?}");
        assert!(cheap > 17 && cheap < 63, "{shares:?}");
    });
}

#[test]
fn local_dials_involve_no_router() {
    run(async {
        let mut linked = Linked::new().await;
        let (client, mut host, _hosting) = linked.scene.connected(Options::GO).await;
        client.send(b"ping").await;
        assert_eq!(host.data().await, b"ping");
        let shown = linked
            .scene
            .server
            .admin
            .at(Base::Overkeep)
            .get("/circuits")
            .expect(200);
        assert_eq!(
            (
                shown.data().as_array().unwrap().len(),
                &shown.data()[0]["links"]
            ),
            (1, &json!([]))
        );
        client.close().await;
        assert!(soon(|| is_without_circuits(&linked.scene.server)).await);
        let sent: Vec<i32> = linked
            .router
            .rest()
            .await
            .iter()
            .map(|frame| frame.content_type())
            .collect();
        let of_circuits = [content::ROUTE, content::UNROUTE, content::FAULT];
        assert!(
            sent.iter()
                .all(|content_type| !of_circuits.contains(content_type)),
            "{sent:?}"
        );
    });
}

#[test]
fn failed_routes_leave_hosts_here() {
    run(async {
        let mut linked = Linked::new().await;
        let hosting = linked
            .scene
            .host
            .connect(&linked.scene.server, Options::GO)
            .await;
        let bind = linked.scene.host.session(&linked.scene.service, "Bind");
        let mut host = hosting.host_with(&bind, |bind| bind).await.unwrap();
        let terminators = || {
            let all = linked.scene.server.admin.get("/terminators").expect(200);
            all.data().as_array().unwrap().clone()
        };
        let shown = terminators();
        let id = shown[0]["id"].as_str().unwrap();
        // The route of a remote dial leads to an address that nobody hosts.
        linked
            .scene
            .server
            .admin
            .patch(
                &format!("/terminators/{id}"),
                json!({ "address": "elsewhere" }),
            )
            .expect(200);
        let (sdk, token) = linked.scene.dialler(Options::GO).await;
        let fingerprint = linked.scene.client.fingerprint();
        let (_, text) = linked.router.refused(&token, &fingerprint).await;
        assert!(text.contains("is not hosted here"), "{text}");
        // Clients here still reach the host, and its end takes its terminator along.
        let (dialed, accepted) = tokio::join!(sdk.dial(&token), host.accept());
        dialed.unwrap().send(b"ping").await;
        let mut accepted = accepted;
        assert_eq!(accepted.data().await, b"ping");
        hosting.leave().await;
        assert!(soon(|| terminators().is_empty()).await);
    });
}
