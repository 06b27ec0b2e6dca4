//! Log-ins and sessions.

use super::*;

#[test]
fn foreign_certificate_opens_nothing() {
    let server = shared();
    let key = Key::of(&PKCS_ECDSA_P256_SHA256);
    let stranger = server.with_certificate(&key.self_signed(), &key);
    stranger
        .ask("POST", "/authenticate?method=cert")
        .send()
        .refused(401, "INVALID_AUTH", "");
    server
        .anonymous()
        .ask("POST", "/authenticate?method=cert")
        .send()
        .refused(401, "INVALID_AUTH", "");

    // The certificate is valid and its key is proven, but the identity is deleted.
    let (id, bearer) = server.enrolled("former");
    bearer.log_in_by_certificate();
    server
        .admin
        .delete(&format!("/identities/{id}"))
        .expect(200);
    bearer
        .ask("POST", "/authenticate?method=cert")
        .send()
        .refused(401, "INVALID_AUTH", "");
}

#[test]
fn wrong_passwords_look_like_unknown_names() {
    let server = shared();
    let name = fresh("somebody");
    server.user(&name, json!({}));
    let refused = |name: &str, password: &str| {
        let body = json!({ "username": name, "password": password });
        let answer = server
            .anonymous()
            .post("/authenticate?method=password", body)
            .refused(401, "INVALID_AUTH", "");
        (
            answer.json["error"]["message"].clone(),
            answer.json["error"]["cause"].clone(),
        )
    };
    assert_eq!(
        refused(&name, "not the password"),
        refused("nobody-has-this-name", "not the password")
    );
}

#[test]
fn sessions_end_after_idling() {
    let server = TestServer::with_manual_clock();
    let (_, tom) = server.user(&fresh("tom"), json!({}));
    let minutes = |count: u64| server.clock.advance(Duration::from_secs(60 * count));
    for _ in 0..3 {
        minutes(29);
        let answer = tom.get("/current-api-session").expect(200);
        assert_eq!(answer.header("expiration-seconds"), "1800");
        assert_eq!(answer.header("expires-at"), answer.data()["expiresAt"]);
    }
    minutes(31);
    tom.get("/current-api-session")
        .refused(401, "UNAUTHORIZED", "");
    minutes(0);
    tom.get("/version").expect(200);
}

#[test]
fn concurrent_requests_share_one_session() {
    let server = shared();
    let name = fresh("hasty");
    let (id, _) = server.user(&name, json!({}));
    let service = server.service(&fresh("db"), json!({}));
    server.service_policy("Dial", &[&format!("@{id}")], &[&format!("@{service}")]);
    server.router_between(&id, &service);
    for _ in 0..4 {
        let user = server.log_in_again(&name);
        let ask = || {
            user.post("/sessions", json!({ "serviceId": service }))
                .expect(201)
                .id()
        };
        let opened: BTreeSet<String> = thread::scope(|scope| {
            let asking: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            asking
                .into_iter()
                .map(|asked| asked.join().unwrap())
                .collect()
        });
        assert_eq!(opened.len(), 1, "{opened:?}");
    }
}

#[test]
fn logout_ends_one_session() {
    let server = shared();
    let name = fresh("lena");
    let (_, first) = server.user(&name, json!({}));
    let second = server.log_in_again(&name);
    first.delete("/current-api-session").expect(200);
    first
        .get("/current-api-session")
        .refused(401, "UNAUTHORIZED", "");
    second.get("/current-api-session").expect(200);
}

#[test]
fn login_flood_leaves_certificates_working() {
    let server = TestServer::with(Clock::system(), |config| {
        (
            config.passwords.slots,
            config.passwords.queue,
            config.passwords.cost,
        ) = (1, 1, 14);
    });
    let (_, bearer) = server.enrolled("phone");
    let flood = |_| {
        let anonymous = server.anonymous();
        let body = || json!({ "username": "nobody", "password": "wrong password" });
        thread::scope(|scope| {
            let guesses: Vec<_> = (0..12)
                .map(|_| scope.spawn(|| anonymous.post("/authenticate?method=password", body())))
                .collect();
            bearer.log_in_by_certificate();
            guesses
                .into_iter()
                .map(|guess| guess.join().unwrap())
                .find(|answer| answer.status == 429)
        })
    };
    let busy = (0..50)
        .find_map(flood)
        .expect("with room for two, one of twelve logins must be rejected");
    assert_eq!(
        (
            busy.code(),
            busy.header("retry-after").parse::<u32>().is_ok()
        ),
        ("SERVER_TOO_MANY_REQUESTS", true)
    );
    server
        .anonymous()
        .at(Base::Management)
        .log_in("admin", &server.password);
}
