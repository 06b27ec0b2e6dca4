//! Routers that host and dial themselves.

use super::*;

/// Opens the API session of the tunneler.
async fn open(router: &mut MockRouter) -> tunnel::CreateApiSessionResponse {
    let asked = tunnel::CreateApiSession {
        config_types: vec!["host.v1".into(), "unknown".into()],
        ..Default::default()
    };
    let frame = Builder::new(content::TUNNEL_API_SESSION).body(&asked.encode_to_vec());
    let answer = router
        .ask(frame, content::TUNNEL_API_SESSION_RESPONSE)
        .await;
    tunnel::CreateApiSessionResponse::decode(answer.body()).unwrap()
}

#[test]
fn a_router_hosts_and_dials_itself() {
    let scene = Scene::new();
    let (server, path) = (&scene.server, format!("/edge-routers/{}", scene.router.id));
    let name = server
        .admin
        .get(&format!("/services/{}", scene.service))
        .expect(200)
        .data()["name"]
        .as_str()
        .unwrap()
        .to_owned();
    run(async {
        let mut router = scene.router.online(server).await;
        let frame = Builder::new(content::TUNNEL_API_SESSION).empty();
        let refused = router.ask(frame, content::ERROR).await;
        assert!(String::from_utf8_lossy(refused.body()).contains("isTunnelerEnabled"));
        server
            .admin
            .patch(&path, json!({ "isTunnelerEnabled": true }))
            .expect(200);
        let opened = open(&mut router).await;
        assert_eq!(
            (&opened.identity_id, &opened.identity_name),
            (
                &scene.router.id,
                &scene.router.shown(server)["name"].as_str().unwrap().into()
            )
        );
        assert_eq!(
            open(&mut router).await.session_id,
            opened.session_id,
            "the same session again"
        );

        let empty = services(&mut router, b"").await;
        assert!(empty.services.is_empty());
        let own = format!("@{}", scene.router.id);
        let bind = server.service_policy("Bind", &[&own], &[&format!("@{}", scene.service)]);
        server.service_policy("Dial", &[&own], &[&format!("@{}", scene.service)]);
        let types = server
            .admin
            .get("/config-types?filter=name%3D%22host.v1%22")
            .expect(200)
            .data()[0]["id"]
            .clone();
        let data = json!({ "protocol": "tcp", "address": "localhost", "port": 80 });
        let config = server
            .admin
            .post(
                "/configs",
                json!({ "name": "of-tunneler", "configTypeId": types, "data": data }),
            )
            .expect(201)
            .id();
        server
            .admin
            .patch(
                &format!("/services/{}", scene.service),
                json!({ "configs": [config] }),
            )
            .expect(200);
        let list = services(&mut router, &empty.last_update).await;
        assert_eq!(
            (
                list.services[0].name.as_str(),
                list.services[0].permissions.concat()
            ),
            (name.as_str(), "BindDial".into())
        );
        assert_eq!(
            serde_json::from_slice::<serde_json::Value>(&list.services[0].config).unwrap(),
            json!({ "host.v1": data })
        );

        let frame = Builder::new(content::TUNNEL_TERMINATOR)
            .body(&hosting(&name, "tunnelled").encode_to_vec());
        let answer = router
            .ask(frame.clone(), content::TUNNEL_TERMINATOR_RESPONSE)
            .await;
        let answer = tunnel::CreateTerminatorResponse::decode(answer.body()).unwrap();
        assert_eq!(
            (
                answer.terminator_id.as_str(),
                answer.start_time,
                answer.session.is_some()
            ),
            ("tunnelled", 7, true)
        );
        let session = answer.session.unwrap();
        let answer = router.ask(frame, content::TUNNEL_TERMINATOR_RESPONSE).await;
        let answer = tunnel::CreateTerminatorResponse::decode(answer.body()).unwrap();
        assert_eq!(
            answer.session.as_ref(),
            Some(&session),
            "a router that gets no session ends"
        );
        let shown = server.admin.get("/terminators/tunnelled").expect(200);
        assert_eq!(shown.data()["binding"], "tunnel");

        let asked = tunnel::CreateCircuit {
            service_name: name.clone(),
            ..Default::default()
        };
        let request = router
            .send(Builder::new(content::TUNNEL_CIRCUIT).body(&asked.encode_to_vec()))
            .await;
        let route = router.accept_route().await;
        assert_eq!(route.egress.unwrap().binding, "tunnel");
        let answer = router.next_of(content::TUNNEL_CIRCUIT_RESPONSE).await;
        assert_eq!(answer.reply_for(), Some(request));
        assert_eq!(
            tunnel::CreateCircuitResponse::decode(answer.body())
                .unwrap()
                .circuit_id,
            route.circuit_id
        );
        router.fault(FaultSubject::Egress, &route.circuit_id).await;

        // Its data for the host are bounded, as those of SDKs.
        let long = NumberedBytes {
            key: Some(1),
            value: Some(vec![0; 33 << 10]),
        };
        let asked = tunnel::CreateCircuit {
            service_name: name.clone(),
            peer_data: vec![long],
            ..Default::default()
        };
        let refusal = router
            .ask(
                Builder::new(content::TUNNEL_CIRCUIT).body(&asked.encode_to_vec()),
                content::ERROR,
            )
            .await;
        assert!(
            String::from_utf8_lossy(refusal.body()).contains("at most 32768 are passed on"),
            "{refusal:?}"
        );

        // Others cannot host without a right, and the terminator ends with it.
        let frame = Builder::new(content::TUNNEL_TERMINATOR)
            .body(&hosting("unknown", "other").encode_to_vec());
        router.ask(frame, content::ERROR).await;
        server
            .admin
            .delete(&format!("/service-policies/{bind}"))
            .expect(200);
        assert!(soon(|| scene.terminators().is_empty()).await);
        let unknown = router
            .ask(
                Builder::new(content::TUNNEL_REMOVE_TERMINATOR).body(b"tunnelled"),
                content::ERROR,
            )
            .await;
        assert!(String::from_utf8_lossy(unknown.body()).contains("not found"));
        server
            .admin
            .patch(&path, json!({ "isTunnelerEnabled": false }))
            .expect(200);
        let frame = Builder::new(content::TUNNEL_TERMINATOR)
            .body(&hosting(&name, "tunnelled").encode_to_vec());
        router.ask(frame, content::ERROR).await;
    });
}

/// What a router tunneler of version 1.6.20 sends when it starts.
fn opening(config_types: &[&str]) -> Frame {
    let (app_id, kind, version) = (
        "ziti-router".into(),
        "ziti-router:tunnel".into(),
        "v1.6.20".into(),
    );
    let asked = tunnel::CreateApiSession {
        config_types: config_types.iter().map(|name| (*name).to_owned()).collect(),
        sdk_info: Some(tunnel::SdkInfo {
            app_id,
            kind,
            version,
            ..Default::default()
        }),
        ..Default::default()
    };
    Builder::new(content::TUNNEL_API_SESSION).body(&asked.encode_to_vec())
}

#[test]
fn later_tunnelers_ask_for_every_type() {
    let scene = Scene::new();
    let (server, own) = (&scene.server, format!("@{}", scene.router.id));
    server
        .admin
        .patch(
            &format!("/edge-routers/{}", scene.router.id),
            json!({ "isTunnelerEnabled": true }),
        )
        .expect(200);
    server.service_policy("Bind", &[&own], &[&format!("@{}", scene.service)]);
    let config = |kind: &str, data: &serde_json::Value| {
        let path = format!("/config-types?filter=name%3D%22{kind}%22");
        let of = server.admin.get(&path).expect(200).data()[0]["id"].clone();
        server
            .admin
            .post(
                "/configs",
                json!({ "name": fresh("config"), "configTypeId": of, "data": data }),
            )
            .expect(201)
            .id()
    };
    let of_host = json!({ "protocol": "tcp", "address": "localhost", "port": 80 });
    let of_client = json!({ "protocols": ["tcp"], "addresses": ["wiki.test"], "portRanges": [{ "low": 80, "high": 80 }] });
    let mut configs = vec![
        config("host.v1", &of_host),
        config("intercept.v1", &of_client),
    ];
    let mut expected = json!({ "host.v1": of_host, "intercept.v1": of_client });
    run(async {
        for (number, wanted) in [
            &["all"][..],
            &[],
            &["host.v1", "all"],
            &["unknown", "all", "all"],
        ]
        .into_iter()
        .enumerate()
        {
            let mut router = if number == 0 {
                scene.router.online(server).await
            } else {
                scene.router.reconnect(server).await
            };
            router
                .ask(opening(wanted), content::TUNNEL_API_SESSION_RESPONSE)
                .await;
            // Types that are created later are among them.
            let custom = fresh("custom");
            server
                .admin
                .post("/config-types", json!({ "name": custom }))
                .expect(201);
            configs.push(config(&custom, &json!({ "number": number })));
            expected[&custom] = json!({ "number": number });
            server
                .admin
                .patch(
                    &format!("/services/{}", scene.service),
                    json!({ "configs": configs }),
                )
                .expect(200);
            let list = services(&mut router, b"").await;
            assert_eq!(
                serde_json::from_slice::<serde_json::Value>(&list.services[0].config).unwrap(),
                expected,
                "{wanted:?}"
            );
        }
        // It asks again only when it is started.
        let restarted = server.killed(|_| ());
        let mut router = scene.router.reconnect(&restarted).await;
        router.introduce().await;
        let list = services(&mut router, b"").await;
        assert_eq!(
            serde_json::from_slice::<serde_json::Value>(&list.services[0].config).unwrap(),
            expected
        );
        // One that names its types gets those.
        let mut router = scene.router.reconnect(server).await;
        router
            .ask(
                opening(&["host.v1", "unknown"]),
                content::TUNNEL_API_SESSION_RESPONSE,
            )
            .await;
        let list = services(&mut router, b"").await;
        let shown = serde_json::from_slice::<serde_json::Value>(&list.services[0].config).unwrap();
        assert_eq!(shown, json!({ "host.v1": of_host }));
    });
}

/// A router 1.1 opens its API session only when it starts.
#[test]
fn tunnelers_outlive_the_controller() {
    let scene = Scene::new();
    let own = format!("@{}", scene.router.id);
    let name = scene
        .server
        .admin
        .get(&format!("/services/{}", scene.service))
        .expect(200)
        .data()["name"]
        .as_str()
        .unwrap()
        .to_owned();
    run(async {
        let path = format!("/edge-routers/{}", scene.router.id);
        scene
            .server
            .admin
            .patch(&path, json!({ "isTunnelerEnabled": true }))
            .expect(200);
        for right in ["Bind", "Dial"] {
            scene
                .server
                .service_policy(right, &[&own], &[&format!("@{}", scene.service)]);
        }
        let mut router = scene.router.online(&scene.server).await;
        let opened = open(&mut router).await;
        let known = services(&mut router, b"").await;
        let server = scene.server.killed(|_| ());
        let mut router = scene.router.reconnect(&server).await;
        router.introduce().await;

        let list = services(&mut router, b"").await;
        assert_eq!(
            list.last_update, known.last_update,
            "with the configs that it asked for"
        );
        let frame = Builder::new(content::TUNNEL_TERMINATOR)
            .body(&hosting(&name, "tunnelled").encode_to_vec());
        router.ask(frame, content::TUNNEL_TERMINATOR_RESPONSE).await;
        let asked = tunnel::CreateCircuit {
            service_name: name.clone(),
            ..Default::default()
        };
        router
            .send(Builder::new(content::TUNNEL_CIRCUIT).body(&asked.encode_to_vec()))
            .await;
        router.accept_route().await;
        router.next_of(content::TUNNEL_CIRCUIT_RESPONSE).await;

        // One that has ended is replaced, and the router is told of the new one.
        server
            .admin
            .delete(&format!("/api-sessions/{}", opened.session_id))
            .expect(200);
        let frame =
            Builder::new(content::TUNNEL_TERMINATOR).body(&hosting(&name, "again").encode_to_vec());
        let answer = router.ask(frame, content::TUNNEL_TERMINATOR_RESPONSE).await;
        let newer = tunnel::CreateTerminatorResponse::decode(answer.body())
            .unwrap()
            .api_session
            .unwrap();
        assert!(newer.session_id != opened.session_id && newer.token != opened.token);

        // It is told of one that a list of services has opened, too.
        server
            .admin
            .delete(&format!("/api-sessions/{}", newer.session_id))
            .expect(200);
        services(&mut router, b"").await;
        let frame =
            Builder::new(content::TUNNEL_TERMINATOR).body(&hosting(&name, "third").encode_to_vec());
        let answer = router.ask(frame, content::TUNNEL_TERMINATOR_RESPONSE).await;
        let answer = tunnel::CreateTerminatorResponse::decode(answer.body()).unwrap();
        assert!(
            answer
                .api_session
                .is_some_and(|newest| newest.token != newer.token)
        );
    });
}
