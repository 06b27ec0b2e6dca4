//! Who hosts a service, since when nobody does, and which dials fail: at remote routers.

use prost::Message;
use serde_json::{Value as Json, json};
use wire::{
    control::{content, fabric, key},
    frame::{Builder, content as common},
};

use super::{
    circuits::Scene,
    mock::{Enrolled, MockRouter, run, soon},
};
use crate::router::outage::{explained, hosting, needing, state};

/// Answers the next route of a circuit with a failure.
async fn fail_route(router: &mut MockRouter, code: u8, text: &str) {
    let frame = router.next_of(content::ROUTE).await;
    let route = fabric::Route::decode(frame.body()).unwrap();
    let failed = Builder::reply(content::ROUTE_RESULT, &frame)
        .u32(key::ROUTE_ATTEMPT, route.attempt)
        .text(key::ROUTE_ERROR, text);
    router
        .send(
            failed
                .bytes(key::ROUTE_ERROR_CODE, &[code])
                .body(route.circuit_id.as_bytes()),
        )
        .await;
}

pub fn faults(shown: &Json) -> Vec<(String, u64)> {
    let reasons = shown["failures"][0]["reasons"].as_array().unwrap().iter();
    reasons
        .map(|one| {
            (
                one["fault"].as_str().unwrap().to_owned(),
                one["times"].as_u64().unwrap(),
            )
        })
        .collect()
}

#[test]
fn outages_at_remote_routers_are_told() {
    let scene = Scene::new();
    let (server, service) = (&scene.server, scene.service.as_str());
    assert_eq!(state(server, service), "never-hosted");
    run(async {
        let mut router = scene.router.online(server).await;
        scene.hosted(&mut router, "terminator-1").await;
        assert!(
            soon(|| state(server, service) == "hosted").await,
            "{:#}",
            hosting(server, service)
        );

        // The SDK has gone: its router removes the terminator.
        let gone = fabric::RemoveTerminators {
            terminator_ids: vec!["terminator-1".into()],
        };
        router
            .ask(
                Builder::new(content::REMOVE_TERMINATORS).body(&gone.encode_to_vec()),
                common::RESULT,
            )
            .await;
        assert!(soon(|| state(server, service) == "unhosted").await);
        assert_eq!(
            hosting(server, service)["lastHost"]["id"],
            scene.host.id.as_str()
        );
        router
            .refused(&scene.dial_token(), &scene.client.fingerprint())
            .await;
        assert_eq!(
            faults(&hosting(server, service)),
            [("no-host".to_owned(), 1)]
        );

        // It is back, and the router goes offline with it; its terminator stays for a while.
        scene.hosted(&mut router, "terminator-2").await;
        assert!(soon(|| state(server, service) == "hosted").await);
        drop(router);
        assert!(soon(|| state(server, service) == "unhosted").await);
        assert_eq!(
            (scene.terminators(), needing(server, "unhostedServices")),
            (vec!["terminator-2".to_owned()], vec![service.to_owned()])
        );
        let (text, _) = explained(server, &scene.client.id, service);
        assert!(text.contains("nobody hosts it since "), "{text}");

        // The router connects again with its terminator.
        let mut router = scene.router.online(server).await;
        scene.hosted(&mut router, "terminator-2").await;
        assert!(soon(|| state(server, service) == "hosted").await);
        assert!(needing(server, "unhostedServices").is_empty());
    });
}

#[test]
fn failed_routes_are_told_by_reason() {
    let scene = Scene::new();
    let (server, service) = (&scene.server, scene.service.as_str());
    run(async {
        let mut router = scene.router.online(server).await;
        scene.hosted(&mut router, "terminator").await;
        let token = scene.dial_token();
        let cases = [
            (3, "the host is silent", "timeout"),
            (0, "timeout waiting for message reply", "timeout"),
            (4, "connection refused", "refused"),
            (0, "dial failed", "refused"),
        ];
        for (times, (code, text, fault)) in cases.into_iter().enumerate() {
            router.dial(&token, &scene.client.fingerprint()).await;
            fail_route(&mut router, code, text).await;
            router.next_of(content::ERROR).await;
            let shown = hosting(server, service);
            assert_eq!(
                (&faults(&shown)[0].0, &shown["failures"][0]["times"]),
                (&fault.to_owned(), &json!(times + 1)),
                "{shown:#}"
            );
            assert_eq!(
                (&shown["state"], &shown["failures"][0]["identity"]["id"]),
                (&"failing".into(), &scene.host.id.as_str().into())
            );
            assert_eq!(shown["failures"][0]["reasons"][0]["text"], text);
            let (explanation, why) = explained(server, &scene.client.id, service);
            assert!(
                why["verdict"] == false && explanation.contains(text),
                "{explanation}"
            );
        }
        assert_eq!(needing(server, "failingServices"), [service]);
        router.circuit(&token, &scene.client.fingerprint()).await;
        assert_eq!(
            (state(server, service), needing(server, "failingServices")),
            ("hosted".to_owned(), vec![])
        );
        assert_eq!(
            explained(server, &scene.client.id, service).1["verdict"],
            true
        );

        // A terminator that the router does not know is removed: the host has left.
        router.dial(&token, &scene.client.fingerprint()).await;
        fail_route(&mut router, 1, "unknown terminator").await;
        router.next_of(content::ERROR).await;
        assert!(soon(|| state(server, service) == "unhosted").await);
        assert_eq!(faults(&hosting(server, service))[0].0, "left");
    });
}

/// A terminator that an administrator made is a host while its router is online.
#[test]
fn static_terminators_are_hosts() {
    let scene = Scene::new();
    let (server, service) = (&scene.server, scene.service.as_str());
    let elsewhere = Enrolled::new(server);
    let body = json!({ "service": service, "router": elsewhere.id, "address": "tcp:127.0.0.1:9", "binding": "transport" });
    let id = server.admin.post("/terminators", body).expect(201).id();
    assert_eq!(
        (state(server, service), needing(server, "unhostedServices")),
        ("never-hosted".to_owned(), vec![])
    );
    run(async {
        let router = elsewhere.online(server).await;
        assert!(soon(|| state(server, service) == "hosted").await);
        let shown = hosting(server, service);
        assert!(
            shown["hosts"][0].get("identity").is_none()
                && shown["hosts"][0]["router"]["id"] == elsewhere.id.as_str(),
            "{shown:#}"
        );
        drop(router);
        assert!(soon(|| state(server, service) == "unhosted").await);
        let router = elsewhere.online(server).await;
        assert!(soon(|| state(server, service) == "hosted").await);
        // Moved to a router that is offline, and back.
        server
            .admin
            .patch(
                &format!("/terminators/{id}"),
                json!({ "router": scene.router.id }),
            )
            .expect(200);
        assert_eq!(state(server, service), "unhosted");
        server
            .admin
            .patch(
                &format!("/terminators/{id}"),
                json!({ "router": elsewhere.id }),
            )
            .expect(200);
        assert_eq!(state(server, service), "hosted");
        server
            .admin
            .delete(&format!("/terminators/{id}"))
            .expect(200);
        assert_eq!(state(server, service), "unhosted");
        drop(router);
    });
}
