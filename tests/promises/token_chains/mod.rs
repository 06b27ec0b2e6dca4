//! Which scopes of API tokens lead to an administrator's session. Every scope is attacked in every
//! known way, by an ordinary member of the network who holds a token with it; the documented list
//! is what comes of that.

mod attacks;
mod names;
mod table;

use std::collections::BTreeSet;

use model::{clock::Clock, entity::ESCALATIONS};
use rest::{Permission, Row};

use serde_json::{Value as Json, json};

use crate::{
    control::mock::{Enrolled, run},
    explain::auth_policy,
    harness::{Authority, Base, Caller, Key, PASSWORD, TestServer, fresh, interface},
    second_factors::{Signer, signer},
};
use table::ATTACKS;

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
