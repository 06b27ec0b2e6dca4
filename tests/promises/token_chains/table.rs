//! The chains that are tried.

use super::*;

pub(super) const ATTACKS: [(&str, Attack); 24] = [
    ("a new administrator enrolls", |world, token| {
        let made =
            token.post("/identities", json!({ "name": fresh("x"), "type": "Device", "isAdmin": true, "enrollment": { "ott": true } }));
        (made.status == 201).then(|| world.enrolled(token, &made.id()))?
    }),
    ("a new administrator has an external id", |world, token| {
        let name = fresh("x");
        token.post(
            "/identities",
            json!({ "name": name, "type": "Device", "isAdmin": true, "externalId": name }),
        );
        by_token(
            &world.server,
            &world.members.key,
            &world.members.issuer,
            &name,
        )
    }),
    ("a member becomes an administrator", |world, token| {
        token.patch(
            &format!("/identities/{}", world.mallory),
            json!({ "isAdmin": true }),
        );
        let won = by_password(&world.server, "mallory", PASSWORD)?;
        let admin = won.at(Base::Management).get("/api-sessions?limit=1").status == 200;
        world
            .server
            .admin
            .patch(
                &format!("/identities/{}", world.mallory),
                json!({ "isAdmin": false }),
            )
            .expect(200);
        admin.then(|| world.server.admin.clone())
    }),
    ("an administrator gets a password", |world, token| {
        let (id, name) = world.victim(json!({}));
        token.post(
            "/authenticators",
            json!({ "identityId": id, "method": "updb", "username": name, "password": PASSWORD }),
        );
        by_password(&world.server, &name, PASSWORD)
    }),
    ("a password is replaced", |world, token| {
        let (_, name, of) = world.with_password();
        token.put(
            &format!("/authenticators/{of}"),
            json!({ "username": name, "password": "another-password" }),
        );
        by_password(&world.server, &name, "another-password")
    }),
    ("a password is changed", |world, token| {
        let (_, name, of) = world.with_password();
        token.patch(
            &format!("/authenticators/{of}"),
            json!({ "password": "another-password" }),
        );
        by_password(&world.server, &name, "another-password")
    }),
    ("the own password is changed", |world, token| {
        let of = token.get("/current-identity/authenticators");
        let of = if of.status == 200 {
            of.each("id")[0].to_owned()
        } else {
            "none".into()
        };
        token.patch(
            &format!("/current-identity/authenticators/{of}"),
            json!({ "currentPassword": "x", "password": "another-password" }),
        );
        by_password(&world.server, "admin", "another-password")
    }),
    ("an enrollment is created", |world, token| {
        let (id, _) = world.victim(json!({}));
        token.post(
            "/enrollments",
            json!({ "identityId": id, "method": "ott", "expiresAt": "2099-01-01T00:00:00Z" }),
        );
        world.enrolled(token, &id)
    }),
    ("an outstanding enrollment is read", |world, token| {
        let (id, _) = world.victim(json!({ "enrollment": { "ott": true } }));
        world.enrolled(token, &id)
    }),
    ("an enrollment is refreshed", |world, token| {
        let (id, _) = world.victim(json!({ "enrollment": { "ott": true } }));
        let of = world
            .server
            .admin
            .get(&format!("/identities/{id}/enrollments"))
            .expect(200)
            .each("id")[0]
            .to_owned();
        let answer = token.post(
            &format!("/enrollments/{of}/refresh"),
            json!({ "expiresAt": "2099-01-01T00:00:00Z" }),
        );
        tokens_in(&answer)
            .iter()
            .find_map(|found| by_enrollment(&world.server, found))
            .or_else(|| world.enrolled(token, &id))
    }),
    ("a credential is enrolled again", |world, token| {
        let (id, _, of) = world.with_password();
        let answer = token.post(
            &format!("/authenticators/{of}/re-enroll"),
            json!({ "expiresAt": "2099-01-01T00:00:00Z" }),
        );
        tokens_in(&answer)
            .iter()
            .find_map(|found| by_enrollment(&world.server, found))
            .or_else(|| world.enrolled(token, &id))
    }),
    ("a signer is created", |world, token| {
        let (key, issuer) = (signer(), format!("https://{}.test", fresh("new")));
        let pem = key.certificate.certificate().pem();
        let body = json!({ "name": fresh("new"), "enabled": true, "issuer": issuer, "audience": "overlay", "certPem": pem });
        token.post("/external-jwt-signers", body);
        let (victim, _) = world
            .victim(json!({ "authPolicyId": auth_policy(&world.server, json!({ "primary": { "extJwt": { "allowedSigners": [] } } })) }));
        by_token(&world.server, &key, &issuer, &victim)
    }),
    ("a signer gets another key", |world, token| {
        let (hr, key) = (idp(&world.server, json!({})), signer());
        let (_, name) = world.victim(
            json!({ "authPolicyId": auth_policy(&world.server, json!({ "primary": { "extJwt": { "allowedSigners": [hr.id] } } })) }),
        );
        token.patch(
            &format!("/external-jwt-signers/{}", hr.id),
            json!({ "certPem": key.certificate.certificate().pem() }),
        );
        by_token(&world.server, &key, &hr.issuer, &name)
    }),
    ("a policy admits another signer", |world, token| {
        let only = auth_policy(
            &world.server,
            json!({ "primary": { "extJwt": { "allowedSigners": [world.members.id] } } }),
        );
        let (victim, _) = world.victim(json!({ "authPolicyId": only }));
        token.patch(
            &format!("/auth-policies/{only}"),
            json!({ "primary": { "extJwt": { "allowedSigners": [] } } }),
        );
        by_token(
            &world.server,
            &world.partners.key,
            &world.partners.issuer,
            &victim,
        )
    }),
    ("an authority is created and verified", |world, token| {
        let (_, name) = world.victim(json!({}));
        let authority = Authority::new(&fresh("rogue"));
        let made = token.post("/cas", ca(&authority));
        let id = (made.status == 201).then(|| made.id())?;
        let shown = token.get(&format!("/cas/{id}"));
        let proof = (shown.status == 200).then(|| {
            authority.issue(
                shown.data()["verificationToken"].as_str().unwrap(),
                &Key::new(),
            )
        })?;
        token
            .ask("POST", &format!("/cas/{id}/verify"))
            .body("text/plain", proof)
            .send();
        by_certificate(&world.server, &authority, &name)
    }),
    ("an authority logs in by a claim", |world, token| {
        let (_, name) = world.victim(json!({}));
        let claim = ca(&world.devices)["externalIdClaim"].clone();
        token.patch(
            &format!("/cas/{}", world.devices_id),
            json!({ "isAuthEnabled": true, "externalIdClaim": claim }),
        );
        let won = by_certificate(&world.server, &world.devices, &name);
        world
            .server
            .admin
            .patch(
                &format!("/cas/{}", world.devices_id),
                json!({ "isAuthEnabled": false }),
            )
            .expect(200);
        won
    }),
    ("the network is replaced", |world, token| {
        let name = fresh("x");
        let network = json!({ "identities": [{ "name": name, "type": "Default", "isAdmin": true, "externalId": name }] });
        token.at(Base::Overkeep).put("/network", network);
        by_token(
            &world.server,
            &world.members.key,
            &world.members.issuer,
            &name,
        )
    }),
    ("a router is told sessions", |world, token| {
        let made = token.post(
            "/edge-routers",
            json!({ "name": fresh("rogue"), "roleAttributes": ["trusted"] }),
        );
        enrolled_and_told(world, (made.status == 201).then(|| made.id())?, token)
    }),
    ("a router is enrolled again", |world, token| {
        let id = world
            .server
            .admin
            .post(
                "/edge-routers",
                json!({ "name": fresh("router"), "roleAttributes": ["trusted"] }),
            )
            .expect(201)
            .id();
        token
            .ask("POST", &format!("/edge-routers/{id}/re-enroll"))
            .send();
        enrolled_and_told(world, id, token)
    }),
    ("a router gets roles", |world, token| {
        token.patch(
            &format!("/edge-routers/{}", world.router.id),
            json!({ "roleAttributes": ["trusted"] }),
        );
        let won = told(world, &world.router);
        world
            .server
            .admin
            .patch(
                &format!("/edge-routers/{}", world.router.id),
                json!({ "roleAttributes": [] }),
            )
            .expect(200);
        won
    }),
    ("a policy opens a router", |world, token| {
        let body = json!({ "name": fresh("x"), "semantic": "AnyOf", "identityRoles": ["#all"], "edgeRouterRoles": [format!("@{}", world.router.id)] });
        let made = token.post("/edge-router-policies", body);
        let won = told(world, &world.router);
        if made.status == 201 {
            world
                .server
                .admin
                .delete(&format!("/edge-router-policies/{}", made.id()))
                .expect(200);
        }
        won
    }),
    ("a policy opens a router later", |world, token| {
        let path = format!("/edge-router-policies/{}", world.empty_policy);
        token.patch(&path, json!({ "identityRoles": ["#all"], "edgeRouterRoles": [format!("@{}", world.router.id)] }));
        let won = told(world, &world.router);
        world
            .server
            .admin
            .patch(&path, json!({ "identityRoles": [], "edgeRouterRoles": [] }))
            .expect(200);
        won
    }),
    ("another token is created", |world, token| {
        let made = token
            .at(Base::Overkeep)
            .post("/api-tokens", json!({ "name": fresh("more") }));
        (made.status == 201).then(|| {
            world
                .server
                .anonymous()
                .with_token(made.data()["token"].as_str().unwrap())
        })
    }),
    ("a session is read", |world, token| {
        tokens_in(&token.get("/api-sessions?limit=500"))
            .iter()
            .map(|found| world.server.anonymous().with_token(found.as_str()))
            .find(is_won)
    }),
];
