//! What routers are told of each other, and which links of theirs count.

use super::*;

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
