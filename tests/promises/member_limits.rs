//! Members of records that requests fill freely are bounded in entries and bytes; the error names
//! the member and the configuration key. What clients may write is bounded more tightly, so that
//! one identity cannot grow the file.

use model::{
    clock::Clock,
    config::MemberLimits,
    entity::{Amount, AmountLimit},
};
use serde_json::{Map, Value as Json, json};

use crate::harness::{Answer, Base, Key, PASSWORD, TestServer, fresh, shared};

const SMALL: MemberLimits = MemberLimits {
    entries: 64,
    bytes: 4096,
    client_entries: 8,
    client_bytes: 512,
};

fn small() -> TestServer {
    TestServer::with(Clock::system(), |config| config.members = SMALL)
}

/// A map with this many entries.
fn map(entries: usize) -> Json {
    (0..entries)
        .map(|entry| (format!("k{entry}"), json!(entry)))
        .collect::<Map<_, _>>()
        .into()
}

fn roles(entries: usize) -> Json {
    (0..entries)
        .map(|entry| json!(format!("role-{entry}")))
        .collect::<Vec<_>>()
        .into()
}

#[track_caller]
fn refused_for(answer: Answer, member: &str, key: &str) {
    let answer = answer.refused(400, "COULD_NOT_VALIDATE", member);
    assert!(
        answer.text.contains(key),
        "{key} is not named: {}",
        answer.text
    );
}

#[test]
fn open_members_are_bounded() {
    let server = small();
    let admin = &server.admin;
    let config_type = admin
        .post("/config-types", json!({ "name": fresh("type") }))
        .expect(201)
        .id();
    let long = "x".repeat(4096);
    let kinds = [
        (
            "/services",
            json!({ "encryptionRequired": true }),
            vec!["roleAttributes"],
        ),
        (
            "/identities",
            json!({ "type": "User", "isAdmin": false }),
            vec!["roleAttributes", "appData"],
        ),
        (
            "/edge-routers",
            json!({}),
            vec!["roleAttributes", "appData"],
        ),
        (
            "/posture-checks",
            json!({ "typeId": "DOMAIN", "domains": ["x"] }),
            vec!["roleAttributes"],
        ),
        (
            "/configs",
            json!({ "configTypeId": config_type, "data": {} }),
            vec![],
        ),
        ("/config-types", json!({}), vec![]),
        ("/transit-routers", json!({}), vec![]),
        (
            "/service-policies",
            json!({ "type": "Dial", "semantic": "AllOf" }),
            vec![],
        ),
        (
            "/edge-router-policies",
            json!({ "semantic": "AllOf" }),
            vec![],
        ),
        (
            "/service-edge-router-policies",
            json!({ "semantic": "AllOf" }),
            vec![],
        ),
    ];
    for (path, body, members) in kinds {
        let with = |member: &str, value: Json| {
            let mut body = body.clone();
            body["name"] = fresh("bounded").into();
            body[member] = value;
            body
        };
        let stored = admin.post(path, with("tags", map(64))).expect(201).id();
        let at = format!("{path}/{stored}");
        for member in members.into_iter().chain(["tags"]) {
            let (fits, many, large) = if member == "roleAttributes" {
                (roles(64), roles(65), json!([long, "y"]))
            } else {
                (map(64), map(65), json!({ "k": long }))
            };
            admin.post(path, with(member, fits)).expect(201);
            refused_for(
                admin.post(path, with(member, many.clone())),
                member,
                "members.entries",
            );
            refused_for(
                admin.post(path, with(member, large.clone())),
                member,
                "members.bytes",
            );
            // PUT and PATCH ignore members that only creation sets.
            if !(path == "/edge-routers" && member == "appData") {
                refused_for(
                    admin.put(&at, with(member, many)),
                    member,
                    "members.entries",
                );
                refused_for(
                    admin.patch(&at, with(member, large)),
                    member,
                    "members.bytes",
                );
            }
        }
    }
}

#[test]
fn credential_members_are_bounded() {
    let server = small();
    let admin = &server.admin;
    let identity = server.identity("bounded", json!({}));
    let password = |tags: Json| json!({ "method": "updb", "identityId": identity, "username": "bounded", "password": PASSWORD, "tags": tags });
    refused_for(
        admin.post("/authenticators", password(map(65))),
        "tags",
        "members.entries",
    );
    let id = admin
        .post("/authenticators", password(map(64)))
        .expect(201)
        .id();
    let at = format!("/authenticators/{id}");
    refused_for(
        admin.put(
            &at,
            json!({ "username": "bounded", "password": PASSWORD, "tags": map(65) }),
        ),
        "tags",
        "members.entries",
    );
    refused_for(
        admin.patch(&at, json!({ "tags": { "k": "x".repeat(5000) } })),
        "tags",
        "members.bytes",
    );
    admin
        .patch(&at, json!({ "tags": { "k": [1] } }))
        .refused(400, "COULD_NOT_VALIDATE", "tags.k");
}

#[test]
fn oversized_records_may_only_shrink() {
    let most = AmountLimit::of(&SMALL);
    let amount = |entries, bytes| Amount { entries, bytes };
    let judged = |given: Amount, before: Amount| given.check("tags", before, &most).is_ok();
    assert!(judged(amount(64, 4096), amount(0, 0)));
    assert!(!judged(amount(65, 4096), amount(0, 0)) && !judged(amount(64, 4097), amount(0, 0)));
    assert!(
        judged(amount(70, 9000), amount(70, 9000)),
        "an unchanged oversized member is accepted"
    );
    assert!(judged(amount(65, 5000), amount(70, 9000)), "it shrinks");
    assert!(
        !judged(amount(71, 9000), amount(70, 9000)) && !judged(amount(70, 9001), amount(70, 9000))
    );
}

#[test]
fn whoever_uses_services_can_say_little() {
    let server = small();
    let (who, user) = server.user("small", json!({}));
    let service = server.service("small", json!({}));
    server.service_policy("Dial", &[&format!("@{who}")], &[&format!("@{service}")]);
    server.router_between(&who, &service);
    let session = |tags: Json| json!({ "serviceId": service, "type": "Dial", "tags": tags });
    refused_for(
        user.post("/sessions", session(map(9))),
        "tags",
        "members.client-entries",
    );
    refused_for(
        user.post("/sessions", session(json!({ "k": "x".repeat(512) }))),
        "tags",
        "members.client-bytes",
    );
    user.post("/sessions", session(map(8))).expect(201);

    let own = user
        .get("/current-identity/authenticators")
        .expect(200)
        .data()[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let change = json!({ "password": PASSWORD, "currentPassword": PASSWORD, "tags": map(9) });
    refused_for(
        user.patch(&format!("/current-identity/authenticators/{own}"), change),
        "tags",
        "members.client-entries",
    );

    let types: Vec<String> = (0..9).map(|each| format!("type-{each}")).collect();
    let login = json!({ "username": "small", "password": PASSWORD, "configTypes": types });
    refused_for(
        user.post("/authenticate?method=password", login),
        "configTypes",
        "members.client-entries",
    );
}

#[test]
fn certificate_requests_are_bounded() {
    let (_, user) = shared().user(&fresh("requester"), json!({}));
    let padded =
        |bytes: usize| json!({ "csr": format!("{}\n{}", "#".repeat(bytes), Key::new().request()) });
    user.post("/current-api-session/certificates", padded(1))
        .expect(201);
    user.post("/current-api-session/certificates", padded(16 << 10))
        .refused(400, "COULD_NOT_PROCESS_CSR", "");
}

#[test]
fn service_sessions_per_identity_are_bounded() {
    let server = TestServer::with(Clock::system(), |config| {
        config.sessions.services_per_identity = 2
    });
    let (who, user) = server.user("busy", json!({}));
    let services: Vec<String> = (0..3)
        .map(|each| server.service(&format!("service-{each}"), json!({})))
        .collect();
    server.service_policy("Dial", &[&format!("@{who}")], &["#all"]);
    services
        .iter()
        .for_each(|service| drop(server.router_between(&who, service)));
    let open = |at: usize| {
        user.post(
            "/sessions",
            json!({ "serviceId": services[at], "type": "Dial" }),
        )
    };
    let first = open(0).expect(201).id();
    open(1).expect(201);
    open(1).expect(201);
    open(2).refused(429, "SERVER_TOO_MANY_REQUESTS", "");
    // Sessions of the same identity count together, whichever API session opened them.
    let again = server.log_in_again("busy");
    again
        .post(
            "/sessions",
            json!({ "serviceId": services[2], "type": "Dial" }),
        )
        .refused(429, "SERVER_TOO_MANY_REQUESTS", "");
    user.delete(&format!("/sessions/{first}")).expect(200);
    open(2).expect(201);
    // Deleting an API session frees the quota of its sessions.
    user.at(Base::Client)
        .delete("/current-api-session")
        .expect(200);
    for service in &services[..2] {
        again
            .post("/sessions", json!({ "serviceId": service, "type": "Dial" }))
            .expect(201);
    }
}
