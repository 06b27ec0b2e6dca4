//! Credentials that an explanation counts.

use super::*;

#[test]
fn posture_lock_and_credential_are_named() {
    let asked = Asked::start();
    let server = &asked.server;
    let name = fresh("person");
    let (identity, user) = server.user(&name, json!({}));
    let service = server.service(&fresh("service"), json!({}));
    server.router_between(&identity, &service);
    let check = json!({ "typeId": "DOMAIN", "name": fresh("check"), "domains": ["corp"], "roleAttributes": ["strict"] });
    server.admin.post("/posture-checks", check).expect(201);
    let policy = server.service_policy(
        "Dial",
        &[&format!("@{identity}")],
        &[&format!("@{service}")],
    );
    assert!(is_yes(&asked.dial(&name, &service)) && opens(&user, &service));
    server
        .admin
        .patch(
            &format!("/service-policies/{policy}"),
            json!({ "postureCheckRoles": ["#strict"] }),
        )
        .expect(200);
    let asks = asked.dial(&name, &service);
    assert!(!is_yes(&asks) && whats(&asks) == ["posture"], "{asks:#}");
    let text = asked.told(&name, &service, false).unwrap();
    assert!(
        text.contains(": reported: nothing; required: corp\n"),
        "{text}"
    );
    user.post(
        "/posture-response",
        json!({ "id": "any", "typeId": "DOMAIN", "domain": "corp" }),
    )
    .expect(201);
    assert!(is_yes(&asked.dial(&name, &service)) && opens(&user, &service));

    server
        .admin
        .post(
            &format!("/identities/{identity}/disable"),
            json!({ "durationMinutes": 5 }),
        )
        .expect(200);
    assert_eq!(whats(&asked.dial(&name, &service)), ["disabled"]);
    let blank = fresh("blank");
    server.identity(&blank, json!({}));
    assert!(whats(&asked.dial(&blank, &service)).contains(&"noCredential"));
}

#[test]
fn disallowed_credentials_do_not_count() {
    let asked = Asked::start();
    let server = &asked.server;
    let name = fresh("person");
    let (identity, user) = server.user(&name, json!({ "externalId": fresh("external") }));
    let service = server.service(&fresh("service"), json!({}));
    server.router_between(&identity, &service);
    server.service_policy(
        "Dial",
        &[&format!("@{identity}")],
        &[&format!("@{service}")],
    );
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
    let why = asked.dial(&name, &service);
    assert_eq!(
        (&why["authentication"]["state"], is_yes(&why)),
        (&json!("notAllowed"), true),
        "an open session must stay valid: {why:#}"
    );
    let text = asked.told(&name, &service, false).unwrap();
    assert!(
        text.contains(&format!("{name} could not log in again: "))
            && text.contains("does not allow passwords"),
        "{text}"
    );
    user.delete("/current-api-session").expect(200);
    let why = asked.dial(&name, &service);
    assert!(
        !is_yes(&why) && whats(&why) == ["credentialNotAllowed"],
        "{why:#}"
    );
    drop(asked.make(&why["obstacles"][0]["edits"][0]));
    let why = asked.dial(&name, &service);
    assert!(
        is_yes(&why) && opens(&server.log_in_again(&name), &service),
        "{why:#}"
    );
}

/// An identity with this certificate that may dial a service: identity, service, and a caller that
/// presents the certificate.
fn certified(server: &TestServer, chain: &str, key: &Key, more: Json) -> (String, String, Caller) {
    let identity = server.identity(&fresh("person"), more);
    server
        .admin
        .post(
            "/authenticators",
            json!({ "method": "cert", "identityId": identity, "certPem": chain }),
        )
        .expect(201);
    let service = reachable(server, &identity);
    (identity, service, server.with_certificate(chain, key))
}

/// A service that an identity may dial.
fn reachable(server: &TestServer, identity: &str) -> String {
    let service = server.service(&fresh("service"), json!({}));
    server.router_between(identity, &service);
    server.service_policy(
        "Dial",
        &[&format!("@{identity}")],
        &[&format!("@{service}")],
    );
    service
}

/// Asserts that no credential is accepted, for the reasons in these words, and that the certificate
/// is accepted after the first edit of each obstacle.
#[track_caller]
fn stands_until_mended(
    asked: &Asked,
    (identity, service, bearer): &(String, String, Caller),
    words: &[&str],
    bodies: &[Json],
) {
    let why = asked.dial(identity, service);
    let obstacles = obstacles(&why);
    let text = asked.told(identity, service, false).unwrap();
    assert_eq!(
        whats(&why),
        vec!["credentialNotAllowed"; bodies.len()],
        "{why:#}"
    );
    assert!(words.iter().all(|words| text.contains(words)), "{text}");
    bearer
        .ask("POST", "/authenticate?method=cert")
        .send()
        .refused(401, "INVALID_AUTH", "");
    for (obstacle, body) in obstacles.iter().zip(bodies) {
        assert_eq!(&obstacle["edits"][0]["body"], body, "{obstacle:#}");
        drop(asked.make(&obstacle["edits"][0]));
    }
    let why = asked.dial(identity, service);
    assert!(
        is_yes(&why) && opens(&bearer.log_in_by_certificate(), service),
        "{why:#}"
    );
}

#[test]
fn certificates_depend_on_their_authority() {
    let asked = Asked::start();
    let server = &asked.server;
    let authority = Authority::new("partner");
    let ca = server.add_ca(&authority);
    let key = Key::new();
    let known = certified(server, &authority.issue(" ", &key), &key, json!({}));
    assert!(is_yes(&asked.dial(&known.0, &known.1)));
    let shut = || {
        server
            .admin
            .patch(&format!("/cas/{ca}"), json!({ "isAuthEnabled": false }))
            .expect(200)
    };
    shut();
    let opening = json!({ "isAuthEnabled": true });
    stands_until_mended(
        &asked,
        &known,
        &["certificates of the authority", "do not log in"],
        std::slice::from_ref(&opening),
    );

    // If the auth policy is an obstacle too, both must change.
    let key = Key::new();
    let policy = auth_policy(
        server,
        json!({ "primary": { "cert": { "allowed": false } } }),
    );
    let known = certified(
        server,
        &authority.issue(" ", &key),
        &key,
        json!({ "authPolicyId": policy }),
    );
    shut();
    let allowing = json!({ "primary": { "cert": { "allowed": true } } });
    stands_until_mended(
        &asked,
        &known,
        &["does not allow certificates", "do not log in"],
        &[allowing, opening],
    );

    // By the claim in its certificate the holder is another identity.
    let (key, name) = (Key::new(), fresh("claimed"));
    let known = certified(server, &authority.issue(&name, &key), &key, json!({}));
    stands_until_mended(
        &asked,
        &known,
        &[&format!("to the external id {name}")],
        &[json!({ "externalId": name })],
    );
    let taken = certified(
        server,
        &authority.issue(&name, &Key::new()),
        &Key::new(),
        json!({}),
    );
    let why = asked.dial(&taken.0, &taken.1);
    assert_eq!(
        (whats(&why), &why["obstacles"][0]["edits"]),
        (vec!["credentialNotAllowed"], &json!([])),
        "{why:#}"
    );
}

#[test]
fn expired_certificates_follow_the_policy() {
    let asked = Asked::with(Clock::manual(Clock::system().now()));
    // Some time after the clock was moved, the controller renews its own certificate.
    let asked = Asked {
        server: asked.server.unverified(),
        ..asked
    };
    let server = &asked.server;
    let authority = Authority::new("partner");
    server.add_ca(&authority);
    let enrolled = || {
        let (identity, bearer) = server.enrolled("person");
        let service = reachable(server, &identity);
        (identity, service, bearer)
    };
    let ended = || {
        let key = Key::new();
        certified(server, &authority.issue_ended(" ", &key), &key, json!({}))
    };
    let [ours, theirs, both] = [enrolled(), ended(), enrolled()];
    let takes = |(identity, service, _): &(String, String, Caller), cert: Json| {
        let policy = auth_policy(server, json!({ "primary": { "cert": cert } }));
        server
            .admin
            .patch(
                &format!("/identities/{identity}"),
                json!({ "authPolicyId": policy }),
            )
            .expect(200);
        asked.dial(identity, service)
    };
    assert!(is_yes(&takes(&ours, json!({ "allowExpiredCerts": false }))));
    for _ in 0..2 {
        server.clock.advance(Duration::from_secs(200 * 24 * 3600));
        server.admin.get("/cas").expect(200);
        server.run_due_jobs();
    }
    assert!(is_yes(&takes(
        &theirs,
        json!({ "allowExpiredCerts": true })
    )));
    takes(&theirs, json!({ "allowExpiredCerts": false }));
    takes(
        &both,
        json!({ "allowed": false, "allowExpiredCerts": false }),
    );
    let late = json!({ "primary": { "cert": { "allowExpiredCerts": true } } });
    stands_until_mended(
        &asked,
        &ours,
        &["does not allow certificates that have expired, like its own at "],
        std::slice::from_ref(&late),
    );
    stands_until_mended(
        &asked,
        &theirs,
        &["does not allow certificates that have expired, like its own at 2020-01-01"],
        &[late],
    );
    let all = json!({ "primary": { "cert": { "allowed": true, "allowExpiredCerts": true } } });
    stands_until_mended(
        &asked,
        &both,
        &["does not allow certificates that have expired"],
        &[all],
    );
}

#[test]
fn claimed_identities_wait_for_the_authority() {
    let asked = Asked::start();
    let server = &asked.server;
    let (authority, key, name) = (Authority::new("partner"), Key::new(), fresh("claimed"));
    let ca = server.add_ca(&authority);
    let identity = server.identity(&name, json!({ "externalId": name }));
    let known = (
        identity.clone(),
        reachable(server, &identity),
        server.with_certificate(&authority.issue(&name, &key), &key),
    );
    assert!(is_yes(&asked.dial(&known.0, &known.1)));
    server
        .admin
        .patch(&format!("/cas/{ca}"), json!({ "isAuthEnabled": false }))
        .expect(200);
    stands_until_mended(
        &asked,
        &known,
        &["uses its external id"],
        &[json!({ "isAuthEnabled": true })],
    );
}
