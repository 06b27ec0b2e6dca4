//! Messages of routers that are cut off, repeated or out of order.

use prost::Message;
use serde_json::json;
use wire::{
    control::{
        content,
        edge::{self, CreateTerminatorResult},
        fabric::{self, FaultSubject},
        key,
    },
    frame::{Builder, Frame, content as common, key as common_key},
};

use super::{
    circuits::Scene,
    links::report,
    mock::{Enrolled, bind_request, run, soon},
};
use crate::harness::Base;

fn removal(terminator: &str) -> Frame {
    let body = fabric::RemoveTerminators {
        terminator_ids: vec![terminator.into()],
    };
    Builder::new(content::REMOVE_TERMINATORS).body(&body.encode_to_vec())
}

#[test]
fn truncated_messages_change_nothing() {
    let scene = Scene::new();
    run(async {
        let mut router = scene.router.online(&scene.server).await;
        scene.hosted(&mut router, "terminator").await;
        let circuit = router
            .circuit(&scene.dial_token(), &scene.client.fingerprint())
            .await;
        let removal = removal("terminator");
        let fault = fabric::Fault {
            subject: FaultSubject::Ingress.into(),
            id: circuit.clone(),
            iteration: 0,
        };
        let fault = Builder::new(content::FAULT).body(&fault.encode_to_vec());
        // Within the magic number, within the lengths, at the end of the head, within the body.
        for message in [removal, fault] {
            for length in [1, 19, 20, message.as_bytes().len() - 1] {
                router.send_bytes(&message.as_bytes()[..length]).await;
                drop(router);
                assert!(
                    soon(|| scene.router.shown(&scene.server)["isOnline"] == false).await,
                    "cut after {length} bytes"
                );
                router = scene.router.reconnect(&scene.server).await;
                router.introduce().await;
                assert_eq!(scene.terminators(), ["terminator"]);
            }
        }
        scene
            .server
            .admin
            .at(Base::Overkeep)
            .get(&format!("/circuits/{circuit}"))
            .expect(200);
        router.fault(FaultSubject::Ingress, &circuit).await;
        router.receive::<fabric::Unroute>(content::UNROUTE).await;
    });
}

#[test]
fn repeated_messages_act_once() {
    let scene = Scene::new();
    let far = Enrolled::new(&scene.server);
    run(async {
        let mut router = scene.router.online(&scene.server).await;
        let _far = far.online(&scene.server).await;
        for _ in 0..2 {
            report(&mut router, &["link"], &far.id).await;
            scene.hosted(&mut router, "terminator").await;
        }
        assert_eq!(scene.terminators(), ["terminator"]);
        assert_eq!(
            scene
                .server
                .admin
                .at(Base::Overkeep)
                .get("/links")
                .expect(200)
                .total(),
            1
        );
        // One route with two results, and a failure after the success.
        let request = router
            .dial(&scene.dial_token(), &scene.client.fingerprint())
            .await;
        let frame = router.next_of(content::ROUTE).await;
        let circuit = fabric::Route::decode(frame.body()).unwrap().circuit_id;
        let result = || Builder::reply(content::ROUTE_RESULT, &frame).u32(key::ROUTE_ATTEMPT, 0);
        for result in [
            result().flag(key::ROUTE_SUCCESS, true),
            result().flag(key::ROUTE_SUCCESS, true),
            result(),
        ] {
            router.send(result.body(circuit.as_bytes())).await;
        }
        assert_eq!(
            router
                .next_of(content::CREATE_CIRCUIT_RESPONSE)
                .await
                .reply_for(),
            Some(request)
        );
        router
            .ask(Builder::new(common::PING).empty(), common::RESULT)
            .await;
        let cost = || {
            scene
                .server
                .admin
                .get("/terminators/terminator")
                .expect(200)
                .data()["dynamicCost"]
                .clone()
        };
        assert_eq!(cost(), json!(2), "one open circuit, and no failed dial");
        for _ in 0..2 {
            router.fault(FaultSubject::Ingress, &circuit).await;
            router.fault(FaultSubject::Egress, &circuit).await;
        }
        assert_eq!(
            router
                .receive::<fabric::Unroute>(content::UNROUTE)
                .await
                .circuit_id,
            circuit
        );
        assert!(soon(|| cost() == 0).await);
        let types =
            |frames: Vec<Frame>| frames.iter().map(Frame::content_type).collect::<Vec<i32>>();
        assert_eq!(
            types(router.rest().await),
            [0_i32; 0],
            "nothing else was sent"
        );
        for _ in 0..2 {
            let removal = router.send(removal("terminator")).await;
            let [answer] = &router.rest().await[..] else {
                panic!("one answer to each removal")
            };
            assert!(answer.is_set(common_key::SUCCESS) && answer.reply_for() == Some(removal));
        }
        assert!(soon(|| scene.terminators().is_empty()).await);
        assert_eq!(
            types(router.rest().await),
            [0_i32; 0],
            "nothing else was sent"
        );
    });
}

#[test]
fn terminators_of_administrators_stay() {
    let scene = Scene::new();
    let spec = json!({ "service": scene.service, "router": scene.router.id, "address": "tcp:localhost:80", "binding": "transport" });
    let id = scene
        .server
        .admin
        .post("/terminators", spec)
        .expect(201)
        .id();
    run(async {
        let mut router = scene.router.online(&scene.server).await;
        let answer = router
            .bind(
                &id,
                &scene.host.session(&scene.service, "Bind"),
                &scene.host.fingerprint(),
            )
            .await;
        assert_ne!(answer.result(), CreateTerminatorResult::Success);
        // The router changes and removes it while its own request is decided.
        let token = scene.host.session(&scene.service, "Bind");
        let update = edge::UpdateTerminator {
            terminator_id: id.clone(),
            update_cost: true,
            cost: 7,
            ..<_>::default()
        };
        for _ in 0..50 {
            router
                .send(bind_request(&id, &token, &scene.host.fingerprint()))
                .await;
            for _ in 0..10 {
                router
                    .send(Builder::new(content::UPDATE_TERMINATOR).body(&update.encode_to_vec()))
                    .await;
                router.send(removal(&id)).await;
            }
        }
        let answer = router.bind("own", &token, &scene.host.fingerprint()).await;
        assert_eq!(
            answer.result(),
            CreateTerminatorResult::Success,
            "what was queued before is decided"
        );
        let record = scene
            .server
            .admin
            .get(&format!("/terminators/{id}"))
            .expect(200);
        assert_eq!(
            (&record.data()["binding"], &record.data()["cost"]),
            (&json!("transport"), &json!(0))
        );
    });
}

#[test]
fn reordered_messages_are_harmless() {
    let scene = Scene::new();
    let far = Enrolled::new(&scene.server);
    run(async {
        let mut router = scene.router.connect(&scene.server).await;
        let _far = far.online(&scene.server).await;
        // The end of a link, a terminator and a circuit before their beginning; requests before the
        // router has introduced itself.
        router.fault(FaultSubject::Link, "link").await;
        router.ask(removal("terminator"), common::RESULT).await;
        router.fault(FaultSubject::Egress, "circuit").await;
        let result = Builder::new(content::ROUTE_RESULT)
            .u32(key::ROUTE_ATTEMPT, 7)
            .flag(key::ROUTE_SUCCESS, true);
        router.send(result.body(b"circuit")).await;
        report(&mut router, &["link"], &far.id).await;
        let (bind, dial) = (
            scene.host.session(&scene.service, "Bind"),
            scene.dial_token(),
        );
        let answer = router
            .bind("terminator", &bind, &scene.host.fingerprint())
            .await;
        assert_eq!(answer.result(), CreateTerminatorResult::Success);
        // The result of an attempt that has not begun counts for nothing; the dial waits for its
        // own.
        let request = router.dial(&dial, &scene.client.fingerprint()).await;
        let frame = router.next_of(content::ROUTE).await;
        let circuit = fabric::Route::decode(frame.body()).unwrap().circuit_id;
        let result = |attempt| {
            Builder::reply(content::ROUTE_RESULT, &frame).u32(key::ROUTE_ATTEMPT, attempt)
        };
        router.send(result(1).body(circuit.as_bytes())).await;
        router
            .send(
                result(0)
                    .flag(key::ROUTE_SUCCESS, true)
                    .body(circuit.as_bytes()),
            )
            .await;
        assert_eq!(
            router
                .next_of(content::CREATE_CIRCUIT_RESPONSE)
                .await
                .reply_for(),
            Some(request)
        );
        assert_eq!(scene.terminators(), ["terminator"]);
        assert_eq!(
            scene
                .server
                .admin
                .at(Base::Overkeep)
                .get("/links")
                .expect(200)
                .total(),
            1
        );
    });
}

#[test]
fn clocks_of_routers_do_not_matter() {
    let scene = Scene::new();
    let far = Enrolled::new(&scene.server);
    run(async {
        let _far = far.online(&scene.server).await;
        // A build of tomorrow.
        let hello = Builder::new(common::HELLO).text(
            common_key::VERSION,
            "v1.1.15|local|2999-12-31 23:59:59|linux|amd64",
        );
        let mut router = scene
            .router
            .try_connect(&scene.server, hello.body(scene.router.id.as_bytes()))
            .await
            .unwrap();
        for clock in [0, u64::MAX] {
            router
                .send(
                    Builder::new(common::HEARTBEAT)
                        .u64(common_key::HEARTBEAT, clock)
                        .empty(),
                )
                .await;
            while router
                .next_of(common::HEARTBEAT)
                .await
                .u64(common_key::HEARTBEAT_ECHO)
                != Some(clock)
            {}
            // An echo of a heartbeat that was never sent.
            router
                .send(
                    Builder::new(common::HEARTBEAT)
                        .u64(common_key::HEARTBEAT_ECHO, clock)
                        .empty(),
                )
                .await;
        }
        let began = scene.server.clock.now();
        report(&mut router, &["link"], &far.id).await;
        let link = || scene.server.admin.at(Base::Overkeep).get("/links/link");
        assert!(soon(|| link().status == 200).await);
        let since = link().data()["since"].as_str().unwrap().to_owned();
        assert!(
            since >= began.to_string() && since <= scene.server.clock.now().to_string(),
            "the time of the controller: {since}"
        );
        let report = fabric::CircuitConfirmation {
            circuit_ids: vec!["unknown".into()],
            ..Default::default()
        };
        router
            .send(Builder::new(content::CIRCUIT_CONFIRMATION).body(&report.encode_to_vec()))
            .await;
        assert_eq!(
            router
                .receive::<fabric::Unroute>(content::UNROUTE)
                .await
                .circuit_id,
            "unknown"
        );
    });
}
