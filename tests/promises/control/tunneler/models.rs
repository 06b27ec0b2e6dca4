//! The model that later routers get.

use super::*;

/// The next data model: the ids of the identities and of the services with their rights, the data
/// of the configs, and the number of keys.
async fn data_model(
    router: &mut MockRouter,
) -> (Vec<String>, Vec<(String, String)>, Vec<String>, usize) {
    let state: DataState = router.receive(content::DATA_STATE).await;
    assert!(state.end_index > 0 && !state.timeline_id.is_empty());
    let models: Vec<_> = state
        .events
        .into_iter()
        .map(|event| event.model.unwrap())
        .collect();
    let mut rights = Vec::new();
    let (mut identities, mut services, mut configs, mut keys) =
        (Vec::new(), Vec::new(), Vec::new(), 0);
    for model in models {
        match model {
            Model::Identity(identity) => identities.push(identity.id),
            Model::Service(service) => services.push(service.id),
            Model::Config(config) => configs.push(config.data_json),
            Model::PublicKey(_) => keys += 1,
            Model::ServicePolicyChange(change) if change.related_entity_type == 1 => {
                let right = change.policy_id.rsplit('-').next().unwrap().to_owned();
                rights.extend(
                    change
                        .related_entity_ids
                        .into_iter()
                        .map(|service| (service, right.clone())),
                );
            }
            _ => {}
        }
    }
    assert!(rights.iter().all(|(service, _)| services.contains(service)));
    (identities, rights, configs, keys)
}

#[test]
fn later_routers_get_their_model() {
    let scene = Scene::new();
    let (server, path) = (&scene.server, format!("/edge-routers/{}", scene.router.id));
    run(async {
        let mut router = scene.router.connect(server).await;
        let hello = router.next_of(content::SERVER_HELLO).await;
        router.answer_hello(&hello, true).await;
        let hosting = |id: &str| {
            let asked = tunnel::CreateTerminatorV2 {
                service_id: scene.service.clone(),
                address: id.into(),
                start_time: 7,
                ..Default::default()
            };
            Builder::new(content::TUNNEL_TERMINATOR_V2).body(&asked.encode_to_vec())
        };
        let result = async |router: &mut MockRouter, id: &str| {
            let answer = router
                .ask(hosting(id), content::TUNNEL_TERMINATOR_V2_RESPONSE)
                .await;
            let answer = tunnel::CreateTerminatorV2Response::decode(answer.body()).unwrap();
            assert_eq!((answer.terminator_id.as_str(), answer.start_time), (id, 7));
            CreateTerminatorResult::try_from(answer.result).unwrap()
        };
        assert_ne!(
            result(&mut router, "early").await,
            CreateTerminatorResult::Success,
            "it is no tunneler"
        );
        server
            .admin
            .patch(&path, json!({ "isTunnelerEnabled": true }))
            .expect(200);
        let (identities, rights, _, keys) = data_model(&mut router).await;
        assert_eq!(
            (identities, rights),
            (vec![scene.router.id.clone()], vec![]),
            "no other identity, and no service that it may not use"
        );
        assert!(keys > 1, "the model replaces the keys, too");
        assert_ne!(
            result(&mut router, "early").await,
            CreateTerminatorResult::Success,
            "it has no right"
        );

        let own = format!("@{}", scene.router.id);
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
                json!({ "name": "of-later", "configTypeId": types, "data": data }),
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
        let bind = server.service_policy("Bind", &[&own], &[&format!("@{}", scene.service)]);
        server.service_policy("Dial", &[&own], &[&format!("@{}", scene.service)]);
        let (_, mut rights, configs) = loop {
            let (identities, rights, configs, _) = data_model(&mut router).await;
            if rights.len() == 2 {
                break (identities, rights, configs);
            }
        };
        rights.sort();
        assert_eq!(
            rights,
            [
                (scene.service.clone(), "Bind".into()),
                (scene.service.clone(), "Dial".into())
            ]
        );
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&configs[0]).unwrap(),
            data
        );

        assert_eq!(
            result(&mut router, "tunnelled").await,
            CreateTerminatorResult::Success
        );
        assert_eq!(
            result(&mut router, "tunnelled").await,
            CreateTerminatorResult::Success,
            "again"
        );
        assert_eq!(
            server
                .admin
                .get("/terminators/tunnelled")
                .expect(200)
                .data()["binding"],
            "tunnel"
        );
        let name = server
            .admin
            .get(&format!("/services/{}", scene.service))
            .expect(200)
            .data()["name"]
            .as_str()
            .unwrap()
            .to_owned();
        let asked = tunnel::CreateCircuitV2 {
            service_name: name,
            ..Default::default()
        };
        let request = router
            .send(Builder::new(content::TUNNEL_CIRCUIT_V2).body(&asked.encode_to_vec()))
            .await;
        let route = router.accept_route().await;
        let answer = router.next_of(content::TUNNEL_CIRCUIT_V2_RESPONSE).await;
        assert_eq!(answer.reply_for(), Some(request));
        assert_eq!(
            tunnel::CreateCircuitV2Response::decode(answer.body())
                .unwrap()
                .circuit_id,
            route.circuit_id
        );

        server
            .admin
            .delete(&format!("/service-policies/{bind}"))
            .expect(200);
        assert!(soon(|| scene.terminators().is_empty()).await);
        let (_, rights, ..) = data_model(&mut router).await;
        assert_eq!(rights, [(scene.service.clone(), "Dial".into())]);
        server
            .admin
            .patch(&path, json!({ "isTunnelerEnabled": false }))
            .expect(200);
        let (identities, rights, ..) = data_model(&mut router).await;
        assert!(identities.is_empty() && rights.is_empty());
    });
}

#[test]
fn models_follow_commits() {
    let scene = Scene::new();
    let (server, path) = (&scene.server, format!("/edge-routers/{}", scene.router.id));
    run(async {
        server
            .admin
            .patch(&path, json!({ "isTunnelerEnabled": true }))
            .expect(200);
        server.service_policy(
            "Bind",
            &[&format!("@{}", scene.router.id)],
            &[&format!("@{}", scene.service)],
        );
        let mut router = scene.router.connect(server).await;
        let hello = router.next_of(content::SERVER_HELLO).await;
        router.answer_hello(&hello, true).await;
        router.next_of(content::DATA_STATE).await;
        // Heartbeats come every ten seconds.
        let (mut heartbeats, changes) = (0, 4);
        for number in 0..changes {
            server
                .admin
                .patch(
                    &format!("/services/{}", scene.service),
                    json!({ "name": format!("renamed-{number}") }),
                )
                .expect(200);
            loop {
                let frame = router.next().await.unwrap();
                heartbeats += usize::from(frame.content_type() == common::HEARTBEAT);
                if frame.content_type() == content::DATA_STATE {
                    break;
                }
            }
        }
        assert!(heartbeats < changes, "models are sent only with heartbeats");
    });
}
