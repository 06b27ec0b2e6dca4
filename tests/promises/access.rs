//! Every operation admits exactly the callers that its row permits. The body of a caller without a
//! session is not validated; a caller whose session is not sufficient learns only that.

use rest::{Permission, Row};
use serde_json::{Value as Json, json};

use crate::harness::{Answer, Base, Caller, TestServer, fresh, interface};

/// Violates every schema and is not JSON.
const NONSENSE: &str = "{ nonsense";

/// A kind of caller: its permission, and how to log in.
struct Kind {
    name: &'static str,
    /// `None` without a session.
    holds: Option<Permission>,
    /// The user name for a login before each request that may end the session.
    username: Option<String>,
    wrong_token: bool,
}

impl Kind {
    fn caller(&self, server: &TestServer) -> Caller {
        match &self.username {
            Some(username) => server.log_in_again(username),
            None if self.wrong_token => server
                .anonymous()
                .with_token("5f0c7f6e-3b1c-4d57-9a20-6b1f0f6f5e11"),
            None => server.anonymous(),
        }
    }

    /// A body for a request of this caller, with its type: a valid one if only the permission is to
    /// be tested.
    fn body(&self, base: Base, row: &Row) -> Option<(String, Vec<u8>)> {
        row.operation.body.as_ref()?;
        let is_refused = self.holds.is_some() && !self.admitted(row);
        Some(if is_refused {
            example(base, row)
        } else {
            ("application/json".into(), NONSENSE.into())
        })
    }

    fn admitted(&self, row: &Row) -> bool {
        row.permission == Permission::Open
            || self.holds.is_some_and(|holds| holds >= row.permission)
    }
}

fn kinds(server: &TestServer) -> Vec<Kind> {
    let policy = json!({
        "name": fresh("second-factor"),
        "primary": {
            "cert": { "allowed": true, "allowExpiredCerts": true },
            "extJwt": { "allowed": true, "allowedSigners": [] },
            "updb": {
                "allowed": true, "minPasswordLength": 5, "requireSpecialChar": false, "requireNumberChar": false,
                "requireMixedCase": false, "maxAttempts": 0, "lockoutDurationMinutes": 0
            }
        },
        "secondary": { "requireTotp": true }
    });
    let policy = server.admin.post("/auth-policies", policy).expect(201).id();
    let somebody = |name: &'static str, holds, admin: bool, policy: Option<&str>| {
        let username = fresh(name);
        let more = json!({ "isAdmin": admin, "authPolicyId": policy });
        server.user(&username, more);
        Kind {
            name,
            holds: Some(holds),
            username: Some(username),
            wrong_token: false,
        }
    };
    vec![
        Kind {
            name: "anonymous",
            holds: None,
            username: None,
            wrong_token: false,
        },
        Kind {
            name: "wrong token",
            holds: None,
            username: None,
            wrong_token: true,
        },
        somebody(
            "half-authenticated",
            Permission::Partial,
            false,
            Some(&policy),
        ),
        somebody(
            "half-authenticated-administrator",
            Permission::Partial,
            true,
            Some(&policy),
        ),
        somebody("user", Permission::User, false, None),
        somebody("administrator", Permission::Admin, true, None),
    ]
}

/// A path of the row with an unknown id.
fn path(row: &Row) -> String {
    row.path
        .split('/')
        .map(|part| {
            if part.starts_with('{') {
                "nothing-has-this-id"
            } else {
                part
            }
        })
        .collect::<Vec<_>>()
        .join("/")
}

fn described(base: Base, row: &Row) -> &'static Json {
    &interface(base).document["paths"][row.path.as_str()][row.method.to_lowercase()]
}

/// The required query parameters.
fn query(base: Base, row: &Row) -> String {
    let parameters = described(base, row)["parameters"]
        .as_array()
        .into_iter()
        .flatten();
    let required = parameters.filter(|one| one["in"] == "query" && one["required"] == true);
    required
        .map(|one| {
            format!(
                "{}={}&",
                one["name"].as_str().unwrap(),
                one["schema"]["enum"][0].as_str().unwrap_or("x")
            )
        })
        .collect()
}

/// The example of a row's body, and its type.
fn example(base: Base, row: &Row) -> (String, Vec<u8>) {
    let (media, content) = described(base, row)["requestBody"]["content"]
        .as_object()
        .unwrap()
        .iter()
        .next()
        .unwrap();
    let text = |example: &Json| {
        example
            .as_str()
            .map_or_else(|| example.to_string(), str::to_owned)
    };
    (media.clone(), text(&content["example"]).into())
}

fn sweep(base: Base) {
    let server = TestServer::start();
    let kinds = kinds(&server);
    let mut wrong = Vec::new();
    for kind in &kinds {
        let mut caller = kind.caller(&server).at(base);
        for row in interface(base).rows() {
            let mut asking = caller.ask(row.method, &format!("{}?{}", path(row), query(base, row)));
            if let Some((media, body)) = kind.body(base, row) {
                asking = asking.body(&media, body);
            }
            let answer = asking.send();
            if admitted(&answer) != kind.admitted(row) {
                wrong.push(format!(
                    "{} {} as {}: {} {}",
                    row.method, row.path, kind.name, answer.status, answer.text
                ));
            }
            if kind.username.is_some() && row.method == "DELETE" && answer.status == 200 {
                caller = kind.caller(&server).at(base);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Whether the operation itself answered. A rejected one says only that.
fn admitted(answer: &Answer) -> bool {
    answer.code() != "UNAUTHORIZED"
}

#[test]
fn management_rows_admit_permitted_callers_only() {
    sweep(Base::Management);
}

#[test]
fn client_rows_admit_permitted_callers_only() {
    sweep(Base::Client);
}

#[test]
fn own_rows_admit_permitted_callers_only() {
    sweep(Base::Overkeep);
    for row in interface(Base::Overkeep).rows() {
        let is_open = [
            "/openapi.json",
            "/authenticate/link",
            "/authenticate/signer",
            "/authenticate/signer-code",
        ]
        .contains(&row.path.as_str());
        assert!(
            row.permission == Permission::Admin || is_open,
            "{} {}",
            row.method,
            row.path
        );
    }
}

#[test]
fn fabric_rows_admit_permitted_callers_only() {
    sweep(Base::Fabric);
    for row in interface(Base::Fabric).rows() {
        assert!(
            row.permission == Permission::Admin || row.path == "/openapi.json",
            "{} {}",
            row.method,
            row.path
        );
    }
}

#[test]
fn a_bearer_token_alone_opens_nothing() {
    let server = TestServer::start();
    for base in Base::ALL {
        for row in interface(base)
            .rows()
            .filter(|row| row.permission != Permission::Open)
        {
            let answer = server
                .anonymous()
                .at(base)
                .ask(row.method, &path(row))
                .header("authorization", "Bearer abc.def.ghi")
                .send();
            answer.refused(401, "UNAUTHORIZED", "");
        }
    }
}

#[test]
fn open_operations_are_a_fixed_list() {
    let expected = [
        "/",
        "/version",
        "/enumerated-capabilities",
        "/.well-known/est/cacerts",
        "/specs",
        "/specs/{id}",
        "/specs/{id}/spec",
        "/openapi.json",
        "/swagger.json",
        "/authenticate",
        "/authenticate/link",
        "/authenticate/signer",
        "/authenticate/signer-code",
        "/protocols",
        "/enroll",
        "/enroll/ca",
        "/enroll/ott",
        "/enroll/ottca",
        "/enroll/updb",
        "/enroll/erott",
        "/enroll/extend/router",
        "/enroll/jwks",
        "/enroll/challenge",
        "/external-jwt-signers",
        "/network-jwts",
    ];
    for base in Base::ALL {
        for row in interface(base)
            .rows()
            .filter(|row| row.permission == Permission::Open)
        {
            let list = row.path == "/external-jwt-signers" && base == Base::Management;
            assert!(
                expected.contains(&row.path.as_str()) && !list,
                "{base:?}: {} {} is open to all",
                row.method,
                row.path
            );
        }
    }
}
