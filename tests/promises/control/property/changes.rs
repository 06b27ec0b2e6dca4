//! Random changes of the records and of the links.

use std::time::Instant;

use prost::Message;
use serde_json::json;
use wire::{
    control::{
        content,
        fabric::{self, FaultSubject},
    },
    frame::Builder,
};

use super::super::{
    mock::{PATIENCE, soon},
    told::FollowingRouter,
};
use super::{
    LINKS, World, api_session_of,
    records::{FAR, NEAR},
};
use crate::harness::{Base, Key, Rng, TestServer};

impl World {
    /// A link is lost or dialed again. Circuits without a path end.
    pub(super) async fn change_links(&mut self, rng: &mut Rng) -> String {
        if !self.routers.iter().all(FollowingRouter::is_connected) {
            return String::new();
        }
        let missing = LINKS.into_iter().find(|link| !self.links.contains(link));
        if let Some(link) = missing.filter(|_| self.links.is_empty() || rng.below(3) > 0) {
            self.links.insert(link);
            self.report_links().await;
            return format!("{link} is dialed");
        }
        let link = *self.links.iter().nth(rng.below(self.links.len())).unwrap();
        self.links.remove(link);
        if self.links.is_empty() {
            self.circuits.clear();
        }
        let fault = fabric::Fault {
            subject: FaultSubject::Link.into(),
            id: link.into(),
            iteration: self.dialed,
        };
        self.routers[rng.below(2)]
            .connection()
            .send(Builder::new(content::FAULT).body(&fault.encode_to_vec()))
            .await;
        let began = Instant::now();
        let is_used = |server: &TestServer| {
            let circuits = server
                .admin
                .at(Base::Overkeep)
                .get("/circuits?limit=500")
                .expect(200);
            circuits
                .data()
                .as_array()
                .unwrap()
                .iter()
                .any(|circuit| circuit["links"].as_array().unwrap().contains(&json!(link)))
        };
        while is_used(&self.server) {
            assert!(began.elapsed() < PATIENCE, "a circuit has no other path");
            for router in &mut self.routers {
                router.drain().await;
            }
        }
        format!("{link} is lost")
    }

    /// A router is disabled, and may connect again.
    pub(super) async fn disable_router(&mut self, router: usize) -> String {
        let path = format!("/edge-routers/{}", self.routers[router].enrolled.id);
        self.server
            .admin
            .patch(&path, json!({ "disabled": true }))
            .expect(200);
        self.circuits.clear();
        self.links.clear();
        if router == FAR {
            self.terminators.clear();
            self.routers[FAR].hosted.clear();
        }
        if self.routers[router].is_connected() {
            self.routers[router].drain_to_end().await;
        }
        self.server
            .admin
            .patch(&path, json!({ "disabled": false }))
            .expect(200);
        format!("router {router} is disabled and enabled")
    }

    /// A change of records, log-ins or connections. Returns what it was; empty if nothing.
    pub(super) async fn change(&mut self, rng: &mut Rng) -> String {
        let router = rng.below(2);
        if let Some(router) = self
            .routers
            .iter()
            .position(|router| !router.is_connected())
            .filter(|_| rng.below(3) == 0)
        {
            self.connect(router, false).await;
            return format!("router {router} reconnects");
        }
        match rng.below(20) {
            16..19 => return self.change_links(rng).await,
            19 => return self.disable_router(router).await,
            12 => {
                let by_password = self.server.log_in_again(&self.other.name);
                by_password
                    .post(
                        "/current-api-session/certificates",
                        json!({ "csr": Key::new().request() }),
                    )
                    .expect(201);
                self.by_password.push(api_session_of(&by_password).unwrap());
                return "a log-in by password, and its certificate".into();
            }
            13 => {
                if let Some(session) = self.by_password.pop() {
                    self.server
                        .admin
                        .delete(&format!("/api-sessions/{session}"))
                        .expect(200);
                    return "the end of a log-in by password".into();
                }
            }
            0..12 => {
                let ends = self
                    .circuits
                    .iter()
                    .map(|circuit| &circuit.client)
                    .chain(self.terminators.iter().map(|(_, end)| end));
                return self
                    .records
                    .change(&self.server, rng, &ends.cloned().collect::<Vec<_>>());
            }
            _ if self.routers[router].is_connected() => match rng.below(3) {
                0 => {
                    self.connect(router, true).await;
                    return format!("router {router} is restarted");
                }
                _ => {
                    self.routers[router].connection = None;
                    let enrolled = &self.routers[router].enrolled;
                    assert!(soon(|| enrolled.shown(&self.server)["isOnline"] == false).await);
                    return format!("router {router} disconnects");
                }
            },
            _ => {
                self.connect(router, false).await;
                return format!("router {router} reconnects");
            }
        }
        String::new()
    }

    /// Nearly everything is allowed, connected and linked again, hosts host and circuits are
    /// opened.
    pub(super) async fn restore(&mut self, rng: &mut Rng) {
        self.records.allow_everything(&self.server);
        for router in [FAR, NEAR] {
            if !self.routers[router].is_connected() {
                self.connect(router, false).await;
            }
        }
        self.links = LINKS.into();
        self.report_links().await;
        self.settle("everything is allowed").await;
        for _ in 0..3 {
            self.bind(rng).await;
        }
        for _ in 0..5 {
            self.dial(rng).await;
        }
    }
}
