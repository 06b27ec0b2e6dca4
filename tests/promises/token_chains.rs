//! Which scopes of API tokens lead to an administrator's session. Every scope is attacked in every
//! known way, by an ordinary member of the network who holds a token with it; the documented list
//! is what comes of that.

use std::collections::BTreeSet;

use overkeep::testing::{
    clock::Clock,
    entity::ESCALATIONS,
    http::{Permission, Row},
};
use serde_json::{Value as Json, json};

use crate::{
    control::mock::{Enrolled, run},
    explain::auth_policy,
    harness::{Authority, Base, Caller, Key, PASSWORD, TestServer, fresh, interface},
    second_factors::{Signer, signer},
};

/// What exists in the network besides the token: a verified authority whose common names are free
/// to choose and which logs nobody in, and two signers, of which the members' one is admitted by
/// the default policy.
struct World {
    server: TestServer,
    devices: Authority,
    devices_id: String,
    members: Idp,
    partners: Idp,
    mallory: String,
    /// A router that no identity may use, and whose keys mallory holds.
    router: Enrolled,
    /// A policy without routers and identities.
    empty_policy: String,
}

/// A signer of a network, with its key.
struct Idp {
    id: String,
    issuer: String,
    key: Signer,
}

fn idp(server: &TestServer, more: Json) -> Idp {
    let (key, issuer) = (signer(), format!("https://{}.test", fresh("idp")));
    let mut body = json!({
        "name": fresh("idp"), "enabled": true, "issuer": issuer, "audience": "overlay", "certPem": key.certificate.certificate().pem(),
        "useExternalId": true
    });
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let id = server
        .admin
        .post("/external-jwt-signers", body)
        .expect(201)
        .id();
    Idp { id, issuer, key }
}

/// Logs in with a token that a key signs.
fn by_token(server: &TestServer, key: &Signer, issuer: &str, subject: &str) -> Option<Caller> {
    let token = key.token(
        &json!({ "iss": issuer, "aud": "overlay", "sub": subject, "exp": 4_102_444_800_u64 }),
    );
    let caller = server.anonymous();
    let asked = caller
        .ask("POST", "/authenticate?method=ext-jwt")
        .header("authorization", &format!("Bearer {token}"));
    session(server, &asked.send())
}

fn session(server: &TestServer, answer: &crate::harness::Answer) -> Option<Caller> {
    (answer.status == 200).then(|| {
        server
            .anonymous()
            .with_token(answer.data()["token"].as_str().unwrap())
    })
}

fn by_password(server: &TestServer, name: &str, password: &str) -> Option<Caller> {
    session(
        server,
        &server.anonymous().post(
            "/authenticate?method=password",
            json!({ "username": name, "password": password }),
        ),
    )
}

/// Logs in with a certificate of an authority.
fn by_certificate(server: &TestServer, authority: &Authority, common_name: &str) -> Option<Caller> {
    let key = Key::new();
    let caller = server.with_certificate(&authority.issue(common_name, &key), &key);
    session(
        server,
        &caller.ask("POST", "/authenticate?method=cert").send(),
    )
}

/// Redeems an enrollment token for a certificate and logs in with it.
fn by_enrollment(server: &TestServer, token: &str) -> Option<Caller> {
    let key = Key::new();
    let path = format!("/enroll?method=ott&token={token}");
    let issued = server
        .anonymous()
        .ask("POST", &path)
        .body("application/pkcs10", key.request())
        .send();
    let caller = (issued.status == 200)
        .then(|| server.with_certificate(issued.data()["cert"].as_str().unwrap(), &key))?;
    session(
        server,
        &caller.ask("POST", "/authenticate?method=cert").send(),
    )
}

/// Every text of an answer that has the form of an enrollment token.
fn tokens_in(answer: &crate::harness::Answer) -> Vec<String> {
    let is_token =
        |text: &&str| text.len() == 36 && text.bytes().filter(|byte| *byte == b'-').count() == 4;
    if answer.status == 200 {
        answer
            .text
            .split('"')
            .filter(is_token)
            .map(str::to_owned)
            .collect()
    } else {
        Vec::new()
    }
}

impl World {
    fn new() -> Self {
        let server = TestServer::with(Clock::system(), |config| config.passwords.slots = 2);
        let devices = Authority::new("devices");
        let devices_id = server.add_ca(&devices);
        server
            .admin
            .patch(
                &format!("/cas/{devices_id}"),
                json!({ "isAuthEnabled": false }),
            )
            .expect(200);
        let (members, partners) = (
            idp(&server, json!({})),
            idp(&server, json!({ "useExternalId": false })),
        );
        server
            .admin
            .patch(
                "/auth-policies/default",
                json!({ "primary": { "extJwt": { "allowedSigners": [members.id] } } }),
            )
            .expect(200);
        let (mallory, _) = server.user("mallory", json!({ "externalId": "mallory" }));
        let trusted = json!({ "name": fresh("trusted"), "semantic": "AnyOf", "identityRoles": ["#all"], "edgeRouterRoles": ["#trusted"] });
        server
            .admin
            .post("/edge-router-policies", trusted)
            .expect(201);
        let empty = json!({ "name": fresh("empty"), "semantic": "AnyOf", "identityRoles": [], "edgeRouterRoles": [] });
        let empty_policy = server
            .admin
            .post("/edge-router-policies", empty)
            .expect(201)
            .id();
        let router = Enrolled::new(&server);
        Self {
            server,
            devices,
            devices_id,
            members,
            partners,
            mallory,
            router,
            empty_policy,
        }
    }

    /// A token of the administrator with a scope.
    fn token(&self, scope: &Json) -> (Json, Caller) {
        let mut body = json!({ "name": fresh("token") });
        body.as_object_mut()
            .unwrap()
            .extend(scope.as_object().unwrap().clone());
        let made = self
            .server
            .admin
            .at(Base::Overkeep)
            .post("/api-tokens", body)
            .expect(201);
        let token = made.data()["token"].as_str().unwrap();
        (
            made.data().clone(),
            self.server
                .anonymous()
                .at(Base::Management)
                .with_token(token),
        )
    }

    /// An administrator with an external id, and a credential if one is asked for.
    fn victim(&self, more: Json) -> (String, String) {
        let name = fresh("victim");
        let mut body = json!({ "isAdmin": true, "externalId": name });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        (self.server.identity(&name, body), name)
    }

    /// An administrator with a password, and the id of the password.
    fn with_password(&self) -> (String, String, String) {
        let (id, name) = self.victim(json!({}));
        self.server.give_password(&id, &name);
        let of = self
            .server
            .admin
            .get(&format!("/identities/{id}/authenticators"))
            .expect(200)
            .each("id")[0]
            .to_owned();
        (id, name, of)
    }

    /// Every enrollment token that a caller can read.
    fn readable_tokens(&self, token: &Caller, identity: &str) -> Vec<String> {
        let paths = [
            "/enrollments?limit=500".into(),
            format!("/identities/{identity}"),
            format!("/identities/{identity}/enrollments"),
        ];
        paths
            .iter()
            .flat_map(|path| tokens_in(&token.get(path)))
            .collect()
    }

    /// The first administrator's session that the enrollment tokens lead to.
    fn enrolled(&self, token: &Caller, identity: &str) -> Option<Caller> {
        self.readable_tokens(token, identity)
            .iter()
            .find_map(|found| by_enrollment(&self.server, found))
    }
}

/// A way to an administrator's session. What a token may not do is refused, and the way goes on.
type Attack = fn(&World, &Caller) -> Option<Caller>;

const ATTACKS: [(&str, Attack); 24] = [
    ("a new administrator enrolls", |world, token| {
        let made =
            token.post("/identities", json!({ "name": fresh("x"), "type": "Device", "isAdmin": true, "enrollment": { "ott": true } }));
        (made.status == 201).then(|| world.enrolled(token, &made.id()))?
    }),
    ("a new administrator has an external id", |world, token| {
        let name = fresh("x");
        token.post(
            "/identities",
            json!({ "name": name, "type": "Device", "isAdmin": true, "externalId": name }),
        );
        by_token(
            &world.server,
            &world.members.key,
            &world.members.issuer,
            &name,
        )
    }),
    ("a member becomes an administrator", |world, token| {
        token.patch(
            &format!("/identities/{}", world.mallory),
            json!({ "isAdmin": true }),
        );
        let won = by_password(&world.server, "mallory", PASSWORD)?;
        let admin = won.at(Base::Management).get("/api-sessions?limit=1").status == 200;
        world
            .server
            .admin
            .patch(
                &format!("/identities/{}", world.mallory),
                json!({ "isAdmin": false }),
            )
            .expect(200);
        admin.then(|| world.server.admin.clone())
    }),
    ("an administrator gets a password", |world, token| {
        let (id, name) = world.victim(json!({}));
        token.post(
            "/authenticators",
            json!({ "identityId": id, "method": "updb", "username": name, "password": PASSWORD }),
        );
        by_password(&world.server, &name, PASSWORD)
    }),
    ("a password is replaced", |world, token| {
        let (_, name, of) = world.with_password();
        token.put(
            &format!("/authenticators/{of}"),
            json!({ "username": name, "password": "another-password" }),
        );
        by_password(&world.server, &name, "another-password")
    }),
    ("a password is changed", |world, token| {
        let (_, name, of) = world.with_password();
        token.patch(
            &format!("/authenticators/{of}"),
            json!({ "password": "another-password" }),
        );
        by_password(&world.server, &name, "another-password")
    }),
    ("the own password is changed", |world, token| {
        let of = token.get("/current-identity/authenticators");
        let of = if of.status == 200 {
            of.each("id")[0].to_owned()
        } else {
            "none".into()
        };
        token.patch(
            &format!("/current-identity/authenticators/{of}"),
            json!({ "currentPassword": "x", "password": "another-password" }),
        );
        by_password(&world.server, "admin", "another-password")
    }),
    ("an enrollment is created", |world, token| {
        let (id, _) = world.victim(json!({}));
        token.post(
            "/enrollments",
            json!({ "identityId": id, "method": "ott", "expiresAt": "2099-01-01T00:00:00Z" }),
        );
        world.enrolled(token, &id)
    }),
    ("an outstanding enrollment is read", |world, token| {
        let (id, _) = world.victim(json!({ "enrollment": { "ott": true } }));
        world.enrolled(token, &id)
    }),
    ("an enrollment is refreshed", |world, token| {
        let (id, _) = world.victim(json!({ "enrollment": { "ott": true } }));
        let of = world
            .server
            .admin
            .get(&format!("/identities/{id}/enrollments"))
            .expect(200)
            .each("id")[0]
            .to_owned();
        let answer = token.post(
            &format!("/enrollments/{of}/refresh"),
            json!({ "expiresAt": "2099-01-01T00:00:00Z" }),
        );
        tokens_in(&answer)
            .iter()
            .find_map(|found| by_enrollment(&world.server, found))
            .or_else(|| world.enrolled(token, &id))
    }),
    ("a credential is enrolled again", |world, token| {
        let (id, _, of) = world.with_password();
        let answer = token.post(
            &format!("/authenticators/{of}/re-enroll"),
            json!({ "expiresAt": "2099-01-01T00:00:00Z" }),
        );
        tokens_in(&answer)
            .iter()
            .find_map(|found| by_enrollment(&world.server, found))
            .or_else(|| world.enrolled(token, &id))
    }),
    ("a signer is created", |world, token| {
        let (key, issuer) = (signer(), format!("https://{}.test", fresh("new")));
        let pem = key.certificate.certificate().pem();
        let body = json!({ "name": fresh("new"), "enabled": true, "issuer": issuer, "audience": "overlay", "certPem": pem });
        token.post("/external-jwt-signers", body);
        let (victim, _) = world
            .victim(json!({ "authPolicyId": auth_policy(&world.server, json!({ "primary": { "extJwt": { "allowedSigners": [] } } })) }));
        by_token(&world.server, &key, &issuer, &victim)
    }),
    ("a signer gets another key", |world, token| {
        let (hr, key) = (idp(&world.server, json!({})), signer());
        let (_, name) = world.victim(
            json!({ "authPolicyId": auth_policy(&world.server, json!({ "primary": { "extJwt": { "allowedSigners": [hr.id] } } })) }),
        );
        token.patch(
            &format!("/external-jwt-signers/{}", hr.id),
            json!({ "certPem": key.certificate.certificate().pem() }),
        );
        by_token(&world.server, &key, &hr.issuer, &name)
    }),
    ("a policy admits another signer", |world, token| {
        let only = auth_policy(
            &world.server,
            json!({ "primary": { "extJwt": { "allowedSigners": [world.members.id] } } }),
        );
        let (victim, _) = world.victim(json!({ "authPolicyId": only }));
        token.patch(
            &format!("/auth-policies/{only}"),
            json!({ "primary": { "extJwt": { "allowedSigners": [] } } }),
        );
        by_token(
            &world.server,
            &world.partners.key,
            &world.partners.issuer,
            &victim,
        )
    }),
    ("an authority is created and verified", |world, token| {
        let (_, name) = world.victim(json!({}));
        let authority = Authority::new(&fresh("rogue"));
        let made = token.post("/cas", ca(&authority));
        let id = (made.status == 201).then(|| made.id())?;
        let shown = token.get(&format!("/cas/{id}"));
        let proof = (shown.status == 200).then(|| {
            authority.issue(
                shown.data()["verificationToken"].as_str().unwrap(),
                &Key::new(),
            )
        })?;
        token
            .ask("POST", &format!("/cas/{id}/verify"))
            .body("text/plain", proof)
            .send();
        by_certificate(&world.server, &authority, &name)
    }),
    ("an authority logs in by a claim", |world, token| {
        let (_, name) = world.victim(json!({}));
        let claim = ca(&world.devices)["externalIdClaim"].clone();
        token.patch(
            &format!("/cas/{}", world.devices_id),
            json!({ "isAuthEnabled": true, "externalIdClaim": claim }),
        );
        let won = by_certificate(&world.server, &world.devices, &name);
        world
            .server
            .admin
            .patch(
                &format!("/cas/{}", world.devices_id),
                json!({ "isAuthEnabled": false }),
            )
            .expect(200);
        won
    }),
    ("the network is replaced", |world, token| {
        let name = fresh("x");
        let network = json!({ "identities": [{ "name": name, "type": "Default", "isAdmin": true, "externalId": name }] });
        token.at(Base::Overkeep).put("/network", network);
        by_token(
            &world.server,
            &world.members.key,
            &world.members.issuer,
            &name,
        )
    }),
    ("a router is told sessions", |world, token| {
        let made = token.post(
            "/edge-routers",
            json!({ "name": fresh("rogue"), "roleAttributes": ["trusted"] }),
        );
        enrolled_and_told(world, (made.status == 201).then(|| made.id())?, token)
    }),
    ("a router is enrolled again", |world, token| {
        let id = world
            .server
            .admin
            .post(
                "/edge-routers",
                json!({ "name": fresh("router"), "roleAttributes": ["trusted"] }),
            )
            .expect(201)
            .id();
        token
            .ask("POST", &format!("/edge-routers/{id}/re-enroll"))
            .send();
        enrolled_and_told(world, id, token)
    }),
    ("a router gets roles", |world, token| {
        token.patch(
            &format!("/edge-routers/{}", world.router.id),
            json!({ "roleAttributes": ["trusted"] }),
        );
        let won = told(world, &world.router);
        world
            .server
            .admin
            .patch(
                &format!("/edge-routers/{}", world.router.id),
                json!({ "roleAttributes": [] }),
            )
            .expect(200);
        won
    }),
    ("a policy opens a router", |world, token| {
        let body = json!({ "name": fresh("x"), "semantic": "AnyOf", "identityRoles": ["#all"], "edgeRouterRoles": [format!("@{}", world.router.id)] });
        let made = token.post("/edge-router-policies", body);
        let won = told(world, &world.router);
        if made.status == 201 {
            world
                .server
                .admin
                .delete(&format!("/edge-router-policies/{}", made.id()))
                .expect(200);
        }
        won
    }),
    ("a policy opens a router later", |world, token| {
        let path = format!("/edge-router-policies/{}", world.empty_policy);
        token.patch(&path, json!({ "identityRoles": ["#all"], "edgeRouterRoles": [format!("@{}", world.router.id)] }));
        let won = told(world, &world.router);
        world
            .server
            .admin
            .patch(&path, json!({ "identityRoles": [], "edgeRouterRoles": [] }))
            .expect(200);
        won
    }),
    ("another token is created", |world, token| {
        let made = token
            .at(Base::Overkeep)
            .post("/api-tokens", json!({ "name": fresh("more") }));
        (made.status == 201).then(|| {
            world
                .server
                .anonymous()
                .with_token(made.data()["token"].as_str().unwrap())
        })
    }),
    ("a session is read", |world, token| {
        tokens_in(&token.get("/api-sessions?limit=500"))
            .iter()
            .map(|found| world.server.anonymous().with_token(found.as_str()))
            .find(is_won)
    }),
];

/// The record of an authority whose common names are external ids.
fn ca(authority: &Authority) -> Json {
    json!({
        "name": fresh("authority"), "certPem": authority.pem(), "isAuthEnabled": true, "isAutoCaEnrollmentEnabled": false,
        "isOttCaEnrollmentEnabled": false, "identityRoles": [],
        "externalIdClaim": {
            "location": "COMMON_NAME", "matcher": "ALL", "matcherCriteria": "", "parser": "NONE", "parserCriteria": "", "index": 0
        }
    })
}

/// Enrolls a router with the token that the caller can read, and looks for an administrator's
/// session among those that it is told.
fn enrolled_and_told(world: &World, id: String, token: &Caller) -> Option<Caller> {
    let shown = token.get(&format!("/edge-routers/{id}"));
    let is_shown = shown.status == 200
        && shown.data()["enrollmentToken"]
            .as_str()
            .is_some_and(|token| !token.is_empty());
    let router = is_shown.then(|| {
        Enrolled::redeem(
            &world.server,
            id,
            "erott",
            shown.data()["enrollmentToken"].as_str().unwrap(),
        )
    })?;
    told(world, &router)
}

/// Looks for the session of an administrator, who has logged in with a certificate, among those
/// that a router is told.
fn told(world: &World, router: &Enrolled) -> Option<Caller> {
    let (identity, _) = world.victim(json!({ "enrollment": { "ott": true } }));
    drop(by_enrollment(&world.server, &world.server.token_of(&identity)).unwrap());
    let sessions = run(async { router.connect(&world.server).await.introduce().await });
    sessions
        .iter()
        .map(|session| world.server.anonymous().with_token(session.token.as_str()))
        .find(is_won)
}

/// Whether a caller is an administrator without limits.
fn is_won(caller: &Caller) -> bool {
    caller
        .at(Base::Management)
        .get("/api-sessions?limit=1")
        .status
        == 200
}

/// The attacks among these that succeed with a scope.
///
/// A token may do all that another one with a smaller scope may do. So an attack that fails with a
/// scope fails with every part of it, and is not tried there.
fn won<'a>(
    world: &World,
    scope: &Json,
    attacks: &[&'a (&'a str, Attack)],
) -> Vec<&'a (&'a str, Attack)> {
    let (_, token) = world.token(scope);
    attacks
        .iter()
        .copied()
        .filter(|(_, attack)| attack(world, &token).is_some_and(|caller| is_won(&caller)))
        .collect()
}

fn names<'a>(attacks: &[&'a (&'a str, Attack)]) -> Vec<&'a str> {
    attacks.iter().map(|(name, _)| *name).collect()
}

fn assert_leads_nowhere(world: &World, scope: &Json, attacks: &[&(&str, Attack)]) {
    assert_eq!(
        names(&won(world, scope, attacks)),
        Vec::<&str>::new(),
        "{scope}"
    );
}

/// The kinds and actions that scopes can have.
fn words() -> (BTreeSet<String>, BTreeSet<String>) {
    let row = interface(Base::Overkeep)
        .rows()
        .find(|row| row.method == "POST" && row.path == "/api-tokens")
        .unwrap();
    let words = |list: &str| {
        let words = row
            .operation
            .body
            .as_ref()
            .unwrap()
            .schema
            .pointer(&format!("/properties/{list}/items/enum"))
            .unwrap();
        words
            .as_array()
            .unwrap()
            .iter()
            .map(|word| word.as_str().unwrap().to_owned())
            .collect()
    };
    (words("kinds"), words("actions"))
}

#[test]
fn documented_kinds_lead_to_everything() {
    let world = World::new();
    let all: Vec<_> = ATTACKS.iter().collect();
    let (kinds, actions) = words();
    assert!(
        kinds.len() > 30 && actions.len() > 10,
        "{kinds:?} {actions:?}"
    );
    let (leading, harmless): (Vec<&String>, Vec<&String>) = kinds
        .iter()
        .partition(|kind| ESCALATIONS.iter().any(|one| one.kind == **kind));
    assert_leads_nowhere(&world, &json!({ "kinds": harmless }), &all);
    let listed: BTreeSet<&str> = ESCALATIONS
        .iter()
        .flat_map(|one| one.actions)
        .copied()
        .collect();
    let others: Vec<&String> = actions
        .iter()
        .filter(|action| !listed.contains(action.as_str()))
        .collect();
    for scope in [json!({ "actions": others }), json!({ "selfService": true })] {
        assert_leads_nowhere(&world, &scope, &all);
    }
    for kind in leading {
        let found = won(&world, &json!({ "kinds": [kind] }), &all);
        assert!(!found.is_empty(), "{kind} leads nowhere");
        actions_of(&world, kind, &actions, &found);
    }
}

/// Tries the documented actions of a kind with the attacks that succeed with all actions.
fn actions_of(world: &World, kind: &str, actions: &BTreeSet<String>, attacks: &[&(&str, Attack)]) {
    let documented: Vec<_> = ESCALATIONS.iter().filter(|one| one.kind == kind).collect();
    for one in &documented {
        let scope = |left_out: Option<&str>| {
            let actions = one
                .actions
                .iter()
                .copied()
                .chain(["read"])
                .filter(|action| Some(*action) != left_out);
            json!({ "kinds": [kind], "actions": actions.collect::<Vec<_>>() })
        };
        assert!(
            !won(world, &scope(None), attacks).is_empty(),
            "{one:?} leads nowhere"
        );
        for action in one.actions {
            assert_leads_nowhere(world, &scope(Some(action)), attacks);
        }
    }
    let listed: BTreeSet<&str> = documented
        .iter()
        .flat_map(|one| one.actions)
        .copied()
        .collect();
    let others: Vec<&String> = actions
        .iter()
        .filter(|action| !listed.contains(action.as_str()))
        .collect();
    assert_leads_nowhere(
        world,
        &json!({ "kinds": [kind], "actions": others }),
        attacks,
    );
}

#[test]
fn escalating_tokens_are_flagged() {
    let world = World::new();
    let flags = |scope: Json| {
        let (made, _) = world.token(&scope);
        let shown = world
            .server
            .admin
            .at(Base::Overkeep)
            .get(&format!("/api-tokens/{}", made["id"].as_str().unwrap()))
            .expect(200);
        assert_eq!(made["escalations"], shown.data()["escalations"], "{scope}");
        made["escalations"].clone()
    };
    let cas = json!({ "kinds": ["cas", "services"], "actions": ["read", "create", "verify"] });
    assert_eq!(flags(cas), json!(["create and verify cas"]));
    let deploy = json!({ "kinds": ["services", "service-policies", "configs"], "actions": ["read", "create", "update"] });
    assert_eq!(flags(deploy), json!([]));
    assert_eq!(
        flags(json!({ "kinds": ["cas"], "actions": ["create"] })),
        json!([])
    );
    assert_eq!(flags(json!({ "actions": ["read"] })), json!([]));
    assert_eq!(flags(json!({ "selfService": true })), json!([]));
    let creating = ESCALATIONS
        .iter()
        .filter(|one| one.actions == ["create"])
        .count();
    assert!(creating > 4);
    assert_eq!(
        flags(json!({ "actions": ["create"] }))
            .as_array()
            .unwrap()
            .len(),
        creating
    );
    // A token without a scope has every right anyway.
    assert_eq!(flags(json!({})), json!([]));
}

#[test]
fn escalations_are_documented_as_tried() {
    let page = std::fs::read_to_string(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/security.md"),
    )
    .unwrap();
    let part = page
        .split("## Scopes that lead to every right")
        .nth(1)
        .unwrap()
        .split("\n## ")
        .next()
        .unwrap();
    let rows: BTreeSet<String> = part
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(str::to_owned)
        .collect();
    let row = |one: &overkeep::testing::entity::Escalation| {
        let actions = one
            .actions
            .iter()
            .map(|action| format!("`{action}`"))
            .collect::<Vec<_>>()
            .join(" and ");
        format!("| `{}` | {actions} | {} |", one.kind, one.way)
    };
    assert_eq!(rows, ESCALATIONS.iter().map(row).collect());
}

/// A network in which identities, services and routers have names to be found.
struct Named {
    server: TestServer,
    policy: String,
    ids: [String; 3],
}

const NAMES: [(&str, &str); 3] = [
    ("identities", "hidden-person"),
    ("services", "hidden-service"),
    ("edge-routers", "hidden-router"),
];

fn named() -> Named {
    let server = TestServer::with_router();
    let identity = server.identity(
        "hidden-person",
        json!({ "enrollment": { "ott": true }, "roleAttributes": ["hidden"] }),
    );
    let service = server.service("hidden-service", json!({ "roleAttributes": ["hidden"] }));
    let router = server
        .admin
        .post(
            "/edge-routers",
            json!({ "name": "hidden-router", "roleAttributes": ["hidden"] }),
        )
        .expect(201)
        .id();
    server
        .admin
        .post(
            "/identities",
            json!({ "name": "hidden-person-2", "type": "Device", "isAdmin": false }),
        )
        .expect(201);
    let off = server.identity("hidden-person-3", json!({}));
    server
        .admin
        .post(
            &format!("/identities/{off}/disable"),
            json!({ "durationMinutes": 0 }),
        )
        .expect(200);
    let body = json!({ "name": fresh("policy"), "type": "Dial", "semantic": "AnyOf", "identityRoles": ["#hidden"], "serviceRoles": ["#hidden"] });
    let policy = server
        .admin
        .post("/service-policies", body)
        .expect(201)
        .id();
    let body = json!({ "name": fresh("policy"), "semantic": "AnyOf", "identityRoles": ["#hidden"], "edgeRouterRoles": ["#hidden"] });
    server.admin.post("/edge-router-policies", body).expect(201);
    Named {
        server,
        policy,
        ids: [identity, service, router],
    }
}

fn made(server: &TestServer, scope: Json) -> Caller {
    let mut body = json!({ "name": fresh("token") });
    body.as_object_mut()
        .unwrap()
        .extend(scope.as_object().unwrap().clone());
    let made = server
        .admin
        .at(Base::Overkeep)
        .post("/api-tokens", body)
        .expect(201);
    server
        .anonymous()
        .at(Base::Management)
        .with_token(made.data()["token"].as_str().unwrap())
}

#[test]
fn previews_name_kinds_in_scope() {
    let Named {
        server,
        policy,
        ids: [identity, service, router],
    } = named();
    let cases = [
        ("services", format!("/services/{service}")),
        ("identities", format!("/identities/{identity}")),
        ("edge-routers", format!("/edge-routers/{router}")),
        ("service-policies", format!("/service-policies/{policy}")),
    ];
    for (kind, path) in cases {
        let token = made(&server, json!({ "kinds": [kind], "actions": ["read"] }));
        let preview = token.delete(&format!("{path}?preview=true")).expect(200);
        let all = server
            .admin
            .delete(&format!("{path}?preview=true"))
            .expect(200);
        for (named, name) in NAMES {
            assert_eq!(
                preview.text.contains(name),
                named == kind && all.text.contains(name),
                "{kind}: {name}: {}",
                preview.text
            );
        }
        // The counts are told.
        for member in ["dial", "identityRouters"] {
            for side in ["who", "what"] {
                let count = |answer: &crate::harness::Answer| {
                    answer.data()[member]["lost"][side]["count"].clone()
                };
                assert_eq!(count(&preview), count(&all), "{kind}: {member}");
            }
        }
    }
    let both = made(
        &server,
        json!({ "kinds": ["services", "identities"], "actions": ["read"] }),
    );
    let preview = both
        .delete(&format!("/services/{service}?preview=true"))
        .expect(200);
    assert!(
        preview.text.contains("hidden-person") && preview.text.contains("hidden-service"),
        "{}",
        preview.text
    );
}

#[test]
fn tokens_see_names_in_scope() {
    let Named {
        server,
        ids: [identity, service, router],
        ..
    } = named();
    let (kinds, _) = words();
    let all = Base::ALL
        .into_iter()
        .flat_map(|base| interface(base).rows().map(move |row| (base, row)));
    let readable: Vec<(Base, &Row)> = all
        .filter(|(_, row)| {
            row.permission != Permission::Open && row.method == "GET" && row.path != "/events"
        })
        .collect();
    let mut answered = 0;
    for kind in kinds {
        let token = made(&server, json!({ "kinds": [kind], "actions": ["read"] }));
        for (base, row) in &readable {
            // A record names those that it refers to, such as a policy those in its roles.
            if row.path.contains("policies")
                || row.path.contains("authenticators")
                || row.path.contains("enrollments")
            {
                continue;
            }
            for id in [&identity, &service, &router] {
                let path = row.path.replace("{serviceId}", &service);
                let path: Vec<&str> = path
                    .split('/')
                    .map(|part| if part.starts_with('{') { id } else { part })
                    .collect();
                let answer = token.at(*base).get(&path.join("/"));
                answered += usize::from(answer.status == 200);
                for (named, name) in NAMES {
                    let may =
                        named == kind || (named == "identities" && kind == "current-identity");
                    assert!(
                        may || !answer.text.contains(name),
                        "{kind}: {}: {}",
                        row.path,
                        answer.text
                    );
                }
            }
        }
        for asked in [
            format!("/explain?identity={identity}&service={service}&type=Dial"),
            "/history".into(),
            "/network".into(),
        ] {
            token
                .at(Base::Overkeep)
                .get(&asked)
                .refused(401, "UNAUTHORIZED", "");
        }
        token
            .at(Base::Overkeep)
            .put("/network?preview=true", json!({}))
            .refused(401, "UNAUTHORIZED", "");
        token
            .at(Base::Overkeep)
            .get("/events")
            .refused(401, "UNAUTHORIZED", "");
    }
    assert!(answered > 100, "{answered}");
    let attention = made(
        &server,
        json!({ "kinds": ["attention"], "actions": ["read"] }),
    )
    .at(Base::Overkeep)
    .get("/attention")
    .expect(200);
    assert_eq!(
        (
            &attention.data()["disabledIdentities"]["total"],
            &attention.data()["disabledIdentities"]["first"]
        ),
        (&json!(1), &json!([]))
    );
    let whole = made(&server, json!({ "actions": ["read"] }));
    assert!(
        whole
            .at(Base::Overkeep)
            .get("/attention")
            .expect(200)
            .text
            .contains("hidden-person-3")
    );
    assert!(
        whole
            .at(Base::Overkeep)
            .get("/history?limit=500")
            .expect(200)
            .text
            .contains("hidden-person")
    );
}
