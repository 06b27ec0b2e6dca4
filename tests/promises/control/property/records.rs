//! Records that random changes affect, and what they allow, without the code of the controller.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use crate::{
    harness::{Rng, TestServer, fresh},
    router::scene::Member,
};

pub const PEOPLE: usize = 3;
pub const SERVICES: usize = 2;
/// Maximum policies.
const MAX_POLICIES: usize = 6;
/// The router where identities dial, and the one where they host.
pub const NEAR: usize = 0;
pub const FAR: usize = 1;
/// The interface of each kind of policy, and the members with the roles of its two sides.
const POLICIES: [(&str, [&str; 2]); 4] = [
    ("service-policies", ["identityRoles", "serviceRoles"]),
    ("service-policies", ["identityRoles", "serviceRoles"]),
    ("edge-router-policies", ["identityRoles", "edgeRouterRoles"]),
    (
        "service-edge-router-policies",
        ["serviceRoles", "edgeRouterRoles"],
    ),
];
pub const DIAL: usize = 0;
pub const BIND: usize = 1;
const ROUTER: usize = 2;
const SERVICE_ROUTER: usize = 3;

type Roles = Vec<&'static str>;

pub struct Person {
    pub member: Member,
    roles: Roles,
    pub is_enabled: bool,
}

pub struct Service {
    pub id: String,
    roles: Roles,
}

struct Policy {
    id: String,
    kind: usize,
    is_all_of: bool,
    sides: [Roles; 2],
}

impl Policy {
    /// Whether its roles on both sides select records with these attributes.
    fn joins(&self, kind: usize, attributes: [&Roles; 2]) -> bool {
        let selects = |roles: &Roles, attributes: &Roles| {
            let mut found = roles
                .iter()
                .map(|role| *role == "all" || attributes.contains(role));
            !roles.is_empty()
                && if self.is_all_of {
                    found.all(|found| found)
                } else {
                    found.any(|found| found)
                }
        };
        self.kind == kind
            && self
                .sides
                .iter()
                .zip(attributes)
                .all(|(roles, attributes)| selects(roles, attributes))
    }

    fn body(&self) -> Json {
        let roles = |roles: &Roles| {
            roles
                .iter()
                .map(|role| format!("#{role}"))
                .collect::<Vec<_>>()
        };
        let (semantic, [one, other]) = (
            if self.is_all_of { "AllOf" } else { "AnyOf" },
            POLICIES[self.kind].1,
        );
        json!({ "semantic": semantic, one: roles(&self.sides[0]), other: roles(&self.sides[1]) })
    }
}

/// One end of a circuit, or a terminator: whose it is, and the sessions that it depends on.
#[derive(Clone)]
pub struct End {
    pub identity: String,
    pub service: String,
    pub api_session: String,
    pub session: String,
}

/// The records, as the changes have left them.
pub struct Records {
    pub people: Vec<Person>,
    pub services: Vec<Service>,
    policies: Vec<Policy>,
    /// The ids of the near and of the far router, and their roles.
    routers: [String; 2],
    router_roles: [Roles; 2],
    /// API sessions and sessions that an administrator has deleted.
    deleted: BTreeSet<String>,
}

fn some_roles(rng: &mut Rng) -> Roles {
    [vec![], vec!["red"], vec!["green"], vec!["red", "green"]][rng.below(4)].clone()
}

fn sides(rng: &mut Rng) -> [Roles; 2] {
    [(); 2].map(|()| {
        if rng.below(3) > 0 {
            vec!["all"]
        } else {
            some_roles(rng)
        }
    })
}

fn new_person(server: &TestServer) -> Person {
    Person {
        member: Member::new(server, "person"),
        roles: vec![],
        is_enabled: true,
    }
}

fn new_service(server: &TestServer) -> Service {
    Service {
        id: server.service(&fresh("service"), json!({ "encryptionRequired": false })),
        roles: vec![],
    }
}

impl Records {
    /// People and services, all of which are allowed.
    pub fn new(server: &TestServer, routers: [String; 2]) -> Self {
        let mut records = Self {
            people: (0..PEOPLE).map(|_| new_person(server)).collect(),
            services: (0..SERVICES).map(|_| new_service(server)).collect(),
            policies: Vec::new(),
            routers,
            router_roles: [vec![], vec![]],
            deleted: BTreeSet::new(),
        };
        [DIAL, BIND, ROUTER, SERVICE_ROUTER]
            .into_iter()
            .for_each(|kind| records.add_policy(server, kind, [vec!["all"], vec!["all"]]));
        records
    }

    fn add_policy(&mut self, server: &TestServer, kind: usize, sides: [Roles; 2]) {
        let mut policy = Policy {
            id: String::new(),
            kind,
            is_all_of: false,
            sides,
        };
        let mut body = policy.body();
        body["name"] = json!(fresh("policy"));
        if kind <= BIND {
            body["type"] = json!(["Dial", "Bind"][kind]);
        }
        policy.id = server
            .admin
            .post(&format!("/{}", POLICIES[kind].0), body)
            .expect(201)
            .id();
        self.policies.push(policy);
    }

    /// Makes one policy of each kind allow everything, and enables everybody.
    pub fn allow_everything(&mut self, server: &TestServer) {
        for kind in [DIAL, BIND, ROUTER, SERVICE_ROUTER] {
            match self.policies.iter_mut().find(|policy| policy.kind == kind) {
                Some(policy) => {
                    (policy.is_all_of, policy.sides) = (false, [vec!["all"], vec!["all"]]);
                    server
                        .admin
                        .patch(
                            &format!("/{}/{}", POLICIES[kind].0, policy.id),
                            policy.body(),
                        )
                        .expect(200);
                }
                None => self.add_policy(server, kind, [vec!["all"], vec!["all"]]),
            }
        }
        for person in self.people.iter_mut().filter(|person| !person.is_enabled) {
            person.is_enabled = true;
            server
                .admin
                .post(
                    &format!("/identities/{}/enable", person.member.id),
                    json!({ "durationMinutes": 0 }),
                )
                .expect(200);
        }
    }

    /// Whether an identity may use a service at a router.
    fn is_allowed(&self, identity: &str, service: &str, kind: usize, router: usize) -> bool {
        let person = self
            .people
            .iter()
            .find(|person| person.member.id == identity && person.is_enabled);
        let (Some(person), Some(service)) = (
            person,
            self.services.iter().find(|known| known.id == service),
        ) else {
            return false;
        };
        let of_router = &self.router_roles[router];
        let joined = |kind, attributes| {
            self.policies
                .iter()
                .any(|policy| policy.joins(kind, attributes))
        };
        joined(kind, [&person.roles, &service.roles])
            && joined(ROUTER, [&person.roles, of_router])
            && joined(SERVICE_ROUTER, [&service.roles, of_router])
    }

    /// Whether an identity may use a router.
    pub fn may_use(&self, identity: &str, router: usize) -> bool {
        let person = self
            .people
            .iter()
            .find(|person| person.member.id == identity);
        person.is_some_and(|person| {
            self.policies
                .iter()
                .any(|policy| policy.joins(ROUTER, [&person.roles, &self.router_roles[router]]))
        })
    }

    /// Whether an end of a circuit or a terminator is still allowed.
    pub fn stands(&self, end: &End, kind: usize, router: usize) -> bool {
        let is_deleted = |id: &String| self.deleted.contains(id);
        self.is_allowed(&end.identity, &end.service, kind, router)
            && !is_deleted(&end.api_session)
            && !is_deleted(&end.session)
    }

    /// One random change; `ends` are those that an administrator may end. Returns what it was;
    /// empty if nothing.
    pub fn change(&mut self, server: &TestServer, rng: &mut Rng, ends: &[End]) -> String {
        let admin = &server.admin;
        let (person, service, router) = (rng.below(PEOPLE), rng.below(SERVICES), rng.below(2));
        let policy = (!self.policies.is_empty()).then(|| rng.below(self.policies.len()));
        match (rng.below(17), policy) {
            (0 | 1 | 12 | 13, _) if self.policies.len() < MAX_POLICIES => {
                let missing =
                    (0..4).find(|kind| self.policies.iter().all(|policy| policy.kind != *kind));
                let (kind, sides) = (missing.unwrap_or(rng.below(4)), sides(rng));
                self.add_policy(server, kind, sides);
                return "a policy is created".into();
            }
            (2, Some(policy)) => {
                let policy = self.policies.swap_remove(policy);
                admin
                    .delete(&format!("/{}/{}", POLICIES[policy.kind].0, policy.id))
                    .expect(200);
                return format!("a policy of kind {} is deleted", policy.kind);
            }
            (3 | 4, Some(policy)) => {
                let policy = &mut self.policies[policy];
                (policy.is_all_of, policy.sides) = (rng.below(4) == 0, sides(rng));
                admin
                    .patch(
                        &format!("/{}/{}", POLICIES[policy.kind].0, policy.id),
                        policy.body(),
                    )
                    .expect(200);
                return format!("a policy of kind {} is changed", policy.kind);
            }
            (5, _) => {
                let of = &mut self.people[person];
                of.roles = some_roles(rng);
                admin
                    .patch(
                        &format!("/identities/{}", of.member.id),
                        json!({ "roleAttributes": of.roles }),
                    )
                    .expect(200);
                return "roles of an identity".into();
            }
            (6, _) => {
                let of = &mut self.services[service];
                of.roles = some_roles(rng);
                admin
                    .patch(
                        &format!("/services/{}", of.id),
                        json!({ "roleAttributes": of.roles }),
                    )
                    .expect(200);
                return "roles of a service".into();
            }
            (7, _) => {
                self.router_roles[router] = some_roles(rng);
                let path = format!("/edge-routers/{}", self.routers[router]);
                admin
                    .patch(
                        &path,
                        json!({ "roleAttributes": self.router_roles[router] }),
                    )
                    .expect(200);
                return "roles of a router".into();
            }
            (8, _) => {
                let disabled = self.people.iter().position(|person| !person.is_enabled);
                let of = &mut self.people[disabled.unwrap_or(person)];
                of.is_enabled = !of.is_enabled;
                let path = format!(
                    "/identities/{}/{}",
                    of.member.id,
                    if of.is_enabled { "enable" } else { "disable" }
                );
                admin
                    .post(&path, json!({ "durationMinutes": 0 }))
                    .expect(200);
                return "an identity is disabled or enabled".into();
            }
            (9, _) => {
                let new = new_person(server);
                let old = std::mem::replace(&mut self.people[person], new);
                admin
                    .delete(&format!("/identities/{}", old.member.id))
                    .expect(200);
                return "an identity is deleted".into();
            }
            (10, _) => {
                let new = new_service(server);
                let old = std::mem::replace(&mut self.services[service], new);
                admin.delete(&format!("/services/{}", old.id)).expect(200);
                return "a service is deleted".into();
            }
            _ if !ends.is_empty() => {
                let end = &ends[rng.below(ends.len())];
                let (path, id) = if rng.below(2) == 0 {
                    ("sessions", &end.session)
                } else {
                    ("api-sessions", &end.api_session)
                };
                admin.delete(&format!("/{path}/{id}")).expect(200);
                self.deleted.insert(id.clone());
                return format!("one of the {path} is deleted");
            }
            _ => {}
        }
        String::new()
    }
}
