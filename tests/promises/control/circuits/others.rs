//! What a router or an identity cannot do to others.

use super::*;

#[test]
fn bind_storms_leave_others_alone() {
    const STORM: usize = 4000;
    let scene = Scene::new();
    let (stormy, stranger) = (
        Enrolled::new(&scene.server),
        Member::new(&scene.server, "stranger"),
    );
    run(async {
        let mut router = scene.router.online(&scene.server).await;
        let mut storming = stormy.online(&scene.server).await;
        for number in 0..STORM {
            storming
                .send(bind_request(
                    &format!("terminator-{number}"),
                    "no token",
                    &stranger.fingerprint(),
                ))
                .await;
        }
        scene.hosted(&mut router, "terminator").await;
        router
            .circuit(&scene.dial_token(), &scene.client.fingerprint())
            .await;
        let (mut busy, mut refused) = (0, 0);
        for _ in 0..STORM {
            let answer: edge::CreateTerminatorResponse =
                storming.receive(content::CREATE_TERMINATOR_RESPONSE).await;
            match answer.result() {
                CreateTerminatorResult::FailedBusy => busy += 1,
                CreateTerminatorResult::FailedInvalidSession => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        // A bounded number of refusals waits for its delay.
        assert!(
            busy > 0 && refused >= 1024,
            "{busy} busy, {refused} refused"
        );
        assert_eq!(scene.terminators(), ["terminator"]);
        // It is heard again.
        for _ in 0..100 {
            let answer = storming
                .bind("again", "no token", &stranger.fingerprint())
                .await;
            if answer.result() == CreateTerminatorResult::FailedInvalidSession {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("the router is not heard again");
    });
}

#[test]
fn refused_rebinds_leave_no_record() {
    let scene = Scene::new();
    run(async {
        let mut router = scene.router.online(&scene.server).await;
        let session = |caller: &Caller| {
            let answer = caller
                .post(
                    "/sessions",
                    json!({ "serviceId": scene.service, "type": "Bind" }),
                )
                .expect(201);
            answer.data()["token"].as_str().unwrap().to_owned()
        };
        let sessions = [
            session(&scene.host.caller),
            session(&scene.host.caller.log_in_by_certificate()),
        ];
        let request =
            |id: &str, instance: &str, secret: &str, is_hosted: bool| edge::CreateTerminator {
                address: id.into(),
                session_token: sessions[usize::from(!is_hosted)].clone(),
                fingerprints: vec![scene.host.fingerprint()],
                instance_id: instance.into(),
                instance_secret: secret.into(),
                ..Default::default()
            };
        for (id, instance, secret, is_hosted) in [
            ("one", "a", "x", true),
            ("other", "", "", true),
            ("other", "a", "y", false),
        ] {
            let frame = Builder::new(content::CREATE_TERMINATOR)
                .body(&request(id, instance, secret, is_hosted).encode_to_vec());
            let answer = router.ask(frame, content::CREATE_TERMINATOR_RESPONSE).await;
            let answer = edge::CreateTerminatorResponse::decode(answer.body()).unwrap();
            assert_eq!(
                answer.result() == CreateTerminatorResult::Success,
                is_hosted,
                "{answer:?}"
            );
        }
        assert!(
            soon(|| scene.terminators() == ["one"]).await,
            "{:?}",
            scene.terminators()
        );
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
        let circuit = router
            .circuit(&scene.dial_token(), &scene.client.fingerprint())
            .await;
        let request_body = fabric::RemoveTerminators {
            terminator_ids: vec!["terminator-1".into()],
        };
        intruding
            .ask(
                Builder::new(content::REMOVE_TERMINATORS).body(&request_body.encode_to_vec()),
                common::RESULT,
            )
            .await;
        let update = edge::UpdateTerminator {
            terminator_id: "terminator-1".into(),
            cost: 9,
            update_cost: true,
            ..Default::default()
        };
        let answer = intruding
            .ask(
                Builder::new(content::UPDATE_TERMINATOR).body(&update.encode_to_vec()),
                content::ERROR,
            )
            .await;
        assert_eq!(answer.u32(key::ERROR_CODE), Some(8));
        let state = fabric::TerminatorState {
            valid: false,
            ..Default::default()
        };
        let entry = fabric::TerminatorStateEntry {
            key: Some("terminator-1".into()),
            value: Some(state),
        };
        let states = fabric::ValidateTerminatorsResponse {
            states: vec![entry],
        };
        intruding
            .send(
                Builder::new(content::VALIDATE_TERMINATORS_RESPONSE).body(&states.encode_to_vec()),
            )
            .await;
        intruding.fault(FaultSubject::Egress, &circuit).await;
        intruding.fault(FaultSubject::Forward, &circuit).await;
        intruding
            .fault(FaultSubject::UnknownOwnerForward, &circuit)
            .await;
        let result = Builder::new(content::ROUTE_RESULT).u32(key::ROUTE_ATTEMPT, 0);
        intruding
            .send(result.clone().body(circuit.as_bytes()))
            .await;
        intruding
            .send(
                result
                    .flag(key::ROUTE_SUCCESS, true)
                    .body(circuit.as_bytes()),
            )
            .await;
        let idle = fabric::IdleTime {
            key: Some(circuit.clone()),
            value: Some(i64::MAX),
        };
        let report = fabric::CircuitConfirmation {
            circuit_ids: vec![circuit.clone()],
            idle_times: vec![idle],
        };
        intruding
            .send(Builder::new(content::CIRCUIT_CONFIRMATION).body(&report.encode_to_vec()))
            .await;
        // The router is told to remove the ids that are not its own, and nothing else happens.
        for _ in 0..3 {
            assert_eq!(
                intruding
                    .receive::<fabric::Unroute>(content::UNROUTE)
                    .await
                    .circuit_id,
                circuit
            );
        }
        scene
            .server
            .admin
            .at(Base::Overkeep)
            .get(&format!("/circuits/{circuit}"))
            .expect(200);
        // The identity may not use the service over this router.
        let answer = intruding
            .bind(
                "terminator-2",
                &scene.host.session(&scene.service, "Bind"),
                &scene.host.fingerprint(),
            )
            .await;
        assert_eq!(answer.result(), CreateTerminatorResult::FailedOther);
        assert_eq!(
            intruding
                .refused(&scene.dial_token(), &scene.client.fingerprint())
                .await
                .0,
            5
        );
        // A certificate of another identity.
        assert_eq!(
            router
                .refused(&scene.dial_token(), &scene.host.fingerprint())
                .await
                .0,
            3
        );
        // Where it may, it does not take over a terminator of another router.
        scene
            .server
            .allow_service_over(&scene.host.id, &scene.service, &intruder.id);
        let answer = intruding
            .bind(
                "terminator-1",
                &scene.host.session(&scene.service, "Bind"),
                &scene.host.fingerprint(),
            )
            .await;
        assert_eq!(answer.result(), CreateTerminatorResult::FailedIdConflict);
        assert_eq!(scene.terminators(), ["terminator-1"]);
        assert_eq!(
            scene
                .server
                .admin
                .get("/terminators/terminator-1")
                .expect(200)
                .data()["router"]["id"],
            scene.router.id.as_str()
        );
        assert_eq!(
            scene
                .server
                .admin
                .get("/terminators/terminator-1")
                .expect(200)
                .data()["dynamicCost"],
            2
        );
        assert_eq!(
            scene
                .server
                .admin
                .get("/terminators/terminator-1")
                .expect(200)
                .data()["cost"],
            0
        );
    });
}

#[test]
fn a_restarted_router_hosts_nothing() {
    let scene = Scene::new();
    run(async {
        let mut router = scene.router.online(&scene.server).await;
        scene.hosted(&mut router, "terminator-1").await;
        let circuit = router
            .circuit(&scene.dial_token(), &scene.client.fingerprint())
            .await;
        drop(router);
        // The same process: everything stays, and the router is asked to validate its terminators.
        let mut router = scene.router.reconnect(&scene.server).await;
        let validation: fabric::ValidateTerminators =
            router.receive(content::VALIDATE_TERMINATORS).await;
        assert_eq!(validation.terminators[0].id, "terminator-1");
        assert_eq!(
            scene
                .server
                .admin
                .get("/terminators/terminator-1")
                .expect(200)
                .data()["dynamicCost"],
            2
        );
        drop(router);
        assert!(soon(|| scene.router.shown(&scene.server)["isOnline"] == false).await);
        // Another process: its circuits and terminators are gone.
        let mut router = scene.router.online(&scene.server).await;
        assert!(soon(|| scene.terminators().is_empty()).await);
        router.fault(FaultSubject::Forward, &circuit).await;
        assert_eq!(
            router
                .receive::<fabric::Unroute>(content::UNROUTE)
                .await
                .circuit_id,
            circuit
        );
    });
}
