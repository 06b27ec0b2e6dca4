//! Codes and passwords that are guessed.

use super::*;

#[test]
fn guessing_locks_out_one_session() {
    let mut ann = owner();
    let (right, wrong, recovery) = (
        ann.code(0),
        ann.wrong(0),
        ann.codes.recovery_codes(&ann.record.spec).unwrap(),
    );
    for _ in 0..20 {
        assert_eq!(ann.enter_from("192.0.2.1", "thief", &wrong, 0), Err(WRONG));
    }
    assert_eq!(
        ann.enter_from("192.0.2.1", "thief", &recovery[0], 0),
        Err(Error::Busy { retry_after: 300 })
    );
    assert!(ann.enter_from("192.0.2.1", "owner", &right, 0).is_ok());
    assert!(
        ann.enter_from("192.0.2.1", "second", &recovery[0], 0)
            .is_ok()
    );
    // However many guesses are made in one session.
    for guess in 1..50 {
        let (at, session) = (guess * 300, format!("owner-{guess}"));
        let (right, wrong) = (ann.code(at), ann.wrong(at));
        for _ in 0..20 {
            drop(ann.enter_from("192.0.2.1", "thief", &wrong, at));
        }
        assert!(
            ann.enter_from("192.0.2.1", &session, &right, at).is_ok(),
            "after {at} s"
        );
    }
}

#[test]
fn distributed_guessing_is_cut_off() {
    let mut ann = owner();
    let (first, recovery) = (
        ann.code(0),
        ann.codes.recovery_codes(&ann.record.spec).unwrap(),
    );
    assert!(ann.enter_from("192.0.2.1", "first", &first, 0).is_ok());
    let wrong = ann.wrong(60);
    let mut looked_at = 0;
    for guess in 0..2000 {
        // Each guess has its own session, in changing networks (the first 64 bits of an address).
        let (address, session) = (
            format!("2001:db8:0:{}::{guess:x}", guess % 40),
            format!("thief-{guess}"),
        );
        looked_at += usize::from(ann.enter_from(&address, &session, &wrong, 60) == Err(WRONG));
    }
    assert_eq!(looked_at, 300);
    let (second, third) = (ann.code(60), ann.code(90));
    assert!(
        ann.enter_from("192.0.2.1", "home", &second, 60).is_ok(),
        "a network from which a right code came is not locked out"
    );
    assert!(matches!(
        ann.enter_from("198.51.100.7", "away", &third, 60),
        Err(Error::Busy { .. })
    ));
    assert!(
        ann.enter_from("198.51.100.7", "away", &recovery[0], 60)
            .is_ok(),
        "a recovery code works from any network"
    );
    assert!(
        ann.enter_from("198.51.100.7", "away-again", &third, 60)
            .is_ok(),
        "and its network is known from then on"
    );
}

#[test]
fn whoever_guesses_codes_has_to_wait() {
    let mut ann = owner();
    let late = 5 * 60;
    let (wrong, wrong_late) = (ann.wrong(0), ann.wrong(late));
    for _ in 0..20 {
        assert_eq!(ann.enter(&wrong, 0), Err(WRONG));
    }
    let right = ann.code(0);
    assert_eq!(
        ann.enter(&right, 10),
        Err(Error::Busy { retry_after: 290 }),
        "even a right code is rejected"
    );
    assert_eq!(
        ann.enter("", 10),
        Err(WRONG),
        "an empty code counts as a guess"
    );
    let right = ann.code(late);
    assert!(ann.enter(&right, late).is_ok());
    for _ in 0..20 {
        assert_eq!(
            ann.enter(&wrong_late, late),
            Err(WRONG),
            "a right code resets the count"
        );
    }
    ann.codes.forgive(&Id::from_text("ann"));
    assert_eq!(ann.enter(&wrong_late, late), Err(WRONG));
}

#[test]
fn daily_code_guesses_are_limited() {
    let mut ann = owner();
    let day = 24 * 60 * 60;
    for guess in 0..100 {
        let code = ann.wrong(guess * 60);
        let session = format!("session-{}", guess / 10);
        assert_eq!(
            ann.enter_from("192.0.2.1", &session, &code, guess * 60),
            Err(WRONG),
            "guess {guess}"
        );
    }
    assert_eq!(
        ann.enter("000000", 100 * 60),
        Err(Error::Busy {
            retry_after: (day - 100 * 60) as u32
        })
    );
    let code = ann.code(day);
    assert!(ann.enter(&code, day).is_ok());
}

#[test]
fn code_limits_are_configurable() {
    let mut ann = owner_within(&config::CodeConfig {
        wrong_per_5_minutes: 3,
        wrong_per_day: 10,
        ..Config::default().codes
    });
    let wrong = ann.wrong(0);
    for _ in 0..3 {
        assert_eq!(ann.enter(&wrong, 0), Err(WRONG));
    }
    assert_eq!(ann.enter(&wrong, 1), Err(Error::Busy { retry_after: 299 }));
    for guess in [301, 302] {
        let wrong = ann.wrong(guess);
        assert_eq!(ann.enter(&wrong, guess), Err(WRONG));
    }
    assert_eq!(
        ann.enter(&wrong, 303),
        Err(Error::Busy {
            retry_after: 24 * 60 * 60 - 303
        })
    );
}

#[test]
fn wrong_passwords_lock_out() {
    let (server, name) = (shared(), fresh("guessed"));
    let (id, open) = server.user(&name, json!({ "authPolicyId": locking() }));
    for _ in 0..2 {
        for _ in 0..2 {
            authenticate(&name, "not the password").refused(401, "INVALID_AUTH", "");
        }
        server.log_in_again(&name);
    }
    open.get("/current-identity").expect(200);
    for _ in 0..3 {
        authenticate(&name, "not the password").refused(401, "INVALID_AUTH", "");
    }
    authenticate(&name, PASSWORD).refused(401, "INVALID_AUTH", "");
    open.get("/current-api-session")
        .refused(401, "UNAUTHORIZED", "");
    let shown = server.admin.get(&format!("/identities/{id}")).expect(200);
    assert!(
        shown.data()["disabled"] == true && shown.data()["disabledUntil"].is_string(),
        "{}",
        shown.text
    );
    server
        .admin
        .post(&format!("/identities/{id}/enable"), Json::Null)
        .expect(200);
    authenticate(&name, "not the password").refused(401, "INVALID_AUTH", "");
    server
        .log_in_again(&name)
        .get("/current-identity")
        .expect(200);
}

#[test]
fn disabled_identity_is_out_immediately() {
    let (server, name) = (shared(), fresh("leaver"));
    let (id, open) = server.user(&name, json!({}));
    open.get("/current-identity").expect(200);
    server
        .admin
        .post(
            &format!("/identities/{id}/disable"),
            json!({ "durationMinutes": 0 }),
        )
        .expect(200);
    open.get("/current-identity")
        .refused(401, "UNAUTHORIZED", "");
    server
        .admin
        .post(&format!("/identities/{id}/enable"), Json::Null)
        .expect(200);
    open.get("/current-identity")
        .refused(401, "UNAUTHORIZED", "");
}

#[test]
fn guessing_codes_ends_in_429() {
    let (server, name) = (shared(), fresh("careful"));
    let (id, first) = server.user(&name, json!({}));
    first.post("/current-identity/mfa", Json::Null).expect(201);
    let shown = first.get("/current-identity/mfa").expect(200);
    let secret = shown.data()["provisioningUrl"]
        .as_str()
        .unwrap()
        .split("secret=")
        .nth(1)
        .unwrap()
        .to_owned();
    let app = Builder::new()
        .with_secret(Secret::try_from_base32(secret).unwrap())
        .build()
        .unwrap();
    let code = |steps: i64| {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_secs();
        json!({ "code": app.generate(now.saturating_add_signed(steps * 30)).to_string() })
    };
    let picture = first.get("/current-identity/mfa/qr-code").expect(200);
    assert!(picture.header("content-type") == "image/png" && picture.raw > 500);
    first
        .post("/current-identity/mfa/verify", code(0))
        .expect(200);

    let (one, two) = (server.log_in_again(&name), server.log_in_again(&name));
    one.get("/current-identity")
        .refused(401, "UNAUTHORIZED", "");
    let right = code(0);
    one.post("/authenticate/mfa", right.clone()).expect(200);
    one.get("/current-identity").expect(200);
    two.post("/authenticate/mfa", right.clone())
        .refused(400, "MFA_INVALID_TOKEN", "");
    one.post("/authenticate/mfa", right.clone())
        .refused(400, "MFA_INVALID_TOKEN", "");
    one.post("/current-identity/mfa/recovery-codes", right)
        .refused(400, "MFA_INVALID_TOKEN", "");
    for _ in 0..19 {
        two.post("/authenticate/mfa", code(-100))
            .refused(400, "MFA_INVALID_TOKEN", "");
    }
    let stopped =
        two.post("/authenticate/mfa", code(-100))
            .refused(429, "SERVER_TOO_MANY_REQUESTS", "");
    assert!((1..=300).contains(&stopped.header("retry-after").parse::<u32>().unwrap()));
    let (three, four) = (server.log_in_again(&name), server.log_in_again(&name));
    three.post("/authenticate/mfa", code(1)).expect(200);
    four.post(
        "/authenticate/mfa",
        json!({ "code": shown.data()["recoveryCodes"][0] }),
    )
    .expect(200);
    // A code that was used to show the recovery codes completes no session.
    let path = "/current-identity/mfa/recovery-codes";
    let used = code(2);
    one.ask("GET", path)
        .header("mfa-validation-code", used["code"].as_str().unwrap())
        .send()
        .expect(200);
    server
        .log_in_again(&name)
        .post("/authenticate/mfa", used)
        .refused(400, "MFA_INVALID_TOKEN", "");
    server
        .admin
        .delete(&format!("/identities/{id}/mfa"))
        .expect(200);
    two.post("/authenticate/mfa", code(0))
        .refused(409, "MFA_NOT_ENROLLED", "");
    server
        .log_in_again(&name)
        .get("/current-identity")
        .expect(200);
}
