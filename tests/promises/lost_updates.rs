//! A write with `If-Match` never overwrites a version that its sender has not seen.

use overkeep::testing::http::{Header, Row};
use serde_json::{Value as Json, json};

use crate::{
    harness::{Answer, Base, Caller, Key, PASSWORD, fresh, interface, shared},
    kinds::SAMPLES,
};

const WRITES: [&str; 3] = ["PUT", "PATCH", "DELETE"];

fn tag(answer: &Answer) -> String {
    assert!(answer.header("etag").starts_with('"'), "{}: no entity tag", answer.request);
    answer.header("etag").to_owned()
}

fn write(caller: &Caller, method: &str, path: &str, known: &str) -> Answer {
    caller.ask(method, path).header("If-Match", known).json(&json!({ "name": fresh("config-type") })).send()
}

#[test]
fn if_match_refuses_outdated_writes() {
    let admin = &shared().admin;
    let id = admin.post("/config-types", json!({ "name": fresh("config-type") })).expect(201).id();
    let path = format!("/config-types/{id}");
    let first = tag(&admin.get(&path).expect(200));
    assert_eq!(first, tag(&admin.get(&path).expect(200)), "reading changes nothing");

    write(admin, "PATCH", &path, &first).expect(200);
    let second = tag(&admin.get(&path).expect(200));
    assert_ne!(first, second);
    for method in WRITES {
        write(admin, method, &path, &first).refused(412, "PRECONDITION_FAILED", "");
    }
    for other in [format!("W/{second}"), second.trim_matches('"').to_owned(), String::new(), "\u{e9}".to_owned()] {
        write(admin, "PATCH", &path, &other).refused(412, "PRECONDITION_FAILED", "");
    }
    assert_eq!(second, tag(&admin.get(&path).expect(200)), "a refused write leaves the record");

    write(admin, "PUT", &path, &format!("\"other\", {second}")).expect(200);
    write(admin, "PATCH", &path, "*").expect(200);
    write(admin, "PATCH", "/config-types/none", "*").refused(404, "NOT_FOUND", "");
    let now = tag(&admin.get(&path).expect(200));
    let in_lines = admin.ask("PATCH", &path).header("If-Match", "\"other\"").header("If-Match", &now);
    in_lines.json(&json!({ "tags": { "a": 1 } })).send().expect(200);
    let now = tag(&admin.get(&path).expect(200));
    admin.ask("DELETE", &path).header("If-Match", &now).send().expect(200);
}

#[test]
fn if_match_is_optional() {
    let admin = &shared().admin;
    let id = admin.post("/config-types", json!({ "name": fresh("config-type") })).expect(201).id();
    admin.patch(&format!("/config-types/{id}"), json!({ "tags": { "a": 1 } })).expect(200);
    admin.delete(&format!("/config-types/{id}")).expect(200);
}

#[test]
fn writable_records_have_entity_tags() {
    // A circuit is not a record: it cannot be written, so that it has no version to compare.
    let is_record = |row: &Row| row.path != "/circuits/{id}";
    let accepts_tag = |row: &Row| row.operation.parameters.iter().any(|parameter| parameter.name == "If-Match");
    for base in Base::ALL {
        let writes = |row: &&Row| WRITES.contains(&row.method) && row.path.ends_with("/{id}") && is_record(row);
        for row in interface(base).rows().filter(writes) {
            assert!(accepts_tag(row), "{} {} does not accept If-Match", row.method, row.path);
            let shown = interface(base).rows().find(|other| other.method == "GET" && other.path == row.path);
            let tagged =
                shown.and_then(|shown| shown.operation.answer.as_ref()).is_some_and(|answer| answer.headers.contains(&Header::Tag));
            assert!(tagged, "GET {} answers no tag", row.path);
        }
    }
}

/// Sends each of these writes with an outdated tag, then with the current one; a DELETE comes last.
fn checks_tag(caller: &Caller, path: &str, body: &Json, methods: &[&str]) {
    let known = tag(&caller.get(path).expect(200));
    for method in methods {
        let stale = caller.ask(method, path).header("If-Match", "\"0-0\"");
        let stale = if *method == "DELETE" { stale } else { stale.json(body) };
        stale.send().refused(412, "PRECONDITION_FAILED", "");
    }
    assert_eq!(known, tag(&caller.get(path).expect(200)), "{path}: a refused write leaves the record");
    let mut last = known;
    if methods.contains(&"PATCH") {
        caller.ask("PATCH", path).header("If-Match", &last).json(body).send().expect(200);
        last = tag(&caller.get(path).expect(200));
    }
    if methods.contains(&"DELETE") {
        caller.ask("DELETE", path).header("If-Match", &last).send().expect(200);
        caller.get(path).refused(404, "NOT_FOUND", "");
    }
}

#[test]
fn if_match_works_for_every_kind() {
    let admin = &shared().admin;
    for sample in SAMPLES {
        let mut body = (sample.body)(shared(), &fresh("held"));
        let id = admin.post(&format!("/{}", sample.path), body.clone()).expect(201).id();
        body[sample.key] = fresh("held").into();
        checks_tag(admin, &format!("/{}/{id}", sample.path), &body, &WRITES);
    }
}

#[test]
fn if_match_works_for_own_records() {
    let (admin, name) = (&shared().admin, fresh("holder"));
    let (identity, user) = shared().user(&name, json!({}));
    let own = admin.list("/authenticators", &format!("identity = \"{identity}\""), "").each("id")[0].to_owned();
    let body = json!({ "username": name, "password": PASSWORD, "currentPassword": PASSWORD });
    checks_tag(&user, &format!("/current-identity/authenticators/{own}"), &body, &["PUT", "PATCH"]);
    checks_tag(admin, &format!("/authenticators/{own}"), &body, &["PUT", "PATCH"]);
    // A password set by an administrator ends the sessions of the previous one.
    let user = shared().log_in_again(&name);

    let service = shared().service(&fresh("held"), json!({}));
    shared().service_policy("Dial", &[&format!("@{identity}")], &[&format!("@{service}")]);
    shared().router_between(&identity, &service);
    let client = user.at(Base::Client);
    let session = client.post("/sessions", json!({ "serviceId": service })).expect(201).id();
    checks_tag(&client, &format!("/sessions/{session}"), &Json::Null, &["DELETE"]);

    let path = "/current-api-session/certificates";
    let certificate = client.post(path, json!({ "csr": Key::new().request() })).expect(201).id();
    checks_tag(&client, &format!("{path}/{certificate}"), &Json::Null, &["DELETE"]);
}
