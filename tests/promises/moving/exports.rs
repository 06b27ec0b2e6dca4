//! Networks that are exported.

use super::*;

#[test]
fn exports_for_openziti_name_references() {
    let server = TestServer::start();
    let on = |words: &[&str]| on_host(&server, words).good();
    on(&[
        "create",
        "config",
        "web",
        "--config-type-id",
        "host.v1",
        "--member-data",
        r#"{"protocol":"tcp","address":"a","port":1}"#,
    ]);
    on(&["create", "service", "web", "--configs", "web"]);
    on(&[
        "create",
        "posture-check",
        "system",
        "--type-id",
        "OS",
        "--operating-systems",
        r#"[{"type":"Linux","versions":[]}]"#,
    ]);
    on(&["create", "identity", "alice"]);
    let policy = [
        "create",
        "service-policy",
        "--type",
        "Dial",
        "--semantic",
        "AnyOf",
        "--identity-roles",
        "@alice",
        "--service-roles",
        "@web",
    ];
    on(&[policy.as_slice(), &["open"]].concat());
    on(&[
        policy.as_slice(),
        &["checked", "--posture-check-roles", "@system"],
    ]
    .concat());
    let said = on(&["export", "--openziti"]);
    assert!(
        said.contains(
            "# Left out, because they name posture checks: policies to create again: checked"
        ),
        "{said}"
    );
    assert!(
        said.contains("# Identities to enroll again: alice"),
        "{said}"
    );
    let file: Json = serde_saphyr::from_str(&said).unwrap();
    assert_eq!(file["services"][0]["configs"], json!(["@web"]));
    assert_eq!(file["configs"][0]["configType"], "@host.v1");
    assert_eq!(
        (
            &file["identities"][0]["authPolicy"],
            &file["identities"][0]["roleAttributes"]
        ),
        (&json!("@Default"), &json!([]))
    );
    assert_eq!(file["servicePolicies"].as_array().unwrap().len(), 1);
    assert_eq!(
        file["servicePolicies"][0]["identityRoles"],
        json!(["@alice"])
    );
    assert_eq!(
        (&file["edgeRouters"], &file["authPolicies"]),
        (&json!([]), &json!([]))
    );
}

#[test]
fn tunnelers_move_out_by_name() {
    let server = TestServer::with_router();
    let on = |words: &[&str]| on_host(&server, words).good();
    on(&["create", "edge-router", "oslo", "--is-tunneler-enabled"]);
    on(&[
        "update",
        "identity",
        "oslo",
        "--role-attributes",
        "tunnelers",
    ]);
    on(&["create", "service", "web"]);
    let policy = [
        "create",
        "service-policy",
        "bind",
        "--type",
        "Bind",
        "--semantic",
        "AnyOf",
    ];
    on(&[
        policy.as_slice(),
        &["--identity-roles", "@oslo", "--service-roles", "@web"],
    ]
    .concat());
    on(&[
        "create",
        "edge-router-policy",
        "e",
        "--edge-router-roles",
        "@oslo",
        "--identity-roles",
        "@oslo",
    ]);
    on(&[
        "create",
        "service-edge-router-policy",
        "s",
        "--edge-router-roles",
        "@oslo",
        "--service-roles",
        "@web",
    ]);
    on(&[
        "create",
        "edge-router-policy",
        "both",
        "--edge-router-roles",
        "@built-in,@oslo",
        "--identity-roles",
        "#all",
    ]);
    on(&[
        "create",
        "edge-router-policy",
        "only",
        "--edge-router-roles",
        "@built-in",
        "--identity-roles",
        "#all",
    ]);
    let said = on(&["export", "--openziti"]);
    let file: Json = serde_saphyr::from_str(&said).unwrap();
    let named = |list: &str, name: &str| {
        let records = file[list].as_array().unwrap();
        records
            .iter()
            .find(|record| record["name"] == name)
            .unwrap_or_else(|| panic!("{name} in {list}: {said}"))
            .clone()
    };
    assert_eq!(
        named("servicePolicies", "bind")["identityRoles"],
        json!(["@oslo"])
    );
    let policy = named("edgeRouterPolicies", "e");
    assert_eq!(
        (&policy["identityRoles"], &policy["edgeRouterRoles"]),
        (&json!(["@oslo"]), &json!(["@oslo"]))
    );
    assert_eq!(
        named("serviceEdgeRouterPolicies", "s")["edgeRouterRoles"],
        json!(["@oslo"])
    );
    assert_eq!(
        named("identities", "oslo")["roleAttributes"],
        json!(["tunnelers"])
    );
    assert_eq!(
        named("edgeRouterPolicies", "both")["edgeRouterRoles"],
        json!(["@oslo"])
    );
    let policies = file["edgeRouterPolicies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| record["name"].as_str().unwrap());
    assert!(
        policies
            .clone()
            .all(|name| name != "only" && !name.starts_with("edge-router-")),
        "{said}"
    );
    assert!(
        said.contains("# Left out, because they name only the built-in router: only"),
        "{said}"
    );
    assert!(
        !said.contains("# Identities to enroll again: oslo"),
        "{said}"
    );
}

#[test]
fn lost_members_are_named() {
    let mut known = identity("a");
    known.as_object_mut().unwrap().extend(
        json!({ "permissions": ["admin.read"], "interfaces": [{ "name": "eth0" }], "isMfaEnabled": false, "sdkInfo": {}, "envInfo": {} })
            .as_object()
            .unwrap()
            .clone(),
    );
    let mut other = identity("b");
    other["permissions"] = json!(["admin.read"]);
    let mut without = identity("c");
    without["permissions"] = json!([]);
    let signer = json!({
        "id": "s", "name": "signer", "issuer": "https://idp.test", "audience": "a", "enabled": true, "jwksEndpoint": "https://idp.test/keys",
        "enrollToCertEnabled": true, "enrollToTokenEnabled": false, "enrollNameClaimsSelector": "/name",
        "enrollAttributeClaimsSelector": "/groups", "enrollAuthPolicyId": "p", "commonName": "", "fingerprint": "", "notAfter": null
    });
    let policy = json!({
        "id": "p", "name": "policy", "secondary": { "requireTotp": false }, "primary": {
            "cert": { "allowed": true, "allowExpiredCerts": false, "allowOnlyCertain": true },
            "extJwt": { "allowed": false, "allowedSigners": [] },
            "updb": { "allowed": false, "lockoutDurationMinutes": 0, "maxAttempts": 5, "minPasswordLength": 5, "requireMixedCase": false,
                "requireNumberChar": false, "requireSpecialChar": false }
        }
    });
    let credential = json!({ "id": "u", "method": "updb", "identityId": "a", "username": "anna", "futureMember": 1 });
    let lists = json!({
        "identities": [known, other, without], "external-jwt-signers": [signer], "auth-policies": [policy], "authenticators": [credential]
    });
    let expected = [
        "members of identities that are lost, with the number of records that have them: interfaces (1), permissions (2)",
        "them: enrollAttributeClaimsSelector (1), enrollAuthPolicyId (1), enrollNameClaimsSelector (1), enrollToCertEnabled (1), \
         enrollToTokenEnabled (1)",
        "members of auth-policies that are lost, with the number of records that have them: primary.cert.allowOnlyCertain (1)",
    ];
    let (_home, said) = imported_lists(lists.clone(), &["--into", "new.redb"]);
    let said = said.good();
    for words in
        expected.into_iter().chain(["members of authenticators that are lost, with the number of records that have them: futureMember (1)"])
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    let (_home, printed) = imported_lists(lists, &[]);
    let printed = printed.good();
    for words in expected {
        assert!(
            printed
                .lines()
                .any(|line| line.starts_with("# ") && line.contains(words)),
            "{words}: {printed}"
        );
    }
    assert_eq!(
        printed.matches("members of").count(),
        expected.len(),
        "{printed}"
    );
}
