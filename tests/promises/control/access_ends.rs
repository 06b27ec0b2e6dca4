//! Circuits and terminators end when the access that they depend on ends.

use serde_json::json;
use wire::control::{content, edge, fabric};

use super::{
    circuits::Scene,
    mock::{run, soon},
};

/// Makes a change and checks that it ends the circuit, and the terminator if `is_host_gone`.
fn ends_with(change: impl Fn(&Scene), is_host_gone: bool) {
    let scene = Scene::new();
    run(async {
        let mut router = scene.router.online(&scene.server).await;
        scene.hosted(&mut router, "terminator-1").await;
        let circuit = router
            .circuit(&scene.dial_token(), &scene.client.fingerprint())
            .await;
        change(&scene);
        let unroute: fabric::Unroute = router.receive(content::UNROUTE).await;
        assert_eq!((unroute.circuit_id, unroute.now), (circuit, true));
        assert!(
            soon(|| scene.terminators().is_empty() == is_host_gone).await,
            "{:?}",
            scene.terminators()
        );
    });
}

#[test]
fn circuits_end_with_the_dial_policy() {
    ends_with(
        |scene| {
            drop(
                scene
                    .server
                    .admin
                    .delete(&format!("/service-policies/{}", scene.dial))
                    .expect(200),
            )
        },
        false,
    );
}

#[test]
fn circuits_end_with_the_bind_policy() {
    ends_with(
        |scene| {
            drop(
                scene
                    .server
                    .admin
                    .delete(&format!("/service-policies/{}", scene.bind))
                    .expect(200),
            )
        },
        true,
    );
}

#[test]
fn circuits_end_with_a_disabled_client() {
    let disable = |scene: &Scene| {
        drop(
            scene
                .server
                .admin
                .post(
                    &format!("/identities/{}/disable", scene.client.id),
                    json!({ "durationMinutes": 0 }),
                )
                .expect(200),
        )
    };
    ends_with(disable, false);
}

#[test]
fn circuits_end_with_a_deleted_host() {
    ends_with(
        |scene| {
            drop(
                scene
                    .server
                    .admin
                    .delete(&format!("/identities/{}", scene.host.id))
                    .expect(200),
            )
        },
        true,
    );
}

#[test]
fn circuits_end_with_the_service() {
    ends_with(
        |scene| {
            drop(
                scene
                    .server
                    .admin
                    .delete(&format!("/services/{}", scene.service))
                    .expect(200),
            )
        },
        true,
    );
}

#[test]
fn circuits_end_with_the_router_policies() {
    ends_with(|scene| scene.server.close_routers(), true);
}

#[test]
fn router_hears_before_unroute() {
    let scene = Scene::new();
    run(async {
        let mut router = scene.router.online(&scene.server).await;
        scene.hosted(&mut router, "terminator-1").await;
        let token = scene.dial_token();
        let circuit = router.circuit(&token, &scene.client.fingerprint()).await;
        let id = scene
            .server
            .admin
            .get(&format!("/sessions?filter=token%3D%22{token}%22"))
            .expect(200)
            .data()[0]["id"]
            .as_str()
            .unwrap()
            .to_owned();
        scene
            .server
            .admin
            .delete(&format!("/sessions/{id}"))
            .expect(200);
        let removed: edge::Removed = router.receive(content::SESSION_REMOVED).await;
        assert_eq!(removed.ids, [id]);
        assert_eq!(
            router
                .receive::<fabric::Unroute>(content::UNROUTE)
                .await
                .circuit_id,
            circuit
        );
    });
}

#[test]
fn circuits_ended_meanwhile_are_unrouted() {
    let scene = Scene::new();
    run(async {
        let mut router = scene.router.online(&scene.server).await;
        scene.hosted(&mut router, "terminator-1").await;
        let circuit = router
            .circuit(&scene.dial_token(), &scene.client.fingerprint())
            .await;
        drop(router);
        assert!(soon(|| scene.router.shown(&scene.server)["isOnline"] == false).await);
        scene
            .server
            .admin
            .delete(&format!("/identities/{}", scene.client.id))
            .expect(200);
        let is_over = || {
            scene
                .server
                .admin
                .get("/terminators/terminator-1")
                .expect(200)
                .data()["dynamicCost"]
                == 0
        };
        assert!(soon(is_over).await);
        let mut router = scene.router.reconnect(&scene.server).await;
        let unroute: fabric::Unroute = router.receive(content::UNROUTE).await;
        assert_eq!((unroute.circuit_id, unroute.now), (circuit, true));
    });
}

#[test]
fn circuits_end_with_a_disabled_router() {
    let scene = Scene::new();
    run(async {
        let mut router = scene.router.online(&scene.server).await;
        scene.hosted(&mut router, "terminator-1").await;
        let circuit = router
            .circuit(&scene.dial_token(), &scene.client.fingerprint())
            .await;
        scene
            .server
            .admin
            .patch(
                &format!("/edge-routers/{}", scene.router.id),
                json!({ "disabled": true }),
            )
            .expect(200);
        let unroute: fabric::Unroute = router.receive(content::UNROUTE).await;
        assert_eq!((unroute.circuit_id, unroute.now), (circuit, true));
        assert!(
            soon(|| scene.terminators().is_empty()).await,
            "{:?}",
            scene.terminators()
        );
        assert!(soon(|| scene.router.shown(&scene.server)["isOnline"] == false).await);
    });
}

#[test]
fn stops_wait_for_ends_of_circuits() {
    let scene = Scene::new();
    run(async {
        let mut router = scene.router.online(&scene.server).await;
        scene.hosted(&mut router, "terminator-1").await;
        let circuit = router
            .circuit(&scene.dial_token(), &scene.client.fingerprint())
            .await;
        // Its routers are told half a second after they heard of the end of the session.
        let sessions = scene.server.admin.get("/sessions?limit=500").expect(200);
        let dialed = sessions
            .data()
            .as_array()
            .unwrap()
            .iter()
            .find(|session| session["type"] == "Dial")
            .unwrap();
        scene
            .server
            .admin
            .delete(&format!("/sessions/{}", dialed["id"].as_str().unwrap()))
            .expect(200);
        let Scene { server, .. } = scene;
        let stopped = tokio::task::spawn_blocking(move || drop(server));
        assert_eq!(
            router
                .receive::<fabric::Unroute>(content::UNROUTE)
                .await
                .circuit_id,
            circuit
        );
        assert!(router.ends().await);
        stopped.await.unwrap();
    });
}
