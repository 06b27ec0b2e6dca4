//! Which error a client gets if it asks too early, twice, or without the right to.

use serde_json::{Value as Json, json};

use crate::{
    harness::{Authority, Base, Caller, PASSWORD, fresh, shared},
    refusals::{Differences, Expected},
};

#[test]
fn sessions_name_the_first_obstacle() {
    let server = shared();
    let (id, ann) = server.user(&fresh("ann"), json!({}));
    let service = server.service(&fresh("service"), json!({}));
    let mut all = Differences::default();
    let wanted = |right: &str| json!({ "serviceId": service, "type": right });
    let mut ask = |body: Json, expected| {
        all.check(
            &body.to_string(),
            &ann.post("/sessions", body.clone()),
            expected,
        )
    };
    ask(json!({}), Expected::Code(404, "NOT_FOUND"));
    ask(wanted("Dial"), Expected::Code(404, "NOT_FOUND"));
    server.service_policy("Bind", &[&format!("@{id}")], &[&format!("@{service}")]);
    ask(wanted("Dial"), Expected::Field("ServiceId"));
    ask(
        json!({ "serviceId": service }),
        Expected::Field("ServiceId"),
    );
    ask(wanted("dial"), Expected::Field("type"));
    ask(wanted("Invalid"), Expected::Field("type"));
    ask(
        wanted("Bind"),
        Expected::Code(400, "NO_EDGE_ROUTERS_AVAILABLE"),
    );
    server.router_between(&id, &service);

    let role = fresh("strict");
    let check = json!({ "name": fresh("check"), "typeId": "MFA", "roleAttributes": [role] });
    let check = server.admin.post("/posture-checks", check).expect(201).id();
    let policy = json!({
        "name": fresh("dial"), "type": "Dial", "semantic": "AnyOf", "identityRoles": [format!("@{id}")],
        "serviceRoles": [format!("@{service}")], "postureCheckRoles": [format!("#{role}")]
    });
    let policy = server
        .admin
        .post("/service-policies", policy)
        .expect(201)
        .id();
    let refused = ann
        .post("/sessions", wanted("Dial"))
        .refused(409, "INVALID_POSTURE", "");
    let failed = json!({ policy: [{ "id": check, "typeId": "MFA", "isPassing": false }] });
    assert_eq!(
        refused.json["error"]["cause"]["data"], failed,
        "{}",
        refused.text
    );
    ann.post("/sessions", wanted("Bind")).expect(201);

    let routers = format!("/services/{service}/edge-routers");
    ann.ask("GET", &routers)
        .header("session-token", "none")
        .send()
        .refused(401, "UNAUTHORIZED", "");
    all.check(
        "opened by administrators",
        &ann.at(Base::Management).post("/sessions", wanted("Dial")),
        Expected::Code(405, "METHOD_NOT_ALLOWED"),
    );
}

#[test]
fn endpoints_answer_only_questions() {
    let (_, ann) = shared().user(&fresh("ann"), json!({}));
    let mut all = Differences::default();
    let os = |more: Json| {
        let mut body = json!({ "id": "a", "typeId": "OS", "type": "Linux", "version": "5.4.0" });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        body
    };
    for (body, expected) in [
        (json!({ "id": "a" }), Expected::Field("typeId")),
        (os(json!({ "typeId": "" })), Expected::Field("typeId")),
        (os(json!({ "id": null })), Expected::Field("id")),
        (os(json!({ "version": null })), Expected::Field("version")),
        (os(json!({ "typeId": "MFA" })), Expected::Unread),
        (os(json!({ "typeId": "PROCESS_MULTI" })), Expected::Unread),
        (os(json!({ "typeId": "os" })), Expected::Unread),
        (os(json!({ "version": 5 })), Expected::Unread),
    ] {
        all.check(
            "alone",
            &ann.post("/posture-response", body.clone()),
            expected,
        );
        all.check(
            "with a good one",
            &ann.post("/posture-response-bulk", json!([os(json!({})), body])),
            expected,
        );
    }
    let changed_at = |who: &Caller| {
        who.get("/current-api-session/service-updates")
            .expect(200)
            .data()
            .clone()
    };
    let before = changed_at(&ann);
    ann.post(
        "/posture-response-bulk",
        json!([os(json!({})), { "id": "a" }]),
    )
    .expect(400);
    assert_eq!(
        changed_at(&ann),
        before,
        "none of the responses was accepted"
    );

    for csr in ["", "no request"] {
        let answer = ann.post("/current-api-session/certificates", json!({ "csr": csr }));
        all.check(csr, &answer, Expected::Code(400, "COULD_NOT_PROCESS_CSR"));
    }
}

#[test]
fn out_of_order_requests_are_refused() {
    let server = shared();
    let mut all = Differences::default();
    let (_, ann) = server.user(&fresh("ann"), json!({}));
    let code = json!({ "code": "000000" });
    let mut ask = |who: &Caller, method: &str, path: &str, body: &Json, expected| {
        let asking = who.ask(method, path);
        let bare = body.is_null();
        all.check(
            &body.to_string(),
            &if bare {
                asking.send()
            } else {
                asking.json(body).send()
            },
            expected,
        );
    };
    let none = Expected::Code(404, "NOT_FOUND");
    ask(
        &ann,
        "POST",
        "/authenticate/mfa",
        &code,
        Expected::Code(409, "MFA_NOT_ENROLLED"),
    );
    for (method, path) in [("GET", ""), ("DELETE", ""), ("GET", "/qr-code")] {
        ask(
            &ann,
            method,
            &format!("/current-identity/mfa{path}"),
            &Json::Null,
            none,
        );
    }
    for (method, path) in [
        ("POST", "verify"),
        ("GET", "recovery-codes"),
        ("POST", "recovery-codes"),
    ] {
        ask(
            &ann,
            method,
            &format!("/current-identity/mfa/{path}"),
            &code,
            none,
        );
    }
    ann.ask("POST", "/current-identity/mfa").send().expect(201);
    ask(
        &ann,
        "POST",
        "/current-identity/mfa",
        &Json::Null,
        Expected::Code(409, "MFA_EXISTS"),
    );
    ask(
        &ann,
        "POST",
        "/current-identity/mfa/verify",
        &code,
        Expected::Code(400, "MFA_INVALID_TOKEN"),
    );

    let own = |who: &Caller| {
        who.get("/current-identity/authenticators")
            .expect(200)
            .each("id")[0]
            .to_owned()
    };
    let place = format!("/current-identity/authenticators/{}", own(&ann));
    let wrong =
        json!({ "username": "somebody", "password": PASSWORD, "currentPassword": "another one" });
    ask(
        &ann,
        "PUT",
        &place,
        &wrong,
        Expected::Of(401, "UNAUTHORIZED", "currentPassword"),
    );
    let (_, bob) = server.enrolled("bob");
    let bob = bob.log_in_by_certificate();
    let (place, cannot) = (
        own(&bob),
        Expected::Code(409, "CAN_NOT_UPDATE_AUTHENTICATOR"),
    );
    ask(
        &bob,
        "PUT",
        &format!("/current-identity/authenticators/{place}"),
        &wrong,
        cannot,
    );
    ask(
        &bob,
        "PATCH",
        &format!("/current-identity/authenticators/{place}"),
        &wrong,
        cannot,
    );
    ask(
        &bob,
        "POST",
        &format!("/current-identity/authenticators/{place}/extend-verify"),
        &json!({ "clientCert": "none waits" }),
        cannot,
    );
    ask(
        &server.admin,
        "PUT",
        &format!("/authenticators/{place}"),
        &wrong,
        cannot,
    );

    let authority = Authority::new("verified");
    let ca = server.add_ca(&authority);
    let again = server
        .admin
        .ask("POST", &format!("/cas/{ca}/verify"))
        .body("text/plain", authority.pem())
        .send();
    all.check(
        "verified again",
        &again,
        Expected::Code(409, "CA_ALREADY_VERIFIED"),
    );
}
