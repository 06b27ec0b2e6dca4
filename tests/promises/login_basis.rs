//! What a log-in is based on must still hold when the session opens; an authority takes its
//! sessions with it; guesses are limited.

use std::{thread, time::Instant};

use model::{
    clock::Timestamp,
    config::{self, Config},
    entity::Id,
};
use policy::authentication::{FailureCount, Passwords, Requester};
use serde_json::{Value as Json, json};

use crate::{
    harness::{Authority, Caller, Key, PASSWORD, fresh, shared},
    second_factors::{authenticate, locking, signer},
};

/// A verified CA, its id, and a caller whose identity is found by a claim of the certificate.
fn known_by_claim() -> (Authority, String, Caller) {
    let (server, authority, name, key) = (
        shared(),
        Authority::new("partner"),
        fresh("claimed"),
        Key::new(),
    );
    let ca = server.add_ca(&authority);
    server.identity(&name, json!({ "externalId": name }));
    let bearer = server.with_certificate(&authority.issue(&name, &key), &key);
    (authority, ca, bearer)
}

#[test]
fn claimed_sessions_end_with_the_authority() {
    let server = shared();
    for (method, body) in [
        ("DELETE", json!({})),
        ("PATCH", json!({ "isAuthEnabled": false })),
        ("PUT", json!({ "isAuthEnabled": true })),
    ] {
        let (_authority, ca, bearer) = known_by_claim();
        let session = bearer.log_in_by_certificate();
        assert_eq!(
            session.get("/current-api-session").expect(200).data()["authenticatorId"],
            "internal"
        );
        let path = format!("/cas/{ca}");
        let replaced = json!({
            "name": fresh("replaced"), "isAutoCaEnrollmentEnabled": true, "isOttCaEnrollmentEnabled": true, "identityRoles": [],
            "identityNameFormat": ""
        });
        let rest = if method == "PUT" { replaced } else { json!({}) };
        let mut whole = body.as_object().unwrap().clone();
        whole.extend(rest.as_object().unwrap().clone());
        let asked = server.admin.ask(method, &path);
        let asked = if method == "DELETE" {
            asked
        } else {
            asked.json(&whole.into())
        };
        asked.send().expect(200);
        bearer
            .ask("POST", "/authenticate?method=cert")
            .send()
            .refused(401, "INVALID_AUTH", "");
        let asked = session.get("/current-api-session");
        if method == "DELETE" {
            asked.refused(401, "UNAUTHORIZED", "")
        } else {
            asked.expect(200)
        };
    }
}

#[test]
fn authority_edits_keep_sessions() {
    let server = shared();
    let (_authority, ca, bearer) = known_by_claim();
    let session = bearer.log_in_by_certificate();
    server
        .admin
        .patch(
            &format!("/cas/{ca}"),
            json!({ "name": fresh("renamed"), "isOttCaEnrollmentEnabled": false }),
        )
        .expect(200);
    let (_other, other, _) = known_by_claim();
    server.admin.delete(&format!("/cas/{other}")).expect(200);
    session.get("/current-api-session").expect(200);
}

#[test]
fn unnamed_enrollment_uses_the_fingerprint() {
    let (server, authority, key) = (shared(), Authority::new("partner"), Key::new());
    server.add_ca(&authority);
    let bearer = server.with_certificate(&authority.issue("  ", &key), &key);
    bearer.ask("POST", "/enroll?method=ca").send().expect(200);
    let session = bearer
        .log_in_by_certificate()
        .get("/current-api-session")
        .expect(200);
    assert_ne!(session.data()["authenticatorId"], "internal");
}

#[test]
fn sessions_end_with_their_signer() {
    let server = shared();
    // More than 200 sessions end by a mark, and are deleted one by one later.
    for (count, delete) in [(2, false), (2, true), (201, false), (201, true)] {
        let (idp, issuer) = (signer(), format!("https://{}.test", fresh("idp")));
        let body = json!({
            "name": fresh("idp"), "enabled": true, "issuer": issuer, "audience": "overlay", "certPem": idp.certificate.certificate().pem()
        });
        let path = format!(
            "/external-jwt-signers/{}",
            server
                .admin
                .post("/external-jwt-signers", body)
                .expect(201)
                .id()
        );
        let (ann, by_password) = server.user(&fresh("ann"), json!({}));
        let bearer = format!(
            "Bearer {}",
            idp.token(
                &json!({ "iss": issuer, "aud": "overlay", "sub": ann, "exp": 4_102_444_800_u64 })
            )
        );
        let log_in = || {
            server
                .anonymous()
                .ask("POST", "/authenticate?method=ext-jwt")
                .header("authorization", &bearer)
                .send()
        };
        let open = || {
            server
                .anonymous()
                .with_token(log_in().expect(200).data()["token"].as_str().unwrap())
        };
        let sessions: Vec<Caller> = (0..count).map(|_| open()).collect();
        let is_open = |session: &Caller| session.get("/current-identity").status == 200;
        assert!(sessions.iter().all(is_open));
        server
            .admin
            .patch(&path, json!({ "name": fresh("renamed"), "enabled": true }))
            .expect(200);
        assert!(is_open(&sessions[0]), "an edit ends no session");
        if delete {
            server.admin.delete(&path).expect(200);
        } else {
            server
                .admin
                .patch(&path, json!({ "enabled": false }))
                .expect(200);
        }
        log_in().refused(401, "INVALID_AUTH", "");
        assert!(!sessions.iter().any(is_open));
        let asked: [(&str, &str); 4] = [
            ("GET", "/services"),
            ("POST", "/current-identity/mfa"),
            ("DELETE", "/current-api-session"),
            ("GET", "/current-identity/mfa"),
        ];
        for (method, path) in asked {
            sessions[1]
                .ask(method, path)
                .send()
                .refused(401, "UNAUTHORIZED", "");
        }
        let open = server
            .admin
            .list("/api-sessions", &format!("identity = \"{ann}\""), "")
            .expect(200);
        assert_eq!(open.total(), 1, "the session with a password stays");
        by_password.get("/current-identity").expect(200);
        // Established clients may still ask for their session.
        if count == 2 {
            sessions[1].get("/current-api-session").expect(200);
        }
        if !delete {
            server
                .admin
                .patch(&path, json!({ "enabled": true }))
                .expect(200);
            assert!(
                !is_open(&sessions[0]),
                "a signer that is enabled again opens none of its old sessions"
            );
            log_in().expect(200);
        }
    }
}

#[test]
fn guessing_current_password_locks_out() {
    let (server, name) = (shared(), fresh("borrowed"));
    let (id, open) = server.user(&name, json!({ "authPolicyId": locking() }));
    let own = open
        .get("/current-identity/authenticators")
        .expect(200)
        .each("id")[0]
        .to_owned();
    let path = format!("/current-identity/authenticators/{own}");
    let change = |current: &str| {
        open.patch(
            &path,
            json!({ "currentPassword": current, "password": PASSWORD }),
        )
    };
    for _ in 0..2 {
        change("not the password").refused(401, "UNAUTHORIZED", "currentPassword");
    }
    change(PASSWORD).expect(200);
    for _ in 0..2 {
        change("not the password").refused(401, "UNAUTHORIZED", "currentPassword");
    }
    authenticate(&name, "not the password").refused(401, "INVALID_AUTH", "");
    open.get("/current-api-session")
        .refused(401, "UNAUTHORIZED", "");
    authenticate(&name, PASSWORD).refused(401, "INVALID_AUTH", "");
    server
        .admin
        .post(&format!("/identities/{id}/enable"), Json::Null)
        .expect(200);
    server
        .log_in_again(&name)
        .get("/current-identity")
        .expect(200);
}

#[test]
fn late_right_guess_is_refused() {
    let settings = config::PasswordConfig {
        cost: 10,
        ..Config::default().passwords
    };
    let (passwords, ann, now) = (
        Passwords::new(&settings).unwrap(),
        Id::from_text("ann"),
        Timestamp::from_seconds(0),
    );
    let guess = |right| passwords.count(&ann, right, 3, now);
    for _ in 0..2 {
        assert_eq!(
            [guess(false), guess(false), guess(true)],
            [
                FailureCount::Wrong,
                FailureCount::Wrong,
                FailureCount::Right
            ]
        );
    }
    assert_eq!(
        [guess(false), guess(false), guess(false)],
        [
            FailureCount::Wrong,
            FailureCount::Wrong,
            FailureCount::TooMany
        ]
    );
    assert_eq!(
        [guess(true), guess(false)],
        [FailureCount::TooMany; 2],
        "guesses that were sent before the lockout was on disk"
    );
    passwords.forgive(&ann);
    assert_eq!(guess(true), FailureCount::Right);
    assert!(
        (0..100).all(|_| passwords.count(&ann, false, 0, now) == FailureCount::Wrong),
        "no number is too many where there is no limit"
    );
    assert_eq!(passwords.count(&ann, true, 3, now), FailureCount::Right);
}

#[test]
fn old_hash_cost_reveals_nobody() {
    let at = |cost: u8| {
        Passwords::new(&config::PasswordConfig {
            cost,
            ..Config::default().passwords
        })
        .unwrap()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let (cheap, expensive) = (
        at(10).hash_now(PASSWORD).unwrap(),
        at(14).hash_now(PASSWORD).unwrap(),
    );
    let now = at(12);
    let takes = |stored: Option<&str>| {
        let begun = Instant::now();
        assert!(
            !runtime
                .block_on(now.verify(
                    &Requester::default(),
                    "not the password".into(),
                    stored.map(str::to_owned)
                ))
                .unwrap()
        );
        begun.elapsed().as_secs_f64()
    };
    // A hash of either cost takes four times as long as today's, or a quarter. The measurements
    // alternate, and the least of each counts, because other processes use the CPU too.
    for known in [&cheap, &expensive, &cheap] {
        let (mut least, mut alike) = ([f64::INFINITY; 2], false);
        for round in 0..60 {
            for (least, stored) in least.iter_mut().zip([Some(known.as_str()), None]) {
                *least = least.min(takes(stored));
            }
            alike = (0.5..2.0).contains(&(least[0] / least[1]));
            if round >= 5 && alike {
                break;
            }
        }
        assert!(alike, "{least:?} s");
    }
    assert!(
        runtime
            .block_on(now.verify(&Requester::default(), PASSWORD.into(), Some(cheap)))
            .unwrap()
    );
}

#[test]
fn counted_guesses_are_configurable() {
    let passwords = Passwords::new(&config::PasswordConfig {
        cost: 10,
        remembered: 2,
        ..Config::default().passwords
    })
    .unwrap();
    let guess = |name: &str, seconds: i64| {
        passwords.count(
            &Id::from_text(name),
            false,
            2,
            Timestamp::from_seconds(seconds),
        )
    };
    assert_eq!(
        [guess("ann", 0), guess("bob", 1), guess("ann", 2)],
        [
            FailureCount::Wrong,
            FailureCount::Wrong,
            FailureCount::TooMany
        ]
    );
    assert_eq!(guess("cid", 3), FailureCount::Wrong);
    assert_eq!(
        guess("ann", 4),
        FailureCount::TooMany,
        "only the name without a guess for the longest time is forgotten"
    );
    assert_eq!(guess("bob", 5), FailureCount::Wrong);
}

#[test]
fn guess_flood_ends_in_one_lockout() {
    let (server, name) = (shared(), fresh("flooded"));
    server.user(&name, json!({ "authPolicyId": locking() }));
    thread::scope(|scope| {
        for _ in 0..16 {
            scope
                .spawn(|| authenticate(&name, "not the password").refused(401, "INVALID_AUTH", ""));
        }
    });
    authenticate(&name, PASSWORD).refused(401, "INVALID_AUTH", "");
}
