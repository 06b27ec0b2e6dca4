//! How circuits begin and end.

use super::*;

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
        assert_eq!(
            (egress.binding.as_str(), egress.destination.as_str()),
            ("edge", "terminator-1")
        );
        assert_eq!(egress.peer_data[0].value.as_deref(), Some(&b"caller"[..]));
        let kinds: Vec<_> = route
            .forwards
            .iter()
            .map(|forward| forward.destination_type())
            .collect();
        assert_eq!(kinds, [DestinationType::End, DestinationType::Start]);
        assert_eq!(route.forwards[0].destination, egress.address);
        let answer = router.next_of(content::CREATE_CIRCUIT_RESPONSE).await;
        assert_eq!(answer.reply_for(), Some(request));
        assert_eq!(
            answer.text(key::INGRESS_ADDRESS),
            Some(route.forwards[0].source.as_str())
        );
        let shown = scene
            .server
            .admin
            .get("/terminators/terminator-1")
            .expect(200);
        assert_eq!(shown.data()["dynamicCost"], 2, "an open circuit");
        let id = scene
            .server
            .admin
            .get(&format!("/sessions?filter=token%3D%22{token}%22"))
            .expect(200)
            .data()[0]["id"]
            .as_str()
            .unwrap()
            .to_owned();
        let path = scene
            .server
            .admin
            .get(&format!("/sessions/{id}/route-path"))
            .expect(200);
        assert_eq!(path.data()["routePath"], json!([scene.router.id]));

        router.fault(FaultSubject::Egress, &route.circuit_id).await;
        let unroute: fabric::Unroute = router.receive(content::UNROUTE).await;
        assert_eq!(
            (unroute.circuit_id, unroute.now),
            (route.circuit_id.clone(), false)
        );
        assert!(
            soon(|| scene
                .server
                .admin
                .get("/terminators/terminator-1")
                .expect(200)
                .data()["dynamicCost"]
                == 0)
            .await
        );
        let path = scene
            .server
            .admin
            .get(&format!("/sessions/{id}/route-path"))
            .expect(200);
        assert_eq!(path.data()["routePath"], json!([]));

        let request_body = fabric::RemoveTerminators {
            terminator_ids: vec!["terminator-1".into(), "unknown".into()],
        };
        router
            .ask(
                Builder::new(content::REMOVE_TERMINATORS).body(&request_body.encode_to_vec()),
                common::RESULT,
            )
            .await;
        assert!(soon(|| scene.terminators().is_empty()).await);
        let (code, text) = router.refused(&token, &scene.client.fingerprint()).await;
        assert_eq!(
            (code, text),
            (1, format!("service {} has no terminators", scene.service))
        );
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
        scene.server.service_policy(
            "Bind",
            &[&format!("@{}", second.id)],
            &[&format!("@{}", scene.service)],
        );
        let answer = router
            .bind(
                "second",
                &second.session(&scene.service, "Bind"),
                &second.fingerprint(),
            )
            .await;
        assert_eq!(answer.result(), CreateTerminatorResult::Success);
        let request = router
            .dial(&scene.dial_token(), &scene.client.fingerprint())
            .await;
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
        assert_eq!(
            (second_route.attempt, &second_route.circuit_id),
            (1, &route.circuit_id)
        );
        let (one, other) = (route.egress.unwrap(), second_route.egress.unwrap());
        assert!(
            one.destination != other.destination && one.address != other.address,
            "{one:?} {other:?}"
        );
        assert_eq!(
            router
                .next_of(content::CREATE_CIRCUIT_RESPONSE)
                .await
                .reply_for(),
            Some(request)
        );
        // The router reports this terminator as unknown, so that its record is deleted.
        assert!(
            soon(|| scene.terminators() == [other.destination.clone()]).await,
            "{:?}",
            scene.terminators()
        );
    });
}

#[test]
fn unknown_circuits_are_taken_back() {
    let scene = Scene::new();
    run(async {
        let mut router = scene.router.online(&scene.server).await;
        router
            .fault(FaultSubject::Forward, "unknown-1 unknown-2")
            .await;
        for expected in ["unknown-1", "unknown-2"] {
            let unroute: fabric::Unroute = router.receive(content::UNROUTE).await;
            assert_eq!((unroute.circuit_id.as_str(), unroute.now), (expected, true));
        }
        let report = fabric::CircuitConfirmation {
            circuit_ids: vec!["idle".into()],
            idle_times: Vec::new(),
        };
        router
            .send(Builder::new(content::CIRCUIT_CONFIRMATION).body(&report.encode_to_vec()))
            .await;
        assert_eq!(
            router
                .receive::<fabric::Unroute>(content::UNROUTE)
                .await
                .circuit_id,
            "idle"
        );
        let result = Builder::new(content::ROUTE_RESULT)
            .u32(key::ROUTE_ATTEMPT, 0)
            .flag(key::ROUTE_SUCCESS, true);
        router.send(result.body(b"late")).await;
        assert_eq!(
            router
                .receive::<fabric::Unroute>(content::UNROUTE)
                .await
                .circuit_id,
            "late"
        );
    });
}

#[test]
fn idle_circuits_end_by_service() {
    let scene = Scene::new();
    scene
        .server
        .admin
        .patch(
            &format!("/services/{}", scene.service),
            json!({ "maxIdleTimeMillis": 1000 }),
        )
        .expect(200);
    run(async {
        let mut router = scene.router.online(&scene.server).await;
        scene.hosted(&mut router, "terminator").await;
        let token = scene.dial_token();
        let [busy, idle] = [
            router.circuit(&token, &scene.client.fingerprint()).await,
            router.circuit(&token, &scene.client.fingerprint()).await,
        ];
        let confirm = |idle_millis: [i64; 2]| {
            let times = [&busy, &idle].into_iter().zip(idle_millis);
            let idle_times = times.map(|(id, millis)| fabric::IdleTime {
                key: Some(id.clone()),
                value: Some(millis * 1_000_000),
            });
            let report = fabric::CircuitConfirmation {
                circuit_ids: vec![busy.clone(), idle.clone()],
                idle_times: idle_times.collect(),
            };
            Builder::new(content::CIRCUIT_CONFIRMATION).body(&report.encode_to_vec())
        };
        router.send(confirm([999, 1000])).await;
        assert!(
            router.rest().await.is_empty(),
            "nothing was idle for longer than the service allows"
        );
        router.send(confirm([1000, 1001])).await;
        let unroute: fabric::Unroute = router.receive(content::UNROUTE).await;
        assert_eq!((&unroute.circuit_id, unroute.now), (&idle, true));
        assert!(router.rest().await.is_empty());
        let shown = scene
            .server
            .admin
            .at(Base::Overkeep)
            .get("/circuits")
            .expect(200);
        assert_eq!(shown.each("id"), [busy.as_str()]);
    });
}
