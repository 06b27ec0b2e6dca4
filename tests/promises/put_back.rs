//! What a GET answers can be sent back with a PUT.

use std::collections::BTreeSet;

use overkeep::testing::{
    clock::Clock,
    http::{Interface, Interfaces},
};
use serde_json::{Value as Json, json};

use crate::harness::{Base, Caller, TestServer, fresh, interface};
use crate::kinds::{ENTANGLED, SAMPLES};

/// The paths of records with a GET and a PUT, by interface.
fn paths() -> Vec<(Base, String)> {
    let Interfaces { management, client, overkeep, fabric } = Interfaces::new().unwrap();
    let of = |(base, interface): (Base, Interface)| {
        let methods =
            |method: &str| interface.rows().filter(|row| row.method == method).map(|row| row.path.clone()).collect::<BTreeSet<_>>();
        let both: Vec<String> = methods("GET").intersection(&methods("PUT")).filter(|path| path.ends_with("/{id}")).cloned().collect();
        both.into_iter().map(move |path| (base, path.trim_end_matches("/{id}").to_owned())).collect::<Vec<_>>()
    };
    [(Base::Management, management), (Base::Client, client), (Base::Overkeep, overkeep), (Base::Fabric, fabric)]
        .into_iter()
        .flat_map(of)
        .collect()
}

/// A detail without what a write changes.
fn lasting(detail: &Json) -> Json {
    let mut lasting = detail.clone();
    lasting.as_object_mut().unwrap().remove("updatedAt");
    lasting
}

/// Sends a record back as it was answered, as a PUT and as a PATCH, and in a request that names another value for one member.
fn sent_back(caller: &Caller, path: &str) {
    let whole = caller.get(path).expect(200).data().clone();
    for method in ["PUT", "PATCH"] {
        caller.ask(method, path).json(&whole).send().expect(200);
        assert_eq!(lasting(caller.get(path).expect(200).data()), lasting(&whole), "{method} {path}");
    }
    let mut tagged = whole.clone();
    tagged["tags"] = json!({ "sent": "back" });
    caller.put(path, tagged).expect(200);
    assert_eq!(caller.get(path).expect(200).data()["tags"], json!({ "sent": "back" }));
}

#[test]
fn answers_can_be_sent_back() {
    let server = TestServer::with(Clock::system(), |config| config.router.enabled = true);
    for sample in SAMPLES {
        server.admin.post(&format!("/{}", sample.path), (sample.body)(&server, &fresh(sample.path))).expect(201);
        // One with nothing but what is required, which has nulls where the other has values.
        let mut bare = (sample.body)(&server, &fresh(sample.path));
        let required = sample_required(sample.path, sample.also, sample.tag);
        bare.as_object_mut().unwrap().retain(|name, _| required.contains(name));
        server.admin.post(&format!("/{}", sample.path), bare).expect(201);
    }
    let mut seen = BTreeSet::new();
    for (base, path) in paths() {
        let kind = path.trim_start_matches('/').rsplit('/').next().unwrap().to_owned();
        if ENTANGLED.contains(&kind.as_str()) {
            continue;
        }
        let caller = server.admin.at(base);
        let listed = caller.get(&format!("{path}?limit=500")).expect(200);
        let mut count = 0;
        for record in listed.data().as_array().unwrap() {
            let one = format!("{path}/{}", record["id"].as_str().unwrap());
            // Routers of the other kind are listed with transit routers, and cannot be changed there.
            let is_other = kind.ends_with("routers")
                && kind != "edge-routers"
                && server.admin.get(&format!("/edge-routers/{}", record["id"].as_str().unwrap())).status == 200;
            if !is_other && record["isSystem"] != true {
                sent_back(&caller, &one);
                count += 1;
            }
        }
        assert!(count >= 2, "{base:?} {path}: {count} records");
        seen.insert(kind);
    }
    let kinds: BTreeSet<String> = SAMPLES.iter().map(|sample| sample.path.to_owned()).collect();
    assert_eq!(seen, kinds, "every kind with a GET and a PUT has a sample");
}

/// The members that a body of a kind must have.
fn sample_required(path: &str, also: &[&str], tag: Option<&str>) -> BTreeSet<String> {
    let Interfaces { management, .. } = Interfaces::new().unwrap();
    let row = management.rows().find(|row| row.method == "POST" && row.path == format!("/{path}")).unwrap();
    let schema = &row.operation.body.as_ref().unwrap().schema;
    let required = schema["required"].as_array().into_iter().flatten().map(|name| name.as_str().unwrap().to_owned());
    required.chain(also.iter().chain(tag.iter()).map(|name| (*name).to_owned())).chain(["name".to_owned()]).collect()
}

#[test]
fn references_are_taken_as_ids() {
    let server = TestServer::start();
    let id = server.identity(&fresh("somebody"), json!({}));
    let path = format!("/identities/{id}");
    let shown = server.admin.get(&path).expect(200).data()["type"].clone();
    assert_eq!((&shown["id"], &shown["entity"]), (&json!("Default"), &json!("identity-types")));
    let put = |kind: Json| server.admin.put(&path, json!({ "name": fresh("other"), "isAdmin": false, "type": kind }));
    put(shown).expect(200);
    put(json!({ "id": "User", "entity": "identity-types" })).expect(200);
    put(json!({ "id": "Robot", "entity": "identity-types" })).refused(400, "COULD_NOT_VALIDATE", "type");
    // An object that is no reference is none.
    for other in
        [json!({ "id": "Default" }), json!({ "entity": "identity-types" }), json!({ "id": 5, "entity": "identity-types" }), json!([])]
    {
        assert_eq!(put(other).status, 400);
    }
    let document = &interface(Base::Management).document;
    assert_eq!(document.pointer("/components/schemas/IdentityReplace/properties/type/type"), Some(&json!("string")));
}
