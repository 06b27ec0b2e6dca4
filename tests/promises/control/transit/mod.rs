//! Circuits that pass through the built-in router, from a link of one simulated router to a link of
//! another one.

mod others;
mod passing;

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use wire::{
    control::{
        content,
        edge::CreateTerminatorResult,
        fabric::{self, FaultSubject},
    },
    frame::{Builder, Frame, content as common, key as common_key},
    link::{Acknowledgement, flag, key, kind},
};

use super::{
    mock::{Enrolled, MockRouter, run, soon},
    mock_link::{MockLink, content_of, report, trace, trace_answer},
};

use crate::{harness::Base, router::scene::Scene};

/// A router with a link to the built-in router only.
struct Neighbour {
    id: String,
    enrolled: Enrolled,
    router: MockRouter,
    link: MockLink,
}

impl Neighbour {
    /// `link` is the id of its link.
    async fn new(scene: &Scene, link: &str) -> Self {
        let enrolled = Enrolled::new(&scene.server);
        let mut router = enrolled.online(&scene.server).await;
        let hello = MockLink::hello(link, &enrolled.id);
        let connection = MockLink::try_open(&scene.server, &enrolled, hello)
            .await
            .unwrap();
        report(&mut router, link, "built-in").await;
        let is_listed = || {
            scene
                .server
                .admin
                .at(Base::Overkeep)
                .get(&format!("/links/{link}"))
                .status
                == 200
        };
        assert!(soon(is_listed).await);
        Self {
            id: enrolled.id.clone(),
            enrolled,
            router,
            link: connection,
        }
    }

    /// Has the host of the scene host the service here.
    async fn host(&mut self, scene: &Scene, terminator: &str) {
        scene
            .server
            .allow_service_over(&scene.host.id, &scene.service, &self.id);
        let token = scene.host.session(&scene.service, "Bind");
        let answer = self
            .router
            .bind(terminator, &token, &scene.host.fingerprint())
            .await;
        assert_eq!(
            answer.result(),
            CreateTerminatorResult::Success,
            "{answer:?}"
        );
    }
}

/// The client's router and the host's router, without a link between them.
struct Far {
    scene: Scene,
    near: Neighbour,
    far: Neighbour,
}

impl Far {
    async fn new() -> Self {
        let scene = Scene::new();
        let (near, mut far) = (
            Neighbour::new(&scene, "near").await,
            Neighbour::new(&scene, "far").await,
        );
        scene
            .server
            .allow_service_over(&scene.client.id, &scene.service, &near.id);
        far.host(&scene, "terminator").await;
        Self { scene, near, far }
    }

    async fn dial(&mut self) {
        let token = self.scene.client.session(&self.scene.service, "Dial");
        self.near
            .router
            .dial(&token, &self.scene.client.fingerprint())
            .await;
    }

    /// The id of a new circuit.
    async fn circuit(&mut self) -> String {
        self.dial().await;
        let route = self.near.router.accept_route().await;
        assert_eq!(
            self.far.router.accept_route().await.circuit_id,
            route.circuit_id
        );
        self.near
            .router
            .next_of(content::CREATE_CIRCUIT_RESPONSE)
            .await;
        route.circuit_id
    }

    fn shown(&self, circuit: &str) -> Json {
        self.scene
            .server
            .admin
            .at(Base::Overkeep)
            .get(&format!("/circuits/{circuit}"))
            .expect(200)
            .data()
            .clone()
    }

    fn queued(&self) -> usize {
        self.scene.server.router().queued_bytes()
    }
}
