//! A preview reports exactly what a change would do, and changes nothing.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
};

use overkeep::testing::{
    access::{Access, PolicyEntityKind},
    change::KINDS,
    clock::{Clock, Timestamp},
    entity::{Id, Identity, PolicyType, Record, Roles, Semantic, Service, ServicePolicy, builtin},
    error::Error,
    http::Permission,
    store::{Event, Store},
};
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

#[test]
fn previews_are_exact_and_harmless() {
    let mut rng = Rng::new(7);
    let scenario = Scenario::new(&mut rng);
    let admin = &scenario.server.admin;
    let (mut before, mut effective) = (scenario.pairs(), 0);
    for n in 0..10 {
        let (method, path, body) = scenario.change(&mut rng);
        let ask = |path: &str| {
            let asking = admin.ask(method, path);
            if body.is_null() {
                asking.send()
            } else {
                asking.json(&body).send()
            }
        };
        let preview = ask(&format!("{path}?preview=true"))
            .expect(200)
            .data()
            .clone();
        if n % 4 == 0 {
            assert_eq!(
                scenario.pairs(),
                before,
                "{method} {path}: the preview changed something"
            );
        }
        let done = ask(&path);
        assert!(done.status < 300, "{}: {}", done.request, done.text);
        let after = scenario.pairs();
        assert_predicted(&preview, &before, &after, &format!("{method} {path}"));
        effective += usize::from(before != after);
        before = after;
    }
    assert!(
        effective > 2,
        "only {effective} of the changes had an effect"
    );
}

#[test]
fn preview_covers_many_policies() {
    let server = TestServer::with_manual_clock();
    let [goes, stays] = ["goes", "stays"].map(|name| server.identity(&fresh(name), json!({})));
    let services: Vec<String> = (0..3)
        .map(|_| server.service(&fresh("service"), json!({})))
        .collect();
    for n in 0..150 {
        let who = if n < 100 { &goes } else { &stays };
        server.service_policy(
            "Dial",
            &[&format!("@{who}")],
            &[&format!("@{}", services[n % 3])],
        );
    }
    let lost = |path: &str| {
        let preview = server
            .admin
            .delete(&format!("{path}?preview=true"))
            .expect(200)
            .data()
            .clone();
        assert_eq!(preview["dial"]["gained"]["pairs"], 0);
        let lost = &preview["dial"]["lost"];
        json!([lost["pairs"], lost["who"]["count"], lost["what"]["count"]])
    };
    assert_eq!(lost(&format!("/identities/{goes}")), json!([3, 1, 3]));
    assert_eq!(
        lost(&format!("/services/{}", services[0])),
        json!([2, 2, 1])
    );
}

#[test]
fn previews_are_refused_like_changes() {
    let server = TestServer::with(Clock::system(), |_| ());
    let admin = &server.admin;
    let name = fresh("service");
    let service = server.service(&name, json!({}));
    let new = json!({ "name": name, "encryptionRequired": true });
    admin
        .post("/services?preview=true", new.clone())
        .refused(400, "COULD_NOT_VALIDATE", "name");
    admin
        .post(
            "/services?preview=true",
            json!({ "name": 5, "encryptionRequired": true }),
        )
        .refused(400, "COULD_NOT_PARSE_BODY", "");
    admin
        .post(
            "/services?preview=true",
            json!({ "name": fresh("service"), "encryptionRequired": true, "configs": ["none"] }),
        )
        .expect(404);
    admin
        .delete("/services/none?preview=true")
        .refused(404, "NOT_FOUND", "");
    admin
        .ask("DELETE", &format!("/services/{service}?preview=true"))
        .header("if-match", "\"old\"")
        .send()
        .expect(412);
    server
        .anonymous()
        .at(Base::Management)
        .delete(&format!("/services/{service}?preview=true"))
        .expect(401);
    // A request for a preview that is not available must not carry out the change.
    admin
        .delete(&format!("/services/{service}?preview=yes"))
        .refused(400, "COULD_NOT_VALIDATE", "preview");
    let identity = server.identity(&fresh("identity"), json!({}));
    let trace = format!("/identities/{identity}/trace?preview=true");
    admin
        .ask("PUT", &trace)
        .json(&json!({ "enabled": false }))
        .send()
        .refused(400, "COULD_NOT_VALIDATE", "preview");
    // `preview=false` carries out the change; any other value is rejected.
    admin
        .delete(&format!("/services/{service}?preview=true"))
        .expect(200);
    admin
        .delete(&format!("/services/{service}?preview=false&preview=true"))
        .expect(200);
    admin.get(&format!("/services/{service}")).expect(200);
    admin
        .delete(&format!("/services/{service}?preview=false"))
        .expect(200);
    admin.get(&format!("/services/{service}")).expect(404);
}

#[test]
fn clients_hear_nothing_of_a_preview() {
    let server = TestServer::with_manual_clock();
    let (identity, user) = server.user(&fresh("person"), json!({}));
    let service = server.service(&fresh("service"), json!({}));
    let policy = server.service_policy(
        "Dial",
        &[&format!("@{identity}")],
        &[&format!("@{service}")],
    );
    let updates = || {
        user.get("/current-api-session/service-updates")
            .expect(200)
            .data()["lastChangeAt"]
            .clone()
    };
    let before = updates();
    server.clock.advance(std::time::Duration::from_secs(5));
    let path = format!("/service-policies/{policy}");
    let preview = server
        .admin
        .delete(&format!("{path}?preview=true"))
        .expect(200);
    assert_eq!(
        preview.data()["dial"]["lost"]["who"]["first"][0]["id"],
        identity.as_str()
    );
    assert_eq!(updates(), before);
    server.admin.delete(&path).expect(200);
    assert_ne!(updates(), before);
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

#[tokio::test]
async fn previews_yield_and_stop() {
    let (_store, access, events) = large_store().await;
    let remaining = RefCell::new(Vec::new());
    let difference = access.preview(&events, 1, |subjects| {
        remaining.borrow_mut().push(subjects);
        assert_eq!(
            access.ask(|engine| engine.count(PolicyEntityKind::Identity)),
            MANY,
            "another caller can use the engine meanwhile"
        );
        Ok(())
    });
    assert_eq!(difference.unwrap().dial.gained.pairs, (MANY * MANY) as u64);
    let remaining = remaining.into_inner();
    assert_eq!(remaining[0], MANY as u64, "the smaller side is enough");
    assert!(
        remaining.len() > 4 && remaining.is_sorted_by(|one, next| one >= next),
        "{remaining:?}"
    );
    let stopped = access.preview(&events, 1, |_| Err(Error::Busy { retry_after: 1 }));
    assert_eq!(stopped.unwrap_err(), Error::Busy { retry_after: 1 });
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

#[test]
fn a_preview_ends_no_session() {
    let server = TestServer::with_manual_clock();
    let (identity, user) = server.user(&fresh("person"), json!({}));
    let path = format!("/identities/{identity}");
    let open = || {
        server
            .admin
            .get(&format!("/api-sessions?filter=identity%3D%22{identity}%22"))
            .expect(200)
            .each("id")
            .len()
    };
    server
        .admin
        .delete(&format!("{path}?preview=true"))
        .expect(200);
    assert_eq!(open(), 1);
    user.get("/current-api-session").expect(200);
    server.admin.delete(&path).expect(200);
    assert_eq!(open(), 0);
    user.get("/current-api-session").expect(401);
}

/// Operations of administrators that change no record that a request could change.
const WITHOUT_PREVIEW: [&str; 4] = [
    "/database/check-data-integrity",
    "/database/fix-data-integrity",
    "/database/snapshot",
    "/identities/{id}/trace",
];

#[test]
fn every_change_has_a_preview() {
    let rows = interface(Base::Management)
        .rows()
        .filter(|row| row.permission == Permission::Admin && row.method != "GET");
    let without: BTreeSet<&str> = rows
        .filter(|row| row.operation.preview.is_none())
        .map(|row| row.path.as_str())
        .collect();
    assert_eq!(without, BTreeSet::from(WITHOUT_PREVIEW));
}

#[test]
fn disabling_takes_what_policies_grant() {
    let server = TestServer::with(Clock::system(), |_| ());
    let identity = server.identity(&fresh("leaver"), json!({}));
    let other = server.identity(&fresh("stayer"), json!({}));
    let service = server.service(&fresh("service"), json!({}));
    server.service_policy(
        "Dial",
        &[&format!("@{identity}"), &format!("@{other}")],
        &[&format!("@{service}")],
    );
    let path = format!("/identities/{identity}");
    let [disable, enable] = ["disable", "enable"].map(|action| format!("{path}/{action}"));
    let body = |action: &str| {
        if action == disable {
            json!({ "durationMinutes": 0 })
        } else {
            Json::Null
        }
    };
    let counts = |action: &str| {
        let preview = server
            .admin
            .post(&format!("{action}?preview=true"), body(action))
            .expect(200)
            .data()
            .clone();
        ["gained", "lost"].map(|turn| {
            let pairs = &preview["dial"][turn];
            if pairs["pairs"] == 1 {
                assert_eq!(
                    (
                        &pairs["who"]["first"][0]["id"],
                        &pairs["what"]["first"][0]["id"]
                    ),
                    (&json!(identity), &json!(service))
                );
            }
            pairs["pairs"].as_u64().unwrap()
        })
    };
    let is_disabled = || server.admin.get(&path).expect(200).data()["disabled"].clone();
    assert_eq!(
        (counts(&enable), counts(&disable), is_disabled()),
        ([0, 0], [0, 1], json!(false))
    );
    server.admin.post(&disable, body(&disable)).expect(200);
    assert_eq!(
        (counts(&disable), counts(&enable), is_disabled()),
        ([0, 0], [1, 0], json!(true))
    );
    server.admin.post(&enable, Json::Null).expect(200);
    assert_eq!((counts(&enable), is_disabled()), ([0, 0], json!(false)));
    let negative = json!({ "durationMinutes": -5 });
    server
        .admin
        .post(&format!("{disable}?preview=true"), negative.clone())
        .refused(400, "COULD_NOT_VALIDATE", "durationMinutes");
    server.admin.post(&disable, negative).expect(200);
    assert_eq!(is_disabled(), json!(true));
}

#[test]
fn previewed_enabling_forgives_no_failures() {
    let server = TestServer::with(Clock::system(), |_| ());
    let rules = json!({ "primary": { "updb": { "maxAttempts": 2, "lockoutDurationMinutes": 5 } } });
    server
        .admin
        .patch("/auth-policies/default", rules)
        .expect(200);
    let name = fresh("guessed");
    let (id, _) = server.user(&name, json!({}));
    for _ in 0..2 {
        server
            .anonymous()
            .post(
                "/authenticate?method=password",
                json!({ "username": name, "password": "not hers" }),
            )
            .expect(401);
        server
            .admin
            .post(&format!("/identities/{id}/enable?preview=true"), Json::Null)
            .expect(200);
    }
    assert_eq!(
        server
            .admin
            .get(&format!("/identities/{id}"))
            .expect(200)
            .data()["disabled"],
        true
    );
}

#[test]
fn changed_credentials_change_no_access() {
    let server = TestServer::with(Clock::system(), |_| ());
    let admin = &server.admin;
    let name = fresh("person");
    let (identity, _) = server.user(&name, json!({ "enrollment": { "ott": true } }));
    let of = |kind: &str| {
        admin
            .get(&format!("/identities/{identity}/{kind}"))
            .expect(200)
            .each("id")[0]
            .to_owned()
    };
    let (authenticator, enrollment) = (of("authenticators"), of("enrollments"));
    let without = server.identity(&fresh("new"), json!({}));
    let router = admin
        .post("/edge-routers", json!({ "name": fresh("router") }))
        .expect(201)
        .id();
    let later = "2100-01-01T00:00:00.000Z";
    let password = |username: &str| json!({ "username": username, "password": PASSWORD });
    let mut new = password("somebody");
    new.as_object_mut().unwrap().extend([
        ("method".into(), "updb".into()),
        ("identityId".into(), without.clone().into()),
    ]);
    let newest = || {
        admin
            .at(Base::Overkeep)
            .list("/history", "action != \"refusal\"", "&limit=1")
            .expect(200)
            .data()[0]["sequence"]
            .clone()
    };
    let before = newest();
    let changes = [
        ("POST", "/authenticators".to_owned(), new),
        (
            "PUT",
            format!("/authenticators/{authenticator}"),
            password("another"),
        ),
        (
            "PATCH",
            format!("/authenticators/{authenticator}"),
            json!({ "username": "another" }),
        ),
        (
            "POST",
            format!("/authenticators/{authenticator}/re-enroll"),
            json!({ "expiresAt": later }),
        ),
        (
            "DELETE",
            format!("/authenticators/{authenticator}"),
            Json::Null,
        ),
        (
            "POST",
            "/enrollments".into(),
            json!({ "identityId": without, "method": "ott", "expiresAt": later }),
        ),
        (
            "POST",
            format!("/enrollments/{enrollment}/refresh"),
            json!({ "expiresAt": later }),
        ),
        ("DELETE", format!("/enrollments/{enrollment}"), Json::Null),
        ("DELETE", format!("/identities/{identity}/mfa"), Json::Null),
        (
            "POST",
            format!("/edge-routers/{router}/re-enroll"),
            Json::Null,
        ),
        (
            "POST",
            format!("/identities/{identity}/service-configs"),
            json!([]),
        ),
        (
            "DELETE",
            format!("/identities/{identity}/service-configs"),
            Json::Null,
        ),
    ];
    let nothing = json!({ "pairs": 0, "who": { "count": 0, "first": [] }, "what": { "count": 0, "first": [] } });
    for (method, path, body) in changes {
        let asking = admin.ask(method, &format!("{path}?preview=true"));
        let preview = if body.is_null() {
            asking.send()
        } else {
            asking.json(&body).send()
        };
        for (relation, _, _) in RELATIONS {
            let expected = json!({ "gained": nothing, "lost": nothing });
            assert_eq!(
                preview.json["data"][relation], expected,
                "{method} {path}: {}",
                preview.text
            );
        }
    }
    assert_eq!(newest(), before, "a preview writes nothing");
    server.log_in_again(&name);
}
