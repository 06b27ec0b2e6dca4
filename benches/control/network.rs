//! A controller with simulated routers in a ring, each linked to the next two, and for each router
//! a service that is hosted at the next one.

use std::path::Path;

use serde_json::json;
use tokio::runtime::Runtime;

use super::{
    controller::{BY_CERTIFICATE, CLIENT, Controller, MANAGEMENT, session},
    router::{Enrolled, Router, text},
    wire::Wire,
};

/// The controller, its routers and an identity that may dial every service.
pub struct Network {
    pub controller: Controller,
    pub routers: Vec<Router>,
    /// The tokens of the sessions for the services, in the order of the routers that dial them.
    tokens: Vec<String>,
    /// The policies that allow to dial each service.
    policies: Vec<String>,
    fingerprint: String,
}

impl Network {
    /// Enrolls routers; `connecting` observes their connection.
    pub fn new(
        runtime: &Runtime,
        directory: &Path,
        count: usize,
        connecting: impl FnOnce(&Controller, &mut dyn FnMut()),
    ) -> Self {
        std::fs::create_dir_all(directory).expect("a directory");
        let controller = Controller::start(directory, &[("OVERKEEP_ROUTER_ENABLED", "false")]);
        for (path, roles) in [
            ("/edge-router-policies", "identityRoles"),
            ("/service-edge-router-policies", "serviceRoles"),
        ] {
            let mut policy =
                json!({ "name": roles, "semantic": "AnyOf", "edgeRouterRoles": ["#all"] });
            policy[roles] = json!(["#all"]);
            controller.create(path, &policy);
        }
        let mut enrolled: Vec<_> = (0..count)
            .map(|number| Enrolled::new(&controller, &format!("router-{number}")))
            .collect();
        let mut routers = Vec::with_capacity(count);
        connecting(&controller, &mut || {
            routers = enrolled
                .drain(..)
                .map(|router| runtime.block_on(router.connect(&controller)))
                .collect();
        });
        let mut network = Self {
            controller,
            routers,
            tokens: Vec::new(),
            policies: Vec::new(),
            fingerprint: String::new(),
        };
        network.join();
        runtime.block_on(network.populate());
        network
    }

    /// Links the routers.
    fn neighbours(&self, of: usize) -> Vec<(String, &str)> {
        let at = |further: usize| {
            self.routers[(of + further) % self.routers.len()]
                .id
                .as_str()
        };
        vec![
            (format!("link-{of}-1"), at(1)),
            (format!("link-{of}-2"), at(2)),
        ]
    }

    /// Creates the services with their policies.
    fn join(&mut self) {
        for number in 0..self.routers.len() {
            let service = self.controller.create(
                "/services",
                &json!({ "name": format!("service-{number}"), "encryptionRequired": false }),
            );
            for right in ["Bind", "Dial"] {
                let policy = json!({
                    "name": format!("{right} {number}"), "type": right, "semantic": "AnyOf", "identityRoles": ["#all"],
                    "serviceRoles": [format!("@{service}")]
                });
                let policy = self.controller.create("/service-policies", &policy);
                if right == "Dial" {
                    self.policies.push(policy);
                }
            }
            self.tokens.push(service);
        }
    }

    /// Logs in an identity that hosts and dials, hosts each service, and links the routers.
    async fn populate(&mut self) {
        let (id, manner) = self.controller.enrolled("member");
        let shown = self.controller.open().ask(
            "GET",
            &format!("{MANAGEMENT}/identities/{id}"),
            &self.controller.admin,
            "",
        );
        self.fingerprint = text(
            &shown.expect("an identity").body,
            "/data/authenticators/cert/fingerprint",
        );
        let mut wire = Wire::open(self.controller.at, &manner).expect("a connection");
        let head = session(
            &wire
                .ask("POST", BY_CERTIFICATE, "", "")
                .expect("a login")
                .body,
        );
        let mut session_for = |service: &str, right: &str| {
            let wanted = json!({ "serviceId": service, "type": right }).to_string();
            text(
                &wire
                    .ask("POST", &format!("{CLIENT}/sessions"), &head, &wanted)
                    .expect("a session")
                    .body,
                "/data/token",
            )
        };
        let count = self.routers.len();
        for (number, token) in self.tokens.iter_mut().enumerate() {
            let (dial, bind) = (session_for(token, "Dial"), session_for(token, "Bind"));
            self.routers[(number + 1) % count]
                .bind(&format!("terminator-{number}"), &bind, &self.fingerprint)
                .await;
            *token = dial;
        }
        for (number, router) in self.routers.iter().enumerate() {
            router.link(&self.neighbours(number)).await;
        }
        // The router at the other end confirms a link by its own report.
        for (number, router) in self.routers.iter().enumerate() {
            for (id, other) in self.neighbours(number) {
                let other = self.routers.iter().find(|router| router.id == other);
                let other = other.expect("a router");
                other.link(&[(id, router.id.as_str())]).await;
            }
        }
    }

    /// Opens a circuit from a router to the service at the next one.
    pub async fn dial(&self, number: usize) {
        let number = number % self.routers.len();
        self.routers[number]
            .dial(&self.tokens[number], &self.fingerprint)
            .await;
    }

    /// Takes the right to dial the service of a router away. The answer arrives when the change is
    /// on disk.
    pub fn forbid(&self, number: usize) {
        self.delete(&self.policies[number]);
    }

    /// Deletes a policy.
    pub fn delete(&self, policy: &str) {
        let path = format!("{MANAGEMENT}/service-policies/{policy}");
        assert_eq!(
            self.controller
                .open()
                .ask("DELETE", &path, &self.controller.admin, "")
                .expect("an answer")
                .status,
            200
        );
    }
}
