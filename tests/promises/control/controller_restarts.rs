//! Circuits that outlive a restart of the controller end with their access.

use serde_json::json;
use wire::control::{content, edge};

use super::{
    circuits::Scene,
    mock::{MockRouter, run},
};
use crate::harness::{TestServer, fresh};

/// A router with an open circuit, and the controller that was started after the one that set the
/// circuit up was killed.
async fn outlived(scene: &Scene) -> TestServer {
    let mut router = scene.router.online(&scene.server).await;
    scene.hosted(&mut router, "terminator-1").await;
    router
        .circuit(&scene.dial_token(), &scene.client.fingerprint())
        .await;
    scene.server.killed(|_| ())
}

/// The API sessions that end at a router, until one is added.
async fn ended(router: &mut MockRouter) -> Vec<String> {
    let mut ended = Vec::new();
    loop {
        let frame = router.next().await.unwrap();
        match frame.content_type() {
            content::API_SESSION_REMOVED => {
                ended.extend(decoded::<edge::Removed>(frame.body()).tokens)
            }
            content::API_SESSION_ADDED if !ended.is_empty() => {
                let added = decoded::<edge::ApiSessionAdded>(frame.body()).api_sessions;
                if !ended
                    .iter()
                    .any(|token| added.iter().all(|session| session.token != *token))
                {
                    return ended;
                }
            }
            _ => {}
        }
    }
}

fn decoded<M: prost::Message + Default>(body: &[u8]) -> M {
    M::decode(body).unwrap()
}

fn delete(server: &TestServer, policy: &str) {
    server
        .admin
        .delete(&format!("/service-policies/{policy}"))
        .expect(200);
}

#[test]
fn earlier_circuits_end_with_their_policy() {
    let scene = Scene::new();
    run(async {
        let server = outlived(&scene).await;
        let mut router = scene.router.reconnect(&server).await;
        router.introduce().await;
        delete(&server, &scene.dial);
        assert_eq!(
            ended(&mut router).await,
            [scene.client.token()],
            "the SDK of the client connects again"
        );
        delete(&server, &scene.bind);
        assert_eq!(ended(&mut router).await, [scene.host.token()]);
    });
}

#[test]
fn earlier_circuits_end_at_absent_routers() {
    let scene = Scene::new();
    run(async {
        let server = outlived(&scene).await;
        delete(&server, &scene.dial);
        let mut router = scene.router.reconnect(&server).await;
        let hello = router.next_of(content::SERVER_HELLO).await;
        router.answer_hello(&hello, false).await;
        assert_eq!(ended(&mut router).await, [scene.client.token()]);
        drop(router);
        // Nothing confirms that it has heard.
        let mut router = scene.router.reconnect(&server).await;
        let hello = router.next_of(content::SERVER_HELLO).await;
        router.answer_hello(&hello, false).await;
        assert_eq!(ended(&mut router).await, [scene.client.token()]);
        delete(&server, &scene.bind);
        assert_eq!(ended(&mut router).await, [scene.host.token()]);
    });
}

#[test]
fn only_earlier_circuits_end_so() {
    let scene = Scene::new();
    run(async {
        let server = outlived(&scene).await;
        // A router that was restarted has no circuits.
        drop(scene.router.online(&server).await);
        let mut started = scene.router.reconnect(&server).await;
        started.introduce().await;
        delete(&server, &scene.dial);
        let removed = loop {
            let frame = started.next().await.unwrap();
            match frame.content_type() {
                content::SESSION_REMOVED => break decoded::<edge::Removed>(frame.body()),
                other => assert_ne!(
                    other,
                    content::API_SESSION_REMOVED,
                    "a router that was restarted"
                ),
            }
        };
        assert_eq!(removed.ids.len(), 1);
        server
            .admin
            .delete(&format!("/identities/{}", scene.host.id))
            .expect(200);
        let removed: edge::Removed = started.receive(content::API_SESSION_REMOVED).await;
        assert_eq!(
            removed.tokens,
            [scene.host.token()],
            "the first one: its identity was deleted"
        );
    });
}

#[test]
fn mass_ends_concern_nobody_else() {
    let scene = Scene::new();
    run(async {
        // More sessions than are deleted one by one.
        for number in 0..210 {
            let service = scene
                .server
                .service(&fresh(&format!("mass-{number}")), json!({}));
            scene.server.service_policy(
                "Dial",
                &[&format!("@{}", scene.client.id)],
                &[&format!("@{service}")],
            );
            scene
                .server
                .allow_service_over(&scene.client.id, &service, &scene.router.id);
            scene.client.session(&service, "Dial");
        }
        let server = outlived(&scene).await;
        let mut router = scene.router.reconnect(&server).await;
        router.introduce().await;
        server
            .admin
            .delete(&format!("/identities/{}", scene.client.id))
            .expect(200);
        let removed: edge::Removed = router.receive(content::API_SESSION_REMOVED).await;
        assert_eq!(removed.tokens, [scene.client.token()]);
        // What ends wrongly is told by then, and added again.
        tokio::time::sleep(std::time::Duration::from_millis(800)).await;
        for frame in router.rest().await {
            assert!(
                ![content::API_SESSION_REMOVED, content::API_SESSION_ADDED]
                    .contains(&frame.content_type()),
                "another one has ended"
            );
        }
    });
}
