//! Why somebody may or may not: the answer is what would happen, and what it says to change changes it.

use overkeep::{
    clock::Clock,
    entity::PolicyType,
    host::{Command, socket},
};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::harness::{Caller, House, fresh};

/// A controller whose owner asks it.
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

    fn why(&self, identity: &str, service: &str) -> Vec<String> {
        let command = Command::Explain { right: PolicyType::Dial, identity: identity.into(), service: service.into() };
        socket::ask(&socket::beside(&self.data), &command).unwrap().unwrap()
    }

    /// The first edit of every obstacle, as method, path and body.
    fn edits(lines: &[String]) -> Vec<(String, String, Json)> {
        let mut edits = Vec::new();
        let mut first = false;
        for line in lines {
            if line.starts_with("  ") && !line.starts_with("    ") {
                first = true;
            } else if first && line.starts_with("      ") {
                first = false;
                let mut parts = line.trim().splitn(3, ' ').map(str::to_owned);
                let (method, path) = (parts.next().unwrap(), parts.next().unwrap());
                edits.push((method, path, serde_json::from_str(&parts.next().unwrap()).unwrap()));
            }
        }
        edits
    }
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
        let before = asked.why(&name, &service);
        assert!(before[0].starts_with("no:") && !opens(&user, &service), "case {case}: {before:#?}");
        for (method, path, body) in Asked::edits(&before) {
            let done = house.admin.ask(&method, &path).json(&body).send();
            assert!(done.status < 300, "case {case}: {method} {path} {body}: {}", done.text);
        }
        let after = asked.why(&identity, &service);
        assert!(after[0].starts_with("yes:") && opens(&user, &service), "case {case}: {before:#?} became {after:#?}");
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
    assert!(asked.why(&name, &service)[0].starts_with("yes:") && opens(&user, &service));
    house.admin.patch(&format!("/service-policies/{policy}"), json!({ "postureCheckRoles": ["#strict"] })).expect(200);
    let asks = asked.why(&name, &service);
    assert!(asks[0].starts_with("no:") && asks.iter().any(|line| line.contains("does not pass")), "{asks:#?}");
    user.post("/posture-response", json!({ "id": "any", "typeId": "DOMAIN", "domain": "corp" })).expect(201);
    assert!(asked.why(&name, &service)[0].starts_with("yes:") && opens(&user, &service));

    house.admin.post(&format!("/identities/{identity}/disable"), json!({ "durationMinutes": 5 })).expect(200);
    assert!(asked.why(&name, &service).iter().any(|line| line.contains("is disabled until")));
    let blank = fresh("blank");
    house.identity(&blank, json!({}));
    assert!(asked.why(&blank, &service).iter().any(|line| line.contains("nothing to log in with")));
    let unknown = Command::Explain { right: PolicyType::Dial, identity: "nobody".into(), service };
    assert!(socket::ask(&socket::beside(&asked.data), &unknown).unwrap().is_err());
}
