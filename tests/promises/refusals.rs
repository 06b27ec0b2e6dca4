//! Every operation of every interface rejects invalid input with the errors that clients know.
//! Requests are derived from the route tables and body schemas, so that a new row is covered; the
//! expected errors are listed here.
//!
//! Errors that depend on records (names that are taken, ids that do not exist) are in
//! `conflicts.rs`.

use std::collections::{BTreeMap, BTreeSet};

use overkeep::testing::{change::KINDS, http::Row};
use serde_json::{Map, Value as Json, json};

use crate::{
    harness::{Answer, Base, encoded, fresh, interface, shared},
    schema_bodies::{Fault, Step, forms, minimal_body, probes, put},
};

const MISSING_ID: &str = "nothing-has-this-id";

/// The expected error.
#[derive(Debug, Clone, Copy)]
pub enum Expected<'e> {
    /// 400, and this member breaks a rule; blank: any member.
    Field(&'e str),
    /// 400, and the body cannot be parsed.
    Unread,
    /// Status and code, without a named member.
    Code(u16, &'e str),
    /// The same, with a named member.
    Of(u16, &'e str, &'e str),
}

impl Expected<'_> {
    /// Whether an answer has another status, another code or another form of cause.
    pub fn differs(&self, answer: &Answer) -> bool {
        let (status, code, field) = match *self {
            Self::Field(field) => (400, "COULD_NOT_VALIDATE", Some(field)),
            Self::Unread => (400, "COULD_NOT_PARSE_BODY", None),
            Self::Code(status, code) => (status, code, None),
            Self::Of(status, code, field) => (status, code, Some(field)),
        };
        let error = &answer.json["error"];
        let text = |of: &Json, name: &str| of[name].as_str().is_some_and(|text| !text.is_empty());
        let cause = &error["cause"];
        let members: Vec<&str> = cause
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str())
            .collect();
        let is_right = match field {
            Some(field) => {
                let named = if field.is_empty() {
                    text(cause, "field")
                } else {
                    cause["field"] == field
                };
                named
                    && members == ["field", "reason", "value"]
                    && text(cause, "reason")
                    && cause["value"].is_string()
            }
            // An error without a named member has no cause.
            None => {
                cause.is_null()
                    || (members == ["code", "message"]
                        && cause["code"] == "UNHANDLED"
                        && text(cause, "message"))
            }
        };
        !(answer.status == status
            && error["code"] == code
            && text(error, "message")
            && text(error, "requestId")
            && is_right)
    }
}

/// Unexpected answers, reported together at the end.
#[derive(Default)]
pub struct Differences(Vec<String>);

impl Differences {
    pub fn check(&mut self, what: &str, answer: &Answer, expected: Expected<'_>) {
        if expected.differs(answer) {
            self.0.push(format!(
                "{} {what}: expected {expected:?}, not {} {}",
                answer.request, answer.status, answer.text
            ));
        }
    }
}

impl Drop for Differences {
    fn drop(&mut self) {
        assert!(
            self.0.is_empty() || std::thread::panicking(),
            "{}:\n{}",
            self.0.len(),
            self.0.join("\n")
        );
    }
}

/// An operation and its interface.
struct Operation {
    base: Base,
    row: &'static Row,
}

fn operations() -> impl Iterator<Item = Operation> {
    Base::ALL.into_iter().flat_map(|base| {
        interface(base)
            .rows()
            .map(move |row| Operation { base, row })
    })
}

impl Operation {
    fn name(&self) -> String {
        format!("{} {}", self.row.method, self.row.path)
    }

    /// The path, with an id in place of each parameter, and the required query.
    fn path(&self, id: &str) -> String {
        let path = self
            .row
            .path
            .split('/')
            .map(|part| if part.starts_with('{') { id } else { part })
            .collect::<Vec<_>>()
            .join("/");
        let demanded = match self.row.path.as_str() {
            "/authenticate" => "?method=password",
            "/enroll/updb" => "?token=5f0c7f6e-3b1c-4d57-9a20-6b1f0f6f5e11",
            _ => "",
        };
        path + demanded
    }

    /// The schema of its JSON body; none for `POST /enroll`, which parses its body itself.
    fn schema(&self) -> Option<&'static Json> {
        let shape = self
            .row
            .operation
            .body
            .as_ref()
            .filter(|shape| shape.checker.is_some() && !shape.judged_by_function);
        shape.map(|shape| &*shape.schema)
    }

    /// Its answer to the administrator, for a record that does not exist.
    fn sent(&self, media: &str, body: &str) -> Answer {
        let caller = shared().admin.at(self.base);
        let asking = caller.ask(self.row.method, &self.path(MISSING_ID));
        if media.is_empty() {
            asking.untyped(body).send()
        } else {
            asking.body(media, body).send()
        }
    }

    fn answer(&self, body: &Json) -> Answer {
        self.sent("application/json", &body.to_string())
    }
}

/// The names that clients know for the bodies of operations; an error about a missing body names it
/// as the field. The body of a kind that is not listed has the name of the kind.
const BODIES: &[(&str, &str)] = &[
    ("/api-tokens", "apiToken"),
    ("/auth-policies", "authPolicy"),
    ("/authenticate", "auth"),
    ("/authenticate/link", "loginLink"),
    ("/authenticate/mfa", "mfaAuth"),
    ("/authenticate/signer", "signerLogin"),
    ("/authenticate/signer-code", "signerCode"),
    ("/authenticators", "authenticator"),
    ("/authenticators/{id}", "authenticator"),
    ("/authenticators/{id}/extend", "extend"),
    ("/authenticators/{id}/extend-verify", "extend"),
    ("/authenticators/{id}/re-enroll", "reEnroll"),
    (
        "/authenticators/{id}/request-extend",
        "requestExtendAuthenticator",
    ),
    ("/certificates/request-extend", "extensionRequests"),
    ("/inspections", "inspection"),
    ("/cas", "ca"),
    ("/cas/{id}/verify", "certificate"),
    ("/config-types", "configType"),
    ("/database/snapshot", "snapshot"),
    ("/configs", "config"),
    ("/current-api-session/certificates", "sessionCertificate"),
    ("/current-identity/authenticators/{id}", "authenticator"),
    ("/current-identity/authenticators/{id}/extend", "extend"),
    (
        "/current-identity/authenticators/{id}/extend-verify",
        "extend",
    ),
    ("/current-identity/mfa/recovery-codes", "mfaValidation"),
    ("/current-identity/mfa/verify", "mfaValidation"),
    ("/edge-router-policies", "policy"),
    ("/edge-routers", "edgeRouter"),
    ("/enroll/challenge", "nonce"),
    ("/enroll/erott", "erOttEnrollmentRequest"),
    ("/enroll/extend/router", "routerExtendEnrollmentRequest"),
    ("/enroll/ott", "ottEnrollmentRequest"),
    ("/enroll/ottca", "ottEnrollmentRequest"),
    ("/enroll/updb", "updbCredentials"),
    ("/enrollments", "enrollment"),
    ("/enrollments/{id}/refresh", "refresh"),
    ("/external-jwt-signers", "externalJwtSigner"),
    ("/identities", "identity"),
    ("/identities/{id}/disable", "disable"),
    ("/identities/{id}/service-configs", "serviceConfigs"),
    ("/identities/{id}/trace", "traceSpec"),
    ("/network", "network"),
    ("/posture-checks", "postureCheck"),
    ("/posture-response", "postureResponse"),
    ("/posture-response-bulk", "postureResponse"),
    ("/routers", "router"),
    ("/service-edge-router-policies", "policy"),
    ("/service-policies", "policy"),
    ("/services", "service"),
    ("/sessions", "session"),
    ("/snapshot-trials", "snapshotTrial"),
    ("/terminators", "terminator"),
    ("/transit-routers", "router"),
];

#[test]
fn missing_or_invalid_json_is_refused() {
    let mut all = Differences::default();
    for operation in operations() {
        let Some(shape) = operation
            .row
            .operation
            .body
            .as_ref()
            .filter(|shape| !shape.judged_by_function)
        else {
            continue;
        };
        let path = operation.row.path.as_str();
        let body_name = BODIES
            .iter()
            .find(|(of, _)| *of == path || path.strip_prefix(of) == Some("/{id}"));
        let kind = || {
            KINDS
                .iter()
                .map(|entry| entry.kind)
                .find(|kind| path.trim_end_matches("/{id}") == format!("/{}", kind.path))
        };
        let body_name = body_name
            .map(|(_, name)| *name)
            .or_else(|| kind().map(|kind| kind.name));
        let body_name = body_name
            .unwrap_or_else(|| panic!("BODIES lacks the name of the body of {}", operation.name()));
        let media = shape.media[0];
        if shape.required {
            for nothing in ["", " \n"] {
                all.check(
                    "without a body",
                    &operation.sent(media, nothing),
                    Expected::Field(body_name),
                );
            }
        }
        for (media, content_type) in [("text/html", "text/html"), ("", "application/octet-stream")]
        {
            let answer = operation.sent(media, "<b>");
            all.check(media, &answer, Expected::Field("Content-Type"));
            assert_eq!(
                answer.json["error"]["cause"]["value"],
                content_type,
                "{}",
                operation.name()
            );
        }
        let Some(schema) = operation.schema() else {
            continue;
        };
        for broken in ["{", "nope", "{\"a\":1,}", "\u{feff}{}", "7"] {
            all.check(broken, &operation.sent(media, broken), Expected::Unread);
        }
        let other = if schema["type"] == "array" {
            "{\"a\":{}}"
        } else {
            "[]"
        };
        all.check(other, &operation.sent(media, other), Expected::Unread);
    }
}

/// Members that accept any JSON type: a wrong value breaks a rule of the member instead of making
/// the body unreadable.
const RULES: [&str; 2] = ["data", "schema"];

#[test]
fn wrong_members_are_named() {
    let (mut all, mut seen) = (Differences::default(), BTreeSet::new());
    // A declared network consists of bodies of other operations; `network_document.rs` tests its
    // own rules.
    for operation in operations().filter(|operation| operation.row.path != "/network") {
        let Some(schema) = operation.schema() else {
            continue;
        };
        // The same body of another operation is read by the same code.
        if !seen.insert(
            operation
                .row
                .operation
                .body
                .as_ref()
                .and_then(|shape| shape.title.as_deref()),
        ) {
            continue;
        }
        for form in forms(schema) {
            let whole = minimal_body(&form, true);
            for probe in probes(&form, &whole) {
                let field = named(&operation, &probe.path);
                let is_unread = probe.fault == Fault::Kind && !RULES.contains(&field.as_str());
                let expected = if is_unread {
                    Expected::Unread
                } else {
                    Expected::Field(&field)
                };
                let body = put(whole.clone(), &probe.path, probe.value.clone());
                let what = format!(
                    "{field} = {:.60}",
                    probe
                        .value
                        .as_ref()
                        .map_or("(missing)".into(), Json::to_string)
                );
                all.check(&what, &operation.answer(&body), expected);
            }
        }
    }
}

/// The members of a form that distinguish it from the others.
fn tags(form: &Json) -> Json {
    let members = form["properties"].as_object().into_iter().flatten();
    members
        .filter_map(|(name, member)| Some((name.clone(), member.get("const")?.clone())))
        .collect::<Map<_, _>>()
        .into()
}

#[test]
fn syntax_errors_come_first() {
    let mut all = Differences::default();
    for operation in operations() {
        let Some(schema) = operation
            .schema()
            .filter(|schema| schema["type"] != "array")
        else {
            continue;
        };
        for form in forms(schema) {
            let at_the_top = probes(&form, &minimal_body(&form, true))
                .into_iter()
                .filter(|probe| probe.path.len() == 1);
            for probe in at_the_top.filter(|probe| {
                probe.fault == Fault::Kind && !probe.value.as_ref().is_some_and(Json::is_string)
            }) {
                let field = named(&operation, &probe.path);
                if !RULES.contains(&field.as_str()) {
                    let body = put(tags(&form), &probe.path, probe.value.clone());
                    all.check(
                        &format!("nothing but {body:.60}"),
                        &operation.answer(&body),
                        Expected::Unread,
                    );
                }
            }
        }
    }
    // Which of several forms a body has is decided first.
    let posture = |body: Json| shared().admin.post("/posture-checks", body);
    for unsaid in [
        json!({}),
        json!({ "name": 5 }),
        json!({ "name": 5, "typeId": null }),
        json!({ "typeId": "" }),
    ] {
        all.check("no form", &posture(unsaid), Expected::Field("typeId"));
    }
    for unknown in [
        json!({ "typeId": "os" }),
        json!({ "typeId": 5 }),
        json!({ "typeId": "OS", "operatingSystems": 5 }),
    ] {
        all.check("no such form", &posture(unknown), Expected::Unread);
    }
}

/// A place in a body as errors name it: with dots; a member of one of several posture responses is
/// named as if that response were alone.
fn named(operation: &Operation, path: &[Step]) -> String {
    let alone = operation.row.path == "/posture-response-bulk";
    let parts = path.iter().skip(usize::from(alone)).map(Step::to_string);
    parts.collect::<Vec<_>>().join(".")
}

#[test]
fn tags_hold_scalars_only() {
    let mut all = Differences::default();
    for operation in operations() {
        // The members of an authenticator are validated after the rest of it (`conflicts.rs`).
        let Some(schema) = operation
            .schema()
            .filter(|_| operation.row.path != "/authenticators")
        else {
            continue;
        };
        for form in forms(schema) {
            for name in ["tags", "appData"]
                .into_iter()
                .filter(|name| form["properties"].get(*name).is_some())
            {
                for value in [json!({}), json!({ "b": 1 }), json!([]), json!([1])] {
                    let mut body = minimal_body(&form, false);
                    if body.get("name").is_some() {
                        body["name"] = fresh("scalars").into();
                    }
                    body[name] = json!({ "a": value });
                    let answer = operation.answer(&body);
                    // The record to change, or another record named in the body, does not exist.
                    if answer.status != 404 {
                        all.check(name, &answer, Expected::Field(&format!("{name}.a")));
                    }
                }
            }
        }
    }
}

#[test]
fn unacceptable_media_types_are_refused() {
    let mut all = Differences::default();
    // These two ignore `Accept`, as existing clients need.
    let always = ["/.well-known/est/cacerts", "/enroll"];
    for operation in operations().filter(|operation| !always.contains(&operation.row.path.as_str()))
    {
        let caller = shared().admin.at(operation.base);
        let body = operation.row.operation.body.as_ref().map(|_| "{}");
        let asking = caller
            .ask(operation.row.method, &operation.path(MISSING_ID))
            .header("accept", "text/html, image/gif");
        let answer = match body {
            Some(body) => asking.body("application/json", body).send(),
            None => asking.send(),
        };
        all.check("", &answer, Expected::Field("Accept"));
        assert_eq!(
            answer.json["error"]["cause"]["value"],
            "text/html, image/gif",
            "{}",
            operation.name()
        );
    }
    // Several header lines are one list.
    shared()
        .anonymous()
        .ask("GET", "/version")
        .header("accept", "text/html")
        .header("accept", "application/json")
        .send()
        .expect(200);
}

/// Lists below a record, which are empty if the record does not exist.
const BELOW: [&str; 11] = [
    "/authenticators",
    "/enrollments",
    "/edge-router-policies",
    "/edge-routers",
    "/service-policies",
    "/service-edge-router-policies",
    "/services",
    "/identities",
    "/configs",
    "/terminators",
    "/posture-checks",
];

#[test]
fn missing_ids_are_404() {
    let mut all = Differences::default();
    for operation in operations().filter(|operation| operation.row.path.contains('{')) {
        let body = operation.schema().map_or_else(
            || json!({}),
            |schema| minimal_body(&forms(schema)[0], false),
        );
        let body = if body.get("name").is_some() {
            put(body, &["name".into()], Some(fresh("nowhere").into()))
        } else {
            body
        };
        let below = operation
            .row
            .path
            .rsplit_once("{id}")
            .map_or("", |(_, below)| below);
        let list = operation.row.method == "GET"
            && [Base::Management, Base::Fabric].contains(&operation.base);
        let empty = list && BELOW.contains(&below);
        let answer = match operation.row.operation.body.as_ref() {
            None => shared()
                .admin
                .at(operation.base)
                .ask(operation.row.method, &operation.path(MISSING_ID))
                .send(),
            Some(shape) if shape.checker.is_none() => operation.sent(shape.media[0], "nothing"),
            Some(_) => operation.answer(&body),
        };
        if empty {
            let is = answer.status == 200 && *answer.data() == json!([]) && answer.total() == 0;
            assert!(is, "{}: {}", answer.request, answer.text);
        } else if list && ["/posture-data", "/failed-service-requests"].contains(&below) {
            // Clients expect these to be empty, too.
            assert_eq!(answer.status, 200, "{}: {}", answer.request, answer.text);
        } else if below == "/extend" {
            // Without a client certificate nothing is renewed.
            assert_eq!(
                (answer.status, answer.code()),
                (401, "UNAUTHORIZED"),
                "{}: {}",
                answer.request,
                answer.text
            );
        } else {
            all.check("of nothing", &answer, Expected::Code(404, "NOT_FOUND"));
            assert!(
                answer.text.contains(MISSING_ID),
                "{} does not say what was not found: {}",
                answer.request,
                answer.text
            );
        }
    }
}

#[test]
fn invalid_list_parameters_are_refused() {
    let service = shared().service(&fresh("listed"), json!({}));
    let mut all = Differences::default();
    for operation in operations() {
        let parameters: Vec<&str> = operation
            .row
            .operation
            .parameters
            .iter()
            .map(|parameter| parameter.name.as_str())
            .collect();
        if !parameters.contains(&"filter") {
            continue;
        }
        let path = operation.path(if operation.base == Base::Client {
            &service
        } else {
            MISSING_ID
        });
        let caller = shared().admin.at(operation.base);
        let ask = |query: &str| caller.get(&format!("{path}?{query}"));
        for filter in [
            "nothing = 1",
            "id =",
            "id = \"x\" and",
            "id = 1 2",
            "anyOf(id) = \"x\"",
            "id between 1 and 2",
            "true #",
            "noneOf(id) = \"x\"",
        ] {
            all.check(
                filter,
                &ask(&format!("filter={}", encoded(filter))),
                Expected::Code(400, "INVALID_FILTER"),
            );
        }
        all.check(
            "sort in the filter",
            &ask("filter=true%20sort%20by%20nothing"),
            Expected::Code(400, "INVALID_FILTER"),
        );
        if !path.ends_with("-role-attributes") {
            for sort in ["nothing", "tags.x", "id up"] {
                all.check(
                    sort,
                    &ask(&format!("sort={}", encoded(sort))),
                    Expected::Code(400, "INVALID_SORT_IDENTIFIER"),
                );
            }
        }
        for (name, value) in [
            ("limit", "x"),
            ("limit", "1.5"),
            ("offset", "99999999999999999999"),
        ] {
            let answer = ask(&format!("{name}={value}"));
            all.check(name, &answer, Expected::Field(name));
            assert_eq!(
                answer.json["error"]["cause"]["value"], value,
                "{}",
                answer.text
            );
        }
        for (name, value, field) in [
            ("policyType", "Dial", "policyType"),
            ("roleFilter", "x", "roleFilter"),
            ("roleFilter", "", "roleFilter"),
            ("roleSemantic", "Some", "semantic"),
            ("asIdentity", MISSING_ID, "asIdentity"),
        ] {
            if parameters.contains(&name) {
                all.check(
                    name,
                    &ask(&format!("{name}={value}")),
                    Expected::Field(field),
                );
            }
        }
    }
}

#[test]
fn missing_and_wrong_sessions_look_alike() {
    let anonymous = shared().anonymous();
    let asked = |token: Option<&str>| {
        let asking = anonymous.ask("GET", "/current-identity");
        let asking = if let Some(token) = token {
            asking.header("zt-session", token)
        } else {
            asking
        };
        asking.send().refused(401, "UNAUTHORIZED", "").json["error"]["cause"]["code"].clone()
    };
    assert_eq!([None, Some("")].map(asked), ["UNHANDLED", "UNHANDLED"]);
    assert_eq!(
        ["no-uuid", "5f0c7f6e-3b1c-4d57-9a20-6b1f0f6f5e11"].map(|token| asked(Some(token))),
        [Json::Null, Json::Null]
    );
}

#[test]
fn unknown_routes_need_no_session() {
    let mut methods: BTreeMap<(&str, String), BTreeSet<&str>> = BTreeMap::new();
    for operation in operations() {
        let path = operation
            .path(MISSING_ID)
            .split('?')
            .next()
            .unwrap()
            .to_owned();
        methods
            .entry((operation.base.path(), path))
            .or_default()
            .insert(operation.row.method);
    }
    let mut all = Differences::default();
    for ((base, path), known) in methods {
        let whole = format!("{base}{path}");
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"]
            .into_iter()
            .filter(|method| !known.contains(method))
        {
            all.check(
                "",
                &shared().anonymous().ask(method, &whole).send(),
                Expected::Code(405, "METHOD_NOT_ALLOWED"),
            );
        }
        all.check(
            "",
            &shared()
                .anonymous()
                .get(&format!("{}/nope/nope", whole.trim_end_matches('/'))),
            Expected::Code(404, "NOT_FOUND"),
        );
    }
}

#[test]
fn text_lengths_are_bounded() {
    let (short, long) = ("abc", "x".repeat(101));
    let somebody = shared().identity(&fresh("somebody"), json!({}));
    let mut all = Differences::default();
    let of =
        |method: &str, path: &str, body: Json| shared().admin.ask(method, path).json(&body).send();
    let with = |name: &str, value: &str| {
        let mut body = Map::from_iter([
            ("username".to_owned(), "somebody".into()),
            ("password".to_owned(), "a good one".into()),
        ]);
        body.insert("currentPassword".into(), "a good one".into());
        body.insert("method".into(), "updb".into());
        body.insert("identityId".into(), somebody.as_str().into());
        body.insert(name.into(), value.into());
        Json::Object(body)
    };
    for (method, path) in [
        ("POST", "/authenticate?method=password"),
        ("POST", "/authenticators"),
        ("PUT", "/authenticators/x"),
        ("PATCH", "/authenticators/x"),
        ("PUT", "/current-identity/authenticators/x"),
        ("PATCH", "/current-identity/authenticators/x"),
        (
            "POST",
            "/edge/client/v1/enroll/updb?token=5f0c7f6e-3b1c-4d57-9a20-6b1f0f6f5e11",
        ),
    ] {
        for (name, value) in [
            ("username", short),
            ("username", long.as_str()),
            ("password", "1234"),
            ("password", long.as_str()),
        ] {
            let answer = of(method, path, with(name, value));
            all.check(name, &answer, Expected::Field(name));
            assert!(
                name != "password" || answer.json["error"]["cause"]["value"] == "",
                "a password is not repeated: {}",
                answer.text
            );
        }
    }
    let body = json!({ "username": "somebody", "password": "a good one", "envInfo": { "os": "x".repeat(256) } });
    all.check(
        "envInfo.os",
        &of("POST", "/authenticate?method=password", body),
        Expected::Field("envInfo.os"),
    );
}

#[test]
fn default_administrator_stays_administrator() {
    let admin = &shared().admin;
    let default_admin = admin.get("/current-identity").expect(200).id();
    let at = format!("/identities/{default_admin}");
    let shown = admin.get(&at).expect(200).data().clone();
    assert_eq!(
        (&shown["isAdmin"], &shown["isDefaultAdmin"]),
        (&json!(true), &json!(true))
    );
    let body = json!({ "name": shown["name"], "type": "Default", "isAdmin": false });
    admin
        .put(&at, body.clone())
        .refused(400, "COULD_NOT_VALIDATE", "isAdmin");
    admin
        .patch(&at, json!({ "isAdmin": false }))
        .refused(400, "COULD_NOT_VALIDATE", "isAdmin");
    assert_eq!(admin.get(&at).expect(200).data()["isAdmin"], true);
    // Other identities take the type that they are given, at once.
    let other = fresh("deputy");
    let (id, deputy) = shared().user(&other, json!({ "isAdmin": true }));
    deputy
        .at(Base::Management)
        .get("/identities?limit=1")
        .expect(200);
    admin
        .patch(&format!("/identities/{id}"), json!({ "isAdmin": false }))
        .expect(200);
    deputy
        .at(Base::Management)
        .get("/identities?limit=1")
        .refused(401, "UNAUTHORIZED", "");
}

#[test]
fn renewal_reveals_no_foreign_certificates() {
    let server = shared();
    let (_, theirs) = server.enrolled("owner");
    let (_, curious) = server.enrolled("curious");
    let (theirs, curious) = (
        theirs.log_in_by_certificate(),
        curious.log_in_by_certificate(),
    );
    let id = theirs
        .get("/current-identity/authenticators")
        .expect(200)
        .data()[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let request = json!({ "clientCertCsr": crate::harness::Key::new().request() });
    for (step, body) in [
        ("extend", request),
        ("extend-verify", json!({ "clientCert": "nothing" })),
    ] {
        for base in ["/current-identity/authenticators", "/authenticators"] {
            let of = |id: &str| curious.post(&format!("{base}/{id}/{step}"), body.clone());
            let (foreign, unknown) = (of(&id).refused(404, "NOT_FOUND", ""), of(MISSING_ID));
            assert_eq!(
                (foreign.status, foreign.code()),
                (unknown.status, unknown.code()),
                "{base} {step}"
            );
        }
    }
}
