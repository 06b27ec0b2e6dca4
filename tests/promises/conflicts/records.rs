//! Changes that other records do not allow.

use super::*;

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
