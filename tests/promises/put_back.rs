//! What a GET answers can be sent back with a PUT.

use std::collections::BTreeSet;

use model::clock::Clock;
use rest::{Interface, Interfaces};
use serde_json::{Value as Json, json};

use crate::harness::{Authority, Base, Caller, TestServer, fresh, interface};
use crate::kinds::{ENTANGLED, SAMPLES};

/// The paths of records with a GET and a PUT, by interface.
fn paths() -> Vec<(Base, String)> {
    let Interfaces {
        management,
        client,
        overkeep,
        fabric,
    } = Interfaces::new().unwrap();
    let of = |(base, interface): (Base, Interface)| {
        let methods = |method: &str| {
            interface
                .rows()
                .filter(|row| row.method == method)
                .map(|row| row.path.clone())
                .collect::<BTreeSet<_>>()
        };
        let both: Vec<String> = methods("GET")
            .intersection(&methods("PUT"))
            .filter(|path| path.ends_with("/{id}"))
            .cloned()
            .collect();
        both.into_iter()
            .map(move |path| (base, path.trim_end_matches("/{id}").to_owned()))
            .collect::<Vec<_>>()
    };
    [
        (Base::Management, management),
        (Base::Client, client),
        (Base::Overkeep, overkeep),
        (Base::Fabric, fabric),
    ]
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

/// Sends a record back as it was answered, with what no answer holds, as a PUT and as a PATCH, and
/// in a request that names another value for one member.
fn sent_back(caller: &Caller, path: &str, unseen: &Json) {
    let whole = caller.get(path).expect(200).data().clone();
    let mut sent = whole.clone();
    sent.as_object_mut()
        .unwrap()
        .extend(unseen.as_object().unwrap().clone());
    for method in ["PUT", "PATCH"] {
        caller.ask(method, path).json(&sent).send().expect(200);
        assert_eq!(
            lasting(caller.get(path).expect(200).data()),
            lasting(&whole),
            "{method} {path}"
        );
    }
    sent["tags"] = json!({ "sent": "back" });
    caller.put(path, sent).expect(200);
    assert_eq!(
        caller.get(path).expect(200).data()["tags"],
        json!({ "sent": "back" })
    );
}

/// What refuses a record that is sent back as it was answered with a PUT, as the established
/// controller does: status, code and member.
fn refusal(
    kind: &str,
    record: &Json,
    is_edge_router: bool,
) -> Option<(u16, &'static str, &'static str)> {
    match kind {
        // Recorded in the scenario `routers`: an edge router is listed among all routers and
        // changed as an edge router only.
        "routers" | "transit-routers" if is_edge_router => Some((409, "CAN_NOT_UPDATE_ROUTER", "")),
        // The policy of a router that is a tunneler changes with the router.
        _ if record["isSystem"] == true => Some((400, "ENTITY_CAN_NOT_BE_UPDATED", "")),
        // `authenticatorUpdate` of the description requires a user name and a password, which a
        // certificate has not.
        "authenticators" if record["method"] == "cert" => {
            Some((400, "COULD_NOT_VALIDATE", "password"))
        }
        // `externalJwtSignerUpdate` of the description requires an issuer that is not null. A blank
        // one is shown as null.
        "external-jwt-signers" if record["issuer"].is_null() => {
            Some((400, "COULD_NOT_VALIDATE", "issuer"))
        }
        _ => None,
    }
}

/// Records of every kind that can be changed: one with every member, one with nothing but what is
/// required, which has nulls where the other has values, and one with other values.
fn fill(server: &TestServer) {
    for sample in SAMPLES {
        let path = format!("/{}", sample.path);
        let whole = || (sample.body)(server, &fresh(sample.path));
        let (mut bare, mut other) = (whole(), whole());
        let required = sample_required(sample.path, sample.also, sample.tag);
        bare.as_object_mut()
            .unwrap()
            .retain(|name, _| required.contains(name));
        other
            .as_object_mut()
            .unwrap()
            .extend((sample.changes)(server).as_object().unwrap().clone());
        for body in [whole(), bare, other] {
            server.admin.post(&path, body).expect(201);
        }
    }
    let blank = json!({ "name": fresh("signer"), "issuer": " ", "audience": "overlay", "enabled": true, "jwksEndpoint": "https://idp.test" });
    server
        .admin
        .post("/external-jwt-signers", blank)
        .expect(201);
    server.add_ca(&Authority::new(&fresh("authority")));
    server.enrolled("device");
    server.user(&fresh("user"), json!({}));
}

#[test]
fn answers_can_be_sent_back() {
    let server = TestServer::with(Clock::system(), |config| config.router.enabled = true);
    fill(&server);
    let password = json!({ "password": server.password, "currentPassword": server.password });
    let (mut seen, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for (base, path) in paths() {
        let kind = path.rsplit('/').next().unwrap();
        let caller = server.admin.at(base);
        let listed = caller.get(&format!("{path}?limit=500")).expect(200);
        let mut count = 0;
        for record in listed.data().as_array().unwrap() {
            let id = record["id"].as_str().unwrap();
            let one = format!("{path}/{id}");
            let is_edge_router = server.admin.get(&format!("/edge-routers/{id}")).status == 200;
            if let Some((status, code, member)) = refusal(kind, record, is_edge_router) {
                caller
                    .put(&one, record.clone())
                    .refused(status, code, member);
                refused.insert((kind.to_owned(), code));
            } else {
                let unseen = if kind == "authenticators" {
                    &password
                } else {
                    &json!({})
                };
                sent_back(&caller, &one, unseen);
                count += 1;
            }
        }
        assert!(
            count >= 2 || path.starts_with("/current-identity/"),
            "{base:?} {path}: {count} records"
        );
        assert!(count >= 1, "{base:?} {path}");
        seen.insert(kind.to_owned());
    }
    let kinds: BTreeSet<String> = SAMPLES
        .iter()
        .map(|sample| sample.path)
        .chain(ENTANGLED)
        .map(str::to_owned)
        .collect();
    assert_eq!(seen, kinds, "every kind with a GET and a PUT has a sample");
    assert_eq!(refused.len(), 5, "every refusal is met: {refused:?}");
}

/// The members that a body of a kind must have.
fn sample_required(path: &str, also: &[&str], tag: Option<&str>) -> BTreeSet<String> {
    let Interfaces { management, .. } = Interfaces::new().unwrap();
    let row = management
        .rows()
        .find(|row| row.method == "POST" && row.path == format!("/{path}"))
        .unwrap();
    let schema = &row.operation.body.as_ref().unwrap().schema;
    let required = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|name| name.as_str().unwrap().to_owned());
    required
        .chain(also.iter().chain(tag.iter()).map(|name| (*name).to_owned()))
        .chain(["name".to_owned()])
        .collect()
}

#[test]
fn references_are_taken_as_ids() {
    let server = TestServer::start();
    let id = server.identity(&fresh("somebody"), json!({}));
    let path = format!("/identities/{id}");
    let shown = server.admin.get(&path).expect(200).data()["type"].clone();
    assert_eq!(
        (&shown["id"], &shown["entity"]),
        (&json!("Default"), &json!("identity-types"))
    );
    let put = |kind: Json| {
        server.admin.put(
            &path,
            json!({ "name": fresh("other"), "isAdmin": false, "type": kind }),
        )
    };
    put(shown).expect(200);
    put(json!({ "id": "User", "entity": "identity-types" })).expect(200);
    put(json!({ "id": "Robot", "entity": "identity-types" })).refused(
        400,
        "COULD_NOT_VALIDATE",
        "type",
    );
    // An object that is no reference is none.
    for other in [
        json!({ "id": "Default" }),
        json!({ "entity": "identity-types" }),
        json!({ "id": 5, "entity": "identity-types" }),
        json!([]),
    ] {
        assert_eq!(put(other).status, 400);
    }
    let document = &interface(Base::Management).document;
    assert_eq!(
        document.pointer("/components/schemas/IdentityReplace/properties/type/type"),
        Some(&json!("string"))
    );
}
