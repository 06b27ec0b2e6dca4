//! Identities that log in, dial and host again and again, and circuits that no change concerns.

use serde_json::json;

use super::{
    scene::Member,
    sdk::{Options, Sdk},
    steady_traffic::Traffic,
};
use crate::harness::{TestServer, fresh};

/// An identity with its channel, if it is logged in.
pub struct Person {
    pub member: Member,
    pub channel: Option<Sdk>,
    pub options: Options,
    pub is_disabled: bool,
    /// The number of times that its API session ended.
    pub logins: usize,
}

impl Person {
    pub fn new(server: &TestServer, options: Options, role: &str) -> Self {
        let member = Member::new(server, "person");
        server
            .admin
            .patch(
                &format!("/identities/{}", member.id),
                json!({ "roleAttributes": [role] }),
            )
            .expect(200);
        Self {
            member,
            channel: None,
            options,
            is_disabled: false,
            logins: 0,
        }
    }

    pub fn is_out(&mut self) {
        self.channel = None;
        self.logins += 1;
    }

    /// Its channel, after a new log-in if that is needed.
    pub async fn channel(&mut self, server: &TestServer, check: &str) -> &Sdk {
        if self.is_disabled {
            server
                .admin
                .post(&format!("/identities/{}/enable", self.member.id), json!({}))
                .expect(200);
            self.is_disabled = false;
        }
        if self.channel.is_none() {
            if self.logins > 0 {
                self.member.caller = self.member.caller.log_in_by_certificate();
            }
            self.report(check, "good.example");
            self.channel = Some(self.member.connect(server, self.options).await);
        }
        self.channel.as_ref().unwrap()
    }

    /// Reports what the posture check asks for.
    pub fn report(&self, check: &str, domain: &str) {
        self.member
            .caller
            .post(
                "/posture-response",
                json!({ "id": check, "typeId": "DOMAIN", "domain": domain }),
            )
            .expect(201);
    }

    /// Asks for a session. Returns its id and token, unless it is refused.
    pub fn session(&self, service: &str, right: &str) -> Option<(String, String)> {
        let session = self
            .member
            .caller
            .post("/sessions", json!({ "serviceId": service, "type": right }));
        let of = |name: &str| session.data()[name].as_str().unwrap().to_owned();
        (session.status == 201).then(|| (of("id"), of("token")))
    }
}

/// A circuit with rights of its own, which no change concerns.
pub async fn bystander(server: &TestServer) -> Traffic {
    let service = server.service(&fresh("service"), json!({ "encryptionRequired": false }));
    let (client, host) = (Member::new(server, "client"), Member::new(server, "host"));
    for (member, right) in [(&client, "Dial"), (&host, "Bind")] {
        server.service_policy(
            right,
            &[&format!("@{}", member.id)],
            &[&format!("@{service}")],
        );
        server.allow_service_over(&member.id, &service, "built-in");
    }
    let listener = host
        .connect(server, Options::GO)
        .await
        .host(&host.session(&service, "Bind"))
        .await
        .unwrap();
    tokio::spawn(listener.echo());
    Traffic::on(
        client
            .connect(server, Options::GO)
            .await
            .dial(&client.session(&service, "Dial"))
            .await
            .unwrap(),
    )
}
