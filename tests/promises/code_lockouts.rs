//! Whoever has stolen one credential of an identity cannot lock its owner out of one-time codes.

use std::time::Duration;

use model::{
    clock::Clock,
    config::{self, Config},
    entity::mfa::CodePurpose,
    error::{Error, Result},
};
use policy::authentication::codes::AcceptedCode;
use serde_json::json;
use totp_rs::{Builder, Secret, Totp};

use crate::{
    harness::{Caller, Key, TestServer, fresh},
    second_factors::{Owner, WRONG, attempt, owner, owner_within},
};

const HOME: &str = "192.0.2.1";

/// Enters a wrong code in each of `sessions`, `times` times; the number of those that were looked
/// at.
fn guess(ann: &mut Owner, address: &str, sessions: usize, times: usize, seconds: i64) -> usize {
    let wrong = ann.wrong(seconds);
    let attempts = (0..sessions)
        .flat_map(|session| (0..times).map(move |_| format!("thief-{address}-{session}")));
    attempts
        .filter(|session| ann.enter_from(address, session, &wrong, seconds) == Err(WRONG))
        .count()
}

/// An owner whose network is known, within limits that a test soon reaches.
fn at_home() -> Owner {
    let mut ann = owner_within(&config::CodeConfig {
        wrong_per_5_minutes: 1000,
        ..Config::default().codes
    });
    let code = ann.code(0);
    ann.enter_from(HOME, "first", &code, 0).unwrap();
    ann
}

#[test]
fn guessers_spare_fresh_sessions_nearby() {
    for (sessions, times) in [(2, 100), (1, 1000), (4, 100), (10, 60)] {
        let mut ann = at_home();
        let guessed = guess(&mut ann, HOME, sessions, times, 60);
        assert!(
            (50..=200).contains(&guessed),
            "{sessions} sessions: {guessed} guesses"
        );
        let code = ann.code(60);
        assert!(
            ann.enter_from(HOME, "owner", &code, 60).is_ok(),
            "{sessions} sessions with {times} guesses lock the owner out"
        );
    }
}

#[test]
fn guesses_elsewhere_spare_the_owner() {
    let mut ann = at_home();
    let guessed: usize = (0..60)
        .map(|at| guess(&mut ann, &format!("198.51.100.{at}"), 5, 20, 60))
        .sum();
    assert_eq!(guessed, 300);
    let code = ann.code(60);
    assert!(ann.enter_from(HOME, "owner", &code, 60).is_ok());
}

#[test]
fn successive_codes_pass_any_limit() {
    let mut ann = at_home();
    let guessed = guess(&mut ann, HOME, 300, 10, 60);
    assert_eq!(guessed, 200, "both allowances of a known network");
    let enter = |ann: &mut Owner, session: &str, seconds: i64| {
        let code = ann.code(seconds);
        ann.enter_from(HOME, session, &code, seconds)
    };
    let is_busy = |entered: Result<AcceptedCode>| matches!(entered, Err(Error::Busy { .. }));
    // One code, however often, and codes in several sessions are no series.
    assert!((0..5).all(|_| is_busy(enter(&mut ann, "owner", 60))));
    assert!(is_busy(enter(&mut ann, "other", 90)) && is_busy(enter(&mut ann, "third", 120)));
    // A wrong code ends a series.
    assert!(is_busy(enter(&mut ann, "owner", 90)));
    let wrong = ann.wrong(90);
    assert!(is_busy(ann.enter_from(HOME, "owner", &wrong, 90)));
    assert!(is_busy(enter(&mut ann, "owner", 120)) && is_busy(enter(&mut ann, "owner", 150)));
    // Guesses of others do not.
    guess(&mut ann, HOME, 300, 10, 150);
    assert!(enter(&mut ann, "owner", 180).is_ok());
    assert!(
        enter(&mut ann, "next", 210).is_ok(),
        "the network has its allowance again"
    );
}

#[test]
fn slow_codes_are_no_series() {
    let mut ann = at_home();
    guess(&mut ann, HOME, 300, 10, 60);
    for seconds in [60, 90, 90 + 330, 90 + 660, 90 + 990] {
        let code = ann.code(seconds);
        assert!(
            matches!(
                ann.enter_from(HOME, "owner", &code, seconds),
                Err(Error::Busy { .. })
            ),
            "{seconds}"
        );
    }
    let recovery = ann.codes.recovery_codes(&ann.record.spec).unwrap();
    assert!(
        ann.enter_from(HOME, "owner", &recovery[0], 1100).is_ok(),
        "recovery codes are counted apart"
    );
}

#[test]
fn stolen_credentials_use_their_own_attempts() {
    let mut ann = owner();
    for thief in 0..60 {
        guess(&mut ann, &format!("198.51.100.{thief}"), 5, 20, 0);
    }
    guess(&mut ann, HOME, 10, 20, 0);
    let code = ann.code(0);
    let by_password = ann.show(CodePurpose::Enter, &attempt(HOME, "password", &code), 0);
    assert!(
        matches!(by_password, Err(Error::Busy { .. })),
        "{by_password:?}"
    );
    let mut by_certificate = attempt(HOME, "certificate", &code);
    by_certificate.credential = "certificate".into();
    assert!(ann.show(CodePurpose::Enter, &by_certificate, 0).is_ok());
}

/// An identity with a password, a certificate and one-time codes.
struct Person {
    name: String,
    pem: String,
    key: Key,
    app: Totp,
}

impl Person {
    fn new(server: &TestServer) -> Self {
        let (name, key) = (fresh("owner"), Key::new());
        let id = server.identity(&name, json!({ "enrollment": { "ott": true } }));
        let path = format!("/enroll?method=ott&token={}", server.token_of(&id));
        let issued = server
            .anonymous()
            .ask("POST", &path)
            .body("application/pkcs10", key.request())
            .send()
            .expect(200);
        server.give_password(&id, &name);
        let session = server.log_in_again(&name);
        session.post("/current-identity/mfa", json!({})).expect(201);
        let shown = session.get("/current-identity/mfa").expect(200);
        let secret = shown.data()["provisioningUrl"]
            .as_str()
            .unwrap()
            .split("secret=")
            .nth(1)
            .unwrap()
            .to_owned();
        let app = Builder::new()
            .with_secret(Secret::try_from_base32(&secret).unwrap())
            .build()
            .unwrap();
        let person = Self {
            name,
            pem: issued.data()["cert"].as_str().unwrap().into(),
            key,
            app,
        };
        session
            .post(
                "/current-identity/mfa/verify",
                json!({ "code": person.code(server) }),
            )
            .expect(200);
        server.clock.advance(Duration::from_secs(150));
        person
    }

    fn code(&self, server: &TestServer) -> String {
        self.app
            .generate(server.clock.now().seconds().unsigned_abs())
            .to_string()
    }

    fn by_certificate(&self, server: &TestServer) -> Caller {
        server
            .with_certificate(&self.pem, &self.key)
            .log_in_by_certificate()
    }
}

fn enter(caller: &Caller, code: &str) -> u16 {
    caller
        .post("/authenticate/mfa", json!({ "code": code }))
        .status
}

#[test]
fn owner_logs_in_beside_a_thief() {
    let server = TestServer::with(Clock::manual(Clock::system().now()), |config| {
        config.codes.wrong_per_5_minutes = 1000
    });
    let owner = Person::new(&server);
    for _ in 0..2 {
        let thief = server.log_in_again(&owner.name);
        let looked_at = (0..60).filter(|_| enter(&thief, "000000") == 400).count();
        assert_eq!(looked_at, 50);
    }
    assert_eq!(
        enter(&server.log_in_again(&owner.name), &owner.code(&server)),
        200
    );
    server.clock.advance(Duration::from_secs(150));
    assert_eq!(
        enter(&owner.by_certificate(&server), &owner.code(&server)),
        200
    );
}

#[test]
fn certificates_make_networks_known() {
    let limits = |config: &mut Config| {
        (
            config.codes.wrong_per_5_minutes,
            config.codes.wrong_per_day,
            config.codes.wrong_per_day_in_all,
        ) = (1000, 1000, 10);
    };
    for is_known in [false, true] {
        let server = TestServer::with(Clock::manual(Clock::system().now()), limits);
        let owner = Person::new(&server);
        // A restart forgets the network.
        let server = server.restarted(limits);
        if is_known {
            owner.by_certificate(&server);
        }
        let thief = server.log_in_again(&owner.name);
        assert!((0..30).all(|_| enter(&thief, "000000") != 200));
        assert_eq!(
            enter(&server.log_in_again(&owner.name), &owner.code(&server)) == 200,
            is_known
        );
    }
}
