//! Circuits over links, and their paths.

use super::*;

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
        use self::fabric::TerminatorPrecedence::{Default as Usual, Failed, Required};
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
