//! The edits that an explanation proposes.

use super::*;

#[test]
fn one_edit_per_obstacle_gives_access() {
    let asked = Asked::start();
    let server = &asked.server;
    let check = json!({ "typeId": "DOMAIN", "name": fresh("check"), "domains": ["corp"], "roleAttributes": ["strict"] });
    server.admin.post("/posture-checks", check).expect(201);
    // In turn: no policy, one that matches only the identity, one that matches only the service,
    // one of the other type, one that matches one side and has a failing check, and one that has
    // the name an edit would choose.
    let policy = |case: usize, (name, role): (&str, &str), service: &str| {
        let (role, id, other) = (
            format!("#{role}"),
            format!("@{service}"),
            format!("#{}", fresh("other")),
        );
        match case {
            1 => drop(server.service_policy("Dial", &[&role], &[&other])),
            2 => drop(server.service_policy("Dial", &[&other], &[&id])),
            3 => drop(server.service_policy("Bind", &[&role], &[&id])),
            4 => {
                let policy = server.service_policy("Dial", &[&role], &[&other]);
                server
                    .admin
                    .patch(
                        &format!("/service-policies/{policy}"),
                        json!({ "postureCheckRoles": ["#strict"] }),
                    )
                    .expect(200);
            }
            5 => {
                let called = server
                    .admin
                    .get(&format!("/services/{service}"))
                    .expect(200)
                    .data()["name"]
                    .as_str()
                    .unwrap()
                    .to_owned();
                let body = json!({ "name": format!("{name}-dial-{called}"), "type": "Dial", "semantic": "AnyOf" });
                server.admin.post("/service-policies", body).expect(201);
            }
            _ => {}
        }
    };
    for case in 0..6 {
        let (name, role) = (fresh("person"), fresh("role"));
        let (identity, user) = server.user(&name, json!({ "roleAttributes": [role] }));
        let service = server.service(&fresh("service"), json!({}));
        policy(case, (&name, &role), &service);
        let before = asked.dial(&name, &service);
        assert!(
            !is_yes(&before) && !opens(&user, &service),
            "case {case}: {before:#}"
        );
        obstacles(&before)
            .into_iter()
            .for_each(|obstacle| drop(asked.make(&obstacle["edits"][0])));
        let after = asked.dial(&identity, &service);
        assert!(
            is_yes(&after) && opens(&user, &service),
            "case {case}: {before:#} became {after:#}"
        );
    }
}

/// A new check for one domain, as named in policies.
fn check_for(server: &TestServer, name: &str, domain: &str, roles: &[&str]) -> String {
    let body =
        json!({ "typeId": "DOMAIN", "name": name, "domains": [domain], "roleAttributes": roles });
    format!(
        "@{}",
        server.admin.post("/posture-checks", body).expect(201).id()
    )
}

#[test]
fn edits_keep_passing_checks() {
    let asked = Asked::start();
    let server = &asked.server;
    let [corp, more] = [("corp", ["a", "b", "c"].as_slice()), ("more", &["c"])]
        .map(|(name, roles)| check_for(server, name, "corp", roles));
    let [other, lone] = [("other", ["a", "b"].as_slice()), ("lone", &["a"])]
        .map(|(name, roles)| check_for(server, name, "else", roles));
    let [corp, more, other, lone] = [&corp, &more, &other, &lone].map(String::as_str);
    // The roles before, the roles after, and the description.
    let cases: [(_, &[&str], &[&str], _); 8] = [
        ("AnyOf", &[corp, other], &[corp], "other"),
        (
            "AnyOf",
            &["#b"],
            &[corp],
            "other, nor for others by #b, but still for corp",
        ),
        // An entry that another one covers is not named.
        (
            "AnyOf",
            &["#b", "#c"],
            &["#c"],
            "other, nor for others by #b",
        ),
        (
            "AnyOf",
            &["#b", corp],
            &[corp],
            "other, nor for others by #b",
        ),
        ("AnyOf", &["#all"], &[corp, more], ""),
        ("AnyOf", &[other, lone], &[], ""),
        // One of several attributes that are required together would match more.
        (
            "AllOf",
            &["#a", "#b"],
            &[corp],
            "other, nor for others by #a #b, but still for corp",
        ),
        ("AllOf", &["#a", "#c", other], &["#a", "#c"], "other"),
    ];
    for (semantic, before, after, what) in cases {
        let checks: Vec<String> = before.iter().map(|&role| role.to_owned()).collect();
        let (identity, user, service, policy) = all_but_posture(server, semantic, &checks);
        user.post(
            "/posture-response",
            json!({ "id": "any", "typeId": "DOMAIN", "domain": "corp" }),
        )
        .expect(201);
        let why = asked.dial(&identity, &service);
        assert!(
            whats(&why) == ["posture"] && !opens(&user, &service),
            "{semantic} {before:?}: {why:#}"
        );
        let edit = &why["obstacles"][0]["edits"][0];
        let named: BTreeSet<&str> = edit["body"]["postureCheckRoles"]
            .as_array()
            .unwrap()
            .iter()
            .map(|role| role.as_str().unwrap())
            .collect();
        assert_eq!(
            named,
            after.iter().copied().collect(),
            "{semantic} {before:?}: {edit:#}"
        );
        let name = server
            .admin
            .get(&format!("/service-policies/{policy}"))
            .expect(200)
            .data()["name"]
            .clone();
        let text = format!(
            "change the policy {} to no longer require {what}",
            name.as_str().unwrap()
        );
        assert!(
            what.is_empty() || edit["text"] == text,
            "{semantic} {before:?}: {edit:#}"
        );
        drop(asked.make(edit));
        assert!(
            is_yes(&asked.dial(&identity, &service)) && opens(&user, &service),
            "{semantic} {before:?}: {edit:#}"
        );
    }
}

#[test]
fn fewest_failed_checks_come_first() {
    let asked = Asked::start();
    let server = &asked.server;
    let [one, other] = ["one", "other"].map(|name| check_for(server, name, name, &[]));
    for more in [[true, false], [false, true]] {
        let checks = |more: bool| {
            if more {
                vec![one.clone(), other.clone()]
            } else {
                vec![one.clone()]
            }
        };
        let (identity, _, service, first) = all_but_posture(server, "AnyOf", &checks(more[0]));
        let second = server.service_policy(
            "Dial",
            &[&format!("@{identity}")],
            &[&format!("@{service}")],
        );
        server
            .admin
            .patch(
                &format!("/service-policies/{second}"),
                json!({ "postureCheckRoles": checks(more[1]) }),
            )
            .expect(200);
        let why = asked.dial(&identity, &service);
        let least = if more[0] { second } else { first };
        assert_eq!(
            why["obstacles"][0]["edits"][0]["path"],
            format!("/service-policies/{least}"),
            "{why:#}"
        );
    }
}

#[test]
fn edits_allow_the_fewest_signers() {
    let asked = Asked::start();
    let server = &asked.server;
    let (signer, other) = (
        external_signer(server, "idp", json!({})),
        external_signer(server, "off", json!({ "enabled": false })),
    );
    let identity = server.identity(&fresh("person"), json!({ "externalId": fresh("external") }));
    let service = server.service(&fresh("service"), json!({}));
    let off = json!({ "allowed": false });
    let allows_only =
        |ext_jwt: Json| json!({ "primary": { "cert": off, "updb": off, "extJwt": ext_jwt } });
    let allowing = || {
        let why = asked.dial(&identity, &service);
        let obstacles = obstacles(&why);
        let obstacle = obstacles
            .iter()
            .find(|obstacle| obstacle["what"] == "credentialNotAllowed")
            .unwrap();
        obstacle["edits"].as_array().unwrap().clone()
    };
    let cases = [
        (
            json!({ "allowed": false, "allowedSigners": [signer] }),
            json!({ "allowed": true }),
            "tokens of the signers that it lists",
        ),
        (
            json!({ "allowed": false, "allowedSigners": [] }),
            json!({ "allowed": true }),
            "tokens of every signer",
        ),
        (
            json!({ "allowed": true, "allowedSigners": [other] }),
            json!({ "allowedSigners": [other, signer] }),
            "tokens of idp",
        ),
        (
            json!({ "allowed": false, "allowedSigners": [other] }),
            json!({ "allowed": true, "allowedSigners": [other, signer] }),
            "tokens of idp and of the signers that it lists",
        ),
    ];
    for (ext_jwt, change, words) in cases {
        let policy = auth_policy(server, allows_only(ext_jwt));
        server
            .admin
            .patch(
                &format!("/identities/{identity}"),
                json!({ "authPolicyId": policy }),
            )
            .expect(200);
        let edits = allowing();
        assert_eq!(
            (edits.len(), &edits[0]["body"]),
            (1, &json!({ "primary": { "extJwt": change } })),
            "{edits:#?}"
        );
        assert!(
            edits[0]["text"].as_str().unwrap().ends_with(words),
            "{edits:#?}"
        );
        drop(asked.make(&edits[0]));
        assert_eq!(
            asked.dial(&identity, &service)["authentication"]["state"],
            "ready"
        );
    }
    // With an authority that knows external ids too, either edit is sufficient.
    server.add_ca(&Authority::new("partner"));
    let policy = auth_policy(server, allows_only(off.clone()));
    server
        .admin
        .patch(
            &format!("/identities/{identity}"),
            json!({ "authPolicyId": policy }),
        )
        .expect(200);
    let on = json!({ "allowed": true });
    assert_eq!(
        allowing()
            .iter()
            .map(|edit| edit["body"]["primary"].clone())
            .collect::<Vec<_>>(),
        [json!({ "cert": on }), json!({ "extJwt": on })]
    );
}

#[test]
fn first_router_satisfies_all_policies() {
    let asked = Asked::start();
    let server = &asked.server;
    let (every, red) = (json!(["#all"]), json!(["#red"]));
    let policy = |path: &str, member: &str, id: &str, routers: &Json| {
        let body = json!({ "name": fresh("policy"), "semantic": "AllOf", member: [format!("@{id}")], "edgeRouterRoles": routers });
        server.admin.post(path, body).expect(201);
    };
    let cases: [(Option<&Json>, Option<&Json>, &[&str]); 5] = [
        (
            None,
            None,
            &[
                "noEdgeRouter",
                "serviceWithoutRouter",
                "identityWithoutRouter",
            ],
        ),
        (
            Some(&every),
            None,
            &["noEdgeRouter", "serviceWithoutRouter"],
        ),
        (
            None,
            Some(&every),
            &["noEdgeRouter", "identityWithoutRouter"],
        ),
        (Some(&every), Some(&every), &["noEdgeRouter"]),
        (
            Some(&red),
            Some(&red),
            &[
                "noEdgeRouter",
                "serviceWithoutRouter",
                "identityWithoutRouter",
            ],
        ),
    ];
    server
        .admin
        .post("/transit-routers", json!({ "name": "edge-router" }))
        .expect(201);
    for (of_identity, of_service, expected) in cases {
        let (identity, user) = server.user(&fresh("person"), json!({}));
        let service = server.service(&fresh("service"), json!({}));
        server.service_policy(
            "Dial",
            &[&format!("@{identity}")],
            &[&format!("@{service}")],
        );
        of_identity.iter().for_each(|routers| {
            policy("/edge-router-policies", "identityRoles", &identity, routers)
        });
        of_service.iter().for_each(|routers| {
            policy(
                "/service-edge-router-policies",
                "serviceRoles",
                &service,
                routers,
            )
        });
        let before = asked.dial(&identity, &service);
        assert_eq!(whats(&before), expected, "{before:#}");
        obstacles(&before)
            .into_iter()
            .for_each(|obstacle| drop(asked.make(&obstacle["edits"][0])));
        let after = asked.dial(&identity, &service);
        assert!(
            is_yes(&after) && opens(&user, &service),
            "{before:#} became {after:#}"
        );
        let router = server.admin.get("/edge-routers").expect(200).each("id")[0].to_owned();
        server
            .admin
            .delete(&format!("/edge-routers/{router}"))
            .expect(200);
    }
}

#[test]
fn disabled_router_is_said_disabled() {
    let asked = Asked::start();
    let server = &asked.server;
    let (identity, user, service, _) = all_but_posture(server, "AnyOf", &[]);
    let router = asked.dial(&identity, &service)["routers"][0].clone();
    assert_eq!(router["isDisabled"], false);
    server
        .admin
        .patch(
            &format!("/edge-routers/{}", router["id"].as_str().unwrap()),
            json!({ "disabled": true }),
        )
        .expect(200);
    let why = asked.dial(&identity, &service);
    assert_eq!(
        (
            is_yes(&why),
            opens(&user, &service),
            &why["routers"][0]["isDisabled"]
        ),
        (true, true, &json!(true))
    );
    assert!(
        asked
            .told(&identity, &service, false)
            .unwrap()
            .contains("(not connected, disabled)")
    );
    let obstacles = why["obstacles"].as_array().unwrap();
    let edit = &obstacles
        .iter()
        .find(|obstacle| obstacle["what"] == "routerNotConnected")
        .unwrap()["edits"][0];
    drop(asked.make(edit));
    assert_eq!(
        asked.dial(&identity, &service)["routers"][0]["isDisabled"],
        false,
        "{edit:#}"
    );
}
