//! After any sequence of changes, exactly the allowed circuits and binds are open, and the traffic
//! of every other circuit was undisturbed.

mod changes;

use std::collections::HashMap;

use serde_json::{Value as Json, json};

use super::{
    people::{Person, bystander},
    scene::{Scene, run, soon},
    sdk::Options,
    steady_traffic::Traffic,
};
use crate::harness::{Base, Rng, TestServer, encoded, fresh};

const PEOPLE: usize = 4;
const SERVICES: usize = 3;
const SEEDS: u64 = 4;
const STEPS: usize = 60;
/// After so many steps nearly everything is allowed again.
const STEPS_PER_RESET: usize = 5;
const MAX_OPEN: usize = 16;

/// The four kinds of policies that access depends on, and the members with their roles.
const POLICIES: [(&str, &str, &[&str]); 4] = [
    (
        "/service-policies",
        "Dial",
        &["identityRoles", "serviceRoles"],
    ),
    (
        "/service-policies",
        "Bind",
        &["identityRoles", "serviceRoles"],
    ),
    ("/edge-router-policies", "", &["identityRoles"]),
    ("/service-edge-router-policies", "", &["serviceRoles"]),
];

/// The changes of which some must end circuits in these histories.
const CAUSES: [&[&str]; 12] = [
    &["Dial policy changed", "Dial policy deleted"],
    &["Bind policy changed", "Bind policy deleted"],
    &["edge router policy changed", "edge router policy deleted"],
    &[
        "service edge router policy changed",
        "service edge router policy deleted",
    ],
    &["posture checks of policies changed"],
    &["posture reported"],
    &["roles of an identity changed", "roles of a service changed"],
    &["session of a client deleted", "session of a host deleted"],
    &["API session deleted"],
    &["identity disabled"],
    &["identity deleted"],
    &["service deleted"],
];

/// A service with its host.
struct Service {
    id: String,
    host: Person,
    /// The id of the session of its binding, if it is bound.
    bound: Option<String>,
}

/// An open circuit.
struct Open {
    person: usize,
    logins: usize,
    service: usize,
    /// The ids of the sessions of both ends.
    sessions: [String; 2],
    /// The ids of its channel and its connection.
    ids: (String, u32),
    traffic: Traffic,
}

struct Network<'h> {
    server: &'h TestServer,
    people: Vec<Person>,
    services: Vec<Service>,
    /// The kind and the id of each policy.
    policies: Vec<(usize, String)>,
    check: String,
    open: Vec<Open>,
    bystanders: usize,
    /// How many circuits ended because of a change, by the name of the change.
    ended: HashMap<&'static str, usize>,
}

fn role(rng: &mut Rng) -> &'static str {
    ["#red", "#green", "#all", "#all"][rng.below(4)]
}

fn attributes(rng: &mut Rng) -> Json {
    [json!([]), json!(["red"]), json!(["green"])][rng.below(3)].clone()
}

impl Network<'_> {
    /// Whether an identity may use a service, according to explain.
    fn verdict(&self, person: &Person, service: usize, right: &str) -> bool {
        let path = format!(
            "/explain?identity={}&service={}&type={right}",
            encoded(&person.member.id),
            self.services[service].id
        );
        !person.is_disabled
            && self
                .server
                .admin
                .at(Base::Overkeep)
                .get(&path)
                .expect(200)
                .data()["verdict"]
                == true
    }

    fn may_bind(&self, service: usize) -> bool {
        self.verdict(&self.services[service].host, service, "Bind")
    }

    fn may_dial(&self, person: usize, service: usize) -> bool {
        self.services[service].bound.is_some()
            && self.verdict(&self.people[person], service, "Dial")
    }

    /// Binds a service if that is allowed.
    async fn bind(&mut self, service: usize) {
        if self.services[service].bound.is_none() {
            self.services[service]
                .host
                .channel(self.server, &self.check)
                .await;
            if self.may_bind(service) {
                let hosted = &mut self.services[service];
                let (id, token) = hosted.host.session(&hosted.id, "Bind").unwrap();
                let host = hosted
                    .host
                    .channel
                    .as_ref()
                    .unwrap()
                    .host(&token)
                    .await
                    .unwrap();
                tokio::spawn(host.echo());
                hosted.bound = Some(id);
            }
        }
    }

    /// Dials, which succeeds exactly if it is allowed.
    async fn dial(&mut self, rng: &mut Rng) {
        let (person, service) = (rng.below(PEOPLE), rng.below(SERVICES));
        self.bind(service).await;
        self.people[person].channel(self.server, &self.check).await;
        if self.open.len() == MAX_OPEN {
            let open = self.open.swap_remove(rng.below(MAX_OPEN));
            open.traffic.complete().await.close().await;
        }
        let is_allowed = self.may_dial(person, service);
        let dialler = &self.people[person];
        let sdk = dialler.channel.as_ref().unwrap();
        let dialed = match dialler.session(&self.services[service].id, "Dial") {
            Some((id, token)) => sdk.dial(&token).await.ok().map(|conn| (id, conn)),
            None => None,
        };
        assert_eq!(dialed.is_some(), is_allowed);
        if let Some((id, conn)) = dialed {
            let sessions = [id, self.services[service].bound.clone().unwrap()];
            let ids = (conn.sdk.welcome.text(0).unwrap().to_owned(), conn.id);
            self.open.push(Open {
                person,
                logins: dialler.logins,
                service,
                sessions,
                ids,
                traffic: Traffic::on(conn),
            });
        }
    }

    /// Waits until exactly the allowed circuits and binds are left, and looks at the traffic of
    /// all.
    async fn settle(&mut self, change: &'static str) {
        for service in 0..SERVICES {
            if self.services[service].bound.is_some() && !self.may_bind(service) {
                self.services[service].bound = None;
            }
        }
        let mut verdicts = HashMap::new();
        let mut is_allowed = |open: &Open| {
            let is_bound = self.services[open.service].bound.as_ref() == Some(&open.sessions[1]);
            is_bound
                && self.people[open.person].logins == open.logins
                && !open.sessions[0].is_empty()
                && *verdicts
                    .entry((open.person, open.service))
                    .or_insert_with(|| self.may_dial(open.person, open.service))
        };
        let allowed: Vec<bool> = self.open.iter().map(&mut is_allowed).collect();
        let router = self.server.router();
        let mut expected: Vec<_> = self
            .open
            .iter()
            .zip(&allowed)
            .filter(|(_, allowed)| **allowed)
            .map(|(open, _)| open.ids.clone())
            .collect();
        expected.sort();
        let shown = || {
            let clients = router.circuits().into_iter().filter(|circuit| {
                self.services
                    .iter()
                    .any(|service| service.id == circuit.service_id)
            });
            let mut ids: Vec<_> = clients
                .filter_map(|circuit| circuit.client.channel)
                .map(|end| (end.channel_id, end.connection))
                .collect();
            ids.sort();
            ids
        };
        let binds = self.bystanders
            + self
                .services
                .iter()
                .filter(|service| service.bound.is_some())
                .count();
        assert!(
            soon(|| shown() == expected),
            "{change}: {:?} instead of {expected:?}",
            shown()
        );
        assert!(
            soon(|| router.traffic().binds == binds as u64),
            "{change}: {} binds instead of {binds}",
            router.traffic().binds
        );
        assert!(
            soon(|| router.circuits().len() == expected.len() + self.bystanders),
            "{change}: a circuit of a deleted service stays"
        );
        let mut open = Vec::new();
        for (one, is_allowed) in std::mem::take(&mut self.open).into_iter().zip(allowed) {
            if is_allowed {
                one.traffic.goes_on();
                open.push(one);
            } else {
                one.traffic.ended().await;
                *self.ended.entry(change).or_default() += 1;
            }
        }
        self.open = open;
    }
}

fn role_of(number: usize) -> &'static str {
    ["red", "green"][number % 2]
}

fn new_service(server: &TestServer, role: &str) -> String {
    server.service(
        &fresh("service"),
        json!({ "encryptionRequired": false, "roleAttributes": [role] }),
    )
}

#[test]
fn exactly_the_allowed_circuits_are_open() {
    let mut ended = HashMap::new();
    for seed in 0..SEEDS {
        let server = Scene::new().server;
        run(async {
            let body = json!({ "name": fresh("domain"), "typeId": "DOMAIN", "domains": ["good.example"], "roleAttributes": ["office"] });
            let check = server.admin.post("/posture-checks", body).expect(201).id();
            let bystanders = [bystander(&server).await, bystander(&server).await];
            let of = |number: usize| {
                if number.is_multiple_of(2) {
                    Options::GO
                } else {
                    Options::C
                }
            };
            let first_policy =
                |path: &str| server.admin.get(path).expect(200).each("id")[0].to_owned();
            let mut network = Network {
                server: &server,
                people: (0..PEOPLE)
                    .map(|number| Person::new(&server, of(number), role_of(number)))
                    .collect(),
                services: (0..SERVICES)
                    .map(|number| Service {
                        id: new_service(&server, role_of(number)),
                        host: Person::new(&server, of(number), role_of(number)),
                        bound: None,
                    })
                    .collect(),
                policies: vec![
                    (2, first_policy(POLICIES[2].0)),
                    (3, first_policy(POLICIES[3].0)),
                ],
                check,
                open: Vec::new(),
                bystanders: bystanders.len(),
                ended: HashMap::new(),
            };
            network
                .policies
                .push((0, server.service_policy("Dial", &["#all"], &["#all"])));
            network
                .policies
                .push((1, server.service_policy("Bind", &["#all"], &["#all"])));
            let mut rng = Rng::new(seed);
            for step in 0..STEPS {
                if step % STEPS_PER_RESET == 0 {
                    let number = step / STEPS_PER_RESET;
                    let granted = [
                        json!(["#all"]),
                        json!(["#red", "#green"]),
                        json!(["#red", "#green"]),
                    ][number % 3]
                        .clone();
                    network.reset_policies(&granted, &[json!([]), json!(["#office"])][number % 2]);
                    network.settle("policies reset").await;
                }
                for _ in 0..3 {
                    network.dial(&mut rng).await;
                }
                let change = network.change(&mut rng);
                network.settle(change).await;
            }
            for bystander in bystanders {
                bystander.complete().await;
            }
            for (change, count) in network.ended {
                *ended.entry(change).or_insert(0) += count;
            }
        });
    }
    for causes in CAUSES {
        assert!(
            causes.iter().any(|cause| ended.contains_key(cause)),
            "{causes:?} ended no circuit: {ended:#?}"
        );
    }
}
