//! The verdict of an explanation is what happens, and each edit removes its obstacle: with random
//! identities, services and policies.

use std::{cell::RefCell, collections::BTreeSet};

use serde_json::{Value as Json, json};

use crate::{
    explain::{Asked, auth_policy, external_signer, is_yes, obstacles, verify, whats},
    harness::{Authority, Caller, Key, PASSWORD, Rng, TestServer, fresh},
};

const ROLES: [&str; 3] = ["red", "green", "blue"];

/// An identity, and its ways to log in.
struct Person {
    id: String,
    name: String,
    /// Presents a certificate, if there is one.
    door: Caller,
    is_certified: bool,
    /// Unused recovery codes; empty: no second factor.
    codes: RefCell<Vec<String>>,
    /// Oldest first.
    sessions: Vec<Caller>,
}

impl Person {
    /// Logs in as far as possible without a code.
    fn knock(&self) -> Option<Caller> {
        let answer = if self.is_certified {
            self.door.ask("POST", "/authenticate?method=cert").send()
        } else {
            self.door.post(
                "/authenticate?method=password",
                json!({ "username": self.name, "password": PASSWORD }),
            )
        };
        (answer.status == 200).then(|| {
            self.door
                .with_token(answer.data()["token"].as_str().unwrap())
        })
    }

    /// Logs in as far as possible.
    fn enter(&self) -> Option<Caller> {
        let session = self.knock()?;
        if let Some(code) = self.codes.borrow_mut().pop() {
            session
                .post("/authenticate/mfa", json!({ "code": code }))
                .expect(200);
        }
        Some(session)
    }

    /// Whether a session is opened in the newest complete API session, or else after logging in.
    fn opens(&self, right: &str, service: &str) -> bool {
        let open = |session: &Caller| {
            session
                .post("/sessions", json!({ "serviceId": service, "type": right }))
                .status
                == 201
        };
        if let Some(complete) = self
            .sessions
            .iter()
            .rev()
            .find(|session| lacks_no_code(session))
        {
            return open(complete);
        }
        self.enter().is_some_and(|session| {
            let opened = open(&session);
            session.delete("/current-api-session").expect(200);
            opened
        })
    }
}

fn lacks_no_code(session: &Caller) -> bool {
    let shown = session.get("/current-api-session").expect(200);
    shown.data()["authQueries"]
        .as_array()
        .unwrap()
        .iter()
        .all(|query| query["typeId"] != "MFA")
}

/// A random identity: with a password or a certificate of one of these authorities, with a second
/// factor or without, logged in or not.
fn person(server: &TestServer, rng: &mut Rng, authorities: &[Authority; 2]) -> Person {
    let (name, roles) = (fresh("person"), [ROLES[rng.below(3)], ROLES[rng.below(3)]]);
    let id = server.identity(&name, json!({ "roleAttributes": roles }));
    let is_certified = rng.below(2) == 0;
    let door = if is_certified {
        let key = Key::new();
        let chain = authorities[rng.below(2)].issue(" ", &key);
        server
            .admin
            .post(
                "/authenticators",
                json!({ "method": "cert", "identityId": id, "certPem": chain }),
            )
            .expect(201);
        server.with_certificate(&chain, &key)
    } else {
        server.give_password(&id, &name);
        server.anonymous()
    };
    let mut person = Person {
        id,
        name,
        door,
        is_certified,
        codes: RefCell::default(),
        sessions: Vec::new(),
    };
    let first = person.knock().unwrap();
    if rng.below(2) == 0 {
        first
            .post(
                "/posture-response",
                json!({ "id": "any", "typeId": "DOMAIN", "domain": "corp" }),
            )
            .expect(201);
    }
    if rng.below(2) == 0 {
        first.post("/current-identity/mfa", Json::Null).expect(201);
        person.codes.replace(verify(&first));
    }
    if rng.below(2) == 0 {
        person.sessions.push(first);
    } else {
        first.delete("/current-api-session").expect(200);
    }
    if rng.below(2) == 0 {
        person.sessions.push(person.knock().unwrap());
    }
    person
}

/// Some identities, four services, and policies between them.
fn crowd(server: &TestServer, rng: &mut Rng) -> (Vec<Person>, Vec<String>) {
    let authorities = [Authority::new("open"), Authority::new("shut")];
    let cas = authorities
        .each_ref()
        .map(|authority| server.add_ca(authority));
    let people: Vec<Person> = (0..6).map(|_| person(server, rng, &authorities)).collect();
    server
        .admin
        .patch(
            &format!("/cas/{}", cas[1]),
            json!({ "isAuthEnabled": false }),
        )
        .expect(200);
    // No edit proposes to enable it, because it would know nobody.
    let signer = external_signer(server, &fresh("idp"), json!({ "enabled": false }));
    let changes = [
        json!({}),
        json!({ "primary": { "updb": { "allowed": false } } }),
        json!({ "primary": { "cert": { "allowed": false } }, "secondary": { "requireTotp": true } }),
        json!({ "secondary": { "requireTotp": true, "requireExtJwtSigner": signer } }),
        json!({ "secondary": { "requireTotp": true } }),
    ];
    for (n, person) in people.iter().enumerate() {
        // Each identity has its own, so that an edit affects only one.
        let policy = auth_policy(server, changes[n % changes.len()].clone());
        server
            .admin
            .patch(
                &format!("/identities/{}", person.id),
                json!({ "authPolicyId": policy }),
            )
            .expect(200);
    }
    let services = (0..4)
        .map(|_| {
            server.service(
                &fresh("service"),
                json!({ "roleAttributes": [ROLES[rng.below(3)]] }),
            )
        })
        .collect();
    for colour in ["red", "green"] {
        server
            .admin
            .post(
                "/edge-routers",
                json!({ "name": fresh("router"), "roleAttributes": [colour] }),
            )
            .expect(201);
    }
    let domain = json!({ "typeId": "DOMAIN", "name": fresh("check"), "domains": ["corp"], "roleAttributes": ["strict"] });
    let code = json!({ "typeId": "MFA", "name": fresh("check"), "timeoutSeconds": 3600, "roleAttributes": ["coded"] });
    [domain, code]
        .into_iter()
        .for_each(|check| drop(server.admin.post("/posture-checks", check).expect(201)));
    (0..10).for_each(|n| policy(server, rng, n));
    (people, services)
}

fn policy(server: &TestServer, rng: &mut Rng, n: usize) {
    let (semantic, path, one, other) = match n {
        0..6 => (
            ["AllOf", "AnyOf"][n % 2],
            "service-policies",
            "identityRoles",
            "serviceRoles",
        ),
        6..8 => (
            "AnyOf",
            "edge-router-policies",
            "identityRoles",
            "edgeRouterRoles",
        ),
        _ => (
            "AnyOf",
            "service-edge-router-policies",
            "serviceRoles",
            "edgeRouterRoles",
        ),
    };
    let mut roles = || {
        vec![
            format!("#{}", ROLES[rng.below(3)]),
            format!("#{}", ROLES[rng.below(3)]),
        ]
    };
    let of_one = if n.is_multiple_of(2) {
        roles()
    } else {
        vec!["#all".into()]
    };
    let mut body =
        json!({ "name": fresh("policy"), "semantic": semantic, one: of_one, other: roles() });
    if n < 6 {
        body["type"] = ["Dial", "Bind"][n / 3].into();
        body["postureCheckRoles"] = [
            json!(["#strict"]),
            json!(["#coded"]),
            json!(["#strict", "#coded"]),
        ][rng.below(3)]
        .clone();
    }
    server.admin.post(&format!("/{path}"), body).expect(201);
}

/// Each edit of a negative verdict removes one obstacle of its kind.
fn each_edit_helps(asked: &Asked, before: &Json, ask: impl Fn() -> Json) {
    for obstacle in obstacles(before) {
        let what = obstacle["what"].as_str().unwrap();
        let count = |why: &Json| whats(why).iter().filter(|other| **other == what).count();
        for edit in obstacle["edits"].as_array().unwrap() {
            let undo = asked.make(edit);
            let after = ask();
            assert!(count(&after) < count(before), "{edit:#} left {after:#}");
            undo();
        }
    }
}

#[test]
fn verdicts_hold_and_edits_work() {
    let asked = Asked::start();
    let (mut no, mut yes, mut seen) = (0, 0, BTreeSet::new());
    for seed in 0..3 {
        let mut rng = Rng::new(seed);
        let (people, services) = crowd(&asked.server, &mut rng);
        for (person, service) in people
            .iter()
            .flat_map(|person| services.iter().map(move |service| (person, service)))
        {
            let right = ["Dial", "Bind"][rng.below(2)];
            let ask = || {
                asked
                    .ask(right, &person.id, service)
                    .expect(200)
                    .data()
                    .clone()
            };
            let before = ask();
            assert_eq!(
                is_yes(&before),
                person.opens(right, service),
                "seed {seed}, {right}: {before:#}"
            );
            if is_yes(&before) {
                yes += 1;
                continue;
            }
            no += 1;
            seen.extend(whats(&before).into_iter().map(str::to_owned));
            if no % 3 == 0 {
                each_edit_helps(&asked, &before, ask);
            }
            // Keeping some edits makes later verdicts positive more often.
            if no % 6 == 0 {
                for obstacle in obstacles(&before) {
                    let edits = obstacle["edits"].as_array().unwrap();
                    drop(asked.make(&edits[rng.below(edits.len())]));
                }
                let after = ask();
                assert!(is_yes(&after), "seed {seed}: {before:#} became {after:#}");
                assert_eq!(
                    is_yes(&after),
                    person.opens(right, service),
                    "seed {seed}: {before:#} became {after:#}"
                );
            }
        }
    }
    assert!(no > 10 && yes > 10, "{no} times no, {yes} times yes");
    for what in [
        "credentialNotAllowed",
        "secondFactor",
        "posture",
        "noPolicy",
    ] {
        assert!(seen.contains(what), "{what}: {seen:?}");
    }
}
