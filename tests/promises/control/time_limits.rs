//! What ends when a time limit is over: limits are shortened.

use std::time::{Duration, Instant};

use model::{
    clock::Clock,
    config::{Config, Span},
};
use prost::Message;
use serde_json::json;
use wire::{
    control::{
        content,
        fabric::{self, FaultSubject},
        key,
    },
    frame::{Builder, content as common},
};

use super::{
    circuits::Scene,
    links::{REROUTE, report},
    mock::{Enrolled, run, soon},
    outage::faults,
};
use crate::{
    harness::{Base, TestServer},
    router::outage::{explained, hosting},
};

const SHORT: Duration = Duration::from_millis(300);

fn scene(adapt: impl FnOnce(&mut Config)) -> Scene {
    Scene::on(TestServer::with(Clock::system(), adapt))
}

#[test]
fn absent_routers_are_forgotten() {
    let scene = scene(|config| config.routers.times.forget_after = Some(SHORT));
    let other = Enrolled::new(&scene.server);
    run(async {
        let mut router = scene.router.online(&scene.server).await;
        scene.hosted(&mut router, "terminator").await;
        let circuit = router
            .circuit(&scene.dial_token(), &scene.client.fingerprint())
            .await;
        report(&mut router, &["link"], &other.id).await;
        let has = |path: String| scene.server.admin.at(Base::Overkeep).get(&path).status == 200;
        assert!(soon(|| has("/links/link".into())).await);
        // A router that comes back in time keeps everything.
        drop(router);
        let router = scene.router.reconnect(&scene.server).await;
        tokio::time::sleep(SHORT * 2).await;
        assert!(has(format!("/circuits/{circuit}")) && has("/links/link".into()));
        assert_eq!(scene.terminators(), ["terminator"]);
        drop(router);
        assert!(soon(|| !has(format!("/circuits/{circuit}")) && !has("/links/link".into())).await);
        assert!(soon(|| scene.terminators().is_empty()).await);
        // It is told of it when it is back.
        let mut router = scene.router.reconnect(&scene.server).await;
        let unroute: fabric::Unroute = router.receive(content::UNROUTE).await;
        assert_eq!((unroute.circuit_id, unroute.now), (circuit, true));
    });
}

#[test]
fn circuits_leave_absent_middle_routers() {
    let scene = scene(|config| config.routers.times.forget_after = Some(SHORT));
    let [middle, other, far] = [(); 3].map(|()| Enrolled::new(&scene.server));
    scene
        .server
        .allow_service_over(&scene.host.id, &scene.service, &far.id);
    run(async {
        let mut near = scene.router.online(&scene.server).await;
        let mut far_router = far.online(&scene.server).await;
        let mut middle_router = middle.online(&scene.server).await;
        middle_router.verify(&scene.router).await;
        far_router.verify(&middle).await;
        report(&mut near, &["to-middle"], &middle.id).await;
        report(&mut middle_router, &["from-middle"], &far.id).await;
        let links = || {
            scene
                .server
                .admin
                .at(Base::Overkeep)
                .get("/links?filter=isUsable%3Dtrue")
                .expect(200)
                .total()
        };
        assert!(soon(|| links() == 2).await);
        scene.hosted(&mut far_router, "terminator").await;
        near.dial(&scene.dial_token(), &scene.client.fingerprint())
            .await;
        let circuit = near.accept_route().await.circuit_id;
        for router in [&mut middle_router, &mut far_router] {
            assert_eq!(router.accept_route().await.circuit_id, circuit);
        }
        near.next_of(content::CREATE_CIRCUIT_RESPONSE).await;
        // Another way, which the circuit takes when its router is away for too long.
        let mut other_router = other.online(&scene.server).await;
        other_router.verify(&scene.router).await;
        far_router.verify(&other).await;
        report(&mut near, &["to-other"], &other.id).await;
        report(&mut other_router, &["from-other"], &far.id).await;
        assert!(soon(|| links() == 4).await);
        drop(middle_router);
        for router in [&mut near, &mut other_router, &mut far_router] {
            let route = router.accept_route().await;
            assert_eq!((&route.circuit_id, route.attempt), (&circuit, REROUTE));
            assert!(route.egress.is_none());
        }
        let path = || {
            scene
                .server
                .admin
                .at(Base::Overkeep)
                .get(&format!("/circuits/{circuit}"))
                .expect(200)
                .data()["links"]
                .clone()
        };
        assert!(
            soon(|| path() == json!(["to-other", "from-other"])).await,
            "{}",
            path()
        );
        // The router that it has left is told so.
        let mut middle_router = middle.reconnect(&scene.server).await;
        assert_eq!(
            middle_router
                .receive::<fabric::Unroute>(content::UNROUTE)
                .await
                .circuit_id,
            circuit
        );
        assert!(
            near.rest()
                .await
                .iter()
                .all(|frame| frame.content_type() != content::UNROUTE)
        );
    });
}

#[test]
fn circuits_without_path_end() {
    let scene = scene(|config| config.routers.reroute_timeout = Span::seconds(1));
    let far = Enrolled::new(&scene.server);
    scene
        .server
        .allow_service_over(&scene.host.id, &scene.service, &far.id);
    run(async {
        let mut near = scene.router.online(&scene.server).await;
        let mut far_router = far.online(&scene.server).await;
        far_router.verify(&scene.router).await;
        report(&mut near, &["link"], &far.id).await;
        let links = || {
            scene
                .server
                .admin
                .at(Base::Overkeep)
                .get("/links?filter=isUsable%3Dtrue")
                .expect(200)
                .total()
        };
        assert!(soon(|| links() == 1).await);
        scene.hosted(&mut far_router, "terminator").await;
        near.dial(&scene.dial_token(), &scene.client.fingerprint())
            .await;
        let circuit = near.accept_route().await.circuit_id;
        far_router.accept_route().await;
        near.next_of(content::CREATE_CIRCUIT_RESPONSE).await;
        let began = Instant::now();
        near.fault(FaultSubject::Link, "link").await;
        assert!(soon(|| links() == 0).await);
        for router in [&mut near, &mut far_router] {
            let unroute: fabric::Unroute = router.receive(content::UNROUTE).await;
            assert_eq!((&unroute.circuit_id, unroute.now), (&circuit, true));
        }
        assert!(
            began.elapsed() >= Duration::from_secs(1),
            "the search was given up too early"
        );
    });
}

#[test]
fn silent_routers_are_disconnected() {
    const HEARTBEAT: Duration = Duration::from_millis(50);
    let scene = scene(|config| {
        (config.routers.times.heartbeat, config.routers.times.silence) = (HEARTBEAT, HEARTBEAT * 20)
    });
    let answering = Enrolled::new(&scene.server);
    run(async {
        let mut silent = scene.router.online(&scene.server).await;
        let mut answering_router = answering.online(&scene.server).await;
        // `next_of` answers heartbeats, `ends` does not.
        let answers = async {
            for _ in 0..60 {
                answering_router.next_of(common::HEARTBEAT).await;
            }
        };
        let (ends, ()) = tokio::join!(silent.ends(), answers);
        assert!(ends);
        assert!(soon(|| scene.router.shown(&scene.server)["isOnline"] == false).await);
        answering_router
            .ask(Builder::new(common::PING).empty(), common::RESULT)
            .await;
    });
}

#[test]
fn unanswered_routes_end_dials() {
    let scene = scene(|config| config.routers.times.route = SHORT);
    run(async {
        let mut router = scene.router.online(&scene.server).await;
        scene.hosted(&mut router, "terminator").await;
        let request = router
            .dial(&scene.dial_token(), &scene.client.fingerprint())
            .await;
        let frame = router.next_of(content::ROUTE).await;
        let route = fabric::Route::decode(frame.body()).unwrap();
        let unroute: fabric::Unroute = router.receive(content::UNROUTE).await;
        assert_eq!(
            (&unroute.circuit_id, unroute.now),
            (&route.circuit_id, true)
        );
        let answer = router.next_of(content::ERROR).await;
        assert_eq!(
            (answer.reply_for(), answer.u32(key::ERROR_CODE)),
            (Some(request), Some(1))
        );
        assert_eq!(
            String::from_utf8_lossy(answer.body()),
            "a router did not answer in time"
        );
        // Administrators see that the host hangs.
        let (server, service) = (&scene.server, scene.service.as_str());
        let shown = hosting(server, service);
        assert_eq!(
            (&shown["state"], &faults(&shown)[0].0),
            (&"failing".into(), &"timeout".to_owned()),
            "{shown:#}"
        );
        let (text, why) = explained(server, &scene.client.id, service);
        assert!(
            why["verdict"] == false && text.starts_with("may, but cannot now"),
            "{text}"
        );
        // What it answers now is taken back.
        let late = Builder::reply(content::ROUTE_RESULT, &frame)
            .u32(key::ROUTE_ATTEMPT, 0)
            .flag(key::ROUTE_SUCCESS, true);
        router.send(late.body(route.circuit_id.as_bytes())).await;
        assert_eq!(
            router
                .receive::<fabric::Unroute>(content::UNROUTE)
                .await
                .circuit_id,
            route.circuit_id
        );
        assert_eq!(
            scene
                .server
                .admin
                .at(Base::Overkeep)
                .get("/circuits")
                .expect(200)
                .total(),
            0
        );
    });
}

#[test]
fn unroutes_are_repeated_until_confirmed() {
    let scene = scene(|config| config.routers.times.heartbeat = Duration::from_millis(50));
    run(async {
        let mut first = scene.router.online(&scene.server).await;
        scene.hosted(&mut first, "terminator").await;
        let circuit = first
            .circuit(&scene.dial_token(), &scene.client.fingerprint())
            .await;
        // The connection seems to be alive, but nothing arrives any more.
        scene
            .server
            .admin
            .at(Base::Overkeep)
            .delete(&format!("/circuits/{circuit}"))
            .expect(200);
        let mut second = scene.router.reconnect(&scene.server).await;
        assert_eq!(
            second
                .receive::<fabric::Unroute>(content::UNROUTE)
                .await
                .circuit_id,
            circuit
        );
        // It answers heartbeats. The first one may have been sent before.
        for _ in 0..3 {
            second.next_of(common::HEARTBEAT).await;
        }
        second
            .ask(Builder::new(common::PING).empty(), common::RESULT)
            .await;
        let mut third = scene.router.reconnect(&scene.server).await;
        assert!(
            third
                .rest()
                .await
                .iter()
                .all(|frame| frame.content_type() != content::UNROUTE),
            "it was confirmed"
        );
    });
}

#[test]
fn living_circuits_are_not_removed_again() {
    let scene = scene(|_| ());
    run(async {
        let mut first = scene.router.online(&scene.server).await;
        scene.hosted(&mut first, "terminator").await;
        scene.hosted(&mut first, "other").await;
        first
            .dial(&scene.dial_token(), &scene.client.fingerprint())
            .await;
        let frame = first.next_of(content::ROUTE).await;
        let circuit = fabric::Route::decode(frame.body()).unwrap().circuit_id;
        let refusal = Builder::reply(content::ROUTE_RESULT, &frame)
            .u32(key::ROUTE_ATTEMPT, 0)
            .text(key::ROUTE_ERROR, "not now");
        first.send(refusal.body(circuit.as_bytes())).await;
        assert_eq!(
            first
                .receive::<fabric::Unroute>(content::UNROUTE)
                .await
                .circuit_id,
            circuit
        );
        // The second attempt has the same circuit.
        assert_eq!(first.accept_route().await.circuit_id, circuit);
        first.next_of(content::CREATE_CIRCUIT_RESPONSE).await;
        let mut second = scene.router.reconnect(&scene.server).await;
        assert!(
            second
                .rest()
                .await
                .iter()
                .all(|frame| frame.content_type() != content::UNROUTE),
            "the circuit is open"
        );
        scene
            .server
            .admin
            .at(Base::Overkeep)
            .get(&format!("/circuits/{circuit}"))
            .expect(200);
    });
}

#[test]
fn restarted_routers_replace_dead_connections() {
    let scene = scene(|config| {
        (config.routers.times.heartbeat, config.routers.times.silence) =
            (Duration::from_millis(50), Duration::from_secs(4));
    });
    run(async {
        let mut dead = scene.router.online(&scene.server).await;
        scene.hosted(&mut dead, "terminator").await;
        let circuit = dead
            .circuit(&scene.dial_token(), &scene.client.fingerprint())
            .await;
        // From here on the first process answers nothing. Another one has the same certificate and
        // no earlier connection.
        let began = Instant::now();
        let refusal = scene
            .router
            .try_connect(&scene.server, scene.router.hello(None))
            .await
            .err()
            .expect("a refusal");
        assert!(refusal.contains("already connected"), "{refusal}");
        let mut second = loop {
            match scene
                .router
                .try_connect(&scene.server, scene.router.hello(None))
                .await
            {
                Ok(connected) => break connected,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
            assert!(began.elapsed() < super::mock::PATIENCE);
        };
        assert!(dead.ends().await);
        // Nothing of the first process is left, and its end changes nothing at the second one.
        assert!(soon(|| scene.terminators().is_empty()).await);
        assert_eq!(
            scene
                .server
                .admin
                .at(Base::Overkeep)
                .get(&format!("/circuits/{circuit}"))
                .status,
            404
        );
        second.introduce().await;
        scene.hosted(&mut second, "terminator").await;
        second
            .circuit(&scene.dial_token(), &scene.client.fingerprint())
            .await;
        assert_eq!(scene.router.shown(&scene.server)["isOnline"], true);
        assert_eq!(scene.terminators(), ["terminator"]);
    });
}
