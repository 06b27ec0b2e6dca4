//! Enrollments, and what may be enrolled again.

use super::*;

#[test]
fn enrollments_expire_and_work_once() {
    let server = TestServer::with(Clock::manual(Clock::system().now()), |config| {
        config.enrollment.identity_duration = Span::minutes(5);
        config.sessions.timeout = Span::minutes(60);
    });
    let (late, early) = (
        server.identity(&fresh("late"), json!({ "enrollment": { "ott": true } })),
        server.enrolled("early").0,
    );
    let token = server.token_of(&late);
    server.clock.advance(Duration::from_secs(301));
    let enroll = |token: &str| {
        server
            .anonymous()
            .ask("POST", &format!("/enroll?method=ott&token={token}"))
            .body("text/plain", Key::new().request())
            .send()
    };
    enroll(&token).refused(400, "ENROLLMENT_EXPIRED", "");

    let outstanding = server
        .admin
        .get(&format!("/identities/{late}/enrollments"))
        .expect(200)
        .each("id")[0]
        .to_owned();
    let end = server.clock.now().plus_minutes(30).to_string();
    server
        .admin
        .post(
            &format!("/enrollments/{outstanding}/refresh"),
            json!({ "expiresAt": end }),
        )
        .expect(200);
    let renewed = server.token_of(&late);
    assert_ne!(renewed, token, "the refresh must issue a new token");
    enroll(&token).refused(400, "INVALID_ENROLLMENT_TOKEN", "");
    enroll(&renewed).expect(200);
    assert_ne!(late, early);
}

#[test]
fn authority_certificates_enroll_despite_any_token() {
    let (server, authority, key, name) = (
        shared(),
        Authority::new("partner"),
        Key::new(),
        fresh("newcomer"),
    );
    let ca = server.add_ca(&authority);
    let bearer = server.with_certificate(&authority.issue(&name, &key), &key);
    // The C SDK sends the id of the authority as a token.
    bearer
        .ask("POST", &format!("/enroll?method=ca&token={ca}"))
        .send()
        .expect(200);
    bearer.log_in_by_certificate();
    let shown = server.admin.get(&format!("/cas/{ca}")).expect(200);
    assert!(
        Uuid::try_parse(shown.data()["verificationToken"].as_str().unwrap()).is_ok(),
        "the verification token must be a UUID"
    );
}

#[test]
fn expired_enrollments_can_be_refreshed() {
    let server = TestServer::with(Clock::manual(Clock::system().now()), |config| {
        config.enrollment.identity_duration = Span::minutes(5);
        config.enrollment.keep_expired = Span::minutes(60);
        config.sessions.timeout = Span::minutes(24 * 60);
    });
    let [lost, found] = ["lost", "found"]
        .map(|name| server.identity(&fresh(name), json!({ "enrollment": { "ott": true } })));
    let kept = || {
        [&lost, &found].map(|id| {
            server
                .admin
                .get(&format!("/identities/{id}/enrollments"))
                .expect(200)
                .total()
        })
    };
    server.clock.advance(Duration::from_secs(64 * 60));
    server.run_due_jobs();
    assert_eq!(kept(), [1, 1]);
    let one = server
        .admin
        .get(&format!("/identities/{found}/enrollments"))
        .expect(200)
        .each("id")[0]
        .to_owned();
    let end = server.clock.now().plus_minutes(1).to_string();
    server
        .admin
        .post(
            &format!("/enrollments/{one}/refresh"),
            json!({ "expiresAt": end }),
        )
        .expect(200);
    let token = server.token_of(&lost);
    server.clock.advance(Duration::from_secs(2 * 60));
    server.run_due_jobs();
    assert_eq!(kept(), [0, 1], "the refreshed enrollment must be kept");
    server
        .anonymous()
        .ask("POST", &format!("/enroll?method=ott&token={token}"))
        .body("text/plain", Key::new().request())
        .send()
        .refused(400, "INVALID_ENROLLMENT_TOKEN", "");
    let end = server.clock.now().plus_minutes(5).to_string();
    server
        .admin
        .post(
            "/enrollments",
            json!({ "identityId": lost, "method": "ott", "expiresAt": end }),
        )
        .expect(201);
}

#[test]
fn router_keeps_its_last_certificate() {
    let server = shared();
    for (kind, method) in [("edge-routers", "erott"), ("transit-routers", "trott")] {
        let id = server
            .admin
            .post(&format!("/{kind}"), json!({ "name": fresh("router") }))
            .expect(201)
            .id();
        let shown = || {
            server
                .admin
                .get(&format!("/{kind}/{id}"))
                .expect(200)
                .data()
                .clone()
        };
        let token = shown()["enrollmentToken"].as_str().unwrap().to_owned();
        let key = Key::new();
        let requests = json!({ "certCsr": key.request_as(&id), "serverCertCsr": key.request() });
        let enroll = || {
            server.anonymous().post(
                &format!("/enroll?method={method}&token={token}"),
                requests.clone(),
            )
        };
        let first = enroll().expect(200);
        enroll().refused(400, "INVALID_ENROLLMENT_TOKEN", "");
        let router = |issued: &Answer| {
            server.with_certificate(issued.data()["cert"].as_str().unwrap(), &key)
        };
        let fingerprint = |issued: &Answer| {
            Certificate::first(issued.data()["cert"].as_str().unwrap())
                .unwrap()
                .fingerprint()
        };
        // The renewed certificate is the router's own at once, without confirmation.
        let is = |issued: &Answer| {
            let shown = shown();
            assert_eq!(
                (&shown["fingerprint"], &shown["isVerified"]),
                (&fingerprint(issued).into(), &true.into())
            );
            assert!(
                shown["unverifiedFingerprint"].is_null()
                    && shown["unverifiedCertPem"].is_null()
                    && shown["enrollmentToken"].is_null()
            );
        };
        is(&first);
        let renew =
            |issued: &Answer| router(issued).post("/enroll/extend/router", requests.clone());
        let second = renew(&first).expect(200);
        assert_ne!(fingerprint(&first), fingerprint(&second));
        is(&second);
        renew(&first).refused(401, "UNAUTHORIZED", "");

        if kind == "edge-routers" {
            server
                .admin
                .post(&format!("/edge-routers/{id}/re-enroll"), json!({}))
                .expect(200);
            let shown = shown();
            assert!(
                shown["isVerified"] == false
                    && shown["certPem"].is_null()
                    && shown["fingerprint"].is_null(),
                "{shown}"
            );
            assert!(
                shown["enrollmentToken"].is_string() && shown["enrollmentToken"] != token.as_str()
            );
            renew(&second).refused(401, "UNAUTHORIZED", "");
        }
    }
}
