//! Explanations: the verdict is what happens, and the proposed edits change it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use overkeep::testing::{
    access::Right,
    admin_socket::{Command, Outcome, socket},
    clock::Clock,
    config::{Config, Span},
    controller,
    store::Progress,
};
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use totp_rs::{Builder, Secret};

use crate::harness::{Answer, Authority, Base, Caller, Key, TestServer, encoded, fresh};

/// A controller that is asked by its administrator and by the owner of its host.
pub struct Asked {
    pub server: TestServer,
    pub data: std::path::PathBuf,
    pub _directory: TempDir,
}

impl Asked {
    pub fn start() -> Self {
        Self::with(Clock::system())
    }

    fn with(clock: Clock) -> Self {
        let directory = TempDir::new().unwrap();
        let data = directory.path().join("data");
        let server = TestServer::with(clock, |config| {
            config.data.clone_from(&data);
            config.sessions.timeout = Span::minutes(365 * 24 * 60);
        });
        Self {
            server,
            data,
            _directory: directory,
        }
    }

    pub fn ask(&self, right: &str, identity: &str, service: &str) -> Answer {
        let path = format!(
            "/explain?identity={}&service={}&type={right}",
            encoded(identity),
            encoded(service)
        );
        self.server.admin.at(Base::Overkeep).get(&path)
    }

    /// The answer about dialing. Each of its obstacles has a request that removes it, or says what
    /// to do.
    #[track_caller]
    pub fn dial(&self, identity: &str, service: &str) -> Json {
        let why = self
            .ask("Dial", identity, service)
            .expect(200)
            .data()
            .clone();
        for obstacle in why["obstacles"].as_array().unwrap() {
            assert!(
                obstacle["edits"] != json!([]) || obstacle["remedy"].is_string(),
                "{obstacle:#}"
            );
        }
        why
    }

    /// The answer for the owner of the host.
    fn told(&self, identity: &str, service: &str, json: bool) -> Result<String, String> {
        let command = Command::Explain {
            right: Right::Dial,
            identity: identity.into(),
            service: service.into(),
            json,
        };
        let (Outcome::Done(lines) | Outcome::Problems(lines)) =
            socket::ask(&socket::beside(&self.data), &command, &mut |_, _| ()).unwrap()?;
        Ok(lines.join("\n"))
    }

    /// Applies an edit; the returned function undoes it.
    #[track_caller]
    pub fn make(&self, edit: &Json) -> impl FnOnce() {
        let (method, path, body) = (
            edit["method"].as_str().unwrap(),
            edit["path"].as_str().unwrap(),
            &edit["body"],
        );
        let admin = self.server.admin.clone();
        let before: Json = match method {
            "PATCH" => {
                let stored = admin.get(path).expect(200);
                body.as_object()
                    .unwrap()
                    .keys()
                    .map(|member| (member.clone(), stored.data()[member].clone()))
                    .collect()
            }
            _ => Json::Null,
        };
        let done = admin.ask(method, path).json(body).send();
        assert!(done.status < 300, "{edit}: {}", done.text);
        let path = if method == "POST" {
            format!("{path}/{}", done.id())
        } else {
            path.to_owned()
        };
        move || {
            let undone = if before.is_null() {
                admin.delete(&path)
            } else {
                admin.patch(&path, before)
            };
            undone.expect(200);
        }
    }
}

/// Whether the right exists; `traffic.rs` tests whether a connection succeeds.
pub fn is_yes(why: &Json) -> bool {
    why["allowed"].as_bool().unwrap()
}

/// The obstacles to the right.
pub fn obstacles(why: &Json) -> Vec<&Json> {
    why["obstacles"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|obstacle| obstacle["concerns"] == "rights")
        .collect()
}

pub fn whats(why: &Json) -> Vec<&str> {
    obstacles(why)
        .into_iter()
        .map(|obstacle| obstacle["what"].as_str().unwrap())
        .collect()
}

fn opens(user: &Caller, service: &str) -> bool {
    user.post("/sessions", json!({ "serviceId": service, "type": "Dial" }))
        .status
        == 201
}

#[test]
fn one_edit_per_obstacle_gives_access() {
    let asked = Asked::start();
    let server = &asked.server;
    let check = json!({ "typeId": "DOMAIN", "name": fresh("check"), "domains": ["corp"], "roleAttributes": ["strict"] });
    server.admin.post("/posture-checks", check).expect(201);
    // In turn: no policy, one that matches only the identity, one that matches only the service,
    // one of the other type, one that matches one side and has a failing check, and one that has
    // the name an edit would choose.
    let policy = |case: usize, (name, role): (&str, &str), service: &str| {
        let (role, id, other) = (
            format!("#{role}"),
            format!("@{service}"),
            format!("#{}", fresh("other")),
        );
        match case {
            1 => drop(server.service_policy("Dial", &[&role], &[&other])),
            2 => drop(server.service_policy("Dial", &[&other], &[&id])),
            3 => drop(server.service_policy("Bind", &[&role], &[&id])),
            4 => {
                let policy = server.service_policy("Dial", &[&role], &[&other]);
                server
                    .admin
                    .patch(
                        &format!("/service-policies/{policy}"),
                        json!({ "postureCheckRoles": ["#strict"] }),
                    )
                    .expect(200);
            }
            5 => {
                let called = server
                    .admin
                    .get(&format!("/services/{service}"))
                    .expect(200)
                    .data()["name"]
                    .as_str()
                    .unwrap()
                    .to_owned();
                let body = json!({ "name": format!("{name}-dial-{called}"), "type": "Dial", "semantic": "AnyOf" });
                server.admin.post("/service-policies", body).expect(201);
            }
            _ => {}
        }
    };
    for case in 0..6 {
        let (name, role) = (fresh("person"), fresh("role"));
        let (identity, user) = server.user(&name, json!({ "roleAttributes": [role] }));
        let service = server.service(&fresh("service"), json!({}));
        policy(case, (&name, &role), &service);
        let before = asked.dial(&name, &service);
        assert!(
            !is_yes(&before) && !opens(&user, &service),
            "case {case}: {before:#}"
        );
        obstacles(&before)
            .into_iter()
            .for_each(|obstacle| drop(asked.make(&obstacle["edits"][0])));
        let after = asked.dial(&identity, &service);
        assert!(
            is_yes(&after) && opens(&user, &service),
            "case {case}: {before:#} became {after:#}"
        );
    }
}

#[test]
fn posture_lock_and_credential_are_named() {
    let asked = Asked::start();
    let server = &asked.server;
    let name = fresh("person");
    let (identity, user) = server.user(&name, json!({}));
    let service = server.service(&fresh("service"), json!({}));
    server.router_between(&identity, &service);
    let check = json!({ "typeId": "DOMAIN", "name": fresh("check"), "domains": ["corp"], "roleAttributes": ["strict"] });
    server.admin.post("/posture-checks", check).expect(201);
    let policy = server.service_policy(
        "Dial",
        &[&format!("@{identity}")],
        &[&format!("@{service}")],
    );
    assert!(is_yes(&asked.dial(&name, &service)) && opens(&user, &service));
    server
        .admin
        .patch(
            &format!("/service-policies/{policy}"),
            json!({ "postureCheckRoles": ["#strict"] }),
        )
        .expect(200);
    let asks = asked.dial(&name, &service);
    assert!(!is_yes(&asks) && whats(&asks) == ["posture"], "{asks:#}");
    let text = asked.told(&name, &service, false).unwrap();
    assert!(
        text.contains(": reported: nothing; required: corp\n"),
        "{text}"
    );
    user.post(
        "/posture-response",
        json!({ "id": "any", "typeId": "DOMAIN", "domain": "corp" }),
    )
    .expect(201);
    assert!(is_yes(&asked.dial(&name, &service)) && opens(&user, &service));

    server
        .admin
        .post(
            &format!("/identities/{identity}/disable"),
            json!({ "durationMinutes": 5 }),
        )
        .expect(200);
    assert_eq!(whats(&asked.dial(&name, &service)), ["disabled"]);
    let blank = fresh("blank");
    server.identity(&blank, json!({}));
    assert!(whats(&asked.dial(&blank, &service)).contains(&"noCredential"));
}

#[test]
fn disallowed_credentials_do_not_count() {
    let asked = Asked::start();
    let server = &asked.server;
    let name = fresh("person");
    let (identity, user) = server.user(&name, json!({ "externalId": fresh("external") }));
    let service = server.service(&fresh("service"), json!({}));
    server.router_between(&identity, &service);
    server.service_policy(
        "Dial",
        &[&format!("@{identity}")],
        &[&format!("@{service}")],
    );
    let policy = auth_policy(
        server,
        json!({ "primary": { "updb": { "allowed": false } } }),
    );
    server
        .admin
        .patch(
            &format!("/identities/{identity}"),
            json!({ "authPolicyId": policy }),
        )
        .expect(200);
    let why = asked.dial(&name, &service);
    assert_eq!(
        (&why["authentication"]["state"], is_yes(&why)),
        (&json!("notAllowed"), true),
        "an open session must stay valid: {why:#}"
    );
    let text = asked.told(&name, &service, false).unwrap();
    assert!(
        text.contains(&format!("{name} could not log in again: "))
            && text.contains("does not allow passwords"),
        "{text}"
    );
    user.delete("/current-api-session").expect(200);
    let why = asked.dial(&name, &service);
    assert!(
        !is_yes(&why) && whats(&why) == ["credentialNotAllowed"],
        "{why:#}"
    );
    drop(asked.make(&why["obstacles"][0]["edits"][0]));
    let why = asked.dial(&name, &service);
    assert!(
        is_yes(&why) && opens(&server.log_in_again(&name), &service),
        "{why:#}"
    );
}

/// An identity that may dial a service except for the posture `checks` of the policy: identity,
/// caller, service and policy.
fn all_but_posture(
    server: &TestServer,
    semantic: &str,
    checks: &[String],
) -> (String, Caller, String, String) {
    let (identity, user) = server.user(&fresh("person"), json!({}));
    let service = server.service(&fresh("service"), json!({}));
    server.router_between(&identity, &service);
    let policy = json!({
        "name": fresh("policy"), "type": "Dial", "semantic": semantic, "postureCheckRoles": checks,
        "identityRoles": [format!("@{identity}")], "serviceRoles": [format!("@{service}")]
    });
    (
        identity,
        user,
        service,
        server
            .admin
            .post("/service-policies", policy)
            .expect(201)
            .id(),
    )
}

/// A new check for one domain, as named in policies.
fn check_for(server: &TestServer, name: &str, domain: &str, roles: &[&str]) -> String {
    let body =
        json!({ "typeId": "DOMAIN", "name": name, "domains": [domain], "roleAttributes": roles });
    format!(
        "@{}",
        server.admin.post("/posture-checks", body).expect(201).id()
    )
}

#[test]
fn edits_keep_passing_checks() {
    let asked = Asked::start();
    let server = &asked.server;
    let [corp, more] = [("corp", ["a", "b", "c"].as_slice()), ("more", &["c"])]
        .map(|(name, roles)| check_for(server, name, "corp", roles));
    let [other, lone] = [("other", ["a", "b"].as_slice()), ("lone", &["a"])]
        .map(|(name, roles)| check_for(server, name, "else", roles));
    let [corp, more, other, lone] = [&corp, &more, &other, &lone].map(String::as_str);
    // The roles before, the roles after, and the description.
    let cases: [(_, &[&str], &[&str], _); 8] = [
        ("AnyOf", &[corp, other], &[corp], "other"),
        (
            "AnyOf",
            &["#b"],
            &[corp],
            "other, nor for others by #b, but still for corp",
        ),
        // An entry that another one covers is not named.
        (
            "AnyOf",
            &["#b", "#c"],
            &["#c"],
            "other, nor for others by #b",
        ),
        (
            "AnyOf",
            &["#b", corp],
            &[corp],
            "other, nor for others by #b",
        ),
        ("AnyOf", &["#all"], &[corp, more], ""),
        ("AnyOf", &[other, lone], &[], ""),
        // One of several attributes that are required together would match more.
        (
            "AllOf",
            &["#a", "#b"],
            &[corp],
            "other, nor for others by #a #b, but still for corp",
        ),
        ("AllOf", &["#a", "#c", other], &["#a", "#c"], "other"),
    ];
    for (semantic, before, after, what) in cases {
        let checks: Vec<String> = before.iter().map(|&role| role.to_owned()).collect();
        let (identity, user, service, policy) = all_but_posture(server, semantic, &checks);
        user.post(
            "/posture-response",
            json!({ "id": "any", "typeId": "DOMAIN", "domain": "corp" }),
        )
        .expect(201);
        let why = asked.dial(&identity, &service);
        assert!(
            whats(&why) == ["posture"] && !opens(&user, &service),
            "{semantic} {before:?}: {why:#}"
        );
        let edit = &why["obstacles"][0]["edits"][0];
        let named: BTreeSet<&str> = edit["body"]["postureCheckRoles"]
            .as_array()
            .unwrap()
            .iter()
            .map(|role| role.as_str().unwrap())
            .collect();
        assert_eq!(
            named,
            after.iter().copied().collect(),
            "{semantic} {before:?}: {edit:#}"
        );
        let name = server
            .admin
            .get(&format!("/service-policies/{policy}"))
            .expect(200)
            .data()["name"]
            .clone();
        let text = format!(
            "change the policy {} to no longer require {what}",
            name.as_str().unwrap()
        );
        assert!(
            what.is_empty() || edit["text"] == text,
            "{semantic} {before:?}: {edit:#}"
        );
        drop(asked.make(edit));
        assert!(
            is_yes(&asked.dial(&identity, &service)) && opens(&user, &service),
            "{semantic} {before:?}: {edit:#}"
        );
    }
}

#[test]
fn fewest_failed_checks_come_first() {
    let asked = Asked::start();
    let server = &asked.server;
    let [one, other] = ["one", "other"].map(|name| check_for(server, name, name, &[]));
    for more in [[true, false], [false, true]] {
        let checks = |more: bool| {
            if more {
                vec![one.clone(), other.clone()]
            } else {
                vec![one.clone()]
            }
        };
        let (identity, _, service, first) = all_but_posture(server, "AnyOf", &checks(more[0]));
        let second = server.service_policy(
            "Dial",
            &[&format!("@{identity}")],
            &[&format!("@{service}")],
        );
        server
            .admin
            .patch(
                &format!("/service-policies/{second}"),
                json!({ "postureCheckRoles": checks(more[1]) }),
            )
            .expect(200);
        let why = asked.dial(&identity, &service);
        let least = if more[0] { second } else { first };
        assert_eq!(
            why["obstacles"][0]["edits"][0]["path"],
            format!("/service-policies/{least}"),
            "{why:#}"
        );
    }
}

/// A new auth policy: the default one with this change.
pub fn auth_policy(server: &TestServer, change: Json) -> String {
    let like = server
        .admin
        .get("/auth-policies/default")
        .expect(200)
        .data()
        .clone();
    let body = json!({ "name": fresh("auth"), "primary": like["primary"], "secondary": like["secondary"] });
    let id = server.admin.post("/auth-policies", body).expect(201).id();
    server
        .admin
        .patch(&format!("/auth-policies/{id}"), change)
        .expect(200);
    id
}

/// A new signer with this name.
pub fn external_signer(server: &TestServer, name: &str, more: Json) -> String {
    let mut body = json!({
        "name": name, "enabled": true, "issuer": fresh("issuer"), "audience": "overlay", "jwksEndpoint": "https://idp.test/keys",
        "useExternalId": true
    });
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    server
        .admin
        .post("/external-jwt-signers", body)
        .expect(201)
        .id()
}

#[test]
fn edits_allow_the_fewest_signers() {
    let asked = Asked::start();
    let server = &asked.server;
    let (signer, other) = (
        external_signer(server, "idp", json!({})),
        external_signer(server, "off", json!({ "enabled": false })),
    );
    let identity = server.identity(&fresh("person"), json!({ "externalId": fresh("external") }));
    let service = server.service(&fresh("service"), json!({}));
    let off = json!({ "allowed": false });
    let allows_only =
        |ext_jwt: Json| json!({ "primary": { "cert": off, "updb": off, "extJwt": ext_jwt } });
    let allowing = || {
        let why = asked.dial(&identity, &service);
        let obstacles = obstacles(&why);
        let obstacle = obstacles
            .iter()
            .find(|obstacle| obstacle["what"] == "credentialNotAllowed")
            .unwrap();
        obstacle["edits"].as_array().unwrap().clone()
    };
    let cases = [
        (
            json!({ "allowed": false, "allowedSigners": [signer] }),
            json!({ "allowed": true }),
            "tokens of the signers that it lists",
        ),
        (
            json!({ "allowed": false, "allowedSigners": [] }),
            json!({ "allowed": true }),
            "tokens of every signer",
        ),
        (
            json!({ "allowed": true, "allowedSigners": [other] }),
            json!({ "allowedSigners": [other, signer] }),
            "tokens of idp",
        ),
        (
            json!({ "allowed": false, "allowedSigners": [other] }),
            json!({ "allowed": true, "allowedSigners": [other, signer] }),
            "tokens of idp and of the signers that it lists",
        ),
    ];
    for (ext_jwt, change, words) in cases {
        let policy = auth_policy(server, allows_only(ext_jwt));
        server
            .admin
            .patch(
                &format!("/identities/{identity}"),
                json!({ "authPolicyId": policy }),
            )
            .expect(200);
        let edits = allowing();
        assert_eq!(
            (edits.len(), &edits[0]["body"]),
            (1, &json!({ "primary": { "extJwt": change } })),
            "{edits:#?}"
        );
        assert!(
            edits[0]["text"].as_str().unwrap().ends_with(words),
            "{edits:#?}"
        );
        drop(asked.make(&edits[0]));
        assert_eq!(
            asked.dial(&identity, &service)["authentication"]["state"],
            "ready"
        );
    }
    // With an authority that knows external ids too, either edit is sufficient.
    server.add_ca(&Authority::new("partner"));
    let policy = auth_policy(server, allows_only(off.clone()));
    server
        .admin
        .patch(
            &format!("/identities/{identity}"),
            json!({ "authPolicyId": policy }),
        )
        .expect(200);
    let on = json!({ "allowed": true });
    assert_eq!(
        allowing()
            .iter()
            .map(|edit| edit["body"]["primary"].clone())
            .collect::<Vec<_>>(),
        [json!({ "cert": on }), json!({ "extJwt": on })]
    );
}

/// An identity with this certificate that may dial a service: identity, service, and a caller that
/// presents the certificate.
fn certified(server: &TestServer, chain: &str, key: &Key, more: Json) -> (String, String, Caller) {
    let identity = server.identity(&fresh("person"), more);
    server
        .admin
        .post(
            "/authenticators",
            json!({ "method": "cert", "identityId": identity, "certPem": chain }),
        )
        .expect(201);
    let service = reachable(server, &identity);
    (identity, service, server.with_certificate(chain, key))
}

/// A service that an identity may dial.
fn reachable(server: &TestServer, identity: &str) -> String {
    let service = server.service(&fresh("service"), json!({}));
    server.router_between(identity, &service);
    server.service_policy(
        "Dial",
        &[&format!("@{identity}")],
        &[&format!("@{service}")],
    );
    service
}

/// Asserts that no credential is accepted, for the reasons in these words, and that the certificate
/// is accepted after the first edit of each obstacle.
#[track_caller]
fn stands_until_mended(
    asked: &Asked,
    (identity, service, bearer): &(String, String, Caller),
    words: &[&str],
    bodies: &[Json],
) {
    let why = asked.dial(identity, service);
    let obstacles = obstacles(&why);
    let text = asked.told(identity, service, false).unwrap();
    assert_eq!(
        whats(&why),
        vec!["credentialNotAllowed"; bodies.len()],
        "{why:#}"
    );
    assert!(words.iter().all(|words| text.contains(words)), "{text}");
    bearer
        .ask("POST", "/authenticate?method=cert")
        .send()
        .refused(401, "INVALID_AUTH", "");
    for (obstacle, body) in obstacles.iter().zip(bodies) {
        assert_eq!(&obstacle["edits"][0]["body"], body, "{obstacle:#}");
        drop(asked.make(&obstacle["edits"][0]));
    }
    let why = asked.dial(identity, service);
    assert!(
        is_yes(&why) && opens(&bearer.log_in_by_certificate(), service),
        "{why:#}"
    );
}

#[test]
fn certificates_depend_on_their_authority() {
    let asked = Asked::start();
    let server = &asked.server;
    let authority = Authority::new("partner");
    let ca = server.add_ca(&authority);
    let key = Key::new();
    let known = certified(server, &authority.issue(" ", &key), &key, json!({}));
    assert!(is_yes(&asked.dial(&known.0, &known.1)));
    let shut = || {
        server
            .admin
            .patch(&format!("/cas/{ca}"), json!({ "isAuthEnabled": false }))
            .expect(200)
    };
    shut();
    let opening = json!({ "isAuthEnabled": true });
    stands_until_mended(
        &asked,
        &known,
        &["certificates of the authority", "do not log in"],
        std::slice::from_ref(&opening),
    );

    // If the auth policy is an obstacle too, both must change.
    let key = Key::new();
    let policy = auth_policy(
        server,
        json!({ "primary": { "cert": { "allowed": false } } }),
    );
    let known = certified(
        server,
        &authority.issue(" ", &key),
        &key,
        json!({ "authPolicyId": policy }),
    );
    shut();
    let allowing = json!({ "primary": { "cert": { "allowed": true } } });
    stands_until_mended(
        &asked,
        &known,
        &["does not allow certificates", "do not log in"],
        &[allowing, opening],
    );

    // By the claim in its certificate the holder is another identity.
    let (key, name) = (Key::new(), fresh("claimed"));
    let known = certified(server, &authority.issue(&name, &key), &key, json!({}));
    stands_until_mended(
        &asked,
        &known,
        &[&format!("to the external id {name}")],
        &[json!({ "externalId": name })],
    );
    let taken = certified(
        server,
        &authority.issue(&name, &Key::new()),
        &Key::new(),
        json!({}),
    );
    let why = asked.dial(&taken.0, &taken.1);
    assert_eq!(
        (whats(&why), &why["obstacles"][0]["edits"]),
        (vec!["credentialNotAllowed"], &json!([])),
        "{why:#}"
    );
}

#[test]
fn expired_certificates_follow_the_policy() {
    let asked = Asked::with(Clock::manual(Clock::system().now()));
    // Some time after the clock was moved, the controller renews its own certificate.
    let asked = Asked {
        server: asked.server.unverified(),
        ..asked
    };
    let server = &asked.server;
    let authority = Authority::new("partner");
    server.add_ca(&authority);
    let enrolled = || {
        let (identity, bearer) = server.enrolled("person");
        let service = reachable(server, &identity);
        (identity, service, bearer)
    };
    let ended = || {
        let key = Key::new();
        certified(server, &authority.issue_ended(" ", &key), &key, json!({}))
    };
    let [ours, theirs, both] = [enrolled(), ended(), enrolled()];
    let takes = |(identity, service, _): &(String, String, Caller), cert: Json| {
        let policy = auth_policy(server, json!({ "primary": { "cert": cert } }));
        server
            .admin
            .patch(
                &format!("/identities/{identity}"),
                json!({ "authPolicyId": policy }),
            )
            .expect(200);
        asked.dial(identity, service)
    };
    assert!(is_yes(&takes(&ours, json!({ "allowExpiredCerts": false }))));
    for _ in 0..2 {
        server.clock.advance(Duration::from_secs(200 * 24 * 3600));
        server.admin.get("/cas").expect(200);
        server.run_due_jobs();
    }
    assert!(is_yes(&takes(
        &theirs,
        json!({ "allowExpiredCerts": true })
    )));
    takes(&theirs, json!({ "allowExpiredCerts": false }));
    takes(
        &both,
        json!({ "allowed": false, "allowExpiredCerts": false }),
    );
    let late = json!({ "primary": { "cert": { "allowExpiredCerts": true } } });
    stands_until_mended(
        &asked,
        &ours,
        &["does not allow certificates that have expired, like its own at "],
        std::slice::from_ref(&late),
    );
    stands_until_mended(
        &asked,
        &theirs,
        &["does not allow certificates that have expired, like its own at 2020-01-01"],
        &[late],
    );
    let all = json!({ "primary": { "cert": { "allowed": true, "allowExpiredCerts": true } } });
    stands_until_mended(
        &asked,
        &both,
        &["does not allow certificates that have expired"],
        &[all],
    );
}

#[test]
fn claimed_identities_wait_for_the_authority() {
    let asked = Asked::start();
    let server = &asked.server;
    let (authority, key, name) = (Authority::new("partner"), Key::new(), fresh("claimed"));
    let ca = server.add_ca(&authority);
    let identity = server.identity(&name, json!({ "externalId": name }));
    let known = (
        identity.clone(),
        reachable(server, &identity),
        server.with_certificate(&authority.issue(&name, &key), &key),
    );
    assert!(is_yes(&asked.dial(&known.0, &known.1)));
    server
        .admin
        .patch(&format!("/cas/{ca}"), json!({ "isAuthEnabled": false }))
        .expect(200);
    stands_until_mended(
        &asked,
        &known,
        &["uses its external id"],
        &[json!({ "isAuthEnabled": true })],
    );
}

#[test]
fn first_router_satisfies_all_policies() {
    let asked = Asked::start();
    let server = &asked.server;
    let (every, red) = (json!(["#all"]), json!(["#red"]));
    let policy = |path: &str, member: &str, id: &str, routers: &Json| {
        let body = json!({ "name": fresh("policy"), "semantic": "AllOf", member: [format!("@{id}")], "edgeRouterRoles": routers });
        server.admin.post(path, body).expect(201);
    };
    let cases: [(Option<&Json>, Option<&Json>, &[&str]); 5] = [
        (
            None,
            None,
            &[
                "noEdgeRouter",
                "serviceWithoutRouter",
                "identityWithoutRouter",
            ],
        ),
        (
            Some(&every),
            None,
            &["noEdgeRouter", "serviceWithoutRouter"],
        ),
        (
            None,
            Some(&every),
            &["noEdgeRouter", "identityWithoutRouter"],
        ),
        (Some(&every), Some(&every), &["noEdgeRouter"]),
        (
            Some(&red),
            Some(&red),
            &[
                "noEdgeRouter",
                "serviceWithoutRouter",
                "identityWithoutRouter",
            ],
        ),
    ];
    server
        .admin
        .post("/transit-routers", json!({ "name": "edge-router" }))
        .expect(201);
    for (of_identity, of_service, expected) in cases {
        let (identity, user) = server.user(&fresh("person"), json!({}));
        let service = server.service(&fresh("service"), json!({}));
        server.service_policy(
            "Dial",
            &[&format!("@{identity}")],
            &[&format!("@{service}")],
        );
        of_identity.iter().for_each(|routers| {
            policy("/edge-router-policies", "identityRoles", &identity, routers)
        });
        of_service.iter().for_each(|routers| {
            policy(
                "/service-edge-router-policies",
                "serviceRoles",
                &service,
                routers,
            )
        });
        let before = asked.dial(&identity, &service);
        assert_eq!(whats(&before), expected, "{before:#}");
        obstacles(&before)
            .into_iter()
            .for_each(|obstacle| drop(asked.make(&obstacle["edits"][0])));
        let after = asked.dial(&identity, &service);
        assert!(
            is_yes(&after) && opens(&user, &service),
            "{before:#} became {after:#}"
        );
        let router = server.admin.get("/edge-routers").expect(200).each("id")[0].to_owned();
        server
            .admin
            .delete(&format!("/edge-routers/{router}"))
            .expect(200);
    }
}

#[test]
fn disabled_router_is_said_disabled() {
    let asked = Asked::start();
    let server = &asked.server;
    let (identity, user, service, _) = all_but_posture(server, "AnyOf", &[]);
    let router = asked.dial(&identity, &service)["routers"][0].clone();
    assert_eq!(router["isDisabled"], false);
    server
        .admin
        .patch(
            &format!("/edge-routers/{}", router["id"].as_str().unwrap()),
            json!({ "disabled": true }),
        )
        .expect(200);
    let why = asked.dial(&identity, &service);
    assert_eq!(
        (
            is_yes(&why),
            opens(&user, &service),
            &why["routers"][0]["isDisabled"]
        ),
        (true, true, &json!(true))
    );
    assert!(
        asked
            .told(&identity, &service, false)
            .unwrap()
            .contains("(not connected, disabled)")
    );
    let obstacles = why["obstacles"].as_array().unwrap();
    let edit = &obstacles
        .iter()
        .find(|obstacle| obstacle["what"] == "routerNotConnected")
        .unwrap()["edits"][0];
    drop(asked.make(edit));
    assert_eq!(
        asked.dial(&identity, &service)["routers"][0]["isDisabled"],
        false,
        "{edit:#}"
    );
}

#[test]
fn checks_show_actual_and_expected() {
    let asked = Asked::start();
    let server = &asked.server;
    let signer = "ab".repeat(20);
    let cases = [
        (
            json!({ "typeId": "OS", "operatingSystems": [{ "type": "macOS", "versions": [] }, { "type": "Windows", "versions": [">=10.0.0"] }] }),
            "reported: Linux 6.1.0; required: Windows (>=10.0.0) or macOS",
        ),
        (
            json!({ "typeId": "DOMAIN", "domains": ["corp", "lab"] }),
            "reported: ho\\nme; required: corp or lab",
        ),
        (
            json!({ "typeId": "MAC", "macAddresses": ["00:1B:44:11:3A:B7"] }),
            "reported: aabb; required: 001b44113ab7",
        ),
        (
            json!({ "typeId": "PROCESS", "process": { "osType": "Linux", "path": "/bin/guard", "hashes": [], "signerFingerprint": signer } }),
            "reported: /bin/guard not running; required: /bin/guard running, signed with abab",
        ),
        (
            json!({ "typeId": "PROCESS_MULTI", "semantic": "AllOf", "processes": [
                { "osType": "Linux", "path": "/bin/a", "hashes": [], "signerFingerprints": [] },
                { "osType": "Linux", "path": "/bin/b", "hashes": [], "signerFingerprints": [] }
            ] }),
            "reported: nothing; required: /bin/a running and /bin/b running",
        ),
        (
            json!({ "typeId": "MFA", "promptOnWake": true }),
            "reported: no one-time code; required: a one-time code, again after waking up",
        ),
    ];
    let checks = cases.iter().map(|(demand, _)| {
        let mut body = demand.clone();
        body["name"] = fresh("check").into();
        format!(
            "@{}",
            server.admin.post("/posture-checks", body).expect(201).id()
        )
    });
    let checks: Vec<String> = checks.collect();
    let (identity, user, service, _) = all_but_posture(server, "AnyOf", &checks);
    let answers = json!([
        { "typeId": "OS", "id": "any", "type": "Linux", "version": "6.1.0", "build": "" },
        { "typeId": "DOMAIN", "id": "any", "domain": "ho\nme" },
        { "typeId": "MAC", "id": "any", "macAddresses": ["AA:BB"] }
    ]);
    user.post("/posture-response-bulk", answers).expect(200);
    let text = asked.told(&identity, &service, false).unwrap();
    for (_, words) in cases {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn missing_second_factor_is_told() {
    let asked = Asked::start();
    let server = &asked.server;
    let (by_external_id, disabled) = (
        external_signer(server, "idp", json!({})),
        external_signer(
            server,
            "off",
            json!({ "enabled": false, "useExternalId": false }),
        ),
    );
    let name = fresh("person");
    let identity = server.identity(&name, json!({}));
    server.give_password(&identity, &name);
    let service = server.service(&fresh("service"), json!({}));
    server.router_between(&identity, &service);
    server.service_policy(
        "Dial",
        &[&format!("@{identity}")],
        &[&format!("@{service}")],
    );
    let asks = |secondary: Json| {
        let policy = auth_policy(server, json!({ "secondary": secondary }));
        server
            .admin
            .patch(
                &format!("/identities/{identity}"),
                json!({ "authPolicyId": policy }),
            )
            .expect(200);
    };
    let told = |factors: &[(&str, bool)], words: &str| {
        let why = asked.dial(&name, &service);
        let authentication = &why["authentication"];
        assert_eq!(&authentication["state"], "ready");
        let seen = authentication["secondFactors"].as_array().unwrap().iter();
        let seen: Vec<_> = seen
            .map(|one| {
                (
                    one["factor"].as_str().unwrap(),
                    one["isReady"].as_bool().unwrap(),
                )
            })
            .collect();
        assert_eq!(seen, factors, "{why:#}");
        let obstacles = obstacles(&why);
        let missing = factors.iter().filter(|(_, is_ready)| !is_ready).count();
        assert_eq!(
            (whats(&why), is_yes(&why)),
            (vec!["secondFactor"; missing], missing == 0),
            "{why:#}"
        );
        for edit in obstacles
            .iter()
            .flat_map(|obstacle| obstacle["edits"].as_array().unwrap())
        {
            let undo = asked.make(edit);
            assert_eq!(
                whats(&asked.dial(&name, &service)).len(),
                missing - 1,
                "{edit:#}"
            );
            undo();
        }
        let text = asked.told(&name, &service, false).unwrap();
        assert_eq!(text.matches(words).count(), 1, "{text}");
        obstacles
            .iter()
            .map(|obstacle| obstacle["edits"].as_array().unwrap().len())
            .sum::<usize>()
    };
    told(&[], "may, but cannot now");
    asks(json!({ "requireTotp": true }));
    assert_eq!(
        told(
            &[("totp", false)],
            &format!("requires one-time codes, but {name} has not set them up; it can do so")
        ),
        1
    );
    let user = server.log_in_again(&name);
    user.post("/current-identity/mfa", Json::Null).expect(201);
    // The second factor is set up only after its first code.
    told(&[("totp", false)], "has not set them up");
    verify(&user);
    told(
        &[("totp", true)],
        &format!("{name} also needs a one-time code to log in"),
    );

    asks(json!({ "requireExtJwtSigner": by_external_id }));
    assert_eq!(
        told(
            &[("totp", true), ("extJwt", false)],
            &format!("idp identifies by external ids, and {name} has none")
        ),
        1
    );
    asks(json!({ "requireExtJwtSigner": disabled }));
    assert_eq!(
        told(
            &[("totp", true), ("extJwt", false)],
            "requires a token of off with every request, but off is disabled"
        ),
        2
    );
    // Enabling it would not be sufficient.
    server
        .admin
        .patch(
            &format!("/external-jwt-signers/{disabled}"),
            json!({ "useExternalId": true }),
        )
        .expect(200);
    assert_eq!(
        told(&[("totp", true), ("extJwt", false)], "but off is disabled"),
        1
    );
    server
        .admin
        .patch(
            &format!("/external-jwt-signers/{disabled}"),
            json!({ "enabled": true, "useExternalId": false }),
        )
        .expect(200);
    told(
        &[("totp", true), ("extJwt", true)],
        "requires a token of off with every request\n",
    );
}

/// Verifies a newly enrolled second factor and returns the recovery codes.
pub fn verify(user: &Caller) -> Vec<String> {
    let shown = user.get("/current-identity/mfa").expect(200);
    let url = shown.data()["provisioningUrl"].as_str().unwrap();
    let secret = Secret::try_from_base32(url.split("secret=").nth(1).unwrap()).unwrap();
    let code = Builder::new()
        .with_secret(secret)
        .build()
        .unwrap()
        .generate_current();
    user.post(
        "/current-identity/mfa/verify",
        json!({ "code": code.to_string() }),
    )
    .expect(200);
    shown.data()["recoveryCodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|code| code.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn removed_codes_are_not_asked() {
    let asked = Asked::start();
    let server = &asked.server;
    let (identity, user, service, _) = all_but_posture(server, "AnyOf", &[]);
    user.post("/current-identity/mfa", Json::Null).expect(201);
    verify(&user);
    let policy = auth_policy(server, json!({ "secondary": { "requireTotp": true } }));
    server
        .admin
        .patch(
            &format!("/identities/{identity}"),
            json!({ "authPolicyId": policy }),
        )
        .expect(200);
    server
        .admin
        .delete(&format!("/identities/{identity}/mfa"))
        .expect(200);
    let why = asked.dial(&identity, &service);
    assert!(is_yes(&why) && opens(&user, &service), "{why:#}");
    assert!(
        asked
            .told(&identity, &service, false)
            .unwrap()
            .contains("has not set them up")
    );
    user.delete("/current-api-session").expect(200);
    assert_eq!(whats(&asked.dial(&identity, &service)), ["secondFactor"]);
}

#[test]
fn sessions_count_after_their_code() {
    let asked = Asked::start();
    let server = &asked.server;
    let body = json!({ "typeId": "MFA", "name": fresh("check"), "timeoutSeconds": 600 });
    let check = server.admin.post("/posture-checks", body).expect(201).id();
    let (identity, first, service, _) = all_but_posture(server, "AnyOf", &[format!("@{check}")]);
    let name = server
        .admin
        .get(&format!("/identities/{identity}"))
        .expect(200)
        .data()["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let why = asked.dial(&name, &service);
    assert!(
        whats(&why) == ["posture"] && !opens(&first, &service),
        "without a second factor the posture check must fail: {why:#}"
    );
    let text = asked.told(&name, &service, false).unwrap();
    assert!(
        text.contains(
            "reported: no one-time code; required: a one-time code of the last 600 seconds\n"
        ),
        "{text}"
    );
    first.post("/current-identity/mfa", Json::Null).expect(201);
    let codes = verify(&first);
    assert!(is_yes(&asked.dial(&name, &service)) && opens(&first, &service));
    first.delete("/current-api-session").expect(200);
    assert!(
        is_yes(&asked.dial(&name, &service)),
        "a new login includes a code"
    );
    let second = server.log_in_again(&name);
    assert!(
        is_yes(&asked.dial(&name, &service)) && !opens(&second, &service),
        "no session is complete"
    );
    // An incomplete session does not replace a login.
    let policy = auth_policy(
        server,
        json!({ "primary": { "updb": { "allowed": false } } }),
    );
    server
        .admin
        .patch(
            &format!("/identities/{identity}"),
            json!({ "authPolicyId": policy }),
        )
        .expect(200);
    assert_eq!(
        whats(&asked.dial(&name, &service)),
        ["credentialNotAllowed"]
    );
    server
        .admin
        .patch(
            &format!("/identities/{identity}"),
            json!({ "authPolicyId": "default" }),
        )
        .expect(200);
    second
        .post("/authenticate/mfa", json!({ "code": codes[0] }))
        .expect(200);
    let third = server.log_in_again(&name);
    assert!(
        is_yes(&asked.dial(&name, &service)),
        "another incomplete session must not change the verdict"
    );
    assert!(opens(&second, &service) && !opens(&third, &service));
}

#[test]
fn open_sessions_are_answered_again() {
    let asked = Asked::start();
    let server = &asked.server;
    let name = fresh("person");
    let (identity, user) = server.user(&name, json!({}));
    let service = server.service(&fresh("service"), json!({}));
    let router = server.router_between(&identity, &service);
    server.service_policy(
        "Dial",
        &[&format!("@{identity}")],
        &[&format!("@{service}")],
    );
    assert!(is_yes(&asked.dial(&name, &service)) && opens(&user, &service));
    server
        .admin
        .delete(&format!("/edge-routers/{router}"))
        .expect(200);
    assert!(
        !is_yes(&asked.dial(&name, &service))
            && opens(&user, &service)
            && !opens(&server.log_in_again(&name), &service)
    );
    let schemas = server
        .anonymous()
        .at(Base::Overkeep)
        .get("/openapi.json")
        .expect(200)
        .json["components"]["schemas"]
        .clone();
    let said = schemas["Explanation"]["properties"]["allowed"]["description"]
        .as_str()
        .unwrap();
    assert!(said.contains("An open session is returned"), "{said}");
}

#[test]
fn tunneler_waits_for_its_router() {
    let asked = Asked::start();
    let server = &asked.server;
    let name = fresh("router");
    let id = server
        .admin
        .post(
            "/edge-routers",
            json!({ "name": name, "isTunnelerEnabled": true }),
        )
        .expect(201)
        .id();
    let service = server.service(&fresh("service"), json!({}));
    let router = || {
        server
            .admin
            .get(&format!("/edge-routers/{id}"))
            .expect(200)
            .data()
            .clone()
    };
    let stands = |state: &str, words: &str| {
        let why = asked.dial(&id, &service);
        assert_eq!(why["authentication"]["state"], state, "{why:#}");
        let obstacles = obstacles(&why);
        let obstacle = obstacles
            .iter()
            .find(|obstacle| obstacle["what"] == "noCredential")
            .unwrap();
        assert!(
            obstacle["text"].as_str().unwrap().starts_with(words) && obstacle["edits"] == json!([]),
            "{obstacle:#}"
        );
        why["authentication"]["until"].clone()
    };
    let until = stands(
        "neverEnrolled",
        &format!("the edge router {name} has not enrolled yet; its token is valid until"),
    );
    assert_eq!(until, router()["enrollmentExpiresAt"]);
    let (key, token) = (
        Key::new(),
        router()["enrollmentToken"].as_str().unwrap().to_owned(),
    );
    let requests = json!({ "certCsr": key.request_as(&id), "serverCertCsr": key.request() });
    server
        .anonymous()
        .post(&format!("/enroll?method=erott&token={token}"), requests)
        .expect(200);
    stands(
        "noCredential",
        &format!("{name} has no credential, because it is the tunneler of the edge router {name}"),
    );
}

#[test]
fn missing_question_parts_are_named() {
    let asked = Asked::start();
    let (person, service) = (fresh("person"), fresh("service"));
    asked.server.identity(&person, json!({}));
    asked.server.service(&service, json!({}));
    asked
        .ask("Dial", "", &service)
        .refused(400, "COULD_NOT_VALIDATE", "identity");
    asked
        .ask("Dial", &person, "")
        .refused(400, "COULD_NOT_VALIDATE", "service");
    assert_eq!(
        asked.told(&person, "", false).unwrap_err(),
        "service: must not be empty"
    );
}

#[test]
fn command_and_rest_agree() {
    let asked = Asked::start();
    let name = fresh("person");
    asked.server.user(&name, json!({}));
    let service = asked.server.service(&fresh("service"), json!({}));
    let why = asked.dial(&name, &service);
    assert_eq!(
        serde_json::from_str::<Json>(&asked.told(&name, &service, true).unwrap()).unwrap(),
        why
    );
    assert!(
        asked
            .told(&name, &service, false)
            .unwrap()
            .starts_with(&format!("no: {name} may not dial"))
    );
    assert!(
        asked
            .told("nobody", &service, false)
            .unwrap_err()
            .contains("nobody")
    );
    asked
        .ask("Dial", "nobody", &service)
        .refused(404, "NOT_FOUND", "");
    asked
        .ask("Invalid", &name, &service)
        .refused(400, "COULD_NOT_VALIDATE", "type");
    asked
        .server
        .admin
        .at(Base::Overkeep)
        .get("/explain?identity=x&type=Dial")
        .refused(400, "COULD_NOT_VALIDATE", "service");
    // The answer without a running controller is the same, except for what only the controller
    // knows.
    let running = asked.told(&name, &service, false).unwrap();
    let Asked {
        server,
        data,
        _directory,
    } = asked;
    drop(server);
    let command = Command::Explain {
        right: Right::Dial,
        identity: name,
        service,
        json: false,
    };
    let host = controller::host(
        &Config {
            data,
            ..Config::default()
        },
        &command,
    )
    .unwrap();
    let Outcome::Problems(lines) = host.act(command, &Arc::new(Progress::default())).unwrap()
    else {
        panic!()
    };
    let (note, rest) = lines.split_last().unwrap();
    assert!(
        note.starts_with("note: no controller runs") && rest.join("\n") == running,
        "{lines:?}"
    );
}
