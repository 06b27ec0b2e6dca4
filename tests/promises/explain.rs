//! Why somebody may or may not: the answer is what would happen, and what it says to change changes it.

use overkeep::{
    access::Right,
    clock::Clock,
    host::{Command, socket},
};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::harness::{Answer, Base, Caller, House, encoded, fresh};

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
        socket::ask(&socket::beside(&self.data), &command).unwrap().map(|lines| lines.join("\n"))
    }

    /// Does what an edit says.
    #[track_caller]
    fn make(&self, edit: &Json) {
        let (method, path) = (edit["method"].as_str().unwrap(), edit["path"].as_str().unwrap());
        let done = self.house.admin.ask(method, path).json(&edit["body"]).send();
        assert!(done.status < 300, "{edit}: {}", done.text);
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
    // Nothing, a policy that matches one side, one that matches the other, and one of the other type.
    let policy = |case: usize, role: &str, service: &str| {
        let (role, service, other) = (format!("#{role}"), format!("@{service}"), format!("#{}", fresh("other")));
        match case {
            1 => drop(house.service_policy("Dial", &[&role], &[&other])),
            2 => drop(house.service_policy("Dial", &[&other], &[&service])),
            3 => drop(house.service_policy("Bind", &[&role], &[&service])),
            _ => {}
        }
    };
    for case in 0..4 {
        let (name, role) = (fresh("person"), fresh("role"));
        let (identity, user) = house.user(&name, json!({ "roleAttributes": [role] }));
        let service = house.service(&fresh("service"), json!({}));
        policy(case, &role, &service);
        let before = asked.dial(&name, &service);
        assert!(!is_yes(&before) && !opens(&user, &service), "case {case}: {before:#}");
        before["obstacles"].as_array().unwrap().iter().for_each(|obstacle| asked.make(&obstacle["edits"][0]));
        let after = asked.dial(&identity, &service);
        assert!(is_yes(&after) && opens(&user, &service), "case {case}: {before:#} became {after:#}");
    }
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
}
