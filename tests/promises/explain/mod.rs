//! Explanations: the verdict is what happens, and the proposed edits change it.

mod asking;
mod credentials;
mod edits;
mod sessions;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use model::{
    clock::Clock,
    config::{Config, Span},
};
use overkeep::testing::{
    admin_socket::{Command, Outcome, socket},
    controller,
};
use policy::access::Right;
use store::Progress;

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
            socket::ask(&socket::beside(&self.data), &command, &mut |_, _| ())
                .unwrap()
                .map_err(|failure| failure.to_string())?;
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
