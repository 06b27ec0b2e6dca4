//! After any sequence of changes, every open circuit is allowed, and no circuit was closed that was allowed throughout.

use serde_json::json;

use super::{
    scene::{Member, Scene, run, soon},
    sdk::{Conn, Options, Sdk},
};
use crate::harness::{Base, Rng, TestServer, encoded, fresh};

const PEOPLE: usize = 4;
const SERVICES: usize = 3;
const STEPS: usize = 60;

struct Network<'h> {
    server: &'h TestServer,
    dialler: Vec<Member>,
    channels: Vec<Sdk>,
    services: Vec<String>,
    host: Member,
    policies: Vec<String>,
    open: Vec<(usize, usize, Conn)>,
}

impl Network<'_> {
    /// Whether an identity may have a circuit to a service, according to explain.
    fn is_allowed(&self, person: usize, service: usize) -> bool {
        let verdict = |identity: &str, right: &str| {
            let path = format!("/explain?identity={}&service={}&type={right}", encoded(identity), self.services[service]);
            self.server.admin.at(Base::Overkeep).get(&path).expect(200).data()["verdict"] == true
        };
        verdict(&self.dialler[person].id, "Dial") && verdict(&self.host.id, "Bind")
    }

    fn change(&mut self, rng: &mut Rng) {
        let admin = &self.server.admin;
        let role = |rng: &mut Rng| ["#red", "#green", "#all"][rng.below(3)];
        match rng.below(6) {
            0 | 1 => self.policies.push(self.server.service_policy("Dial", &[role(rng)], &[role(rng)])),
            2 if !self.policies.is_empty() => {
                let policy = self.policies.swap_remove(rng.below(self.policies.len()));
                admin.delete(&format!("/service-policies/{policy}")).expect(200);
            }
            3 => {
                let roles = [json!([]), json!(["red"]), json!(["green"]), json!(["red", "green"])];
                let path = format!("/identities/{}", self.dialler[rng.below(PEOPLE)].id);
                admin.patch(&path, json!({ "roleAttributes": roles[rng.below(4)] })).expect(200);
            }
            4 => {
                let roles = [json!([]), json!(["red"]), json!(["green"])];
                let path = format!("/services/{}", self.services[rng.below(SERVICES)]);
                admin.patch(&path, json!({ "roleAttributes": roles[rng.below(3)] })).expect(200);
            }
            _ if !self.policies.is_empty() => {
                let path = format!("/service-policies/{}", self.policies[rng.below(self.policies.len())]);
                let semantic = ["AllOf", "AnyOf"][rng.below(2)];
                admin.patch(&path, json!({ "semantic": semantic, "identityRoles": [role(rng)] })).expect(200);
            }
            _ => {}
        }
    }

    async fn dial(&mut self, rng: &mut Rng) {
        let (person, service) = (rng.below(PEOPLE), rng.below(SERVICES));
        let body = json!({ "serviceId": self.services[service], "type": "Dial" });
        let session = self.dialler[person].caller.post("/sessions", body);
        assert_eq!(session.status == 201, self.is_allowed(person, service));
        if session.status == 201 {
            let conn = self.channels[person].dial(session.data()["token"].as_str().unwrap()).await.unwrap();
            self.open.push((person, service, conn));
        }
    }

    /// Waits until the forbidden circuits are closed, and drops them.
    fn settle(&mut self) {
        let router = self.server.router();
        let allowed: Vec<bool> = self.open.iter().map(|(person, service, _)| self.is_allowed(*person, *service)).collect();
        let ids = |conn: &Conn| (conn.sdk.welcome.text(0).unwrap().to_owned(), conn.id);
        let expected: Vec<_> = self.open.iter().zip(&allowed).filter(|(_, allowed)| **allowed).map(|((.., conn), _)| ids(conn)).collect();
        let shown = || {
            let clients = router.circuits().into_iter().filter_map(|circuit| circuit.client.channel);
            clients.map(|end| (end.channel_id, end.connection)).collect::<Vec<_>>()
        };
        let sorted = |mut list: Vec<(String, u32)>| {
            list.sort();
            list
        };
        let expected = sorted(expected);
        assert!(soon(|| sorted(shown()) == expected), "{:?} instead of {expected:?}", shown());
        let mut allowed = allowed.into_iter();
        self.open.retain(|_| allowed.next().unwrap());
    }
}

#[test]
fn open_circuits_are_always_allowed() {
    for seed in 0..3 {
        let scene = Scene::new();
        let server = &scene.server;
        run(async {
            let services: Vec<_> =
                (0..SERVICES).map(|_| server.service(&fresh("service"), json!({ "encryptionRequired": false }))).collect();
            let dialler: Vec<_> = (0..PEOPLE).map(|_| Member::new(server, "person")).collect();
            let host = Member::new(server, "host");
            server.service_policy("Bind", &[&format!("@{}", host.id)], &["#all"]);
            let hosting = host.connect(server, Options::GO).await;
            for service in &services {
                tokio::spawn(hosting.host(&host.session(service, "Bind")).await.unwrap().echo());
            }
            let mut channels = Vec::new();
            for person in &dialler {
                channels.push(person.connect(server, Options::GO).await);
            }
            let mut network = Network { server, dialler, channels, services, host, policies: Vec::new(), open: Vec::new() };
            let mut rng = Rng::new(seed);
            for _ in 0..STEPS {
                if rng.below(2) == 0 {
                    network.change(&mut rng);
                } else {
                    network.dial(&mut rng).await;
                }
                network.settle();
            }
        });
    }
}
