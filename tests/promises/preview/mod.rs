//! A preview reports exactly what a change would do, and changes nothing.

mod changes;
mod effects;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
};

use model::{
    clock::{Clock, Timestamp},
    entity::{Id, Identity, PolicyType, Record, Roles, Semantic, Service, ServicePolicy, builtin},
    error::Error,
};
use policy::{
    access::{Access, PolicyEntityKind},
    change::KINDS,
};
use rest::Permission;
use store::{Event, Store};

use serde_json::{Value as Json, json};

use crate::harness::{Base, PASSWORD, Rng, TestServer, fresh, interface, stores};

/// Records of several kinds by name, and who may use what.
pub struct Scenario {
    pub server: TestServer,
    identities: Vec<String>,
    services: Vec<String>,
    routers: Vec<String>,
    policies: Vec<(&'static str, String)>,
}

const ROLES: [&str; 3] = ["red", "green", "blue"];

const PATHS: [&str; 3] = [
    "service-policies",
    "edge-router-policies",
    "service-edge-router-policies",
];

/// The member of a preview and the kinds of its pairs.
const RELATIONS: [(&str, &str, &str); 4] = [
    ("dial", "identities", "services"),
    ("bind", "identities", "services"),
    ("identityRouters", "identities", "edge-routers"),
    ("serviceRouters", "services", "edge-routers"),
];

/// Who may use what, as pairs of ids, per relation.
pub type Pairs = [BTreeSet<(String, String)>; 4];

fn roles(rng: &mut Rng) -> Vec<&'static str> {
    ROLES.into_iter().filter(|_| rng.below(2) == 0).collect()
}

fn policy(path: &str, rng: &mut Rng) -> Json {
    let mut list = || -> Vec<String> { roles(rng).iter().map(|role| format!("#{role}")).collect() };
    let (one, other) = (list(), list());
    let (semantic, right) = (
        ["AnyOf", "AllOf"][rng.below(2)],
        ["Dial", "Bind"][rng.below(2)],
    );
    match path {
        "service-policies" => {
            json!({ "name": fresh("policy"), "type": right, "semantic": semantic, "identityRoles": one, "serviceRoles": other })
        }
        "edge-router-policies" => {
            json!({ "name": fresh("policy"), "semantic": semantic, "identityRoles": one, "edgeRouterRoles": other })
        }
        _ => {
            json!({ "name": fresh("policy"), "semantic": semantic, "serviceRoles": one, "edgeRouterRoles": other })
        }
    }
}

fn body(path: &str, rng: &mut Rng) -> Json {
    match path {
        "identities" => {
            json!({ "name": fresh("identity"), "type": "Device", "isAdmin": false, "roleAttributes": roles(rng) })
        }
        "services" => {
            json!({ "name": fresh("service"), "encryptionRequired": true, "roleAttributes": roles(rng) })
        }
        "edge-routers" => {
            json!({ "name": fresh("router"), "roleAttributes": roles(rng), "isTunnelerEnabled": rng.below(2) == 0 })
        }
        _ => policy(path, rng),
    }
}

impl Scenario {
    pub fn new(rng: &mut Rng) -> Self {
        let server = TestServer::with_manual_clock();
        let mut some = |path: &str, count| -> Vec<String> {
            (0..count)
                .map(|_| {
                    server
                        .admin
                        .post(&format!("/{path}"), body(path, rng))
                        .expect(201)
                        .id()
                })
                .collect()
        };
        let (identities, services, routers) = (
            some("identities", 4),
            some("services", 3),
            some("edge-routers", 2),
        );
        let policies = PATHS
            .into_iter()
            .flat_map(|path| some(path, 3).into_iter().map(move |id| (path, id)))
            .collect();
        Self {
            server,
            identities,
            services,
            routers,
            policies,
        }
    }

    /// The ids of a kind.
    fn all(&self, path: &'static str) -> Vec<String> {
        self.server
            .admin
            .get(&format!("/{path}?limit=500"))
            .expect(200)
            .each("id")
            .into_iter()
            .map(str::to_owned)
            .collect()
    }

    /// The permitted pairs, as other operations report them.
    pub fn pairs(&self) -> Pairs {
        let admin = &self.server.admin;
        let mut pairs = Pairs::default();
        for identity in self.all("identities") {
            for service in self.all("services") {
                let advice = admin
                    .get(&format!("/identities/{identity}/policy-advice/{service}"))
                    .expect(200);
                for (n, member) in ["isDialAllowed", "isBindAllowed"].into_iter().enumerate() {
                    if advice.data()[member] == true {
                        pairs[n].insert((identity.clone(), service.clone()));
                    }
                }
            }
            let routers = admin
                .get(&format!("/identities/{identity}/edge-routers?limit=500"))
                .expect(200);
            pairs[2].extend(
                routers
                    .each("id")
                    .into_iter()
                    .map(|router| (identity.clone(), router.to_owned())),
            );
        }
        for service in self.all("services") {
            let routers = admin
                .get(&format!("/services/{service}/edge-routers?limit=500"))
                .expect(200);
            pairs[3].extend(
                routers
                    .each("id")
                    .into_iter()
                    .map(|router| (service.clone(), router.to_owned())),
            );
        }
        pairs
    }

    /// A random change.
    fn change(&self, rng: &mut Rng) -> (&'static str, String, Json) {
        let (kind, path, ids): (_, _, Vec<&String>) = match rng.below(4) {
            0 => ("identities", "identities", self.identities.iter().collect()),
            1 => ("services", "services", self.services.iter().collect()),
            2 => (
                "edge-routers",
                "edge-routers",
                self.routers.iter().collect(),
            ),
            _ => {
                let path = PATHS[rng.below(3)];
                (
                    path,
                    path,
                    self.policies
                        .iter()
                        .filter(|(of, _)| *of == path)
                        .map(|(_, id)| id)
                        .collect(),
                )
            }
        };
        let there = self.all(kind);
        let ids: Vec<&String> = ids.into_iter().filter(|id| there.contains(id)).collect();
        let body = body(path, rng);
        let Some(id) = ids.get(rng.below(ids.len() + 1)) else {
            return ("POST", format!("/{path}"), body);
        };
        let method = ["PUT", "PATCH", "DELETE"][rng.below(3)];
        (
            method,
            format!("/{path}/{id}"),
            if method == "DELETE" { Json::Null } else { body },
        )
    }
}

/// Asserts that a preview names the gained and lost pairs, among ids that existed before.
pub fn assert_predicted(preview: &Json, before: &Pairs, after: &Pairs, what: &str) {
    for (n, (member, who, other)) in RELATIONS.into_iter().enumerate() {
        for (direction, from, to) in [
            ("gained", &before[n], &after[n]),
            ("lost", &after[n], &before[n]),
        ] {
            let pairs: Vec<_> = to.difference(from).collect();
            let difference = &preview[member][direction];
            assert_eq!(
                difference["pairs"],
                pairs.len(),
                "{what}: {member} {direction}: {preview:#}"
            );
            let sides = [
                ("who", who, pairs.iter().map(|pair| &pair.0).collect()),
                ("what", other, pairs.iter().map(|pair| &pair.1).collect()),
            ];
            for (side, kind, ids) in sides {
                let ids: BTreeSet<&String> = ids;
                assert_eq!(
                    difference[side]["count"],
                    ids.len(),
                    "{what}: {member} {direction} {side}"
                );
                let first = difference[side]["first"].as_array().unwrap();
                assert!(
                    first.iter().all(|named| named
                        .get("entity")
                        .is_none_or(|entity| entity == kind)
                        && named["name"] != ""),
                    "{what}: {first:?}"
                );
                if !what.starts_with("POST") && !what.contains("edge-routers") {
                    let named: BTreeSet<&str> = first
                        .iter()
                        .map(|named| named["id"].as_str().unwrap())
                        .collect();
                    assert_eq!(
                        named,
                        ids.iter().map(|id| id.as_str()).collect(),
                        "{what}: {member} {direction} {side}"
                    );
                }
            }
        }
    }
}

/// The number of identities and of services.
const MANY: usize = 3000;

fn identity(name: &str) -> Record<Identity> {
    Record::new(
        Id::from_text(name),
        Timestamp::from_millis(0),
        Identity::named(name.to_owned()),
    )
}

/// A store with many identities that may use nothing, and the events of a policy that lets all of
/// them dial everything.
async fn large_store() -> (Store, Access, Vec<Event>) {
    let now = Timestamp::from_millis(0);
    let opened = stores::of(KINDS).open_in_memory();
    let access = Access::following(&opened, Clock::system()).unwrap();
    let store = opened.start().unwrap();
    let fill = store.write(move |tx| {
        tx.insert(builtin::auth_policy(now))?;
        (0..MANY).try_for_each(|n| tx.insert(identity(&format!("i{n}"))))?;
        let service =
            serde_json::from_value::<Service>(json!({ "name": "s", "encryptionRequired": true }))
                .unwrap();
        (0..MANY).try_for_each(|n| {
            let name = format!("s{n}");
            tx.insert(Record::new(
                Id::from_text(name.clone()),
                now,
                Service {
                    name,
                    ..service.clone()
                },
            ))
        })
    });
    fill.await.unwrap();
    let all = || Roles::from_iter(["#all".to_owned()]);
    let everything = ServicePolicy {
        name: "everything".into(),
        policy_type: PolicyType::Dial,
        semantic: Semantic::AnyOf,
        identity_roles: all(),
        service_roles: all(),
        posture_check_roles: Roles::default(),
    };
    let policy = Record::new(Id::from_text("p"), now, everything);
    let events = store
        .dry_run(move |tx| tx.insert(policy), |_, events, ()| Ok(events))
        .await
        .unwrap();
    (store, access, events)
}

#[tokio::test(flavor = "multi_thread")]
async fn previews_see_concurrent_changes() {
    let (store, access, events) = large_store().await;
    // An identity is created in the middle of the preview, then between any two of its steps.
    for (before, most) in [(MANY, 1), (MANY + 1, usize::MAX)] {
        let (steps, created) = (Cell::new(0), Cell::new(0));
        let difference = tokio::task::block_in_place(|| {
            access.preview(&events, 1, |_| {
                steps.set(steps.get() + 1);
                if steps.get() < 2 || created.get() == most {
                    return Ok(());
                }
                created.set(created.get() + 1);
                let new = identity(&format!("new {before} {}", created.get()));
                store.write_blocking(move |tx| tx.insert(new))
            })
        });
        assert!(
            created.get() > 0,
            "the preview ended before an identity was created"
        );
        assert_eq!(
            difference.unwrap().dial.gained.pairs,
            ((before + created.get()) * MANY) as u64,
            "after {} steps",
            steps.get()
        );
    }
}
