//! Links between routers, and circuits over them.

mod paths;
mod reports;

use prost::Message;

use serde_json::{Value as Json, json};

use pki::Certificate;
use wire::{
    control::{
        content, edge,
        fabric::{self, DestinationType, FaultSubject, PeerState},
        key, metrics,
    },
    frame::{Builder, Frame, content as common, key as common_key},
};

use super::{
    circuits::Scene,
    mock::{Enrolled, MockRouter, run, server, soon},
};

use crate::harness::Base;

/// The attempt number of reroutes.
pub const REROUTE: u32 = 99_969_996;

/// A scene whose client uses one router and whose host uses another one.
pub struct Far {
    pub scene: Scene,
    pub far: Enrolled,
}

impl Far {
    pub fn new() -> Self {
        let scene = Scene::new();
        let far = Enrolled::new(&scene.server);
        scene
            .server
            .allow_service_over(&scene.host.id, &scene.service, &far.id);
        Self { scene, far }
    }

    /// Both routers connected, with these links between them, and the service hosted at the far
    /// one.
    pub async fn linked(&self, links: &[&str]) -> (MockRouter, MockRouter) {
        let mut near = self.scene.router.online(&self.scene.server).await;
        let mut far = self.far.online(&self.scene.server).await;
        far.verify(&self.scene.router).await;
        report(&mut near, links, &self.far.id).await;
        let is_usable = |link: &Json| link["state"] == "Connected";
        assert!(
            soon(|| self.links().iter().filter(|link| is_usable(link)).count() == links.len())
                .await,
            "{:?}",
            self.links()
        );
        self.scene.hosted(&mut far, "terminator").await;
        (near, far)
    }

    pub fn links(&self) -> Vec<Json> {
        self.scene
            .server
            .admin
            .at(Base::Fabric)
            .get("/links")
            .expect(200)
            .data()
            .as_array()
            .unwrap()
            .clone()
    }

    /// The circuit over the first link is listed with its path in both interfaces, and so is the
    /// link.
    fn is_shown(&self, circuit: &str) {
        let (fabric, extensions) = (
            self.scene.server.admin.at(Base::Fabric),
            self.scene.server.admin.at(Base::Overkeep),
        );
        let shown = extensions.get(&format!("/circuits/{circuit}")).expect(200);
        let ends = [&shown.data()["client"], &shown.data()["host"]]
            .map(|end| end["identity"]["id"].as_str().unwrap().to_owned());
        assert_eq!(
            ends,
            [self.scene.client.id.clone(), self.scene.host.id.clone()]
        );
        assert_eq!(
            (&shown.data()["links"], &shown.data()["terminatorId"]),
            (&json!(["link-1"]), &json!("terminator"))
        );
        let routers = shown.data()["routers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|router| router["id"].as_str().unwrap());
        assert_eq!(
            routers.collect::<Vec<_>>(),
            [&self.scene.router.id, &self.far.id]
        );
        assert!(
            shown.data()["client"].get("sentBytes").is_none(),
            "it is not reported yet"
        );
        assert_eq!(
            fabric.get("/circuits").expect(200).data()[0]["path"]["links"][0]["id"],
            "link-1"
        );
        let link = extensions
            .get("/links?filter=circuits%3D1%20and%20isUsable%3Dtrue")
            .expect(200);
        assert_eq!(
            (&link.data()[0]["id"], &link.data()[0]["destination"]["id"]),
            (&json!("link-1"), &json!(self.far.id))
        );
    }

    /// A circuit from the near to the far router. Returns the routes of both.
    pub async fn circuit(&self, near: &mut MockRouter, far: &mut MockRouter) -> [fabric::Route; 2] {
        near.dial(&self.scene.dial_token(), &self.scene.client.fingerprint())
            .await;
        let routes = [near.accept_route().await, far.accept_route().await];
        near.next_of(content::CREATE_CIRCUIT_RESPONSE).await;
        routes
    }
}

pub async fn report(router: &mut MockRouter, ids: &[&str], destination: &str) {
    let link = |id: &&str| fabric::RouterLink {
        id: (*id).into(),
        destination_router_id: destination.into(),
        protocol: "tls".into(),
        iteration: 1,
        ..Default::default()
    };
    let report = fabric::RouterLinks {
        links: ids.iter().map(link).collect(),
        full_refresh: false,
    };
    router
        .send(Builder::new(content::ROUTER_LINKS).body(&report.encode_to_vec()))
        .await;
}

pub fn link_of(route: &fabric::Route) -> String {
    let is_link = |forward: &&fabric::Forward| forward.destination_type() == DestinationType::Link;
    route
        .forwards
        .iter()
        .find(is_link)
        .unwrap()
        .destination
        .clone()
}

/// Reports the latency of a link as one of its routers has measured it.
pub async fn measure(router: &mut MockRouter, link: &str, millis: f64) {
    let value = Some(metrics::Histogram {
        mean: millis * 1e6,
        ..Default::default()
    });
    let latency = metrics::HistogramEntry {
        key: Some(format!("link.{link}.latency")),
        value,
    };
    let report = metrics::Metrics {
        histograms: vec![latency],
        ..Default::default()
    };
    router
        .send(Builder::new(content::METRICS).body(&report.encode_to_vec()))
        .await;
    router
        .ask(Builder::new(common::PING).empty(), common::RESULT)
        .await;
}
