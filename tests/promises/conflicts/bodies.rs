//! Bodies that break a rule, and the member that the refusal names.

use super::*;

const NOWHERE: &str = "nothing-has-this-id";

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
