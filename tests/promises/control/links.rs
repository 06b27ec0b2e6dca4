//! Links between routers, and circuits over them.

use overkeep::testing::pki::Certificate;
use prost::Message;
use serde_json::{Value as Json, json};
use wire::{
    control::{
        content, edge,
        fabric::{self, DestinationType, FaultSubject, PeerState},
        key, metrics,
    },
    frame::{Builder, Frame, content as common, key as common_key},
};

use super::{
    circuits::Scene,
    mock::{Enrolled, MockRouter, run, server, soon},
};
use crate::harness::Base;

/// The attempt number of reroutes.
pub const REROUTE: u32 = 99_969_996;

/// A scene whose client uses one router and whose host uses another one.
pub struct Far {
    pub scene: Scene,
    pub far: Enrolled,
}

impl Far {
    pub fn new() -> Self {
        let scene = Scene::new();
        let far = Enrolled::new(&scene.server);
        scene
            .server
            .allow_service_over(&scene.host.id, &scene.service, &far.id);
        Self { scene, far }
    }

    /// Both routers connected, with these links between them, and the service hosted at the far
    /// one.
    pub async fn linked(&self, links: &[&str]) -> (MockRouter, MockRouter) {
        let mut near = self.scene.router.online(&self.scene.server).await;
        let mut far = self.far.online(&self.scene.server).await;
        far.verify(&self.scene.router).await;
        report(&mut near, links, &self.far.id).await;
        let is_usable = |link: &Json| link["state"] == "Connected";
        assert!(
            soon(|| self.links().iter().filter(|link| is_usable(link)).count() == links.len())
                .await,
            "{:?}",
            self.links()
        );
        self.scene.hosted(&mut far, "terminator").await;
        (near, far)
    }

    pub fn links(&self) -> Vec<Json> {
        self.scene
            .server
            .admin
            .at(Base::Fabric)
            .get("/links")
            .expect(200)
            .data()
            .as_array()
            .unwrap()
            .clone()
    }

    /// The circuit over the first link is listed with its path in both interfaces, and so is the
    /// link.
    fn is_shown(&self, circuit: &str) {
        let (fabric, extensions) = (
            self.scene.server.admin.at(Base::Fabric),
            self.scene.server.admin.at(Base::Overkeep),
        );
        let shown = extensions.get(&format!("/circuits/{circuit}")).expect(200);
        let ends = [&shown.data()["client"], &shown.data()["host"]]
            .map(|end| end["identity"]["id"].as_str().unwrap().to_owned());
        assert_eq!(
            ends,
            [self.scene.client.id.clone(), self.scene.host.id.clone()]
        );
        assert_eq!(
            (&shown.data()["links"], &shown.data()["terminatorId"]),
            (&json!(["link-1"]), &json!("terminator"))
        );
        let routers = shown.data()["routers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|router| router["id"].as_str().unwrap());
        assert_eq!(
            routers.collect::<Vec<_>>(),
            [&self.scene.router.id, &self.far.id]
        );
        assert!(
            shown.data()["client"].get("sentBytes").is_none(),
            "it is not reported yet"
        );
        assert_eq!(
            fabric.get("/circuits").expect(200).data()[0]["path"]["links"][0]["id"],
            "link-1"
        );
        let link = extensions
            .get("/links?filter=circuits%3D1%20and%20isUsable%3Dtrue")
            .expect(200);
        assert_eq!(
            (&link.data()[0]["id"], &link.data()[0]["destination"]["id"]),
            (&json!("link-1"), &json!(self.far.id))
        );
    }

    /// A circuit from the near to the far router. Returns the routes of both.
    pub async fn circuit(&self, near: &mut MockRouter, far: &mut MockRouter) -> [fabric::Route; 2] {
        near.dial(&self.scene.dial_token(), &self.scene.client.fingerprint())
            .await;
        let routes = [near.accept_route().await, far.accept_route().await];
        near.next_of(content::CREATE_CIRCUIT_RESPONSE).await;
        routes
    }
}

pub async fn report(router: &mut MockRouter, ids: &[&str], destination: &str) {
    let link = |id: &&str| fabric::RouterLink {
        id: (*id).into(),
        destination_router_id: destination.into(),
        protocol: "tls".into(),
        iteration: 1,
        ..Default::default()
    };
    let report = fabric::RouterLinks {
        links: ids.iter().map(link).collect(),
        full_refresh: false,
    };
    router
        .send(Builder::new(content::ROUTER_LINKS).body(&report.encode_to_vec()))
        .await;
}

pub fn link_of(route: &fabric::Route) -> String {
    let is_link = |forward: &&fabric::Forward| forward.destination_type() == DestinationType::Link;
    route
        .forwards
        .iter()
        .find(is_link)
        .unwrap()
        .destination
        .clone()
}

/// The hello of a router with a link listener.
fn hello(router: &Enrolled, address: &str) -> Frame {
    let listener = fabric::LinkListener {
        address: address.into(),
        protocol: "tls".into(),
        groups: vec!["default".into()],
        ..Default::default()
    };
    let listeners = fabric::Listeners {
        listeners: vec![listener],
    }
    .encode_to_vec();
    let version = "v1.1.15|local|2020-01-01 01:01:01|linux|amd64";
    let builder = Builder::new(common::HELLO)
        .text(common_key::VERSION, version)
        .bytes(key::HELLO_LISTENERS, &listeners);
    let mut hello = builder.body(router.id.as_bytes());
    hello.set_sequence(-1);
    hello
}

#[test]
fn routers_hear_of_each_other() {
    let Far { scene, far } = Far::new();
    let server = &scene.server;
    run(async {
        let mut first = scene
            .router
            .try_connect(server, hello(&scene.router, "tls:one.example:6001"))
            .await
            .unwrap();
        let mut second = far
            .try_connect(server, hello(&far, "tls:two.example:6002"))
            .await
            .unwrap();
        for (told, of, address) in [
            (&mut first, &far.id, "tls:two.example:6002"),
            (&mut second, &scene.router.id, "tls:one.example:6001"),
        ] {
            let told: fabric::PeerStateChanges = told.receive(content::PEER_STATE_CHANGES).await;
            let change = &told.changes[0];
            assert_eq!(
                (&change.id, change.state(), change.version.as_str()),
                (of, PeerState::Healthy, "v1.1.15")
            );
            assert_eq!(change.listeners[0].address, address);
        }
        let shown = server
            .admin
            .at(Base::Fabric)
            .get(&format!("/routers/{}", far.id))
            .expect(200);
        assert_eq!(
            shown.data()["listenerAddresses"],
            json!([{ "address": "tls:two.example:6002", "protocol": "tls" }])
        );
        assert_eq!(shown.data()["versionInfo"]["version"], "v1.1.15");
        assert!(shown.data()["lastJoinedAt"].is_string());
        let fingerprint = Certificate::from_der(&far.leaf).unwrap().fingerprint();
        for (id, shown, expected) in [
            (&far.id, &fingerprint, true),
            (&scene.router.id, &fingerprint, false),
            (&far.id, &far.id, false),
        ] {
            let asked = fabric::VerifyRouter {
                router_id: id.clone(),
                fingerprints: vec!["other".into(), shown.clone()],
            };
            let answer = first
                .ask(
                    Builder::new(content::VERIFY_ROUTER).body(&asked.encode_to_vec()),
                    common::RESULT,
                )
                .await;
            assert_eq!(answer.is_set(common_key::SUCCESS), expected);
        }
        drop(second);
        let told: fabric::PeerStateChanges = first.receive(content::PEER_STATE_CHANGES).await;
        assert_eq!(
            (&told.changes[0].id, told.changes[0].state()),
            (&far.id, PeerState::Unhealthy)
        );
        server
            .admin
            .delete(&format!("/edge-routers/{}", far.id))
            .expect(200);
        let told: fabric::PeerStateChanges = first.receive(content::PEER_STATE_CHANGES).await;
        assert_eq!(
            (&told.changes[0].id, told.changes[0].state()),
            (&far.id, PeerState::Removed)
        );
    });
}

#[test]
fn a_circuit_crosses_a_link() {
    let far_scene = Far::new();
    let scene = &far_scene.scene;
    run(async {
        let (mut near, mut far) = far_scene.linked(&["link-1"]).await;
        let [first, last] = far_scene.circuit(&mut near, &mut far).await;
        assert!(
            first.egress.is_none() && last.egress.as_ref().unwrap().destination == "terminator"
        );
        let kinds = |route: &fabric::Route| {
            route
                .forwards
                .iter()
                .map(|forward| forward.destination_type())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (kinds(&first), kinds(&last)),
            (
                vec![DestinationType::Link, DestinationType::Start],
                vec![DestinationType::End, DestinationType::Link]
            )
        );
        assert_eq!(
            (link_of(&first), link_of(&last)),
            ("link-1".into(), "link-1".into())
        );
        let session = scene
            .server
            .admin
            .get("/sessions?filter=type%3D%22Dial%22&sort=createdAt%20desc&limit=500")
            .expect(200);
        let own = session
            .data()
            .as_array()
            .unwrap()
            .iter()
            .find(|session| session["token"] == scene.dial_token().as_str())
            .unwrap()["id"]
            .clone();
        let path = scene
            .server
            .admin
            .get(&format!("/sessions/{}/route-path", own.as_str().unwrap()))
            .expect(200);
        assert_eq!(
            path.data()["routePath"],
            json!([scene.router.id, far_scene.far.id])
        );
        far_scene.is_shown(&last.circuit_id);
        far.fault(FaultSubject::Egress, &last.circuit_id).await;
        for router in [&mut near, &mut far] {
            let unroute: fabric::Unroute = router.receive(content::UNROUTE).await;
            assert_eq!(
                (&unroute.circuit_id, unroute.now),
                (&last.circuit_id, false)
            );
        }
    });
}

#[test]
fn a_lost_link_reroutes_circuits() {
    let far_scene = Far::new();
    run(async {
        let (mut near, mut far) = far_scene.linked(&["link-1", "link-2"]).await;
        let [first, _] = far_scene.circuit(&mut near, &mut far).await;
        let lost = link_of(&first);
        near.fault(FaultSubject::Link, &lost).await;
        let told: fabric::Fault = far.receive(content::FAULT).await;
        assert_eq!(
            (&told.id, told.subject(), told.iteration),
            (&lost, FaultSubject::Link, 1)
        );
        for router in [&mut near, &mut far] {
            let again = router.accept_route().await;
            assert_eq!(
                (&again.circuit_id, again.attempt),
                (&first.circuit_id, REROUTE)
            );
            assert!(link_of(&again) != lost && again.egress.is_none());
        }
        // Without any link it ends, and a dial says why it fails.
        let [other] = &far_scene.links()[..] else {
            panic!("{:?}", far_scene.links())
        };
        far.fault(FaultSubject::LinkDuplicate, other["id"].as_str().unwrap())
            .await;
        for router in [&mut near, &mut far] {
            let unroute: fabric::Unroute = router.receive(content::UNROUTE).await;
            assert_eq!(
                (&unroute.circuit_id, unroute.now),
                (&first.circuit_id, true)
            );
        }
        let (code, text) = near
            .refused(
                &far_scene.scene.dial_token(),
                &far_scene.scene.client.fingerprint(),
            )
            .await;
        assert!(code == 1 && text.contains("no path from router"), "{text}");
    });
}

/// Reports the latency of a link as one of its routers has measured it.
pub async fn measure(router: &mut MockRouter, link: &str, millis: f64) {
    let value = Some(metrics::Histogram {
        mean: millis * 1e6,
        ..Default::default()
    });
    let latency = metrics::HistogramEntry {
        key: Some(format!("link.{link}.latency")),
        value,
    };
    let report = metrics::Metrics {
        histograms: vec![latency],
        ..Default::default()
    };
    router
        .send(Builder::new(content::METRICS).body(&report.encode_to_vec()))
        .await;
    router
        .ask(Builder::new(common::PING).empty(), common::RESULT)
        .await;
}

/// Receives a route of a reroute and answers it.
async fn reroute(router: &mut MockRouter, is_accepted: bool) -> fabric::Route {
    let frame = router.next_of(content::ROUTE).await;
    let route = fabric::Route::decode(frame.body()).unwrap();
    assert!(route.attempt == REROUTE && route.egress.is_none());
    let result = Builder::reply(content::ROUTE_RESULT, &frame).u32(key::ROUTE_ATTEMPT, REROUTE);
    let result = if is_accepted {
        result.flag(key::ROUTE_SUCCESS, true)
    } else {
        result
    };
    router.send(result.body(route.circuit_id.as_bytes())).await;
    route
}

#[test]
fn circuits_move_to_cheaper_paths() {
    let far_scene = Far::new();
    let server = &far_scene.scene.server;
    run(async {
        let (mut near, mut far) = far_scene.linked(&["link-1", "link-2"]).await;
        for (link, millis) in [("link-1", 10.0), ("link-2", 100.0)] {
            measure(&mut near, link, millis).await;
            measure(&mut far, link, millis).await;
        }
        let circuits = [
            far_scene.circuit(&mut near, &mut far).await,
            far_scene.circuit(&mut near, &mut far).await,
        ];
        let ids = circuits.map(|[route, _]| (link_of(&route), route.circuit_id));
        assert!(ids.iter().all(|(link, _)| link == "link-1"));
        // Cheaper by 14, which is too little.
        measure(&mut near, "link-2", 6.0).await;
        measure(&mut far, "link-2", 0.0).await;
        server.run_due_jobs();
        for _ in 0..20 {
            for router in [&mut near, &mut far] {
                let routes = router
                    .rest()
                    .await
                    .iter()
                    .filter(|frame| frame.content_type() == content::ROUTE)
                    .count();
                assert_eq!(routes, 0, "no circuit moves");
            }
        }
        // Cheaper by 15. Only one of two circuits moves at a time. A router refuses, so it stays.
        measure(&mut near, "link-2", 5.0).await;
        server.run_due_jobs();
        let tried = [
            reroute(&mut near, true).await,
            reroute(&mut far, false).await,
        ];
        let back = [
            reroute(&mut near, true).await,
            reroute(&mut far, true).await,
        ];
        assert!(
            tried.iter().all(|route| link_of(route) == "link-2")
                && back.iter().all(|route| link_of(route) == "link-1")
        );
        let path = |circuit: &str| {
            server
                .admin
                .at(Base::Overkeep)
                .get(&format!("/circuits/{circuit}"))
                .expect(200)
                .data()["links"]
                .clone()
        };
        assert!(soon(|| path(&tried[0].circuit_id) == json!(["link-1"])).await);
        let mut moved = Vec::new();
        while moved.len() < 2 {
            server.run_due_jobs();
            let routes = [
                reroute(&mut near, true).await,
                reroute(&mut far, true).await,
            ];
            assert!(
                routes
                    .iter()
                    .all(|route| link_of(route) == "link-2" && !moved.contains(&route.circuit_id))
            );
            moved.push(routes[0].circuit_id.clone());
        }
        assert!(
            soon(|| moved
                .iter()
                .all(|circuit| path(circuit) == json!(["link-2"])))
            .await
        );
    });
}

#[test]
fn links_of_others_stay() {
    let far_scene = Far::new();
    let liar = Enrolled::new(&far_scene.scene.server);
    run(async {
        let (mut near, mut far) = far_scene.linked(&["link-1"]).await;
        let [route, _] = far_scene.circuit(&mut near, &mut far).await;
        let mut lying = liar.online(&far_scene.scene.server).await;
        report(&mut lying, &["link-1"], &far_scene.scene.router.id).await;
        lying.fault(FaultSubject::Link, "link-1").await;
        lying.fault(FaultSubject::Ingress, &route.circuit_id).await;
        let result = Builder::new(content::ROUTE_RESULT)
            .u32(key::ROUTE_ATTEMPT, 0)
            .body(route.circuit_id.as_bytes());
        lying.send(result).await;
        lying
            .ask(Builder::new(common::PING).empty(), common::RESULT)
            .await;
        let [link] = &far_scene.links()[..] else {
            panic!("{:?}", far_scene.links())
        };
        assert_eq!(
            (&link["sourceRouter"]["id"], &link["cost"]),
            (&json!(far_scene.scene.router.id), &json!(130_001))
        );
        assert_eq!(
            far_scene
                .scene
                .server
                .admin
                .get("/terminators/terminator")
                .expect(200)
                .data()["dynamicCost"],
            2
        );
    });
}

#[test]
fn administrators_end_circuits_and_links() {
    let far_scene = Far::new();
    let admin = &far_scene.scene.server.admin;
    run(async {
        let (mut near, mut far) = far_scene.linked(&["link-1"]).await;
        for base in [Base::Fabric, Base::Overkeep] {
            let [route, _] = far_scene.circuit(&mut near, &mut far).await;
            let path = format!("/circuits/{}", route.circuit_id);
            admin.at(base).delete(&path).expect(200);
            for router in [&mut near, &mut far] {
                let unroute: fabric::Unroute = router.receive(content::UNROUTE).await;
                assert_eq!(
                    (&unroute.circuit_id, unroute.now),
                    (&route.circuit_id, true)
                );
            }
            admin.at(base).delete(&path).expect(404);
        }
        admin.at(Base::Overkeep).delete("/links/link-1").expect(200);
        for router in [&mut near, &mut far] {
            let told: fabric::Fault = router.receive(content::FAULT).await;
            assert_eq!(
                (told.id.as_str(), told.subject()),
                ("link-1", FaultSubject::Link)
            );
        }
        admin.at(Base::Overkeep).get("/links/link-1").expect(404);
    });
}

#[test]
fn precedence_and_cost_choose_router() {
    let far_scene = Far::new();
    let scene = &far_scene.scene;
    run(async {
        let (mut near, mut far) = far_scene.linked(&["link-1"]).await;
        scene.hosted(&mut near, "here").await;
        let weigh = |id: &str, cost: u32, precedence: fabric::TerminatorPrecedence| {
            let update = edge::UpdateTerminator {
                terminator_id: id.into(),
                cost,
                update_cost: true,
                precedence: precedence.into(),
                update_precedence: true,
                ..Default::default()
            };
            Builder::new(content::UPDATE_TERMINATOR).body(&update.encode_to_vec())
        };
        use fabric::TerminatorPrecedence::{Default as Usual, Failed, Required};
        // The cost of the unmeasured link is 130,001.
        for (here, there, is_far) in [
            ((0, Usual), (0, Usual), false),
            ((0, Usual), (65_535, Required), true),
            ((65_535, Required), (0, Usual), false),
            ((0, Failed), (65_535, Usual), true),
            ((0, Failed), (0, Failed), false),
        ] {
            near.ask(
                weigh("here", here.0, here.1),
                content::UPDATE_TERMINATOR_RESPONSE,
            )
            .await;
            far.ask(
                weigh("terminator", there.0, there.1),
                content::UPDATE_TERMINATOR_RESPONSE,
            )
            .await;
            near.dial(&scene.dial_token(), &scene.client.fingerprint())
                .await;
            let route = near.accept_route().await;
            assert_eq!(route.egress.is_none(), is_far, "{here:?} {there:?}");
            if is_far {
                assert_eq!(far.accept_route().await.circuit_id, route.circuit_id);
            }
            near.next_of(content::CREATE_CIRCUIT_RESPONSE).await;
        }
        // With latencies, the cost of a terminator may outweigh that of the link.
        measure(&mut near, "link-1", 1.0).await;
        measure(&mut far, "link-1", 1.0).await;
        for (cost, is_far) in [(0, false), (60_000, true)] {
            near.ask(
                weigh("here", cost, Usual),
                content::UPDATE_TERMINATOR_RESPONSE,
            )
            .await;
            far.ask(
                weigh("terminator", 0, Usual),
                content::UPDATE_TERMINATOR_RESPONSE,
            )
            .await;
            near.dial(&scene.dial_token(), &scene.client.fingerprint())
                .await;
            let route = near.accept_route().await;
            assert_eq!(route.egress.is_none(), is_far, "{cost}");
            if is_far {
                far.accept_route().await;
            }
            near.next_of(content::CREATE_CIRCUIT_RESPONSE).await;
        }
    });
}

#[test]
fn phantom_links_carry_nothing() {
    let far_scene = Far::new();
    let scene = &far_scene.scene;
    run(async {
        // Links to a router that is not connected, to one that does not exist, and to the router
        // itself.
        let mut near = scene.router.online(&scene.server).await;
        for (link, destination) in [
            ("absent", far_scene.far.id.as_str()),
            ("unknown", "no-router"),
            ("own", scene.router.id.as_str()),
        ] {
            report(&mut near, &[link], destination).await;
        }
        near.ask(Builder::new(common::PING).empty(), common::RESULT)
            .await;
        let usable = || {
            scene
                .server
                .admin
                .at(Base::Overkeep)
                .get("/links?filter=isUsable%3Dtrue")
                .expect(200)
                .total()
        };
        assert_eq!(usable(), 0);
        let unlinked = Enrolled::new(&scene.server);
        scene
            .server
            .allow_service_over(&scene.host.id, &scene.service, &unlinked.id);
        let mut host = unlinked.online(&scene.server).await;
        scene.hosted(&mut host, "terminator").await;
        let (code, text) = near
            .refused(&scene.dial_token(), &scene.client.fingerprint())
            .await;
        assert!(code == 1 && text.contains("no path from router"), "{text}");
        // The absent router turns up: its link counts when it has confirmed it.
        let mut far = far_scene.far.online(&scene.server).await;
        assert_eq!(usable(), 0);
        far.verify(&scene.router).await;
        assert!(soon(|| usable() == 1).await);
    });
}

/// The routers that were reported as deleted in these messages.
fn deleted_in(frames: &[Frame]) -> Vec<String> {
    let of_type = frames
        .iter()
        .filter(|frame| frame.content_type() == content::PEER_STATE_CHANGES);
    let changes = of_type.flat_map(|frame| {
        fabric::PeerStateChanges::decode(frame.body())
            .unwrap()
            .changes
    });
    changes
        .filter(|change| change.state() == PeerState::Removed)
        .map(|change| change.id)
        .collect()
}

#[test]
fn absent_routers_hear_of_deletions() {
    let server = server();
    let [router, deleted] = [(); 2].map(|()| Enrolled::new(&server));
    run(async {
        drop(router.online(&server).await);
        assert!(soon(|| router.shown(&server)["isOnline"] == false).await);
        server
            .admin
            .delete(&format!("/edge-routers/{}", deleted.id))
            .expect(200);
        let mut connected = router.reconnect(&server).await;
        assert_eq!(deleted_in(&connected.rest().await), [deleted.id.as_str()]);
    });
}

#[test]
fn links_to_unknown_routers_are_ignored() {
    let server = server();
    let router = Enrolled::new(&server);
    run(async {
        let mut connected = router.online(&server).await;
        report(&mut connected, &["link"], "unknown").await;
        assert_eq!(
            deleted_in(&connected.rest().await),
            ["unknown"],
            "the router closes its link"
        );
        assert_eq!(
            server
                .admin
                .at(Base::Overkeep)
                .get("/links")
                .expect(200)
                .total(),
            0
        );
    });
}
