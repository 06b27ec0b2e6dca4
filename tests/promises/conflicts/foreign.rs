//! Records that the caller may not change.

use super::*;

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
    let of_router = format!("/edge-router-policies/{router}");
    let before = admin().get(&of_router).expect(200).data().clone();
    assert_eq!(before["isSystem"], true);
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
    assert_eq!(admin().get(&of_router).expect(200).data(), &before);
    // They go with their router.
    admin()
        .delete(&format!("/edge-routers/{router}"))
        .expect(200);
    admin().get(&of_router).expect(404);
    admin().get(&format!("/identities/{router}")).expect(404);
}

/// Resources of one user that no other user may see, with their paths; and that user.
fn belongings(server: &TestServer) -> (Caller, Vec<(&'static str, String)>) {
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
    (ann, places)
}

#[test]
fn foreign_records_are_not_found() {
    let server = shared();
    let (_, bob) = server.user(&fresh("bob"), json!({}));
    let mut all = Differences::default();
    let (ann, places) = belongings(server);
    for (method, place) in places {
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
    let totals = ["/sessions", "/services"].map(|list| bob.get(list).expect(200).total());
    assert_eq!(totals, [0, 0]);
    assert_eq!(ann.get("/sessions").expect(200).total(), 1);
}
