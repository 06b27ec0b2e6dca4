//! Checks, second factors and open sessions in an explanation.

use super::*;

#[test]
fn checks_show_actual_and_expected() {
    let asked = Asked::start();
    let server = &asked.server;
    let signer = "ab".repeat(20);
    let cases = [
        (
            json!({ "typeId": "OS", "operatingSystems": [{ "type": "macOS", "versions": [] }, { "type": "Windows", "versions": [">=10.0.0"] }] }),
            "reported: Linux 6.1.0; required: Windows (>=10.0.0) or macOS",
        ),
        (
            json!({ "typeId": "DOMAIN", "domains": ["corp", "lab"] }),
            "reported: ho\\nme; required: corp or lab",
        ),
        (
            json!({ "typeId": "MAC", "macAddresses": ["00:1B:44:11:3A:B7"] }),
            "reported: aabb; required: 001b44113ab7",
        ),
        (
            json!({ "typeId": "PROCESS", "process": { "osType": "Linux", "path": "/bin/guard", "hashes": [], "signerFingerprint": signer } }),
            "reported: /bin/guard not running; required: /bin/guard running, signed with abab",
        ),
        (
            json!({ "typeId": "PROCESS_MULTI", "semantic": "AllOf", "processes": [
                { "osType": "Linux", "path": "/bin/a", "hashes": [], "signerFingerprints": [] },
                { "osType": "Linux", "path": "/bin/b", "hashes": [], "signerFingerprints": [] }
            ] }),
            "reported: nothing; required: /bin/a running and /bin/b running",
        ),
        (
            json!({ "typeId": "MFA", "promptOnWake": true }),
            "reported: no one-time code; required: a one-time code, again after waking up",
        ),
    ];
    let checks = cases.iter().map(|(demand, _)| {
        let mut body = demand.clone();
        body["name"] = fresh("check").into();
        format!(
            "@{}",
            server.admin.post("/posture-checks", body).expect(201).id()
        )
    });
    let checks: Vec<String> = checks.collect();
    let (identity, user, service, _) = all_but_posture(server, "AnyOf", &checks);
    let answers = json!([
        { "typeId": "OS", "id": "any", "type": "Linux", "version": "6.1.0", "build": "" },
        { "typeId": "DOMAIN", "id": "any", "domain": "ho\nme" },
        { "typeId": "MAC", "id": "any", "macAddresses": ["AA:BB"] }
    ]);
    user.post("/posture-response-bulk", answers).expect(200);
    let text = asked.told(&identity, &service, false).unwrap();
    for (_, words) in cases {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn missing_second_factor_is_told() {
    let asked = Asked::start();
    let server = &asked.server;
    let (by_external_id, disabled) = (
        external_signer(server, "idp", json!({})),
        external_signer(
            server,
            "off",
            json!({ "enabled": false, "useExternalId": false }),
        ),
    );
    let name = fresh("person");
    let identity = server.identity(&name, json!({}));
    server.give_password(&identity, &name);
    let service = server.service(&fresh("service"), json!({}));
    server.router_between(&identity, &service);
    server.service_policy(
        "Dial",
        &[&format!("@{identity}")],
        &[&format!("@{service}")],
    );
    let asks = |secondary: Json| {
        let policy = auth_policy(server, json!({ "secondary": secondary }));
        server
            .admin
            .patch(
                &format!("/identities/{identity}"),
                json!({ "authPolicyId": policy }),
            )
            .expect(200);
    };
    let told = |factors: &[(&str, bool)], words: &str| {
        let why = asked.dial(&name, &service);
        let authentication = &why["authentication"];
        assert_eq!(&authentication["state"], "ready");
        let seen = authentication["secondFactors"].as_array().unwrap().iter();
        let seen: Vec<_> = seen
            .map(|one| {
                (
                    one["factor"].as_str().unwrap(),
                    one["isReady"].as_bool().unwrap(),
                )
            })
            .collect();
        assert_eq!(seen, factors, "{why:#}");
        let obstacles = obstacles(&why);
        let missing = factors.iter().filter(|(_, is_ready)| !is_ready).count();
        assert_eq!(
            (whats(&why), is_yes(&why)),
            (vec!["secondFactor"; missing], missing == 0),
            "{why:#}"
        );
        for edit in obstacles
            .iter()
            .flat_map(|obstacle| obstacle["edits"].as_array().unwrap())
        {
            let undo = asked.make(edit);
            assert_eq!(
                whats(&asked.dial(&name, &service)).len(),
                missing - 1,
                "{edit:#}"
            );
            undo();
        }
        let text = asked.told(&name, &service, false).unwrap();
        assert_eq!(text.matches(words).count(), 1, "{text}");
        obstacles
            .iter()
            .map(|obstacle| obstacle["edits"].as_array().unwrap().len())
            .sum::<usize>()
    };
    told(&[], "may, but cannot now");
    asks(json!({ "requireTotp": true }));
    assert_eq!(
        told(
            &[("totp", false)],
            &format!("requires one-time codes, but {name} has not set them up; it can do so")
        ),
        1
    );
    let user = server.log_in_again(&name);
    user.post("/current-identity/mfa", Json::Null).expect(201);
    // The second factor is set up only after its first code.
    told(&[("totp", false)], "has not set them up");
    verify(&user);
    told(
        &[("totp", true)],
        &format!("{name} also needs a one-time code to log in"),
    );

    asks(json!({ "requireExtJwtSigner": by_external_id }));
    assert_eq!(
        told(
            &[("totp", true), ("extJwt", false)],
            &format!("idp identifies by external ids, and {name} has none")
        ),
        1
    );
    asks(json!({ "requireExtJwtSigner": disabled }));
    assert_eq!(
        told(
            &[("totp", true), ("extJwt", false)],
            "requires a token of off with every request, but off is disabled"
        ),
        2
    );
    // Enabling it would not be sufficient.
    server
        .admin
        .patch(
            &format!("/external-jwt-signers/{disabled}"),
            json!({ "useExternalId": true }),
        )
        .expect(200);
    assert_eq!(
        told(&[("totp", true), ("extJwt", false)], "but off is disabled"),
        1
    );
    server
        .admin
        .patch(
            &format!("/external-jwt-signers/{disabled}"),
            json!({ "enabled": true, "useExternalId": false }),
        )
        .expect(200);
    told(
        &[("totp", true), ("extJwt", true)],
        "requires a token of off with every request\n",
    );
}

#[test]
fn removed_codes_are_not_asked() {
    let asked = Asked::start();
    let server = &asked.server;
    let (identity, user, service, _) = all_but_posture(server, "AnyOf", &[]);
    user.post("/current-identity/mfa", Json::Null).expect(201);
    verify(&user);
    let policy = auth_policy(server, json!({ "secondary": { "requireTotp": true } }));
    server
        .admin
        .patch(
            &format!("/identities/{identity}"),
            json!({ "authPolicyId": policy }),
        )
        .expect(200);
    server
        .admin
        .delete(&format!("/identities/{identity}/mfa"))
        .expect(200);
    let why = asked.dial(&identity, &service);
    assert!(is_yes(&why) && opens(&user, &service), "{why:#}");
    assert!(
        asked
            .told(&identity, &service, false)
            .unwrap()
            .contains("has not set them up")
    );
    user.delete("/current-api-session").expect(200);
    assert_eq!(whats(&asked.dial(&identity, &service)), ["secondFactor"]);
}

#[test]
fn sessions_count_after_their_code() {
    let asked = Asked::start();
    let server = &asked.server;
    let body = json!({ "typeId": "MFA", "name": fresh("check"), "timeoutSeconds": 600 });
    let check = server.admin.post("/posture-checks", body).expect(201).id();
    let (identity, first, service, _) = all_but_posture(server, "AnyOf", &[format!("@{check}")]);
    let name = server
        .admin
        .get(&format!("/identities/{identity}"))
        .expect(200)
        .data()["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let why = asked.dial(&name, &service);
    assert!(
        whats(&why) == ["posture"] && !opens(&first, &service),
        "without a second factor the posture check must fail: {why:#}"
    );
    let text = asked.told(&name, &service, false).unwrap();
    assert!(
        text.contains(
            "reported: no one-time code; required: a one-time code of the last 600 seconds\n"
        ),
        "{text}"
    );
    first.post("/current-identity/mfa", Json::Null).expect(201);
    let codes = verify(&first);
    assert!(is_yes(&asked.dial(&name, &service)) && opens(&first, &service));
    first.delete("/current-api-session").expect(200);
    assert!(
        is_yes(&asked.dial(&name, &service)),
        "a new login includes a code"
    );
    let second = server.log_in_again(&name);
    assert!(
        is_yes(&asked.dial(&name, &service)) && !opens(&second, &service),
        "no session is complete"
    );
    // An incomplete session does not replace a login.
    let policy = auth_policy(
        server,
        json!({ "primary": { "updb": { "allowed": false } } }),
    );
    server
        .admin
        .patch(
            &format!("/identities/{identity}"),
            json!({ "authPolicyId": policy }),
        )
        .expect(200);
    assert_eq!(
        whats(&asked.dial(&name, &service)),
        ["credentialNotAllowed"]
    );
    server
        .admin
        .patch(
            &format!("/identities/{identity}"),
            json!({ "authPolicyId": "default" }),
        )
        .expect(200);
    second
        .post("/authenticate/mfa", json!({ "code": codes[0] }))
        .expect(200);
    let third = server.log_in_again(&name);
    assert!(
        is_yes(&asked.dial(&name, &service)),
        "another incomplete session must not change the verdict"
    );
    assert!(opens(&second, &service) && !opens(&third, &service));
}

#[test]
fn open_sessions_are_answered_again() {
    let asked = Asked::start();
    let server = &asked.server;
    let name = fresh("person");
    let (identity, user) = server.user(&name, json!({}));
    let service = server.service(&fresh("service"), json!({}));
    let router = server.router_between(&identity, &service);
    server.service_policy(
        "Dial",
        &[&format!("@{identity}")],
        &[&format!("@{service}")],
    );
    assert!(is_yes(&asked.dial(&name, &service)) && opens(&user, &service));
    server
        .admin
        .delete(&format!("/edge-routers/{router}"))
        .expect(200);
    assert!(
        !is_yes(&asked.dial(&name, &service))
            && opens(&user, &service)
            && !opens(&server.log_in_again(&name), &service)
    );
    let schemas = server
        .anonymous()
        .at(Base::Overkeep)
        .get("/openapi.json")
        .expect(200)
        .json["components"]["schemas"]
        .clone();
    let said = schemas["Explanation"]["properties"]["allowed"]["description"]
        .as_str()
        .unwrap();
    assert!(said.contains("An open session is returned"), "{said}");
}
