//! Every operation of every interface refuses what it cannot take in the words that clients know. What is asked comes out of the route
//! tables and the schemas of the bodies, so that a new row is asked as well; what is to be answered stands here.
//!
//! Refusals that depend on what there is (names that are taken, ids of nothing in a body) are in `conflicts.rs`.

use std::collections::{BTreeMap, BTreeSet};

use overkeep::http::Row;
use serde_json::{Map, Value as Json, json};

use crate::{
    harness::{Answer, Base, encoded, fresh, interface, shared},
    schema_bodies::{Fault, Step, forms, least, probes, put},
};

const NOWHERE: &str = "nothing-has-this-id";

/// How a request is to be refused.
#[derive(Debug, Clone, Copy)]
pub enum Expected<'e> {
    /// 400, and this member breaks a rule; blank: some member.
    Field(&'e str),
    /// 400, and the body is not even read.
    Unread,
    /// Status and code, with no member to blame.
    Code(u16, &'e str),
    /// The same, with one.
    Of(u16, &'e str, &'e str),
}

impl Expected<'_> {
    /// What is wrong with an answer: its status, its code and what its cause is made of.
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
        let members: Vec<&str> = cause.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        let is_right = match field {
            Some(field) => {
                let named = if field.is_empty() { text(cause, "field") } else { cause["field"] == field };
                named && members == ["field", "reason", "value"] && text(cause, "reason") && cause["value"].is_string()
            }
            // Where the message says everything there is no cause.
            None => cause.is_null() || (members == ["code", "message"] && cause["code"] == "UNHANDLED" && text(cause, "message")),
        };
        !(answer.status == status && error["code"] == code && text(error, "message") && text(error, "requestId") && is_right)
    }
}

/// What was answered otherwise than expected, all told at the end.
#[derive(Default)]
pub struct Differences(Vec<String>);

impl Differences {
    pub fn hold(&mut self, what: &str, answer: &Answer, expected: Expected<'_>) {
        if expected.differs(answer) {
            self.0.push(format!("{} {what}: expected {expected:?}, not {} {}", answer.asked, answer.status, answer.text));
        }
    }
}

impl Drop for Differences {
    fn drop(&mut self) {
        assert!(self.0.is_empty() || std::thread::panicking(), "{}:\n{}", self.0.len(), self.0.join("\n"));
    }
}

/// An operation, and where it is.
struct Operation {
    base: Base,
    row: &'static Row,
}

fn operations() -> impl Iterator<Item = Operation> {
    Base::ALL.into_iter().flat_map(|base| interface(base).rows().map(move |row| Operation { base, row }))
}

impl Operation {
    fn name(&self) -> String {
        format!("{} {}", self.row.method, self.row.path)
    }

    /// The path, with an id instead of each parameter, and what the operation demands in its query.
    fn path(&self, id: &str) -> String {
        let path = self.row.path.split('/').map(|part| if part.starts_with('{') { id } else { part }).collect::<Vec<_>>().join("/");
        let demanded = match self.row.path.as_str() {
            "/authenticate" => "?method=password",
            "/enroll/updb" => "?token=5f0c7f6e-3b1c-4d57-9a20-6b1f0f6f5e11",
            _ => "",
        };
        path + demanded
    }

    /// The schema of its JSON body. Whatever `POST /enroll` gets, it judges itself.
    fn schema(&self) -> Option<&'static Json> {
        let shape = self.row.operation.body.as_ref().filter(|shape| shape.checker.is_some() && !shape.judged_by_function);
        shape.map(|shape| &*shape.schema)
    }

    /// Its answer to the administrator, as if to a request about something that does not exist.
    fn sent(&self, media: &str, body: &str) -> Answer {
        let caller = shared().admin.at(self.base);
        let asking = caller.ask(self.row.method, &self.path(NOWHERE));
        if media.is_empty() { asking.untyped(body).send() } else { asking.body(media, body).send() }
    }

    fn answer(&self, body: &Json) -> Answer {
        self.sent("application/json", &body.to_string())
    }
}

/// What clients call the bodies of operations: in an answer to none, this is the field.
const BODIES: &[(&str, &str)] = &[
    ("/auth-policies", "authPolicy"),
    ("/authenticate", "auth"),
    ("/authenticate/mfa", "mfaAuth"),
    ("/authenticators", "authenticator"),
    ("/authenticators/{id}", "authenticator"),
    ("/authenticators/{id}/extend", "extend"),
    ("/authenticators/{id}/extend-verify", "extend"),
    ("/authenticators/{id}/re-enroll", "reEnroll"),
    ("/cas", "ca"),
    ("/cas/{id}/verify", "certificate"),
    ("/config-types", "configType"),
    ("/database/snapshot", "snapshot"),
    ("/configs", "config"),
    ("/current-api-session/certificates", "sessionCertificate"),
    ("/current-identity/authenticators/{id}", "authenticator"),
    ("/current-identity/authenticators/{id}/extend", "extend"),
    ("/current-identity/authenticators/{id}/extend-verify", "extend"),
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
    ("/terminators", "terminator"),
    ("/transit-routers", "router"),
];

#[test]
fn missing_or_invalid_json_is_refused() {
    let mut all = Differences::default();
    for operation in operations() {
        let Some(shape) = operation.row.operation.body.as_ref().filter(|shape| !shape.judged_by_function) else { continue };
        let path = operation.row.path.as_str();
        let called = BODIES.iter().find(|(of, _)| *of == path || path.strip_prefix(of) == Some("/{id}"));
        let (_, called) = called.unwrap_or_else(|| panic!("say what the body of {} is called", operation.name()));
        let media = shape.media[0];
        if shape.required {
            for nothing in ["", " \n"] {
                all.hold("without a body", &operation.sent(media, nothing), Expected::Field(called));
            }
        }
        for (media, told) in [("text/html", "text/html"), ("", "application/octet-stream")] {
            let answer = operation.sent(media, "<b>");
            all.hold(media, &answer, Expected::Field("Content-Type"));
            assert_eq!(answer.json["error"]["cause"]["value"], told, "{}", operation.name());
        }
        let Some(schema) = operation.schema() else { continue };
        for broken in ["{", "nope", "{\"a\":1,}", "\u{feff}{}", "7"] {
            all.hold(broken, &operation.sent(media, broken), Expected::Unread);
        }
        let other = if schema["type"] == "array" { "{\"a\":{}}" } else { "[]" };
        all.hold(other, &operation.sent(media, other), Expected::Unread);
    }
}

/// Members that may be anything but what they are for: a broken rule of the member, not a body that cannot be read.
const RULES: [&str; 2] = ["data", "schema"];

#[test]
fn wrong_members_are_named() {
    let (mut all, mut seen) = (Differences::default(), BTreeSet::new());
    // A declared network consists of bodies of other operations; `declared.rs` tests its own rules.
    for operation in operations().filter(|operation| operation.row.path != "/network") {
        let Some(schema) = operation.schema() else { continue };
        // The same body elsewhere is read by the same code.
        if !seen.insert(operation.row.operation.body.as_ref().and_then(|shape| shape.title.as_deref())) {
            continue;
        }
        for form in forms(schema) {
            let whole = least(&form, true);
            for probe in probes(&form, &whole) {
                let field = named(&operation, &probe.path);
                let is_unread = probe.fault == Fault::Kind && !RULES.contains(&field.as_str());
                let expected = if is_unread { Expected::Unread } else { Expected::Field(&field) };
                let body = put(whole.clone(), &probe.path, probe.value.clone());
                let what = format!("{field} = {:.60}", probe.value.as_ref().map_or("(missing)".into(), Json::to_string));
                all.hold(&what, &operation.answer(&body), expected);
            }
        }
    }
}

/// The members of a form that tell it apart from the others.
fn tags(form: &Json) -> Json {
    let members = form["properties"].as_object().into_iter().flatten();
    members.filter_map(|(name, member)| Some((name.clone(), member.get("const")?.clone()))).collect::<Map<_, _>>().into()
}

#[test]
fn syntax_errors_come_first() {
    let mut all = Differences::default();
    for operation in operations() {
        let Some(schema) = operation.schema().filter(|schema| schema["type"] != "array") else { continue };
        for form in forms(schema) {
            let at_the_top = probes(&form, &least(&form, true)).into_iter().filter(|probe| probe.path.len() == 1);
            for probe in at_the_top.filter(|probe| probe.fault == Fault::Kind && !probe.value.as_ref().is_some_and(Json::is_string)) {
                let field = named(&operation, &probe.path);
                if !RULES.contains(&field.as_str()) {
                    let body = put(tags(&form), &probe.path, probe.value.clone());
                    all.hold(&format!("nothing but {body:.60}"), &operation.answer(&body), Expected::Unread);
                }
            }
        }
    }
    // Which of several forms a body has is asked first of all.
    let posture = |body: Json| shared().admin.post("/posture-checks", body);
    for unsaid in [json!({}), json!({ "name": 5 }), json!({ "name": 5, "typeId": null }), json!({ "typeId": "" })] {
        all.hold("no form", &posture(unsaid), Expected::Field("typeId"));
    }
    for unknown in [json!({ "typeId": "os" }), json!({ "typeId": 5 }), json!({ "typeId": "OS", "operatingSystems": 5 })] {
        all.hold("no such form", &posture(unknown), Expected::Unread);
    }
}

/// A place in a body as errors name it: with dots, and in one of several answers of an endpoint as if it had been sent alone.
fn named(operation: &Operation, path: &[Step]) -> String {
    let alone = operation.row.path == "/posture-response-bulk";
    let parts = path.iter().skip(usize::from(alone)).map(Step::to_string);
    parts.collect::<Vec<_>>().join(".")
}

#[test]
fn tags_hold_scalars_only() {
    let mut all = Differences::default();
    for operation in operations() {
        // An authenticator's are judged when the rest of it is right (`conflicts.rs`).
        let Some(schema) = operation.schema().filter(|_| operation.row.path != "/authenticators") else { continue };
        for form in forms(schema) {
            for name in ["tags", "appData"].into_iter().filter(|name| form["properties"].get(*name).is_some()) {
                for value in [json!({}), json!({ "b": 1 }), json!([]), json!([1])] {
                    let mut body = least(&form, false);
                    if body.get("name").is_some() {
                        body["name"] = fresh("scalars").into();
                    }
                    body[name] = json!({ "a": value });
                    let answer = operation.answer(&body);
                    // What is to be changed does not exist, or what else is said of it does not.
                    if answer.status != 404 {
                        all.hold(name, &answer, Expected::Field(&format!("{name}.a")));
                    }
                }
            }
        }
    }
}

#[test]
fn unacceptable_media_types_are_refused() {
    let mut all = Differences::default();
    // These two answer what they have, whatever is accepted: clients count on that.
    let always = ["/.well-known/est/cacerts", "/enroll"];
    for operation in operations().filter(|operation| !always.contains(&operation.row.path.as_str())) {
        let caller = shared().admin.at(operation.base);
        let body = operation.row.operation.body.as_ref().map(|_| "{}");
        let asking = caller.ask(operation.row.method, &operation.path(NOWHERE)).header("accept", "text/html, image/gif");
        let answer = match body {
            Some(body) => asking.body("application/json", body).send(),
            None => asking.send(),
        };
        all.hold("", &answer, Expected::Field("Accept"));
        assert_eq!(answer.json["error"]["cause"]["value"], "text/html, image/gif", "{}", operation.name());
    }
    // Several lines are one list.
    shared().nobody().ask("GET", "/version").header("accept", "text/html").header("accept", "application/json").send().expect(200);
}

/// Lists below a record: below none they are empty.
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
        let body = operation.schema().map_or_else(|| json!({}), |schema| least(&forms(schema)[0], false));
        let body = if body.get("name").is_some() { put(body, &["name".into()], Some(fresh("nowhere").into())) } else { body };
        let below = operation.row.path.rsplit_once("{id}").map_or("", |(_, below)| below);
        let list = operation.row.method == "GET" && [Base::Management, Base::Fabric].contains(&operation.base);
        let empty = list && BELOW.contains(&below);
        let answer = match operation.row.operation.body.as_ref() {
            None => shared().admin.at(operation.base).ask(operation.row.method, &operation.path(NOWHERE)).send(),
            Some(shape) if shape.checker.is_none() => operation.sent(shape.media[0], "nothing"),
            Some(_) => operation.answer(&body),
        };
        if empty {
            let is = answer.status == 200 && *answer.data() == json!([]) && answer.total() == 0;
            assert!(is, "{}: {}", answer.asked, answer.text);
        } else if list && ["/posture-data", "/failed-service-requests"].contains(&below) {
            // Clients know these as empty too.
            assert_eq!(answer.status, 200, "{}: {}", answer.asked, answer.text);
        } else if below == "/extend" {
            // Who shows no certificate renews none, whatever it is.
            assert_eq!((answer.status, answer.code()), (401, "UNAUTHORIZED"), "{}: {}", answer.asked, answer.text);
        } else {
            all.hold("of nothing", &answer, Expected::Code(404, "NOT_FOUND"));
            assert!(answer.text.contains(NOWHERE), "{} says what was not found: {}", answer.asked, answer.text);
        }
    }
}

#[test]
fn invalid_list_parameters_are_refused() {
    let service = shared().service(&fresh("listed"), json!({}));
    let mut all = Differences::default();
    for operation in operations() {
        let parameters: Vec<&str> = operation.row.operation.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        if !parameters.contains(&"filter") {
            continue;
        }
        let path = operation.path(if operation.base == Base::Client { &service } else { NOWHERE });
        let caller = shared().admin.at(operation.base);
        let ask = |query: &str| caller.get(&format!("{path}?{query}"));
        for filter in
            ["nothing = 1", "id =", "id = \"x\" and", "id = 1 2", "anyOf(id) = \"x\"", "id between 1 and 2", "true #", "noneOf(id) = \"x\""]
        {
            all.hold(filter, &ask(&format!("filter={}", encoded(filter))), Expected::Code(400, "INVALID_FILTER"));
        }
        all.hold("sort in the filter", &ask("filter=true%20sort%20by%20nothing"), Expected::Code(400, "INVALID_FILTER"));
        if !path.ends_with("-role-attributes") {
            for sort in ["nothing", "tags.x", "id up"] {
                all.hold(sort, &ask(&format!("sort={}", encoded(sort))), Expected::Code(400, "INVALID_SORT_IDENTIFIER"));
            }
        }
        for (name, value) in [("limit", "x"), ("limit", "1.5"), ("offset", "99999999999999999999")] {
            let answer = ask(&format!("{name}={value}"));
            all.hold(name, &answer, Expected::Field(name));
            assert_eq!(answer.json["error"]["cause"]["value"], value, "{}", answer.text);
        }
        for (name, value, field) in [
            ("policyType", "Dial", "policyType"),
            ("roleFilter", "x", "roleFilter"),
            ("roleFilter", "", "roleFilter"),
            ("roleSemantic", "Some", "semantic"),
            ("asIdentity", NOWHERE, "asIdentity"),
        ] {
            if parameters.contains(&name) {
                all.hold(name, &ask(&format!("{name}={value}")), Expected::Field(field));
            }
        }
    }
}

#[test]
fn missing_and_wrong_sessions_look_alike() {
    let nobody = shared().nobody();
    let asked = |token: Option<&str>| {
        let asking = nobody.ask("GET", "/current-identity");
        let asking = if let Some(token) = token { asking.header("zt-session", token) } else { asking };
        asking.send().refused(401, "UNAUTHORIZED", "").json["error"]["cause"]["code"].clone()
    };
    assert_eq!([None, Some("")].map(asked), ["UNHANDLED", "UNHANDLED"]);
    assert_eq!(["no-uuid", "5f0c7f6e-3b1c-4d57-9a20-6b1f0f6f5e11"].map(|token| asked(Some(token))), [Json::Null, Json::Null]);
}

#[test]
fn unknown_routes_need_no_session() {
    let mut methods: BTreeMap<(&str, String), BTreeSet<&str>> = BTreeMap::new();
    for operation in operations() {
        let path = operation.path(NOWHERE).split('?').next().unwrap().to_owned();
        methods.entry((operation.base.path(), path)).or_default().insert(operation.row.method);
    }
    let mut all = Differences::default();
    for ((base, path), known) in methods {
        let whole = format!("{base}{path}");
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"].into_iter().filter(|method| !known.contains(method)) {
            all.hold("", &shared().nobody().ask(method, &whole).send(), Expected::Code(405, "METHOD_NOT_ALLOWED"));
        }
        all.hold("", &shared().nobody().get(&format!("{}/nope/nope", whole.trim_end_matches('/'))), Expected::Code(404, "NOT_FOUND"));
    }
}

#[test]
fn text_lengths_are_bounded() {
    let (short, long) = ("abc", "x".repeat(101));
    let somebody = shared().identity(&fresh("somebody"), json!({}));
    let mut all = Differences::default();
    let of = |method: &str, path: &str, body: Json| shared().admin.ask(method, path).json(&body).send();
    let with = |name: &str, value: &str| {
        let mut body = Map::from_iter([("username".to_owned(), "somebody".into()), ("password".to_owned(), "a good one".into())]);
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
        ("POST", "/edge/client/v1/enroll/updb?token=5f0c7f6e-3b1c-4d57-9a20-6b1f0f6f5e11"),
    ] {
        for (name, value) in [("username", short), ("username", long.as_str()), ("password", "1234"), ("password", long.as_str())] {
            let answer = of(method, path, with(name, value));
            all.hold(name, &answer, Expected::Field(name));
            assert!(name != "password" || answer.json["error"]["cause"]["value"] == "", "a password is not repeated: {}", answer.text);
        }
    }
    let body = json!({ "username": "somebody", "password": "a good one", "envInfo": { "os": "x".repeat(256) } });
    all.hold("envInfo.os", &of("POST", "/authenticate?method=password", body), Expected::Field("envInfo.os"));
}

#[test]
fn default_administrator_stays_administrator() {
    let admin = &shared().admin;
    let chief = admin.get("/current-identity").expect(200).id();
    let at = format!("/identities/{chief}");
    let shown = admin.get(&at).expect(200).data().clone();
    assert_eq!((&shown["isAdmin"], &shown["isDefaultAdmin"]), (&json!(true), &json!(true)));
    let body = json!({ "name": shown["name"], "type": "Default", "isAdmin": false });
    admin.put(&at, body.clone()).refused(400, "COULD_NOT_VALIDATE", "isAdmin");
    admin.patch(&at, json!({ "isAdmin": false })).refused(400, "COULD_NOT_VALIDATE", "isAdmin");
    assert_eq!(admin.get(&at).expect(200).data()["isAdmin"], true);
    // Others are what they are made, at once.
    let other = fresh("deputy");
    let (id, deputy) = shared().user(&other, json!({ "isAdmin": true }));
    deputy.at(Base::Management).get("/identities?limit=1").expect(200);
    admin.patch(&format!("/identities/{id}"), json!({ "isAdmin": false })).expect(200);
    deputy.at(Base::Management).get("/identities?limit=1").refused(401, "UNAUTHORIZED", "");
}

#[test]
fn renewal_reveals_no_foreign_certificates() {
    let server = shared();
    let (_, theirs) = server.enrolled("owner");
    let (_, curious) = server.enrolled("curious");
    let (theirs, curious) = (theirs.log_in_by_certificate(), curious.log_in_by_certificate());
    let id = theirs.get("/current-identity/authenticators").expect(200).data()[0]["id"].as_str().unwrap().to_owned();
    let request = json!({ "clientCertCsr": crate::harness::Key::new().request() });
    for (step, body) in [("extend", request), ("extend-verify", json!({ "clientCert": "nothing" }))] {
        for base in ["/current-identity/authenticators", "/authenticators"] {
            let of = |id: &str| curious.post(&format!("{base}/{id}/{step}"), body.clone());
            let (foreign, unknown) = (of(&id).refused(404, "NOT_FOUND", ""), of(NOWHERE));
            assert_eq!((foreign.status, foreign.code()), (unknown.status, unknown.code()), "{base} {step}");
        }
    }
}
