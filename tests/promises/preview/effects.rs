//! What a preview leaves alone.

use super::*;

#[test]
fn clients_hear_nothing_of_a_preview() {
    let server = TestServer::with_manual_clock();
    let (identity, user) = server.user(&fresh("person"), json!({}));
    let service = server.service(&fresh("service"), json!({}));
    let policy = server.service_policy(
        "Dial",
        &[&format!("@{identity}")],
        &[&format!("@{service}")],
    );
    let updates = || {
        user.get("/current-api-session/service-updates")
            .expect(200)
            .data()["lastChangeAt"]
            .clone()
    };
    let before = updates();
    server.clock.advance(std::time::Duration::from_secs(5));
    let path = format!("/service-policies/{policy}");
    let preview = server
        .admin
        .delete(&format!("{path}?preview=true"))
        .expect(200);
    assert_eq!(
        preview.data()["dial"]["lost"]["who"]["first"][0]["id"],
        identity.as_str()
    );
    assert_eq!(updates(), before);
    server.admin.delete(&path).expect(200);
    assert_ne!(updates(), before);
}

#[tokio::test]
async fn previews_yield_and_stop() {
    let (_store, access, events) = large_store().await;
    let remaining = RefCell::new(Vec::new());
    let difference = access.preview(&events, 1, |subjects| {
        remaining.borrow_mut().push(subjects);
        assert_eq!(
            access.ask(|engine| engine.count(PolicyEntityKind::Identity)),
            MANY,
            "another caller can use the engine meanwhile"
        );
        Ok(())
    });
    assert_eq!(difference.unwrap().dial.gained.pairs, (MANY * MANY) as u64);
    let remaining = remaining.into_inner();
    assert_eq!(remaining[0], MANY as u64, "the smaller side is enough");
    assert!(
        remaining.len() > 4 && remaining.is_sorted_by(|one, next| one >= next),
        "{remaining:?}"
    );
    let stopped = access.preview(&events, 1, |_| Err(Error::Busy { retry_after: 1 }));
    assert_eq!(stopped.unwrap_err(), Error::Busy { retry_after: 1 });
}

#[test]
fn a_preview_ends_no_session() {
    let server = TestServer::with_manual_clock();
    let (identity, user) = server.user(&fresh("person"), json!({}));
    let path = format!("/identities/{identity}");
    let open = || {
        server
            .admin
            .get(&format!("/api-sessions?filter=identity%3D%22{identity}%22"))
            .expect(200)
            .each("id")
            .len()
    };
    server
        .admin
        .delete(&format!("{path}?preview=true"))
        .expect(200);
    assert_eq!(open(), 1);
    user.get("/current-api-session").expect(200);
    server.admin.delete(&path).expect(200);
    assert_eq!(open(), 0);
    user.get("/current-api-session").expect(401);
}

#[test]
fn previewed_enabling_forgives_no_failures() {
    let server = TestServer::with(Clock::system(), |_| ());
    let rules = json!({ "primary": { "updb": { "maxAttempts": 2, "lockoutDurationMinutes": 5 } } });
    server
        .admin
        .patch("/auth-policies/default", rules)
        .expect(200);
    let name = fresh("guessed");
    let (id, _) = server.user(&name, json!({}));
    for _ in 0..2 {
        server
            .anonymous()
            .post(
                "/authenticate?method=password",
                json!({ "username": name, "password": "not hers" }),
            )
            .expect(401);
        server
            .admin
            .post(&format!("/identities/{id}/enable?preview=true"), Json::Null)
            .expect(200);
    }
    assert_eq!(
        server
            .admin
            .get(&format!("/identities/{id}"))
            .expect(200)
            .data()["disabled"],
        true
    );
}

#[test]
fn changed_credentials_change_no_access() {
    let server = TestServer::with(Clock::system(), |_| ());
    let admin = &server.admin;
    let name = fresh("person");
    let (identity, _) = server.user(&name, json!({ "enrollment": { "ott": true } }));
    let of = |kind: &str| {
        admin
            .get(&format!("/identities/{identity}/{kind}"))
            .expect(200)
            .each("id")[0]
            .to_owned()
    };
    let (authenticator, enrollment) = (of("authenticators"), of("enrollments"));
    let without = server.identity(&fresh("new"), json!({}));
    let router = admin
        .post("/edge-routers", json!({ "name": fresh("router") }))
        .expect(201)
        .id();
    let later = "2100-01-01T00:00:00.000Z";
    let password = |username: &str| json!({ "username": username, "password": PASSWORD });
    let mut new = password("somebody");
    new.as_object_mut().unwrap().extend([
        ("method".into(), "updb".into()),
        ("identityId".into(), without.clone().into()),
    ]);
    let newest = || {
        admin
            .at(Base::Overkeep)
            .list("/history", "action != \"refusal\"", "&limit=1")
            .expect(200)
            .data()[0]["sequence"]
            .clone()
    };
    let before = newest();
    let changes = [
        ("POST", "/authenticators".to_owned(), new),
        (
            "PUT",
            format!("/authenticators/{authenticator}"),
            password("another"),
        ),
        (
            "PATCH",
            format!("/authenticators/{authenticator}"),
            json!({ "username": "another" }),
        ),
        (
            "POST",
            format!("/authenticators/{authenticator}/re-enroll"),
            json!({ "expiresAt": later }),
        ),
        (
            "DELETE",
            format!("/authenticators/{authenticator}"),
            Json::Null,
        ),
        (
            "POST",
            "/enrollments".into(),
            json!({ "identityId": without, "method": "ott", "expiresAt": later }),
        ),
        (
            "POST",
            format!("/enrollments/{enrollment}/refresh"),
            json!({ "expiresAt": later }),
        ),
        ("DELETE", format!("/enrollments/{enrollment}"), Json::Null),
        ("DELETE", format!("/identities/{identity}/mfa"), Json::Null),
        (
            "POST",
            format!("/edge-routers/{router}/re-enroll"),
            Json::Null,
        ),
        (
            "POST",
            format!("/identities/{identity}/service-configs"),
            json!([]),
        ),
        (
            "DELETE",
            format!("/identities/{identity}/service-configs"),
            Json::Null,
        ),
    ];
    let nothing = json!({ "pairs": 0, "who": { "count": 0, "first": [] }, "what": { "count": 0, "first": [] } });
    for (method, path, body) in changes {
        let asking = admin.ask(method, &format!("{path}?preview=true"));
        let preview = if body.is_null() {
            asking.send()
        } else {
            asking.json(&body).send()
        };
        for (relation, _, _) in RELATIONS {
            let expected = json!({ "gained": nothing, "lost": nothing });
            assert_eq!(
                preview.json["data"][relation], expected,
                "{method} {path}: {}",
                preview.text
            );
        }
    }
    assert_eq!(newest(), before, "a preview writes nothing");
    server.log_in_again(&name);
}
