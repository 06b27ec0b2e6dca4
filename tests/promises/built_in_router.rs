//! The built-in edge router as a record: created at the first start, open to everybody, and the
//! operator's from then on.

use model::clock::Clock;
use serde_json::json;

use crate::{certificates::shown_by, harness::TestServer};

const ID: &str = "built-in";
const POLICIES: [&str; 2] = ["/edge-router-policies", "/service-edge-router-policies"];

#[test]
fn first_start_makes_an_open_router() {
    let server = TestServer::with_router();
    let address = server.bound();
    let router = server.admin.get("/edge-routers/built-in").expect(200);
    let seen = router.data();
    assert_eq!(
        (&seen["name"], &seen["roleAttributes"]),
        (&json!(ID), &json!([ID]))
    );
    assert_eq!(
        (&seen["isVerified"], &seen["isOnline"], &seen["syncStatus"]),
        (&json!(true), &json!(true), &json!("SYNC_DONE"))
    );
    assert_eq!(seen["hostname"], json!(address.ip().to_string()));
    assert_eq!(
        seen["supportedProtocols"],
        json!({ "tls": format!("tls://{address}") })
    );
    assert_eq!(
        seen["versionInfo"]["version"],
        json!(concat!("v", env!("CARGO_PKG_VERSION")))
    );
    assert_eq!(
        (&seen["enrollmentToken"], &seen["enrollmentJwt"]),
        (&json!(null), &json!(null))
    );
    assert_eq!(
        server
            .admin
            .list("/edge-routers", "online = true", "")
            .each("id"),
        [ID]
    );
    assert_eq!(
        server
            .admin
            .get("/edge-router-role-attributes")
            .expect(200)
            .data(),
        &json!([ID])
    );
    for policies in POLICIES {
        let made = server.admin.get(policies).expect(200);
        assert_eq!(made.total(), 1, "{policies}");
        assert_eq!(made.data()[0]["edgeRouterRoles"], json!(["#built-in"]));
    }

    let service = server.service("database", json!({}));
    let (alice, caller) = server.user("alice", json!({}));
    server.service_policy("Dial", &[&format!("@{alice}")], &[&format!("@{service}")]);
    let session = caller
        .post("/sessions", json!({ "serviceId": service, "type": "Dial" }))
        .expect(201);
    let over = &session.data()["edgeRouters"][0];
    assert_eq!(
        (&over["name"], &over["isOnline"]),
        (&json!(ID), &json!(true))
    );
    assert_eq!(over["urls"], json!({ "tls": format!("tls://{address}") }));
    assert_eq!(
        caller
            .get("/current-identity/edge-routers")
            .expect(200)
            .each("id"),
        [ID]
    );
    let over = caller
        .get(&format!("/services/{service}/edge-routers"))
        .expect(200);
    assert_eq!(over.data()["edgeRouters"][0]["isOnline"], json!(true));
    assert_eq!(
        server
            .admin
            .get(&format!("/identities/{alice}/edge-routers"))
            .expect(200)
            .each("id"),
        [ID]
    );
    assert_eq!(
        server
            .admin
            .get(&format!("/services/{service}/edge-routers"))
            .expect(200)
            .each("id"),
        [ID]
    );
}

#[test]
fn initial_policies_are_made_once() {
    let server = TestServer::with_router();
    let ids = POLICIES.map(|path| server.admin.get(path).expect(200).each("id")[0].to_owned());
    server
        .admin
        .patch(
            &format!("{}/{}", POLICIES[0], ids[0]),
            json!({ "identityRoles": ["#staff"] }),
        )
        .expect(200);
    server
        .admin
        .delete(&format!("{}/{}", POLICIES[1], ids[1]))
        .expect(200);

    let server = server.restarted(|config| config.router.enabled = true);
    let kept = server.admin.get(POLICIES[0]).expect(200);
    assert_eq!(
        (kept.total(), &kept.data()[0]["identityRoles"]),
        (1, &json!(["#staff"]))
    );
    assert_eq!(server.admin.get(POLICIES[1]).expect(200).total(), 0);
    assert_eq!(
        server.admin.get("/edge-routers").expect(200).each("id"),
        [ID]
    );
}

#[test]
fn later_start_makes_only_the_record() {
    let server = TestServer::start();
    assert_eq!(server.admin.get("/edge-routers").expect(200).total(), 0);
    POLICIES
        .iter()
        .for_each(|path| assert_eq!(server.admin.get(path).expect(200).total(), 0, "{path}"));
    // Names of routers are unique across both kinds.
    server
        .admin
        .post("/edge-routers", json!({ "name": "built-in" }))
        .expect(201);
    server
        .admin
        .post("/transit-routers", json!({ "name": "built-in-2" }))
        .expect(201);

    let server = server.restarted(|config| config.router.enabled = true);
    let router = server.admin.get("/edge-routers/built-in").expect(200);
    assert_eq!(
        (&router.data()["name"], &router.data()["isOnline"]),
        (&json!("built-in-3"), &json!(true))
    );
    POLICIES
        .iter()
        .for_each(|path| assert_eq!(server.admin.get(path).expect(200).total(), 0, "{path}"));

    let server = server.restarted(|_| ());
    let router = server.admin.get("/edge-routers/built-in").expect(200);
    assert_eq!(
        (
            &router.data()["isOnline"],
            &router.data()["supportedProtocols"]
        ),
        (&json!(false), &json!({}))
    );
}

#[test]
fn built_in_router_cannot_be_deleted() {
    let server = TestServer::with_router();
    let path = "/edge-routers/built-in";
    server
        .admin
        .delete(path)
        .refused(400, "ENTITY_CAN_NOT_BE_DELETED", "");
    server
        .admin
        .post(&format!("{path}/re-enroll"), json!({}))
        .refused(400, "ENTITY_CAN_NOT_BE_UPDATED", "");
    server
        .admin
        .patch(path, json!({ "isTunnelerEnabled": true }))
        .refused(400, "COULD_NOT_VALIDATE", "isTunnelerEnabled");
    assert_eq!(server.admin.get("/enrollments").expect(200).total(), 0);

    server
        .admin
        .patch(
            path,
            json!({ "name": "front", "roleAttributes": ["public"], "cost": 7 }),
        )
        .expect(200);
    server
        .admin
        .patch(path, json!({ "disabled": true }))
        .expect(200);
    assert_eq!(
        server.admin.get(path).expect(200).data()["isOnline"],
        json!(false)
    );
    let server = server.restarted(|config| config.router.enabled = true);
    let kept = server.admin.get(path).expect(200);
    assert_eq!(
        (&kept.data()["name"], &kept.data()["roleAttributes"]),
        (&json!("front"), &json!(["public"]))
    );
    assert_eq!(
        kept.data()["isOnline"],
        json!(false),
        "disabled before the start"
    );
    server
        .admin
        .patch(path, json!({ "disabled": false }))
        .expect(200);
    assert_eq!(
        server.admin.get(path).expect(200).data()["isOnline"],
        json!(true)
    );
}

#[test]
fn configured_router_address_is_certified() {
    let server = TestServer::with(Clock::system(), |config| {
        config.router.enabled = true;
        config.router.advertise = Some("edge.example.org:3022".parse().unwrap());
    });
    let router = server.admin.get("/edge-routers/built-in").expect(200);
    assert_eq!(router.data()["hostname"], json!("edge.example.org"));
    assert_eq!(
        router.data()["supportedProtocols"],
        json!({ "tls": "tls://edge.example.org:3022" })
    );
    assert!(shown_by(&server).is_for("edge.example.org"));

    let server = server.restarted(|config| {
        config.router.enabled = true;
        config.router.advertise = Some("other.example.org:443".parse().unwrap());
    });
    assert!(shown_by(&server).is_for("other.example.org"));
}
