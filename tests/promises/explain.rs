//! Why somebody may or may not: the answer is what would happen, and what it says to change changes it.

use std::sync::Arc;

use overkeep::{
    access::Right,
    clock::Clock,
    config::Config,
    controller,
    host::{Command, Outcome, socket},
    store::Watch,
};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::{
    harness::{Answer, Base, Caller, Dice, House, encoded, fresh},
    host::ask,
};

/// A controller that is asked by its administrator and by the owner of its host.
struct Asked {
    house: House,
    data: std::path::PathBuf,
    _directory: TempDir,
}

impl Asked {
    fn start() -> Self {
        let directory = TempDir::new().unwrap();
        let data = directory.path().join("data");
        let house = House::with(Clock::system(), |config| config.data.clone_from(&data));
        Self { house, data, _directory: directory }
    }

    fn ask(&self, right: &str, identity: &str, service: &str) -> Answer {
        let path = format!("/explain?identity={}&service={}&type={right}", encoded(identity), encoded(service));
        self.house.admin.at(Base::Overkeep).get(&path)
    }

    fn dial(&self, identity: &str, service: &str) -> Json {
        self.ask("Dial", identity, service).expect(200).data().clone()
    }

    /// What the owner of the host is told.
    fn told(&self, identity: &str, service: &str, json: bool) -> Result<String, String> {
        let command = Command::Explain { right: Right::Dial, identity: identity.into(), service: service.into(), json };
        ask(&socket::beside(&self.data), &command).unwrap().map(|lines| lines.join("\n"))
    }

    /// Does what an edit says. What is answered takes it back.
    #[track_caller]
    fn make(&self, edit: &Json) -> impl FnOnce() {
        let (method, path, body) = (edit["method"].as_str().unwrap(), edit["path"].as_str().unwrap(), &edit["body"]);
        let admin = self.house.admin.clone();
        let before: Json = match method {
            "PATCH" => {
                let stored = admin.get(path).expect(200);
                body.as_object().unwrap().keys().map(|member| (member.clone(), stored.data()[member].clone())).collect()
            }
            _ => Json::Null,
        };
        let done = admin.ask(method, path).json(body).send();
        assert!(done.status < 300, "{edit}: {}", done.text);
        let path = if method == "POST" { format!("{path}/{}", done.id()) } else { path.to_owned() };
        move || {
            let undone = if before.is_null() { admin.delete(&path) } else { admin.patch(&path, before) };
            undone.expect(200);
        }
    }
}

fn is_yes(why: &Json) -> bool {
    why["verdict"].as_bool().unwrap()
}

fn whats(why: &Json) -> Vec<&str> {
    why["obstacles"].as_array().unwrap().iter().map(|obstacle| obstacle["what"].as_str().unwrap()).collect()
}

fn opens(user: &Caller, service: &str) -> bool {
    user.post("/sessions", json!({ "serviceId": service, "type": "Dial" })).status == 201
}

#[test]
fn doing_one_edit_for_every_obstacle_turns_a_no_into_a_yes() {
    let asked = Asked::start();
    let house = &asked.house;
    let check = json!({ "typeId": "DOMAIN", "name": fresh("check"), "domains": ["corp"], "roleAttributes": ["strict"] });
    house.admin.post("/posture-checks", check).expect(201);
    // Nothing, a policy that matches one side, one that matches the other, one of the other type, one that matches one side and asks for
    // what was not shown, and one that has the name that comes to mind.
    let policy = |case: usize, (name, role): (&str, &str), service: &str| {
        let (role, id, other) = (format!("#{role}"), format!("@{service}"), format!("#{}", fresh("other")));
        match case {
            1 => drop(house.service_policy("Dial", &[&role], &[&other])),
            2 => drop(house.service_policy("Dial", &[&other], &[&id])),
            3 => drop(house.service_policy("Bind", &[&role], &[&id])),
            4 => {
                let policy = house.service_policy("Dial", &[&role], &[&other]);
                house.admin.patch(&format!("/service-policies/{policy}"), json!({ "postureCheckRoles": ["#strict"] })).expect(200);
            }
            5 => {
                let called = house.admin.get(&format!("/services/{service}")).expect(200).data()["name"].as_str().unwrap().to_owned();
                let body = json!({ "name": format!("{name}-dial-{called}"), "type": "Dial", "semantic": "AnyOf" });
                house.admin.post("/service-policies", body).expect(201);
            }
            _ => {}
        }
    };
    for case in 0..6 {
        let (name, role) = (fresh("person"), fresh("role"));
        let (identity, user) = house.user(&name, json!({ "roleAttributes": [role] }));
        let service = house.service(&fresh("service"), json!({}));
        policy(case, (&name, &role), &service);
        let before = asked.dial(&name, &service);
        assert!(!is_yes(&before) && !opens(&user, &service), "case {case}: {before:#}");
        before["obstacles"].as_array().unwrap().iter().for_each(|obstacle| drop(asked.make(&obstacle["edits"][0])));
        let after = asked.dial(&identity, &service);
        assert!(is_yes(&after) && opens(&user, &service), "case {case}: {before:#} became {after:#}");
    }
}

/// Somebody logged in, or a service, with an id.
type Known<T> = (String, T);

/// Four people, four services and some policies between them, by chance.
fn crowd(house: &House, dice: &mut Dice) -> (Vec<Known<Caller>>, Vec<Known<()>>) {
    const ROLES: [&str; 3] = ["red", "green", "blue"];
    let mut some = |least: usize| -> Vec<&str> { (0..least + dice.below(3 - least)).map(|_| ROLES[dice.below(3)]).collect() };
    let users = (0..4).map(|_| house.user(&fresh("person"), json!({ "roleAttributes": some(0) }))).collect();
    let services: Vec<_> = (0..4).map(|_| (house.service(&fresh("service"), json!({ "roleAttributes": some(0) })), ())).collect();
    house.admin.post("/edge-routers", json!({ "name": fresh("router"), "roleAttributes": ["red"] })).expect(201);
    house.admin.post("/edge-routers", json!({ "name": fresh("router"), "roleAttributes": ["green"] })).expect(201);
    let check = json!({ "typeId": "DOMAIN", "name": fresh("check"), "domains": ["corp"], "roleAttributes": ["strict"] });
    house.admin.post("/posture-checks", check).expect(201);
    let mut roles = || -> Vec<String> { some(1).iter().map(|role| format!("#{role}")).collect() };
    for n in 0..8 {
        let (semantic, path, one, other) = match n {
            0..4 => (["AllOf", "AnyOf"][n % 2], "service-policies", "identityRoles", "serviceRoles"),
            4..6 => ("AnyOf", "edge-router-policies", "identityRoles", "edgeRouterRoles"),
            _ => ("AnyOf", "service-edge-router-policies", "serviceRoles", "edgeRouterRoles"),
        };
        let of_one = if n % 2 == 0 { roles() } else { vec!["#all".into()] };
        let mut body = json!({ "name": fresh("policy"), "semantic": semantic, one: of_one, other: roles() });
        if n < 4 {
            body["type"] = "Dial".into();
            body["postureCheckRoles"] = if n < 2 { json!(["#strict"]) } else { json!([]) };
        }
        house.admin.post(&format!("/{path}"), body).expect(201);
    }
    (users, services)
}

#[test]
fn the_verdict_is_what_happens_and_each_edit_removes_what_it_is_for() {
    let asked = Asked::start();
    let house = &asked.house;
    let (mut no, mut yes) = (0, 0);
    for seed in 0..2 {
        let mut dice = Dice::new(seed);
        let (users, services) = crowd(house, &mut dice);
        users.iter().step_by(2).for_each(|(_, user)| {
            user.post("/posture-response", json!({ "id": "any", "typeId": "DOMAIN", "domain": "corp" })).expect(201);
        });
        for ((identity, user), (service, ())) in users.iter().flat_map(|user| services.iter().map(move |service| (user, service))) {
            let before = asked.dial(identity, service);
            assert_eq!(is_yes(&before), opens(user, service), "seed {seed}: {before:#}");
            if is_yes(&before) {
                yes += 1;
                continue;
            }
            no += 1;
            for obstacle in before["obstacles"].as_array().unwrap() {
                for edit in obstacle["edits"].as_array().unwrap() {
                    let undo = asked.make(edit);
                    let after = asked.dial(identity, service);
                    assert!(!whats(&after).contains(&obstacle["what"].as_str().unwrap()), "seed {seed}: {edit:#} left {after:#}");
                    undo();
                }
            }
            if no % 4 == 0 {
                for obstacle in before["obstacles"].as_array().unwrap() {
                    let edits = obstacle["edits"].as_array().unwrap();
                    drop(asked.make(&edits[dice.below(edits.len())]));
                }
                assert!(is_yes(&asked.dial(identity, service)) && opens(user, service), "seed {seed}: {before:#}");
            }
        }
    }
    assert!(no > 3 && yes > 3, "{no} times no, {yes} times yes");
}

#[test]
fn posture_a_lock_and_a_missing_credential_are_named() {
    let asked = Asked::start();
    let house = &asked.house;
    let name = fresh("person");
    let (identity, user) = house.user(&name, json!({}));
    let service = house.service(&fresh("service"), json!({}));
    house.router_between(&identity, &service);
    let check = json!({ "typeId": "DOMAIN", "name": fresh("check"), "domains": ["corp"], "roleAttributes": ["strict"] });
    house.admin.post("/posture-checks", check).expect(201);
    let policy = house.service_policy("Dial", &[&format!("@{identity}")], &[&format!("@{service}")]);
    assert!(is_yes(&asked.dial(&name, &service)) && opens(&user, &service));
    house.admin.patch(&format!("/service-policies/{policy}"), json!({ "postureCheckRoles": ["#strict"] })).expect(200);
    let asks = asked.dial(&name, &service);
    assert!(!is_yes(&asks) && whats(&asks) == ["posture"], "{asks:#}");
    user.post("/posture-response", json!({ "id": "any", "typeId": "DOMAIN", "domain": "corp" })).expect(201);
    assert!(is_yes(&asked.dial(&name, &service)) && opens(&user, &service));

    house.admin.post(&format!("/identities/{identity}/disable"), json!({ "durationMinutes": 5 })).expect(200);
    assert_eq!(whats(&asked.dial(&name, &service)), ["disabled"]);
    let blank = fresh("blank");
    house.identity(&blank, json!({}));
    assert!(whats(&asked.dial(&blank, &service)).contains(&"noCredential"));
}

#[test]
fn credentials_that_are_not_allowed_are_none() {
    let asked = Asked::start();
    let house = &asked.house;
    let name = fresh("person");
    let (identity, user) = house.user(&name, json!({ "externalId": fresh("external") }));
    let service = house.service(&fresh("service"), json!({}));
    house.router_between(&identity, &service);
    house.service_policy("Dial", &[&format!("@{identity}")], &[&format!("@{service}")]);
    let mut strict = house.admin.get("/auth-policies/default").expect(200).data().clone();
    let policy = json!({ "name": fresh("strict"), "primary": strict["primary"].take(), "secondary": strict["secondary"].take() });
    let policy = house.admin.post("/auth-policies", policy).expect(201).id();
    house.admin.patch(&format!("/auth-policies/{policy}"), json!({ "primary": { "updb": { "allowed": false } } })).expect(200);
    house.admin.patch(&format!("/identities/{identity}"), json!({ "authPolicyId": policy })).expect(200);
    let why = asked.dial(&name, &service);
    assert_eq!((&why["authentication"]["state"], is_yes(&why)), (&json!("notAllowed"), true), "who is logged in stays so: {why:#}");
    assert!(asked.told(&name, &service, false).unwrap().contains("allows none of its credentials"));
    user.delete("/current-api-session").expect(200);
    let why = asked.dial(&name, &service);
    assert!(!is_yes(&why) && whats(&why) == ["credentialNotAllowed"], "{why:#}");
    drop(asked.make(&why["obstacles"][0]["edits"][0]));
    let why = asked.dial(&name, &service);
    assert!(is_yes(&why) && opens(&house.again(&name), &service), "{why:#}");
}

#[test]
fn both_ways_to_ask_give_one_answer() {
    let asked = Asked::start();
    let name = fresh("person");
    asked.house.user(&name, json!({}));
    let service = asked.house.service(&fresh("service"), json!({}));
    let why = asked.dial(&name, &service);
    assert_eq!(serde_json::from_str::<Json>(&asked.told(&name, &service, true).unwrap()).unwrap(), why);
    assert!(asked.told(&name, &service, false).unwrap().starts_with(&format!("no: {name} may not dial")));
    assert!(asked.told("nobody", &service, false).unwrap_err().contains("nobody"));
    asked.ask("Dial", "nobody", &service).refused(404, "NOT_FOUND", "");
    asked.ask("Invalid", &name, &service).refused(400, "COULD_NOT_VALIDATE", "type");
    asked.house.admin.at(Base::Overkeep).get("/explain?identity=x&type=Dial").refused(400, "COULD_NOT_VALIDATE", "service");
    // Without a controller, all the same, but for what only that knows.
    let running = asked.told(&name, &service, false).unwrap();
    let Asked { house, data, _directory } = asked;
    drop(house);
    let command = Command::Explain { right: Right::Dial, identity: name, service, json: false };
    let host = controller::host(&Config { data, ..Config::default() }, &command).unwrap();
    let Outcome::Done(lines) = host.act(command, &Arc::new(Watch::default())).unwrap() else { panic!() };
    let (note, rest) = lines.split_last().unwrap();
    assert!(note.starts_with("note: no controller runs") && rest.join("\n") == running, "{lines:?}");
}
