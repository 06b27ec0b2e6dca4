//! Why somebody may or may not: the answer is what would happen, and what it says to change changes it.

use std::{collections::BTreeSet, sync::Arc};

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
use totp_rs::{Builder, Secret};

use crate::{
    harness::{Answer, Authority, Base, Caller, Dice, House, Key, encoded, fresh},
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
    let policy = auth_policy(house, json!({ "primary": { "updb": { "allowed": false } } }));
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

/// Somebody who may dial a service, but for `checks` of the policy: the identity, the caller, the service and the policy.
fn all_but_posture(house: &House, semantic: &str, checks: &[String]) -> (String, Caller, String, String) {
    let (identity, user) = house.user(&fresh("person"), json!({}));
    let service = house.service(&fresh("service"), json!({}));
    house.router_between(&identity, &service);
    let policy = json!({
        "name": fresh("policy"), "type": "Dial", "semantic": semantic, "postureCheckRoles": checks,
        "identityRoles": [format!("@{identity}")], "serviceRoles": [format!("@{service}")]
    });
    (identity, user, service, house.admin.post("/service-policies", policy).expect(201).id())
}

/// A new check for one domain, as policies name it.
fn check_for(house: &House, name: &str, domain: &str, roles: &[&str]) -> String {
    let body = json!({ "typeId": "DOMAIN", "name": name, "domains": [domain], "roleAttributes": roles });
    format!("@{}", house.admin.post("/posture-checks", body).expect(201).id())
}

#[test]
fn a_policy_is_to_ask_on_for_the_checks_that_pass() {
    let asked = Asked::start();
    let house = &asked.house;
    let [corp, more] = [("corp", ["a", "b", "c"].as_slice()), ("more", &["c"])].map(|(name, roles)| check_for(house, name, "corp", roles));
    let [other, lone] = [("other", ["a", "b"].as_slice()), ("lone", &["a"])].map(|(name, roles)| check_for(house, name, "else", roles));
    let [corp, more, other, lone] = [&corp, &more, &other, &lone].map(String::as_str);
    // What a policy names, what it is to name, and what that is called.
    let cases: [(_, &[&str], &[&str], _); 8] = [
        ("AnyOf", &[corp, other], &[corp], "other"),
        ("AnyOf", &["#b"], &[corp], "other, nor for others by #b, but still for corp"),
        // What another entry matches as well is not named.
        ("AnyOf", &["#b", "#c"], &["#c"], "other, nor for others by #b"),
        ("AnyOf", &["#b", corp], &[corp], "other, nor for others by #b"),
        ("AnyOf", &["#all"], &[corp, more], ""),
        ("AnyOf", &[other, lone], &[], ""),
        // Of attributes that are needed together one alone would match more.
        ("AllOf", &["#a", "#b"], &[corp], "other, nor for others by #a #b, but still for corp"),
        ("AllOf", &["#a", "#c", other], &["#a", "#c"], "other"),
    ];
    for (semantic, before, after, what) in cases {
        let checks: Vec<String> = before.iter().map(|&role| role.to_owned()).collect();
        let (identity, user, service, policy) = all_but_posture(house, semantic, &checks);
        user.post("/posture-response", json!({ "id": "any", "typeId": "DOMAIN", "domain": "corp" })).expect(201);
        let why = asked.dial(&identity, &service);
        assert!(whats(&why) == ["posture"] && !opens(&user, &service), "{semantic} {before:?}: {why:#}");
        let edit = &why["obstacles"][0]["edits"][0];
        let named: BTreeSet<&str> =
            edit["body"]["postureCheckRoles"].as_array().unwrap().iter().map(|role| role.as_str().unwrap()).collect();
        assert_eq!(named, after.iter().copied().collect(), "{semantic} {before:?}: {edit:#}");
        let name = house.admin.get(&format!("/service-policies/{policy}")).expect(200).data()["name"].clone();
        let text = format!("have the policy {} no longer ask for {what}", name.as_str().unwrap());
        assert!(what.is_empty() || edit["text"] == text, "{semantic} {before:?}: {edit:#}");
        drop(asked.make(edit));
        assert!(is_yes(&asked.dial(&identity, &service)) && opens(&user, &service), "{semantic} {before:?}: {edit:#}");
    }
}

#[test]
fn the_policy_that_fails_by_the_fewest_checks_is_named_first() {
    let asked = Asked::start();
    let house = &asked.house;
    let [one, other] = ["one", "other"].map(|name| check_for(house, name, name, &[]));
    for more in [[true, false], [false, true]] {
        let checks = |more: bool| if more { vec![one.clone(), other.clone()] } else { vec![one.clone()] };
        let (identity, _, service, first) = all_but_posture(house, "AnyOf", &checks(more[0]));
        let second = house.service_policy("Dial", &[&format!("@{identity}")], &[&format!("@{service}")]);
        house.admin.patch(&format!("/service-policies/{second}"), json!({ "postureCheckRoles": checks(more[1]) })).expect(200);
        let why = asked.dial(&identity, &service);
        let least = if more[0] { second } else { first };
        assert_eq!(why["obstacles"][0]["edits"][0]["path"], format!("/service-policies/{least}"), "{why:#}");
    }
}

/// A new auth policy, which is like the default one but for this.
fn auth_policy(house: &House, change: Json) -> String {
    let like = house.admin.get("/auth-policies/default").expect(200).data().clone();
    let body = json!({ "name": fresh("auth"), "primary": like["primary"], "secondary": like["secondary"] });
    let id = house.admin.post("/auth-policies", body).expect(201).id();
    house.admin.patch(&format!("/auth-policies/{id}"), change).expect(200);
    id
}

/// A new signer with this name.
fn external_signer(house: &House, name: &str, more: Json) -> String {
    let mut body = json!({
        "name": name, "enabled": true, "issuer": fresh("issuer"), "audience": "overlay", "jwksEndpoint": "https://idp.test/keys",
        "useExternalId": true
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    house.admin.post("/external-jwt-signers", body).expect(201).id()
}

#[test]
fn an_auth_policy_is_to_let_in_no_more_signers_than_it_takes() {
    let asked = Asked::start();
    let house = &asked.house;
    let (signer, other) = (external_signer(house, "idp", json!({})), external_signer(house, "off", json!({ "enabled": false })));
    let identity = house.identity(&fresh("person"), json!({ "externalId": fresh("external") }));
    let service = house.service(&fresh("service"), json!({}));
    let off = json!({ "allowed": false });
    let allows_only = |ext_jwt: Json| json!({ "primary": { "cert": off, "updb": off, "extJwt": ext_jwt } });
    let allowing = || {
        let why = asked.dial(&identity, &service);
        let obstacles = why["obstacles"].as_array().unwrap();
        let obstacle = obstacles.iter().find(|obstacle| obstacle["what"] == "credentialNotAllowed").unwrap();
        obstacle["edits"].as_array().unwrap().clone()
    };
    let cases = [
        (json!({ "allowed": false, "allowedSigners": [signer] }), json!({ "allowed": true }), "tokens of the signers that it lists"),
        (json!({ "allowed": false, "allowedSigners": [] }), json!({ "allowed": true }), "tokens of every signer"),
        (json!({ "allowed": true, "allowedSigners": [other] }), json!({ "allowedSigners": [other, signer] }), "tokens of idp"),
        (
            json!({ "allowed": false, "allowedSigners": [other] }),
            json!({ "allowed": true, "allowedSigners": [other, signer] }),
            "tokens of idp and of the signers that it lists",
        ),
    ];
    for (ext_jwt, change, words) in cases {
        let policy = auth_policy(house, allows_only(ext_jwt));
        house.admin.patch(&format!("/identities/{identity}"), json!({ "authPolicyId": policy })).expect(200);
        let edits = allowing();
        assert_eq!((edits.len(), &edits[0]["body"]), (1, &json!({ "primary": { "extJwt": change } })), "{edits:#?}");
        assert!(edits[0]["text"].as_str().unwrap().ends_with(words), "{edits:#?}");
        drop(asked.make(&edits[0]));
        assert_eq!(asked.dial(&identity, &service)["authentication"]["state"], "ready");
    }
    // Where an authority knows external ids too, either will do.
    house.take_up(&Authority::new("partner"));
    let policy = auth_policy(house, allows_only(off.clone()));
    house.admin.patch(&format!("/identities/{identity}"), json!({ "authPolicyId": policy })).expect(200);
    let on = json!({ "allowed": true });
    assert_eq!(
        allowing().iter().map(|edit| edit["body"]["primary"].clone()).collect::<Vec<_>>(),
        [json!({ "cert": on }), json!({ "extJwt": on })]
    );
}

#[test]
fn whoever_has_yet_to_set_a_second_factor_up_is_told() {
    let asked = Asked::start();
    let house = &asked.house;
    let (by_external_id, disabled) =
        (external_signer(house, "idp", json!({})), external_signer(house, "off", json!({ "enabled": false, "useExternalId": false })));
    let name = fresh("person");
    let identity = house.identity(&name, json!({}));
    house.give_password(&identity, &name);
    let service = house.service(&fresh("service"), json!({}));
    house.router_between(&identity, &service);
    house.service_policy("Dial", &[&format!("@{identity}")], &[&format!("@{service}")]);
    let asks = |secondary: Json| {
        let policy = auth_policy(house, json!({ "secondary": secondary }));
        house.admin.patch(&format!("/identities/{identity}"), json!({ "authPolicyId": policy })).expect(200);
    };
    let told = |factors: &[(&str, bool)], words: &str| {
        let why = asked.dial(&name, &service);
        let authentication = &why["authentication"];
        assert_eq!((is_yes(&why), &authentication["state"]), (true, &json!("ready")), "a verdict is for who has logged in completely");
        let seen = authentication["secondFactors"].as_array().unwrap().iter();
        let seen: Vec<_> = seen.map(|one| (one["factor"].as_str().unwrap(), one["isReady"].as_bool().unwrap())).collect();
        assert_eq!(seen, factors, "{why:#}");
        let text = asked.told(&name, &service, false).unwrap();
        assert!(text.contains(words), "{text}");
    };
    told(&[], "yes");
    asks(json!({ "requireTotp": true }));
    told(&[("totp", false)], &format!("asks for a one-time code, but {name} has set none up"));
    let url = {
        let user = house.again(&name);
        user.post("/current-identity/mfa", Json::Null).expect(201);
        // Set up is what a code was given of.
        told(&[("totp", false)], "has set none up");
        user.get("/current-identity/mfa").expect(200).data()["provisioningUrl"].as_str().unwrap().to_owned()
    };
    let secret = Secret::try_from_base32(url.split("secret=").nth(1).unwrap()).unwrap();
    let code = Builder::new().with_secret(secret).build().unwrap().generate_current();
    house.again(&name).post("/current-identity/mfa/verify", json!({ "code": code.to_string() })).expect(200);
    told(&[("totp", true)], &format!("{name} needs a one-time code besides to log in"));

    asks(json!({ "requireExtJwtSigner": by_external_id }));
    told(&[("totp", true), ("extJwt", false)], &format!("idp knows people by external ids, and {name} has none"));
    asks(json!({ "requireExtJwtSigner": disabled }));
    told(&[("totp", true), ("extJwt", false)], "asks for a token of off with every request, but off is disabled");
    house.admin.patch(&format!("/external-jwt-signers/{disabled}"), json!({ "enabled": true })).expect(200);
    told(&[("totp", true), ("extJwt", true)], "asks for a token of off with every request\n");
}

#[test]
fn a_session_that_is_open_is_answered_again_whatever_the_verdict_on_a_new_one() {
    let asked = Asked::start();
    let house = &asked.house;
    let name = fresh("person");
    let (identity, user) = house.user(&name, json!({}));
    let service = house.service(&fresh("service"), json!({}));
    let router = house.router_between(&identity, &service);
    house.service_policy("Dial", &[&format!("@{identity}")], &[&format!("@{service}")]);
    assert!(is_yes(&asked.dial(&name, &service)) && opens(&user, &service));
    house.admin.delete(&format!("/edge-routers/{router}")).expect(200);
    assert!(!is_yes(&asked.dial(&name, &service)) && opens(&user, &service) && !opens(&house.again(&name), &service));
    let schemas = house.nobody().at(Base::Overkeep).get("/openapi.json").expect(200).json["components"]["schemas"].clone();
    let said = schemas["Explanation"]["properties"]["verdict"]["description"].as_str().unwrap();
    assert!(said.contains("open already"), "{said}");
}

#[test]
fn a_tunneler_waits_for_its_router_to_enroll() {
    let asked = Asked::start();
    let house = &asked.house;
    let name = fresh("router");
    let id = house.admin.post("/edge-routers", json!({ "name": name, "isTunnelerEnabled": true })).expect(201).id();
    let service = house.service(&fresh("service"), json!({}));
    let router = || house.admin.get(&format!("/edge-routers/{id}")).expect(200).data().clone();
    let stands = |state: &str, words: &str| {
        let why = asked.dial(&id, &service);
        assert_eq!(why["authentication"]["state"], state, "{why:#}");
        let obstacles = why["obstacles"].as_array().unwrap();
        let obstacle = obstacles.iter().find(|obstacle| obstacle["what"] == "noCredential").unwrap();
        assert!(obstacle["text"].as_str().unwrap().starts_with(words) && obstacle["edits"] == json!([]), "{obstacle:#}");
        why["authentication"]["until"].clone()
    };
    let until = stands("neverEnrolled", &format!("the edge router {name} has not enrolled yet; the token it was given is good until"));
    assert_eq!(until, router()["enrollmentExpiresAt"]);
    let (key, token) = (Key::new(), router()["enrollmentToken"].as_str().unwrap().to_owned());
    let requests = json!({ "certCsr": key.request_as(&id), "serverCertCsr": key.request() });
    house.nobody().post(&format!("/enroll?method=erott&token={token}"), requests).expect(200);
    stands("noCredential", &format!("{name} has nothing to log in with, being the tunneler of the edge router {name}"));
}

#[test]
fn whoever_names_nobody_or_nothing_is_told_which() {
    let asked = Asked::start();
    let (person, service) = (fresh("person"), fresh("service"));
    asked.house.identity(&person, json!({}));
    asked.house.service(&service, json!({}));
    asked.ask("Dial", "", &service).refused(400, "COULD_NOT_VALIDATE", "identity");
    asked.ask("Dial", &person, "").refused(400, "COULD_NOT_VALIDATE", "service");
    assert_eq!(asked.told(&person, "", false).unwrap_err(), "service: must not be empty");
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
