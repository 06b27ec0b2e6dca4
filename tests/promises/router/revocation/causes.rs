//! Each cause that ends circuits.

use super::*;

#[test]
fn with_the_policy_to_dial() {
    ends(Ends::Circuit, |scene, _| {
        delete(scene, &format!("/service-policies/{}", scene.dial))
    });
    ends(Ends::Circuit, |scene, _| {
        let none = json!({ "identityRoles": ["#nobody"] });
        scene
            .server
            .admin
            .patch(&format!("/service-policies/{}", scene.dial), none)
            .expect(200);
    });
    ends(Ends::Circuit, |scene, _| {
        scene
            .server
            .admin
            .patch(
                &format!("/service-policies/{}", scene.dial),
                json!({ "type": "Bind" }),
            )
            .expect(200);
    });
}

#[test]
fn with_the_policy_to_bind() {
    ends(Ends::CircuitAndBinding, |scene, _| {
        delete(scene, &format!("/service-policies/{}", scene.bind))
    });
}

#[test]
fn with_a_role() {
    let by_role = |right: &'static str, of: fn(&Scene) -> (&str, &str), end: Ends| {
        ends(end, move |scene, _| {
            let (identity, policy) = of(scene);
            // First the role grants the right in addition, then it alone does, then it is removed.
            let path = format!("/identities/{identity}");
            scene
                .server
                .admin
                .patch(&path, json!({ "roleAttributes": ["staff"] }))
                .expect(200);
            scene
                .server
                .service_policy(right, &["#staff"], &[&format!("@{}", scene.service)]);
            delete(scene, &format!("/service-policies/{policy}"));
            assert_eq!(scene.server.router().circuits().len(), 2, "still allowed");
            scene
                .server
                .admin
                .patch(&path, json!({ "roleAttributes": ["retired"] }))
                .expect(200);
        });
    };
    by_role(
        "Dial",
        |scene| (&scene.client.id, &scene.dial),
        Ends::Circuit,
    );
    by_role(
        "Bind",
        |scene| (&scene.host.id, &scene.bind),
        Ends::CircuitAndBinding,
    );
}

#[test]
fn with_a_session() {
    ends(Ends::Circuit, |scene, _| {
        let session = scene.client.caller.get("/sessions").expect(200).each("id")[0].to_owned();
        scene
            .client
            .caller
            .delete(&format!("/sessions/{session}"))
            .expect(200);
    });
    ends(Ends::CircuitAndBinding, |scene, _| {
        let session = scene.host.caller.get("/sessions").expect(200).each("id")[0].to_owned();
        delete(scene, &format!("/sessions/{session}"));
    });
}

#[test]
fn with_an_api_session() {
    ends(Ends::ClientsChannel, |scene, _| {
        drop(
            scene
                .client
                .caller
                .delete("/current-api-session")
                .expect(200),
        )
    });
    ends(Ends::HostsChannel, |scene, _| {
        let of_host = format!("identity = \"{}\"", scene.host.id);
        let session = scene
            .server
            .admin
            .list("/api-sessions", &of_host, "")
            .expect(200)
            .each("id")[0]
            .to_owned();
        delete(scene, &format!("/api-sessions/{session}"));
    });
}

#[test]
fn with_an_identity() {
    ends(Ends::ClientsChannel, |scene, _| {
        delete(scene, &format!("/identities/{}", scene.client.id))
    });
    ends(Ends::HostsChannel, |scene, _| {
        delete(scene, &format!("/identities/{}", scene.host.id))
    });
    ends(Ends::ClientsChannel, |scene, _| {
        scene
            .server
            .admin
            .post(
                &format!("/identities/{}/disable", scene.client.id),
                json!({ "durationMinutes": 0 }),
            )
            .expect(200);
    });
}

#[test]
fn with_the_service() {
    ends(Ends::CircuitAndBinding, |scene, _| {
        delete(scene, &format!("/services/{}", scene.service))
    });
}

#[test]
fn with_the_way_over_the_router() {
    let scoped = |scene: &Scene| {
        // Other identities keep their access to the router.
        for (path, member) in [
            ("/edge-router-policies", "identityRoles"),
            ("/service-edge-router-policies", "serviceRoles"),
        ] {
            let id = scene.server.admin.get(path).expect(200).each("id")[0].to_owned();
            let all = scene
                .server
                .admin
                .get(if member == "identityRoles" {
                    "/identities"
                } else {
                    "/services"
                })
                .expect(200);
            let others: Vec<_> = all
                .each("id")
                .into_iter()
                .map(|id| format!("@{id}"))
                .collect();
            scene
                .server
                .admin
                .patch(&format!("{path}/{id}"), json!({ member: others }))
                .expect(200);
        }
    };
    let without = |scene: &Scene, path: &str, member: &str, whom: &str| {
        let policy = scene.server.admin.get(path).expect(200);
        let (id, roles) = (
            policy.each("id")[0].to_owned(),
            policy.data()[0][member].clone(),
        );
        let left: Vec<_> = roles
            .as_array()
            .unwrap()
            .iter()
            .filter(|role| *role != &json!(format!("@{whom}")))
            .cloned()
            .collect();
        assert_ne!(left.len(), roles.as_array().unwrap().len());
        scene
            .server
            .admin
            .patch(&format!("{path}/{id}"), json!({ member: left }))
            .expect(200);
    };
    ends(Ends::Circuit, |scene, _| {
        scoped(scene);
        assert_eq!(scene.server.router().circuits().len(), 2);
        without(
            scene,
            "/edge-router-policies",
            "identityRoles",
            &scene.client.id,
        );
    });
    ends(Ends::CircuitAndBinding, |scene, _| {
        scoped(scene);
        without(
            scene,
            "/edge-router-policies",
            "identityRoles",
            &scene.host.id,
        );
    });
    ends(Ends::CircuitAndBinding, |scene, _| {
        scoped(scene);
        without(
            scene,
            "/service-edge-router-policies",
            "serviceRoles",
            &scene.service,
        );
    });
}

#[test]
fn with_what_an_endpoint_reports() {
    let check = |scene: &Scene| {
        let body = json!({ "name": fresh("domain"), "typeId": "DOMAIN", "domains": ["good.example"], "roleAttributes": ["office"] });
        scene
            .server
            .admin
            .post("/posture-checks", body)
            .expect(201)
            .id()
    };
    let respond = |scene: &Scene, check: &str, domain: &str| {
        let body = json!({ "id": check, "typeId": "DOMAIN", "domain": domain });
        scene
            .client
            .caller
            .post("/posture-response", body)
            .expect(201);
    };
    let demanding = |scene: &Scene| {
        let path = format!("/service-policies/{}", scene.dial);
        scene
            .server
            .admin
            .patch(&path, json!({ "postureCheckRoles": ["#office"] }))
            .expect(200);
    };
    ends(Ends::Circuit, |scene, _| {
        let check = check(scene);
        respond(scene, &check, "good.example");
        demanding(scene);
        assert_eq!(
            scene.server.router().circuits().len(),
            2,
            "the check passes"
        );
        respond(scene, &check, "bad.example");
    });
    ends(Ends::Circuit, |scene, _| {
        check(scene);
        demanding(scene);
    });
}

#[test]
fn with_time_alone_and_no_sweep() {
    // No periodic review runs during the test.
    let server = TestServer::with(Clock::system(), |config| {
        config.router.enabled = true;
        config.sessions.sweep_interval = Span::minutes(60);
    });
    ends_on(Scene::on(server, false), Ends::Circuit, |scene, _| {
        let check = json!({ "name": fresh("code"), "typeId": "MFA", "timeoutSeconds": 6, "roleAttributes": ["coded"] });
        scene
            .server
            .admin
            .post("/posture-checks", check)
            .expect(201);
        scene
            .client
            .caller
            .post("/current-identity/mfa", json!(null))
            .expect(201);
        let codes = verify(&scene.client.caller);
        scene
            .client
            .caller
            .post("/authenticate/mfa", json!({ "code": codes[0] }))
            .expect(200);
        let path = format!("/service-policies/{}", scene.dial);
        scene
            .server
            .admin
            .patch(&path, json!({ "postureCheckRoles": ["#coded"] }))
            .expect(200);
        assert_eq!(
            scene.server.router().circuits().len(),
            2,
            "the code counts for some seconds"
        );
    });
}

#[test]
fn with_a_demanded_second_factor() {
    let policy = |scene: &Scene, is_demanded: bool| {
        let body = json!({
            "name": fresh("policy"),
            "primary": {
                "cert": { "allowed": true, "allowExpiredCerts": false },
                "updb": { "allowed": true, "lockoutDurationMinutes": 0, "maxAttempts": 5, "minPasswordLength": 5,
                    "requireMixedCase": false, "requireNumberChar": false, "requireSpecialChar": false },
                "extJwt": { "allowed": false, "allowedSigners": [] },
            },
            "secondary": { "requireTotp": is_demanded },
        });
        let policy = scene
            .server
            .admin
            .post("/auth-policies", body)
            .expect(201)
            .id();
        scene
            .server
            .admin
            .patch(
                &format!("/identities/{}", scene.client.id),
                json!({ "authPolicyId": policy }),
            )
            .expect(200);
        policy
    };
    ends(Ends::Circuit, |scene, _| drop(policy(scene, true)));
    ends(Ends::Circuit, |scene, _| {
        let policy = policy(scene, false);
        assert_eq!(
            scene.server.router().circuits().len(),
            2,
            "no second factor is demanded"
        );
        scene
            .server
            .admin
            .patch(
                &format!("/auth-policies/{policy}"),
                json!({ "secondary": { "requireTotp": true } }),
            )
            .expect(200);
    });
}
