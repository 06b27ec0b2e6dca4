//! Terminators and circuits at a router with a control channel.

mod ends;
mod others;

use prost::Message;

use serde_json::json;

use wire::{
    control::{
        content,
        edge::{self, CreateTerminatorResult},
        fabric::{self, DestinationType, FaultSubject},
        key,
    },
    frame::{Builder, content as common},
};

use super::mock::{Enrolled, MockRouter, bind_request, run, server, soon};

use crate::{
    harness::{Base, Caller, TestServer, fresh},
    router::scene::Member,
};

/// A service, an identity that hosts it and one that may dial it, over one router.
pub struct Scene {
    pub server: TestServer,
    pub router: Enrolled,
    pub service: String,
    pub host: Member,
    pub client: Member,
    pub bind: String,
    pub dial: String,
}

impl Scene {
    pub fn new() -> Self {
        Self::on(server())
    }

    pub fn on(server: TestServer) -> Self {
        let router = Enrolled::new(&server);
        let service = server.service(&fresh("service"), json!({ "encryptionRequired": false }));
        let (host, client) = (Member::new(&server, "host"), Member::new(&server, "client"));
        server.allow_service_over(&host.id, &service, &router.id);
        server.allow_router(&client.id, &router.id);
        let of = |member: &Member| format!("@{}", member.id);
        let bind = server.service_policy("Bind", &[&of(&host)], &[&format!("@{service}")]);
        let dial = server.service_policy("Dial", &[&of(&client)], &[&format!("@{service}")]);
        Self {
            server,
            router,
            service,
            host,
            client,
            bind,
            dial,
        }
    }

    /// Creates a terminator of the host with this id.
    pub async fn hosted(&self, router: &mut MockRouter, id: &str) {
        let answer = router
            .bind(
                id,
                &self.host.session(&self.service, "Bind"),
                &self.host.fingerprint(),
            )
            .await;
        assert_eq!(
            answer.result(),
            CreateTerminatorResult::Success,
            "{answer:?}"
        );
    }

    pub fn dial_token(&self) -> String {
        self.client.session(&self.service, "Dial")
    }

    pub fn terminators(&self) -> Vec<String> {
        let listed = self.server.admin.get("/terminators?limit=500").expect(200);
        let of_service = listed
            .data()
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["service"]["id"] == self.service.as_str());
        of_service
            .map(|one| one["id"].as_str().unwrap().to_owned())
            .collect()
    }
}
