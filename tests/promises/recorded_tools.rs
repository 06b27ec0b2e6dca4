//! Requests of tools and applications beyond the contract: the fabric API, and operations of later
//! API descriptions.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value as Json, json};

use crate::harness::{Authority, Base, Key, TestServer};

/// Creates an edge router, a transit router, a service and a terminator; returns the ids of edge
/// router, service and terminator.
fn with_terminator(server: &TestServer) -> (String, String, String) {
    let admin = &server.admin;
    let gate = admin
        .post(
            "/edge-routers",
            json!({ "name": "gate", "cost": 7, "noTraversal": true, "tags": { "site": "west" } }),
        )
        .expect(201)
        .id();
    admin
        .post(
            "/transit-routers",
            json!({ "name": "relay", "disabled": true }),
        )
        .expect(201);
    let service = server.service("db", json!({ "terminatorStrategy": "weighted" }));
    let terminator = json!({ "service": service, "router": gate, "binding": "transport", "address": "tcp:db:5432", "cost": 3, "precedence": "required", "identity": "one" });
    let terminator = admin.post("/terminators", terminator).expect(201).id();
    (gate, service, terminator)
}

#[test]
fn fabric_lists_its_records() {
    let server = TestServer::start();
    let (gate, service, terminator) = with_terminator(&server);
    let fabric = server.admin.at(Base::Fabric);
    let routers = fabric.get("/routers?sort=name").expect(200);
    assert_eq!(
        (routers.each("name"), routers.total()),
        (vec!["gate", "relay"], 2)
    );
    let seen = &routers.data()[0];
    assert_eq!(
        (
            &seen["cost"],
            &seen["noTraversal"],
            &seen["disabled"],
            &seen["connected"]
        ),
        (&json!(7), &json!(true), &json!(false), &json!(false))
    );
    assert_eq!(seen["tags"], json!({ "site": "west" }));
    assert_eq!(
        seen["_links"]["terminators"]["href"],
        format!("./routers/{gate}/terminators")
    );
    assert_eq!(
        fabric.get(&format!("/routers/{gate}")).expect(200).data(),
        seen
    );
    assert_eq!(
        fabric
            .list("/routers", "name = \"relay\"", "")
            .expect(200)
            .each("name"),
        ["relay"]
    );
    assert_eq!(
        fabric
            .list("/routers", "true sort by name desc limit 1", "")
            .expect(200)
            .each("name"),
        ["relay"]
    );

    let services = fabric.get("/services").expect(200);
    assert_eq!(
        (
            &services.data()[0]["name"],
            &services.data()[0]["terminatorStrategy"]
        ),
        (&json!("db"), &json!("weighted"))
    );
    assert_eq!(
        fabric
            .get(&format!("/services/{service}"))
            .expect(200)
            .data(),
        &services.data()[0]
    );

    let shown = fabric
        .get(&format!("/terminators/{terminator}"))
        .expect(200);
    let shown = shown.data();
    assert_eq!(
        (
            &shown["serviceId"],
            &shown["service"]["name"],
            &shown["routerId"],
            &shown["router"]["name"]
        ),
        (&json!(service), &json!("db"), &json!(gate), &json!("gate"))
    );
    assert_eq!(shown["router"]["entity"], "routers");
    assert_eq!(
        (
            &shown["instanceId"],
            &shown["hostId"],
            &shown["precedence"],
            &shown["dynamicCost"]
        ),
        (&json!("one"), &json!(""), &json!("required"), &json!(0))
    );
    for path in [
        "/terminators".to_owned(),
        format!("/services/{service}/terminators"),
        format!("/routers/{gate}/terminators"),
    ] {
        assert_eq!(
            fabric.get(&path).expect(200).data(),
            &json!([shown]),
            "{path}"
        );
    }
    for path in ["/links", "/circuits"] {
        let none = fabric.get(path).expect(200);
        assert_eq!((none.data(), none.total()), (&json!([]), 0), "{path}");
        fabric
            .list(path, "colour = 1", "")
            .refused(400, "INVALID_FILTER", "");
    }
    for kind in ["routers", "services", "terminators", "links", "circuits"] {
        fabric
            .get(&format!("/{kind}/nowhere"))
            .refused(404, "NOT_FOUND", "");
    }
}

#[test]
fn fabric_paths_are_normalized() {
    let server = TestServer::start();
    let (gate, ..) = with_terminator(&server);
    let fabric = server.admin.at(Base::Fabric);
    assert_eq!(fabric.get("/fabric/v1//routers").expect(200).total(), 2);
    assert_eq!(fabric.get("/routers//").expect(200).total(), 2);
    for (method, path) in [
        ("POST", "/routers".to_owned()),
        ("DELETE", format!("/routers/{gate}")),
        ("PATCH", format!("/routers/{gate}")),
        ("PUT", "/services/x".into()),
    ] {
        fabric
            .ask(method, &path)
            .json(&json!({}))
            .send()
            .refused(405, "METHOD_NOT_ALLOWED", "");
    }
    let (_, ann) = server.user("anna", json!({}));
    ann.at(Base::Fabric)
        .get("/routers")
        .refused(401, "UNAUTHORIZED", "");
}

#[test]
fn fabric_snapshot_stays_beside_file() {
    let server = TestServer::start();
    let fabric = server.admin.at(Base::Fabric);
    let elsewhere = server.data().with_file_name("elsewhere");
    fabric
        .post(
            "/database/snapshot",
            json!({ "path": elsewhere.display().to_string() }),
        )
        .refused(400, "COULD_NOT_VALIDATE", "path");
    assert!(!elsewhere.exists());
    let made = fabric.post("/database/snapshot", json!({})).expect(200);
    let path = std::path::PathBuf::from(made.data()["path"].as_str().unwrap());
    assert!(
        path.exists() && path.parent() == server.data().parent(),
        "{path:?}"
    );
    // A second snapshot within the same minute.
    fabric.post("/database", json!({})).expect(429);
    server
        .admin
        .post("/database/snapshot", json!({}))
        .expect(429);
}

#[test]
fn a_snapshot_needs_no_body() {
    let server = TestServer::start();
    server
        .admin
        .at(Base::Fabric)
        .ask("POST", "/database")
        .send()
        .expect(200);
}

#[test]
fn configs_list_their_services() {
    let server = TestServer::start();
    let config = json!({ "name": "c", "configTypeId": "host.v2", "data": { "terminators": [{ "protocol": "tcp", "address": "a", "port": 1 }] } });
    let config = server.admin.post("/configs", config).expect(201).id();
    server.service("with", json!({ "configs": [config] }));
    server.service("without", json!({}));
    let listed = server
        .admin
        .get(&format!("/configs/{config}/services"))
        .expect(200);
    assert_eq!((listed.each("name"), listed.total()), (vec!["with"], 1));
    assert_eq!(
        server
            .admin
            .list(
                &format!("/configs/{config}/services"),
                "name = \"without\"",
                ""
            )
            .expect(200)
            .total(),
        0
    );
    assert_eq!(
        server
            .admin
            .get("/configs/nowhere/services")
            .expect(200)
            .total(),
        0
    );
}

#[test]
fn posture_role_attributes_are_listed() {
    let server = TestServer::start();
    let check = |name: &str, roles: Json| {
        server
            .admin
            .post("/posture-checks", json!({ "name": name, "typeId": "DOMAIN", "domains": ["a"], "roleAttributes": roles }))
            .expect(201)
    };
    check("one", json!(["safe", "old"]));
    check("two", json!(["safe"]));
    assert_eq!(
        server
            .admin
            .get("/posture-check-role-attributes")
            .expect(200)
            .data(),
        &json!(["old", "safe"])
    );
    assert_eq!(
        server
            .admin
            .list("/posture-check-role-attributes", "id contains \"sa\"", "")
            .expect(200)
            .data(),
        &json!(["safe"])
    );
}

#[test]
fn network_token_is_public() {
    let server = TestServer::start();
    for base in [Base::Management, Base::Client] {
        let anonymous = server.anonymous().at(base);
        let listed = anonymous.get("/network-jwts").expect(200);
        assert_eq!(listed.data()[0]["name"], "default");
        let token = listed.data()[0]["token"].as_str().unwrap();
        let parts: Vec<&str> = token.split('.').collect();
        let json = |part: &str| {
            serde_json::from_slice::<Json>(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
        };
        let (head, claims) = (json(parts[0]), json(parts[1]));
        assert_eq!(
            (&claims["em"], &claims["aud"]),
            (&json!("network"), &json!(["openziti-enroller"]))
        );
        assert_eq!(claims["iss"], claims["sub"]);
        assert!(
            claims["iss"].as_str().unwrap().starts_with("https://") && claims.get("exp").is_none(),
            "{claims}"
        );
        assert!(head["kid"].is_string() && parts.len() == 3, "{head}");
        assert_eq!(
            anonymous.get("/network-jwts").expect(200).data(),
            listed.data(),
            "it is signed once"
        );
    }
}

#[test]
fn certificates_tell_whether_renewable() {
    let server = TestServer::start();
    let of_identity = |id: &str| {
        let held = server
            .admin
            .get(&format!("/identities/{id}/authenticators"))
            .expect(200);
        held.data()
            .as_array()
            .unwrap()
            .iter()
            .map(|one| (one["method"].clone(), one["isIssuedByNetwork"].clone()))
            .collect::<Vec<_>>()
    };
    let extendable = |caller: &crate::harness::Caller| {
        caller.get("/current-api-session").expect(200).data()["isCertExtendable"].clone()
    };
    let (id, enrolled) = server.enrolled("ours");
    let session = enrolled.log_in_by_certificate();
    assert_eq!(
        (of_identity(&id), extendable(&session)),
        (vec![(json!("cert"), json!(true))], json!(true))
    );

    let authority = Authority::new("theirs");
    server.add_ca(&authority);
    let (identity, key) = (server.identity("stranger", json!({})), Key::new());
    let pem = authority.issue(" ", &key);
    server
        .admin
        .post(
            "/authenticators",
            json!({ "method": "cert", "identityId": identity, "certPem": pem }),
        )
        .expect(201);
    let session = server.with_certificate(&pem, &key).log_in_by_certificate();
    assert_eq!(
        (of_identity(&identity), extendable(&session)),
        (vec![(json!("cert"), json!(false))], json!(false))
    );

    let (id, ann) = server.user("anna", json!({}));
    assert_eq!(
        (of_identity(&id), extendable(&ann)),
        (vec![(json!("updb"), Json::Null)], json!(false))
    );
}
