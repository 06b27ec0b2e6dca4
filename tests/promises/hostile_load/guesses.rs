//! What guesses tell, and what one identity can take.

use super::*;

#[test]
fn sessions_per_identity_are_bounded() {
    let (server, name) = (narrow(), fresh("busy"));
    let (_, first) = server.user(&name, json!({}));
    let second = server.log_in_again(&name);
    let third = server.log_in_again(&name);
    let enter = || {
        server.anonymous().post(
            "/authenticate?method=password",
            json!({ "username": name, "password": PASSWORD }),
        )
    };
    with_retry(&enter().refused(429, "SERVER_TOO_MANY_REQUESTS", ""));
    for open in [&first, &second, &third] {
        open.get("/current-identity").expect(200);
    }
    second.delete("/current-api-session").expect(200);
    enter().expect(200);
    with_retry(&enter().refused(429, "SERVER_TOO_MANY_REQUESTS", ""));
}

#[test]
fn certificates_per_session_are_bounded() {
    let (server, name) = (narrow(), fresh("certified"));
    let (_, alice) = server.user(&name, json!({}));
    let ask = |caller: &Caller| {
        caller.post(
            "/current-api-session/certificates",
            json!({ "csr": Key::new().request() }),
        )
    };
    let first = ask(&alice).expect(201).id();
    (1..4).for_each(|_| drop(ask(&alice).expect(201)));
    with_retry(&ask(&alice).refused(429, "SERVER_TOO_MANY_REQUESTS", ""));
    ask(&server.log_in_again(&name)).expect(201);
    alice
        .delete(&format!("/current-api-session/certificates/{first}"))
        .expect(200);
    ask(&alice).expect(201);
}

#[test]
fn answers_do_not_reveal_known_names() {
    // One hash at a time and one waiting: a request that needs a hash blocks others, one that needs
    // none does not.
    let server = TestServer::with(Clock::system(), |config| {
        config.passwords.queue = 1;
        config.passwords.cost = 14;
    });
    let (known, disabled, locked, other) = (
        fresh("known"),
        fresh("disabled"),
        fresh("locked"),
        fresh("other"),
    );
    server.user(&known, json!({}));
    let (id, _) = server.user(&disabled, json!({}));
    server
        .admin
        .post(
            &format!("/identities/{id}/disable"),
            json!({ "durationMinutes": 0 }),
        )
        .expect(200);
    server.user(&locked, json!({ "authPolicyId": locking_in(&server) }));
    let enter = |name: &str| {
        let body = json!({ "username": name, "password": "not the password" });
        server
            .anonymous()
            .post("/authenticate?method=password", body)
    };
    for _ in 0..3 {
        enter(&locked).refused(401, "INVALID_AUTH", "");
    }
    let (_, by_certificate) = server.enrolled(&other);
    by_certificate.log_in_by_certificate();

    let refused = told(enter(&known));
    assert_eq!(refused.0, 401);
    for name in [&disabled, &locked, &other, "nobody-is-called-so"] {
        assert_eq!(told(enter(name)), refused, "{name}");
        let statuses: Vec<u16> = thread::scope(|scope| {
            let started: Vec<_> = (0..8).map(|_| scope.spawn(|| enter(name).status)).collect();
            started
                .into_iter()
                .map(|guess| guess.join().unwrap())
                .collect()
        });
        assert!(
            statuses.contains(&429),
            "{name} costs no hash: {statuses:?}"
        );
    }
}

#[test]
fn used_enrollments_look_unknown() {
    let server = shared();
    let [used, gone] = ["used", "gone"].map(|what| {
        let id = server.identity(&fresh(what), json!({ "enrollment": { "ott": true } }));
        (server.token_of(&id), id)
    });
    let redeem = |token: &str| {
        let anonymous = server.anonymous();
        anonymous
            .ask("POST", &format!("/enroll?method=ott&token={token}"))
            .body("application/pkcs10", Key::new().request())
            .send()
    };
    redeem(&used.0).expect(200);
    server
        .admin
        .delete(&format!("/identities/{}", gone.1))
        .expect(200);
    let unknown = told(redeem("6f5b6d4e-0000-4000-8000-000000000000"));
    assert_eq!(unknown.2["error"]["code"], "INVALID_ENROLLMENT_TOKEN");
    assert_eq!(told(redeem(&used.0)), unknown);
    assert_eq!(told(redeem(&gone.0)), unknown);
}

#[test]
fn logged_secrets_are_noticed() {
    let token = "6f5b6d4e-1111-4000-8000-000000000000";
    let line = format!("DEBUG request{{path=/version}}: answered status=200 token=\"{token}\"");
    let told = |first: &dyn Fn(&mut SecretScan), then: &dyn Fn(&mut SecretScan)| {
        let mut watch = SecretScan::default();
        first(&mut watch);
        assert!(watch.leaks().is_empty(), "{:?}", watch.leaks());
        then(&mut watch);
        watch.leaks().len()
    };
    let (add_secret, add_line) = (
        |watch: &mut SecretScan| watch.add_secret("token", token),
        |watch: &mut SecretScan| watch.add_line(&line),
    );
    assert_eq!(
        (told(&add_secret, &add_line), told(&add_line, &add_secret)),
        (1, 1)
    );
    let (key, other) = (
        |watch: &mut SecretScan| watch.add_line("key=-----BEGIN PRIVATE KEY-----"),
        |watch: &mut SecretScan| watch.add_secret("token", &token[1..]),
    );
    assert_eq!((told(&add_secret, &key), told(&add_line, &other)), (1, 0));
    let (secret, url) = (
        "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP",
        "otpauth://totp/it:ann?issuer=it&secret=",
    );
    assert_eq!(
        told(
            &|watch| watch.add_secret("provisioningUrl", &format!("{url}{secret}")),
            &|watch| watch.add_line(secret)
        ),
        1
    );
}
