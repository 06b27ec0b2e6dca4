//! Whoever says which version of a record they know does not overwrite another.

use serde_json::json;

use crate::harness::{Answer, Caller, fresh, shared};

fn tag(answer: &Answer) -> String {
    assert!(answer.header("etag").starts_with('"'), "{}: no entity tag", answer.asked);
    answer.header("etag").to_owned()
}

fn write(caller: &Caller, method: &str, path: &str, known: &str) -> Answer {
    caller.ask(method, path).header("If-Match", known).json(&json!({ "name": fresh("config-type") })).send()
}

#[test]
fn a_write_of_what_is_known_passes_and_one_of_what_was_does_not() {
    let admin = &shared().admin;
    let id = admin.post("/config-types", json!({ "name": fresh("config-type") })).expect(201).id();
    let path = format!("/config-types/{id}");
    let first = tag(&admin.get(&path).expect(200));
    assert_eq!(first, tag(&admin.get(&path).expect(200)), "reading changes nothing");

    write(admin, "PATCH", &path, &first).expect(200);
    let second = tag(&admin.get(&path).expect(200));
    assert_ne!(first, second);
    for method in ["PUT", "PATCH", "DELETE"] {
        write(admin, method, &path, &first).refused(412, "PRECONDITION_FAILED", "");
    }
    assert_eq!(second, tag(&admin.get(&path).expect(200)), "a refused write leaves the record");

    write(admin, "PUT", &path, &format!("\"other\", {second}")).expect(200);
    write(admin, "PATCH", &path, "*").expect(200);
    write(admin, "PATCH", "/config-types/none", "*").refused(404, "NOT_FOUND", "");
    let now = tag(&admin.get(&path).expect(200));
    admin.ask("DELETE", &path).header("If-Match", &now).send().expect(200);
}

#[test]
fn nobody_has_to_say_what_they_know() {
    let admin = &shared().admin;
    let id = admin.post("/config-types", json!({ "name": fresh("config-type") })).expect(201).id();
    admin.patch(&format!("/config-types/{id}"), json!({ "tags": { "a": 1 } })).expect(200);
    admin.delete(&format!("/config-types/{id}")).expect(200);
}
