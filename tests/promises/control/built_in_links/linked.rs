//! A router that has a link to the built-in router.

use serde_json::Value as Json;
use wire::control::edge::CreateTerminatorResult;

use super::super::{
    mock::{Enrolled, MockRouter, soon},
    mock_link::{MockLink, report},
};
use crate::{
    harness::{Base, TestServer},
    router::scene::Scene,
};

pub const LINK: &str = "link";

/// The built-in router, a simulated one, and a link between them.
pub struct Linked {
    pub scene: Scene,
    pub far: Enrolled,
    pub router: MockRouter,
    pub link: MockLink,
}

impl Linked {
    pub async fn new() -> Self {
        Self::on(Scene::new()).await
    }

    pub async fn on(scene: Scene) -> Self {
        let far = Enrolled::new(&scene.server);
        for member in [&scene.host, &scene.client] {
            scene
                .server
                .allow_service_over(&member.id, &scene.service, &far.id);
        }
        let mut router = far.online(&scene.server).await;
        let link = MockLink::try_open(&scene.server, &far, MockLink::hello(LINK, &far.id))
            .await
            .unwrap();
        report(&mut router, LINK, "built-in").await;
        assert!(soon(|| links(&scene.server).len() == 1).await);
        Self {
            scene,
            far,
            router,
            link,
        }
    }

    /// Has the far router host the service.
    pub async fn host_there(&mut self) {
        let token = self.scene.host.session(&self.scene.service, "Bind");
        let answer = self
            .router
            .bind("terminator", &token, &self.scene.host.fingerprint())
            .await;
        assert_eq!(
            answer.result(),
            CreateTerminatorResult::Success,
            "{answer:?}"
        );
    }
}

pub fn links(server: &TestServer) -> Vec<Json> {
    server
        .admin
        .at(Base::Fabric)
        .get("/links")
        .expect(200)
        .data()
        .as_array()
        .unwrap()
        .clone()
}
