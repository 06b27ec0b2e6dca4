//! Requests rejected because of existing data: duplicate names, unknown ids in a body, records in
//! use, and records of the system or of other users. Codes and fields are those that clients
//! expect.

use serde_json::{Value as Json, json};

use crate::{
    harness::{Answer, Authority, Base, Caller, Key, PASSWORD, TestServer, fresh, shared},
    kinds::SAMPLES,
    refusals::{Differences, Expected},
};

const NOWHERE: &str = "nothing-has-this-id";

fn admin() -> &'static Caller {
    &shared().admin
}

fn send(method: &str, path: &str, body: &Json) -> Answer {
    admin().ask(method, path).json(body).send()
}

/// Creates a record and returns its id.
fn made(path: &str, body: Json) -> String {
    admin().post(path, body).expect(201).id()
}

/// The sample body of a kind, with a fresh name and other members added.
fn sample(path: &str, more: Json) -> Json {
    let sample = SAMPLES.iter().find(|sample| sample.path == path).unwrap();
    let mut body = (sample.body)(shared(), &fresh("conflict"));
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    body
}

/// An auth policy with these primary signers and this secondary one.
fn auth_policy(primary: &[&str], secondary: Option<&str>) -> Json {
    let mut body = sample("auth-policies", json!({}));
    body["primary"]["extJwt"]["allowedSigners"] = json!(primary);
    body["secondary"]["requireExtJwtSigner"] = json!(secondary);
    body
}

#[test]
fn bodies_without_names_are_refused() {
    let config_type = made("/config-types", json!({ "name": fresh("type") }));
    let configs = [0, 1].map(|_| {
        made(
            "/configs",
            json!({ "name": fresh("config"), "configTypeId": config_type, "data": {} }),
        )
    });
    let identity = shared().identity(&fresh("somebody"), json!({}));
    let service = shared().service(&fresh("service"), json!({}));
    let soon = shared()
        .clock
        .now()
        .plus(std::time::Duration::from_secs(60))
        .to_string();
    let (not_found, bad) = (
        Expected::Code(404, "NOT_FOUND"),
        Expected::Code(400, "REFERENCED_ENTITY_NOT_FOUND"),
    );
    let of = |field| Expected::Of(404, "NOT_FOUND", field);
    let ott = |more: Json| {
        let mut body = json!({ "method": "ott", "identityId": identity, "expiresAt": soon });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        body
    };
    let mut cases = vec![
        (
            "configs",
            json!({ "configTypeId": NOWHERE }),
            Expected::Field("type"),
        ),
        (
            "configs",
            json!({ "configTypeId": "" }),
            Expected::Field("type"),
        ),
        ("services", json!({ "configs": [NOWHERE] }), not_found),
        (
            "services",
            json!({ "configs": configs }),
            Expected::Field("configs"),
        ),
        (
            "services",
            json!({ "configs": [configs[0], configs[0]] }),
            Expected::Field("configs"),
        ),
        (
            "services",
            json!({ "terminatorStrategy": "fastest" }),
            not_found,
        ),
        ("identities", json!({ "authPolicyId": NOWHERE }), not_found),
        (
            "identities",
            json!({ "serviceHostingCosts": { NOWHERE: 1 } }),
            not_found,
        ),
        (
            "identities",
            json!({ "serviceHostingPrecedences": { NOWHERE: "failed" } }),
            not_found,
        ),
        (
            "identities",
            json!({ "enrollment": { "ottca": NOWHERE } }),
            of("caId"),
        ),
        ("terminators", json!({ "service": NOWHERE }), not_found),
        ("terminators", json!({ "router": NOWHERE }), not_found),
    ];
    for (path, members) in [
        (
            "service-policies",
            &["identityRoles", "serviceRoles", "postureCheckRoles"][..],
        ),
        (
            "edge-router-policies",
            &["identityRoles", "edgeRouterRoles"],
        ),
        (
            "service-edge-router-policies",
            &["serviceRoles", "edgeRouterRoles"],
        ),
    ] {
        for member in members {
            for roles in [
                json!(["@nothing"]),
                json!(["bare"]),
                json!(["#all", "#some"]),
                json!([""]),
            ] {
                cases.push((path, json!({ *member: roles }), Expected::Field(member)));
            }
        }
    }
    let mut all = Differences::default();
    for (path, more, expected) in &cases {
        all.check(
            &more.to_string(),
            &send("POST", &format!("/{path}"), &sample(path, more.clone())),
            *expected,
        );
    }
    let primary = Expected::Of(404, "NOT_FOUND", "primary.extJwt.allowedExtJwtSigners[0]");
    let pair = json!([{ "serviceId": service, "configId": NOWHERE }]);
    for (method, path, body, expected) in [
        (
            "POST",
            "/auth-policies".into(),
            auth_policy(&[NOWHERE], None),
            primary,
        ),
        (
            "POST",
            "/auth-policies".into(),
            auth_policy(&[], Some(NOWHERE)),
            of("secondary.requiredExtJwtSigner"),
        ),
        (
            "POST",
            "/authenticators".into(),
            json!({ "method": "updb", "identityId": NOWHERE, "username": "nobody", "password": PASSWORD }),
            not_found,
        ),
        (
            "POST",
            "/authenticators".into(),
            json!({ "method": "updb", "identityId": identity, "username": "tagged", "password": PASSWORD, "tags": { "a": {} } }),
            Expected::Field("tags.a"),
        ),
        (
            "POST",
            "/enrollments".into(),
            ott(json!({ "identityId": NOWHERE })),
            bad,
        ),
        (
            "POST",
            "/enrollments".into(),
            ott(json!({ "expiresAt": "2001-01-01T00:00:00Z" })),
            bad,
        ),
        (
            "POST",
            "/enrollments".into(),
            ott(json!({ "method": "ottca", "caId": NOWHERE })),
            bad,
        ),
        (
            "POST",
            "/enrollments".into(),
            ott(json!({ "method": "ottca" })),
            bad,
        ),
        (
            "POST",
            "/enrollments".into(),
            ott(json!({ "method": "updb" })),
            bad,
        ),
        (
            "POST",
            "/enrollments".into(),
            ott(json!({ "method": "updb", "username": " " })),
            bad,
        ),
        (
            "POST",
            "/enrollments".into(),
            ott(json!({ "method": "erott" })),
            Expected::Field("method"),
        ),
        (
            "POST",
            format!("/identities/{identity}/service-configs"),
            pair.clone(),
            not_found,
        ),
        (
            "DELETE",
            format!("/identities/{identity}/service-configs"),
            pair,
            not_found,
        ),
        (
            "PUT",
            format!("/identities/{identity}/trace"),
            json!({ "enabled": true, "duration": "soon", "traceId": "a", "channels": [] }),
            Expected::Field("duration"),
        ),
        (
            "GET",
            format!("/identities/{identity}/policy-advice/{NOWHERE}"),
            json!({}),
            not_found,
        ),
    ] {
        all.check(&body.to_string(), &send(method, &path, &body), expected);
    }
}

#[test]
fn broken_rules_name_the_member() {
    let field = Expected::Field;
    let hosting = shared().service(&fresh("hosting"), json!({}));
    let numbered = json!({ "name": fresh("type"), "schema": { "type": "object", "required": ["n"], "properties": { "n": { "type": "integer" } } } });
    let numbered = made("/config-types", numbered);
    let claim = |more: Json| {
        let mut claim = json!({ "location": "COMMON_NAME", "matcher": "ALL", "matcherCriteria": "", "parser": "NONE", "parserCriteria": "", "index": 0 });
        claim
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({ "externalIdClaim": claim })
    };
    let two = format!("{}{}", Authority::new("a").pem(), Authority::new("b").pem());
    let mut all = Differences::default();
    let places = [
        format!("serviceHostingCosts.{hosting}"),
        format!("serviceHostingPrecedences.{hosting}"),
    ];
    for (path, more, expected) in [
        (
            "services",
            json!({ "maxIdleTimeMillis": -5 }),
            field("maxIdleTimeMillis"),
        ),
        (
            "services",
            json!({ "roleAttributes": ["#a"] }),
            field("roleAttributes"),
        ),
        (
            "edge-routers",
            json!({ "roleAttributes": ["ok", "@a"] }),
            field("roleAttributes"),
        ),
        (
            "identities",
            json!({ "roleAttributes": ["@a"] }),
            field("roleAttributes"),
        ),
        (
            "identities",
            json!({ "roleAttributes": [""] }),
            field("roleAttributes"),
        ),
        (
            "identities",
            json!({ "serviceHostingCosts": { hosting.as_str(): 65_536 } }),
            field(&places[0]),
        ),
        (
            "identities",
            json!({ "serviceHostingPrecedences": { hosting.as_str(): "best" } }),
            field(&places[1]),
        ),
        ("config-types", json!({ "name": "all" }), field("name")),
        (
            "config-types",
            json!({ "schema": { "type": "string" } }),
            field("schema"),
        ),
        (
            "config-types",
            json!({ "schema": { "type": "object", "properties": 5 } }),
            field("schema"),
        ),
        (
            "configs",
            json!({ "configTypeId": numbered, "data": {} }),
            field("(root)"),
        ),
        (
            "configs",
            json!({ "configTypeId": numbered, "data": { "n": "one" } }),
            field("n"),
        ),
        (
            "service-policies",
            json!({ "type": "Invalid" }),
            field("policyType"),
        ),
        ("terminators", json!({ "address": "" }), field("address")),
        ("terminators", json!({ "service": "" }), field("service")),
        ("terminators", json!({ "router": "" }), field("router")),
        (
            "posture-checks",
            json!({ "typeId": "OS", "operatingSystems": [{ "type": "Linux", "versions": ["new"] }] }),
            field("operatingSystems"),
        ),
        (
            "posture-checks",
            json!({ "typeId": "OS", "operatingSystems": [] }),
            field("operatingSystems"),
        ),
        (
            "posture-checks",
            json!({ "typeId": "DOMAIN", "domains": [] }),
            field("domains"),
        ),
        (
            "posture-checks",
            json!({ "typeId": "MAC", "macAddresses": [] }),
            field("macAddresses"),
        ),
        ("cas", json!({ "certPem": "" }), field("certPem")),
        (
            "cas",
            json!({ "certPem": "no certificate" }),
            field("certPem"),
        ),
        (
            "cas",
            json!({ "certPem": Key::new().self_signed() }),
            Expected::Code(400, "CERTIFICATE_IS_NOT_CA"),
        ),
        (
            "cas",
            claim(json!({ "index": -1 })),
            field("externalIdClaim.index"),
        ),
        (
            "cas",
            claim(json!({ "matcher": "SCHEME" })),
            Expected::Code(400, "REFERENCED_ENTITY_NOT_FOUND"),
        ),
        (
            "external-jwt-signers",
            json!({ "jwksEndpoint": null }),
            Expected::Code(400, "REFERENCED_ENTITY_NOT_FOUND"),
        ),
        (
            "external-jwt-signers",
            json!({ "certPem": Authority::new("a").pem() }),
            Expected::Code(400, "REFERENCED_ENTITY_NOT_FOUND"),
        ),
        (
            "external-jwt-signers",
            json!({ "jwksEndpoint": null, "certPem": two }),
            Expected::Code(400, "INVALID_CERT_PEM"),
        ),
        (
            "external-jwt-signers",
            json!({ "jwksEndpoint": "nowhere" }),
            field("jwksEndpoint"),
        ),
        (
            "external-jwt-signers",
            json!({ "jwksEndpoint": "https:///keys" }),
            field("jwksEndpoint"),
        ),
        (
            "external-jwt-signers",
            json!({ "jwksEndpoint": "https:// idp.test/keys" }),
            field("jwksEndpoint"),
        ),
    ] {
        all.check(
            &more.to_string(),
            &send("POST", &format!("/{path}"), &sample(path, more.clone())),
            expected,
        );
    }
}

#[test]
fn wrong_values_are_quoted_as_sent() {
    let once = json!({ "type": "object", "properties": { "hosts": { "type": "array", "uniqueItems": true } } });
    let once = made(
        "/config-types",
        json!({ "name": fresh("type"), "schema": once }),
    );
    let config =
        |data: Json| json!({ "name": fresh("config"), "configTypeId": once, "data": data });
    for (path, body, value) in [
        ("/configs", config(json!({ "hosts": ["a", "a"] })), "[a a]"),
        ("/configs", config(json!(["a", 1, [true]])), "[a 1 [true]]"),
        (
            "/services",
            sample("services", json!({ "tags": { "a": ["b", "c"] } })),
            "[b c]",
        ),
        (
            "/services",
            sample("services", json!({ "maxIdleTimeMillis": -5 })),
            "-5",
        ),
    ] {
        let answer = send("POST", path, &body).refused(400, "COULD_NOT_VALIDATE", "");
        assert_eq!(
            answer.json["error"]["cause"]["value"], value,
            "{}",
            answer.text
        );
    }
    admin().delete(&format!("/config-types/{once}")).expect(200);
}

#[test]
fn incomplete_new_parts_are_named() {
    let mut all = Differences::default();
    let ca = format!(
        "/cas/{}",
        made("/cas", sample("cas", json!({ "externalIdClaim": null })))
    );
    let part = json!({ "externalIdClaim": { "index": 1 } });
    all.check(
        "a part of a claim",
        &send("PATCH", &ca, &part),
        Expected::Field("externalIdClaim.location"),
    );
    assert_eq!(
        admin().get(&ca).expect(200).data()["externalIdClaim"],
        Json::Null
    );

    let check =
        json!({ "name": fresh("check"), "typeId": "MAC", "macAddresses": ["0242ac110002"] });
    let check = format!("/posture-checks/{}", made("/posture-checks", check));
    for (body, field) in [
        (json!({ "typeId": "DOMAIN" }), "domains"),
        (json!({ "typeId": "DOMAIN", "domains": ["a"] }), "typeId"),
    ] {
        all.check(
            "another form",
            &send("PATCH", &check, &body),
            Expected::Field(field),
        );
    }
    for path in [ca, check] {
        admin().delete(&path).expect(200);
    }
}

#[test]
fn taken_values_are_named() {
    let server = shared();
    let taken = |answer: Answer, field: &str, value: &str| {
        let answer = answer.refused(400, "COULD_NOT_VALIDATE", field);
        let reason = format!("{field} must be unique");
        assert_eq!(
            answer.json["error"]["cause"],
            json!({ "field": field, "reason": reason, "value": value })
        );
    };
    for kind in SAMPLES
        .iter()
        .filter(|kind| kind.key == "name" && kind.unique_on_create)
    {
        let path = format!("/{}", kind.path);
        let (body, other) = (sample(kind.path, json!({})), sample(kind.path, json!({})));
        let name = body["name"].as_str().unwrap();
        made(&path, body.clone());
        let twice = sample(kind.path, json!({ "name": name }));
        taken(admin().post(&path, twice.clone()), "name", name);
        let one = format!("{path}/{}", made(&path, other));
        taken(admin().put(&one, twice), "name", name);
        taken(
            admin().patch(&one, json!({ "name": name, "typeId": "MFA" })),
            "name",
            name,
        );
    }
    // Routers of both kinds share one namespace.
    let name = fresh("router");
    made("/edge-routers", json!({ "name": name }));
    taken(
        admin().post("/transit-routers", json!({ "name": name })),
        "name",
        &name,
    );

    let key = fresh("key");
    for (path, member, value) in [
        ("identities", "externalId", "externalId"),
        ("external-jwt-signers", "issuer", "issuer"),
        ("external-jwt-signers", "kid", "kid"),
    ] {
        let first = sample(path, json!({ member: key }));
        made(&format!("/{path}"), first);
        taken(
            admin().post(&format!("/{path}"), sample(path, json!({ member: key }))),
            value,
            &key,
        );
        let other = made(&format!("/{path}"), sample(path, json!({})));
        taken(
            admin().patch(&format!("/{path}/{other}"), json!({ member: key })),
            value,
            &key,
        );
        taken(
            admin().put(
                &format!("/{path}/{other}"),
                sample(path, json!({ member: key })),
            ),
            value,
            &key,
        );
    }
    let authority = Authority::new("twice").pem();
    made("/cas", sample("cas", json!({ "certPem": authority })));
    admin()
        .post("/cas", sample("cas", json!({ "certPem": authority })))
        .refused(400, "COULD_NOT_VALIDATE", "certPem");
    let by_certificate = || {
        sample(
            "external-jwt-signers",
            json!({ "certPem": authority, "jwksEndpoint": null, "kid": null }),
        )
    };
    made("/external-jwt-signers", by_certificate());
    admin()
        .post("/external-jwt-signers", by_certificate())
        .refused(400, "COULD_NOT_VALIDATE", "fingerprint");

    let (ann, bob) = (
        server.identity(&fresh("ann"), json!({ "enrollment": { "ott": true } })),
        server.identity(&fresh("bob"), json!({})),
    );
    let username = fresh("user-name");
    server.give_password(&ann, &username);
    let second = json!({ "method": "updb", "identityId": ann, "username": fresh("user-name"), "password": PASSWORD });
    let mut all = Differences::default();
    all.check(
        "a second password",
        &admin().post("/authenticators", second),
        Expected::Code(409, "MAX_AUTHENTICATOR_METHODS_REACHED"),
    );
    let same =
        json!({ "method": "updb", "identityId": bob, "username": username, "password": PASSWORD });
    taken(admin().post("/authenticators", same), "username", &username);
    let end = server
        .clock
        .now()
        .plus(std::time::Duration::from_secs(60))
        .to_string();
    let outstanding = json!({ "method": "ott", "identityId": ann, "expiresAt": end });
    all.check(
        "a second enrollment",
        &admin().post("/enrollments", outstanding),
        Expected::Of(409, "ENROLLMENT_EXISTS", "method"),
    );
}

#[test]
fn blank_values_are_never_taken() {
    let without = || {
        let name = fresh("unnamed");
        let body = json!({ "name": name, "issuer": "", "kid": "", "audience": "overlay", "enabled": true, "jwksEndpoint": "https://idp.test" });
        made("/external-jwt-signers", body)
    };
    let signers = [without(), without()];
    for signer in signers {
        let path = format!("/external-jwt-signers/{signer}");
        let shown = admin().get(&path).expect(200);
        assert!(
            shown.data()["issuer"].is_null() && shown.data()["kid"].is_null(),
            "{}",
            shown.text
        );
        admin().delete(&path).expect(200);
    }
}

#[test]
fn credential_tags_stay_unless_sent() {
    let (server, name) = (shared(), fresh("tagged"));
    let (_, owner) = server.user(&name, json!({}));
    let own = owner
        .get("/current-identity/authenticators")
        .expect(200)
        .each("id")[0]
        .to_owned();
    let path = format!("/authenticators/{own}");
    let tags = || admin().get(&path).expect(200).data()["tags"].clone();
    admin()
        .put(
            &path,
            json!({ "username": name, "password": PASSWORD, "tags": { "shift": "night" } }),
        )
        .expect(200);
    assert_eq!(tags(), json!({ "shift": "night" }));
    admin()
        .patch(&path, json!({ "tags": { "shift": "day" } }))
        .expect(200);
    admin()
        .patch(&path, json!({ "password": PASSWORD }))
        .expect(200);
    // A new password set by an administrator ended the session.
    let (owner, own_path) = (
        server.log_in_again(&name),
        format!("/current-identity{path}"),
    );
    owner
        .patch(
            &own_path,
            json!({ "currentPassword": PASSWORD, "password": PASSWORD }),
        )
        .expect(200);
    owner
        .put(
            &own_path,
            json!({ "currentPassword": PASSWORD, "username": name, "password": PASSWORD }),
        )
        .expect(200);
    assert_eq!(tags(), json!({ "shift": "day" }));
    let change =
        json!({ "currentPassword": PASSWORD, "password": PASSWORD, "tags": { "shift": "none" } });
    owner.patch(&own_path, change).expect(200);
    assert_eq!(tags(), json!({ "shift": "none" }));
}

#[test]
fn what_others_need_stays() {
    let kept = |path: &str, field: &str, by: &str| {
        let answer = admin().delete(path);
        let expected = Expected::Of(409, "CAN_NOT_DELETE_REFERENCED_ENTITY", field);
        assert!(
            !expected.differs(&answer)
                && answer.json["error"]["cause"]["value"] == format!("[{by}]"),
            "{path}: {}",
            answer.text
        );
        admin().get(path).expect(200);
    };
    let config_type = made("/config-types", json!({ "name": fresh("type") }));
    let config = made(
        "/configs",
        json!({ "name": fresh("config"), "configTypeId": config_type, "data": {} }),
    );
    kept(&format!("/config-types/{config_type}"), "type", &config);

    let signer = made(
        "/external-jwt-signers",
        sample("external-jwt-signers", json!({})),
    );
    let policy = made("/auth-policies", auth_policy(&[&signer], None));
    kept(
        &format!("/external-jwt-signers/{signer}"),
        "primary.extJwt.allowedSigners",
        &policy,
    );
    let second = made(
        "/external-jwt-signers",
        sample("external-jwt-signers", json!({})),
    );
    let strict = made("/auth-policies", auth_policy(&[], Some(&second)));
    kept(
        &format!("/external-jwt-signers/{second}"),
        "secondary.requireExtJwtSigner",
        &strict,
    );
    let identity = shared().identity(&fresh("bound"), json!({ "authPolicyId": policy }));
    kept(
        &format!("/auth-policies/{policy}"),
        "authPolicyId",
        &identity,
    );
    // Of several referring records the cause names one, the message all.
    let other = shared().identity(&fresh("bound"), json!({ "authPolicyId": policy }));
    let first = identity.clone().min(other.clone());
    kept(&format!("/auth-policies/{policy}"), "authPolicyId", &first);
    let answer = admin().delete(&format!("/auth-policies/{policy}"));
    assert!([&identity, &other].into_iter().all(|id| {
        answer.json["error"]["message"]
            .as_str()
            .unwrap()
            .contains(id.as_str())
    }));

    for path in [
        format!("/identities/{other}"),
        format!("/identities/{identity}"),
        format!("/auth-policies/{policy}"),
        format!("/external-jwt-signers/{signer}"),
    ] {
        admin().delete(&path).expect(200);
    }
    admin().delete(&format!("/configs/{config}")).expect(200);
    admin()
        .delete(&format!("/config-types/{config_type}"))
        .expect(200);
}

#[test]
fn system_records_stay_unchanged() {
    let name = fresh("tunneler");
    let router = made(
        "/edge-routers",
        json!({ "name": name, "isTunnelerEnabled": true }),
    );
    let administrator = admin()
        .list("/identities", "isDefaultAdmin = true", "")
        .expect(200)
        .each("id")[0]
        .to_owned();
    let policy = sample("edge-router-policies", json!({}));
    let (not_deletable, not_updatable) = (
        Expected::Code(400, "ENTITY_CAN_NOT_BE_DELETED"),
        Expected::Code(400, "ENTITY_CAN_NOT_BE_UPDATED"),
    );
    let as_it_is = json!({ "name": name, "type": "Router", "isAdmin": false });
    let with = |member: &str, value: &str| {
        let mut body = as_it_is.clone();
        body[member] = value.into();
        body
    };
    let mut all = Differences::default();
    for (method, path, body, expected) in [
        (
            "DELETE",
            format!("/identities/{administrator}"),
            json!({}),
            not_deletable,
        ),
        (
            "DELETE",
            format!("/identities/{router}"),
            json!({}),
            not_deletable,
        ),
        (
            "DELETE",
            format!("/edge-router-policies/{router}"),
            json!({}),
            not_deletable,
        ),
        (
            "PUT",
            format!("/edge-router-policies/{router}"),
            policy.clone(),
            not_updatable,
        ),
        (
            "PATCH",
            format!("/edge-router-policies/{router}"),
            json!({ "name": "mine" }),
            not_updatable,
        ),
        (
            "DELETE",
            "/auth-policies/default".into(),
            json!({}),
            Expected::Of(409, "CAN_NOT_DELETE_REFERENCED_ENTITY", "authPolicyId"),
        ),
        (
            "PUT",
            format!("/identities/{router}"),
            with("name", "mine"),
            Expected::Field("name"),
        ),
        (
            "PATCH",
            format!("/identities/{router}"),
            json!({ "name": "mine" }),
            Expected::Field("name"),
        ),
        (
            "PUT",
            format!("/identities/{router}"),
            with("type", "User"),
            Expected::Field("typeId"),
        ),
        (
            "PUT",
            format!("/identities/{administrator}"),
            json!({ "name": fresh("name"), "type": "Router", "isAdmin": true }),
            Expected::Field("typeId"),
        ),
        (
            "PUT",
            format!("/transit-routers/{router}"),
            json!({ "name": "mine" }),
            Expected::Code(409, "CAN_NOT_UPDATE_ROUTER"),
        ),
        (
            "PATCH",
            format!("/routers/{router}"),
            json!({ "name": "mine" }),
            Expected::Code(409, "CAN_NOT_UPDATE_ROUTER"),
        ),
    ] {
        let asking = admin().ask(method, &path);
        let answer = if method == "DELETE" {
            asking.send()
        } else {
            asking.json(&body).send()
        };
        all.check(&body.to_string(), &answer, expected);
    }
    assert_eq!(
        admin()
            .get(&format!("/identities/{router}"))
            .expect(200)
            .data()["name"],
        name.as_str()
    );
}

/// Resources of one user that no other user may see, with their paths.
fn belongings(server: &TestServer) -> Vec<(&'static str, String)> {
    let (id, ann) = server.user(&fresh("ann"), json!({}));
    let service = server.service(&fresh("private"), json!({}));
    server.service_policy("Dial", &[&format!("@{id}")], &[&format!("@{service}")]);
    server.router_between(&id, &service);
    let session = ann
        .post("/sessions", json!({ "serviceId": service, "type": "Dial" }))
        .expect(201)
        .id();
    let certificate = ann
        .post(
            "/current-api-session/certificates",
            json!({ "csr": Key::new().request() }),
        )
        .expect(201)
        .id();
    let authenticator = ann
        .get("/current-identity/authenticators")
        .expect(200)
        .each("id")[0]
        .to_owned();
    let mut places = vec![
        (
            "GET",
            format!("/current-api-session/certificates/{certificate}"),
        ),
        (
            "DELETE",
            format!("/current-api-session/certificates/{certificate}"),
        ),
        ("GET", format!("/services/{service}")),
        ("GET", format!("/services/{service}/terminators")),
        ("GET", format!("/services/{service}/edge-routers")),
    ];
    for base in [Base::Client, Base::Management] {
        let base = base.path();
        places
            .extend(["GET", "DELETE"].map(|method| (method, format!("{base}/sessions/{session}"))));
        places.extend(["GET", "PUT", "PATCH"].map(|method| {
            (
                method,
                format!("{base}/current-identity/authenticators/{authenticator}"),
            )
        }));
        places.push((
            "POST",
            format!("{base}/current-identity/authenticators/{authenticator}/extend-verify"),
        ));
    }
    for (method, place) in places.iter().filter(|(method, _)| *method == "GET") {
        ann.ask(method, place).send().expect(200);
    }
    places
}

#[test]
fn foreign_records_are_not_found() {
    let server = shared();
    let (_, bob) = server.user(&fresh("bob"), json!({}));
    let mut all = Differences::default();
    for (method, place) in belongings(server) {
        let body = match method {
            "PUT" | "PATCH" => {
                json!({ "username": fresh("mine"), "password": "another one", "currentPassword": PASSWORD })
            }
            _ => json!({ "clientCert": "mine" }),
        };
        let asking = bob.ask(method, &place);
        let answer = if ["GET", "DELETE"].contains(&method) {
            asking.send()
        } else {
            asking.json(&body).send()
        };
        all.check(method, &answer, Expected::Code(404, "NOT_FOUND"));
        if method == "GET" && place.starts_with("/services/") && place.matches('/').count() == 2 {
            let session = bob.post(
                "/sessions",
                json!({ "serviceId": place.trim_start_matches("/services/"), "type": "Dial" }),
            );
            all.check(
                "a session on it",
                &session,
                Expected::Code(404, "NOT_FOUND"),
            );
        }
    }
}
