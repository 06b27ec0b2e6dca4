//! Terminators and circuits at a router with a control channel.

use overkeep::testing::{
    clock::Clock,
    control_channel::message::{
        content,
        edge::{self, CreateTerminatorResult},
        fabric::{self, DestinationType, FaultSubject},
        key,
    },
    frame::{Builder, content as common},
};
use prost::Message;
use serde_json::json;

use super::mock::{Enrolled, MockRouter, run, server, soon};
use crate::{
    harness::{TestServer, fresh},
    router::scene::Member,
};

/// A service, an identity that hosts it and one that may dial it, over one router.
pub struct Scene {
    pub server: TestServer,
    pub router: Enrolled,
    pub service: String,
    pub host: Member,
    pub client: Member,
    pub bind: String,
    pub dial: String,
}

impl Scene {
    pub fn new() -> Self {
        Self::on(server())
    }

    pub fn on(server: TestServer) -> Self {
        let router = Enrolled::new(&server);
        let service = server.service(&fresh("service"), json!({ "encryptionRequired": false }));
        let (host, client) = (Member::new(&server, "host"), Member::new(&server, "client"));
        server.allow_service_over(&host.id, &service, &router.id);
        server.allow_router(&client.id, &router.id);
        let of = |member: &Member| format!("@{}", member.id);
        let bind = server.service_policy("Bind", &[&of(&host)], &[&format!("@{service}")]);
        let dial = server.service_policy("Dial", &[&of(&client)], &[&format!("@{service}")]);
        Self { server, router, service, host, client, bind, dial }
    }

    /// Creates a terminator of the host with this id.
    pub async fn hosted(&self, router: &mut MockRouter, id: &str) {
        let answer = router.bind(id, &self.host.session(&self.service, "Bind"), &self.host.fingerprint()).await;
        assert_eq!(answer.result(), CreateTerminatorResult::Success, "{answer:?}");
    }

    pub fn dial_token(&self) -> String {
        self.client.session(&self.service, "Dial")
    }

    pub fn terminators(&self) -> Vec<String> {
        let listed = self.server.admin.get("/terminators?limit=500").expect(200);
        let of_service = listed.data().as_array().unwrap().iter().filter(|one| one["service"]["id"] == self.service.as_str());
        of_service.map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn a_circuit_is_routed_and_ends() {
    let scene = Scene::new();
    run(async {
        let mut router = scene.router.online(&scene.server).await;
        scene.hosted(&mut router, "terminator-1").await;
        assert_eq!(scene.terminators(), ["terminator-1"]);
        let token = scene.dial_token();
        let request = router.dial(&token, &scene.client.fingerprint()).await;
        let route = router.accept_route().await;
        let egress = route.egress.clone().unwrap();
        assert_eq!((egress.binding.as_str(), egress.destination.as_str()), ("edge", "terminator-1"));
        assert_eq!(egress.peer_data[0].value.as_deref(), Some(&b"caller"[..]));
        let kinds: Vec<_> = route.forwards.iter().map(|forward| forward.destination_type()).collect();
        assert_eq!(kinds, [DestinationType::End, DestinationType::Start]);
        assert_eq!(route.forwards[0].destination, egress.address);
        let answer = router.next_of(content::CREATE_CIRCUIT_RESPONSE).await;
        assert_eq!(answer.reply_for(), Some(request));
        assert_eq!(answer.text(key::INGRESS_ADDRESS), Some(route.forwards[0].source.as_str()));
        let shown = scene.server.admin.get("/terminators/terminator-1").expect(200);
        assert_eq!(shown.data()["dynamicCost"], 2, "an open circuit");
        let id = scene.server.admin.get(&format!("/sessions?filter=token%3D%22{token}%22")).expect(200).data()[0]["id"]
            .as_str()
            .unwrap()
            .to_owned();
        let path = scene.server.admin.get(&format!("/sessions/{id}/route-path")).expect(200);
        assert_eq!(path.data()["routePath"], json!([scene.router.id]));

        router.fault(FaultSubject::Egress, &route.circuit_id).await;
        let unroute: fabric::Unroute = router.receive(content::UNROUTE).await;
        assert_eq!((unroute.circuit_id, unroute.now), (route.circuit_id.clone(), false));
        assert!(soon(|| scene.server.admin.get("/terminators/terminator-1").expect(200).data()["dynamicCost"] == 0).await);
        let path = scene.server.admin.get(&format!("/sessions/{id}/route-path")).expect(200);
        assert_eq!(path.data()["routePath"], json!([]));

        let request_body = fabric::RemoveTerminators { terminator_ids: vec!["terminator-1".into(), "unknown".into()] };
        router.ask(Builder::new(content::REMOVE_TERMINATORS).body(&request_body.encode_to_vec()), common::RESULT).await;
        assert!(soon(|| scene.terminators().is_empty()).await);
        let (code, text) = router.refused(&token, &scene.client.fingerprint()).await;
        assert_eq!((code, text), (1, format!("service {} has no terminators", scene.service)));
    });
}

#[test]
fn one_identity_leaves_circuits_to_others() {
    let scene = Scene::on(TestServer::with(Clock::system(), |config| config.router.max_circuits_per_identity = 16));
    let other = Member::new(&scene.server, "other");
    scene.server.allow_router(&other.id, &scene.router.id);
    scene.server.service_policy("Dial", &[&format!("@{}", other.id)], &[&format!("@{}", scene.service)]);
    run(async {
        let mut router = scene.router.online(&scene.server).await;
        scene.hosted(&mut router, "terminator-1").await;
        let token = scene.dial_token();
        let mut circuits = Vec::new();
        for _ in 0..16 {
            circuits.push(router.circuit(&token, &scene.client.fingerprint()).await);
        }
        let (code, text) = router.refused(&token, &scene.client.fingerprint()).await;
        assert_eq!((code, text.as_str()), (1, "the identity has as many circuits as router.max-circuits-per-identity allows"));
        router.circuit(&other.session(&scene.service, "Dial"), &other.fingerprint()).await;
        // A circuit that ends makes room.
        router.fault(FaultSubject::Egress, &circuits[0]).await;
        router.receive::<fabric::Unroute>(content::UNROUTE).await;
        router.circuit(&token, &scene.client.fingerprint()).await;
        router.refused(&token, &scene.client.fingerprint()).await;
    });
}

#[test]
fn failed_routes_are_tried_again() {
    let scene = Scene::new();
    run(async {
        let mut router = scene.router.online(&scene.server).await;
        scene.hosted(&mut router, "first").await;
        let second = Member::new(&scene.server, "second");
        scene.server.allow_router(&second.id, &scene.router.id);
        scene.server.service_policy("Bind", &[&format!("@{}", second.id)], &[&format!("@{}", scene.service)]);
        let answer = router.bind("second", &second.session(&scene.service, "Bind"), &second.fingerprint()).await;
        assert_eq!(answer.result(), CreateTerminatorResult::Success);
        let request = router.dial(&scene.dial_token(), &scene.client.fingerprint()).await;
        let frame = router.next_of(content::ROUTE).await;
        let route = fabric::Route::decode(frame.body()).unwrap();
        let failed = Builder::reply(content::ROUTE_RESULT, &frame)
            .u32(key::ROUTE_ATTEMPT, 0)
            .text(key::ROUTE_ERROR, "unknown terminator")
            .bytes(key::ROUTE_ERROR_CODE, &[1]);
        router.send(failed.body(route.circuit_id.as_bytes())).await;
        let unroute: fabric::Unroute = router.receive(content::UNROUTE).await;
        assert!(unroute.now && unroute.circuit_id == route.circuit_id);
        let second_route = router.accept_route().await;
        assert_eq!((second_route.attempt, &second_route.circuit_id), (1, &route.circuit_id));
        let (one, other) = (route.egress.unwrap(), second_route.egress.unwrap());
        assert!(one.destination != other.destination && one.address != other.address, "{one:?} {other:?}");
        assert_eq!(router.next_of(content::CREATE_CIRCUIT_RESPONSE).await.reply_for(), Some(request));
        // The router reports this terminator as unknown, so that its record is deleted.
        assert!(soon(|| scene.terminators() == [other.destination.clone()]).await, "{:?}", scene.terminators());
    });
}

#[test]
fn unknown_circuits_are_taken_back() {
    let scene = Scene::new();
    run(async {
        let mut router = scene.router.online(&scene.server).await;
        router.fault(FaultSubject::Forward, "unknown-1 unknown-2").await;
        for expected in ["unknown-1", "unknown-2"] {
            let unroute: fabric::Unroute = router.receive(content::UNROUTE).await;
            assert_eq!((unroute.circuit_id.as_str(), unroute.now), (expected, true));
        }
        let report = fabric::CircuitConfirmation { circuit_ids: vec!["idle".into()], idle_times: Vec::new() };
        router.send(Builder::new(content::CIRCUIT_CONFIRMATION).body(&report.encode_to_vec())).await;
        assert_eq!(router.receive::<fabric::Unroute>(content::UNROUTE).await.circuit_id, "idle");
        let result = Builder::new(content::ROUTE_RESULT).u32(key::ROUTE_ATTEMPT, 0).flag(key::ROUTE_SUCCESS, true);
        router.send(result.body(b"late")).await;
        assert_eq!(router.receive::<fabric::Unroute>(content::UNROUTE).await.circuit_id, "late");
    });
}

#[test]
fn routers_touch_only_their_own() {
    let scene = Scene::new();
    let intruder = Enrolled::new(&scene.server);
    run(async {
        let mut router = scene.router.online(&scene.server).await;
        let mut intruding = intruder.online(&scene.server).await;
        scene.hosted(&mut router, "terminator-1").await;
        let circuit = router.circuit(&scene.dial_token(), &scene.client.fingerprint()).await;
        let request_body = fabric::RemoveTerminators { terminator_ids: vec!["terminator-1".into()] };
        intruding.ask(Builder::new(content::REMOVE_TERMINATORS).body(&request_body.encode_to_vec()), common::RESULT).await;
        let update = edge::UpdateTerminator { terminator_id: "terminator-1".into(), cost: 9, update_cost: true, ..Default::default() };
        let answer = intruding.ask(Builder::new(content::UPDATE_TERMINATOR).body(&update.encode_to_vec()), content::ERROR).await;
        assert_eq!(answer.u32(key::ERROR_CODE), Some(8));
        let state = fabric::TerminatorState { valid: false, ..Default::default() };
        let entry = fabric::TerminatorStateEntry { key: Some("terminator-1".into()), value: Some(state) };
        let states = fabric::ValidateTerminatorsResponse { states: vec![entry] };
        intruding.send(Builder::new(content::VALIDATE_TERMINATORS_RESPONSE).body(&states.encode_to_vec())).await;
        intruding.fault(FaultSubject::Egress, &circuit).await;
        intruding.fault(FaultSubject::Forward, &circuit).await;
        // The router is told to remove the ids that are not its own, and nothing else happens.
        assert_eq!(intruding.receive::<fabric::Unroute>(content::UNROUTE).await.circuit_id, circuit);
        // The identity may not use the service over this router.
        let answer = intruding.bind("terminator-2", &scene.host.session(&scene.service, "Bind"), &scene.host.fingerprint()).await;
        assert_eq!(answer.result(), CreateTerminatorResult::FailedOther);
        assert_eq!(intruding.refused(&scene.dial_token(), &scene.client.fingerprint()).await.0, 5);
        // A certificate of another identity.
        assert_eq!(router.refused(&scene.dial_token(), &scene.host.fingerprint()).await.0, 3);
        assert_eq!(scene.terminators(), ["terminator-1"]);
        assert_eq!(scene.server.admin.get("/terminators/terminator-1").expect(200).data()["dynamicCost"], 2);
        assert_eq!(scene.server.admin.get("/terminators/terminator-1").expect(200).data()["cost"], 0);
    });
}

#[test]
fn a_restarted_router_hosts_nothing() {
    let scene = Scene::new();
    run(async {
        let mut router = scene.router.online(&scene.server).await;
        scene.hosted(&mut router, "terminator-1").await;
        let circuit = router.circuit(&scene.dial_token(), &scene.client.fingerprint()).await;
        drop(router);
        // The same process: everything stays, and the router is asked to validate its terminators.
        let mut router = scene.router.reconnect(&scene.server).await;
        let validation: fabric::ValidateTerminators = router.receive(content::VALIDATE_TERMINATORS).await;
        assert_eq!(validation.terminators[0].id, "terminator-1");
        assert_eq!(scene.server.admin.get("/terminators/terminator-1").expect(200).data()["dynamicCost"], 2);
        drop(router);
        assert!(soon(|| scene.router.shown(&scene.server)["isOnline"] == false).await);
        // Another process: its circuits and terminators are gone.
        let mut router = scene.router.online(&scene.server).await;
        assert!(soon(|| scene.terminators().is_empty()).await);
        router.fault(FaultSubject::Forward, &circuit).await;
        assert_eq!(router.receive::<fabric::Unroute>(content::UNROUTE).await.circuit_id, circuit);
    });
}
