//! Tokens of external signers, and the key sets that prove them.

use super::*;

#[test]
fn key_sets_hold_signature_keys_only() {
    let idp = signer();
    let mut keys = idp.keys();
    let usable = keys["keys"][0].clone();
    let with = |name: &str, value: &str| {
        let mut key = usable.clone();
        key[name] = value.into();
        key
    };
    let mut nameless = usable.clone();
    nameless.as_object_mut().unwrap().remove("kid");
    let mut encrypts = with("use", "enc");
    encrypts["kid"] = "encrypts".into();
    keys["keys"].as_array_mut().unwrap().extend([
        json!({ "kty": "oct", "k": "c2VjcmV0", "kid": "shared" }),
        json!({ "kty": "EC", "crv": "P-521", "x": "AA", "y": "AA", "kid": "p521" }),
        json!({ "kty": "new", "kid": "new" }),
        json!(7),
        encrypts,
        nameless,
    ]);
    let set = Verifiers::read(keys.to_string().as_bytes(), 100).unwrap();
    assert!(set.get(&idp.kid()).iter().any(|key| {
        key.verify::<Json>(&idp.token(&json!({ "sub": "ann" })))
            .is_ok()
    }));
    for left_out in ["shared", "p521", "new", "encrypts", ""] {
        assert!(set.get(left_out).is_empty(), "{left_out}");
    }
    for no_set in ["", "[]", "{}", "{\"keys\":{}}"] {
        assert!(Verifiers::read(no_set.as_bytes(), 100).is_err(), "{no_set}");
    }
}

#[test]
fn tokens_do_not_choose_algorithms() {
    let idp = signer();
    let set = Verifiers::read(idp.keys().to_string().as_bytes(), 100).unwrap();
    let [verifier] = set.get(&idp.kid()) else {
        panic!("one key")
    };
    let good = idp.token(&json!({ "sub": "ann" }));
    let body = good.split('.').nth(1).unwrap();
    for algorithm in ["none", "HS256", "HS512", "EdDSA"] {
        let header = URL_SAFE_NO_PAD
            .encode(json!({ "alg": algorithm, "typ": "JWT", "kid": idp.kid() }).to_string());
        let signed = format!("{header}.{body}");
        // A verifier that used the public key as a shared secret would accept this token.
        let key = ring::hmac::Key::new(
            ring::hmac::HMAC_SHA256,
            idp.certificate.certificate().public_key().der(),
        );
        let tag = URL_SAFE_NO_PAD.encode(ring::hmac::sign(&key, signed.as_bytes()).as_ref());
        assert!(
            verifier.verify::<Json>(&format!("{signed}.{tag}")).is_err(),
            "{algorithm}"
        );
        assert!(
            verifier.verify::<Json>(&format!("{signed}.")).is_err(),
            "{algorithm}, unsigned"
        );
    }
    assert!(verifier.verify::<Json>(&good).is_ok());
}

fn token_login(jwks: &str) -> TokenLogin {
    token_login_with(jwks, |_| ())
}

#[test]
fn cancelled_fetch_serves_others() {
    let idp = signer();
    let keys = endpoint(AnswerMode::Keys(idp.keys().to_string()));
    let token_login = token_login(&keys.url);
    let token = idp.token(&claims());
    let answering = keys.answer_mode.clone();
    let held = answering.lock().unwrap();
    let gave_up = token_login.runtime.block_on(async {
        let login = token_login.tokens.login(&token_login.store, at(0), &token);
        tokio::time::timeout(Duration::from_millis(300), login)
            .await
            .is_err()
    });
    assert!(gave_up, "the endpoint answered too early");
    drop(held);
    assert!(
        token_login.enter(&token, 0),
        "the fetch of a cancelled log-in serves the next one"
    );
    assert_eq!(keys.request_count(), 1);
}

#[test]
fn only_valid_tokens_let_in() {
    let idp = signer();
    let keys = endpoint(AnswerMode::Keys(idp.keys().to_string()));
    let token_login = token_login(&keys.url);
    let changed = |name: &str, value: Json| {
        let mut claims = claims();
        claims[name] = value;
        idp.token(&claims)
    };
    assert!(token_login.enter(&idp.token(&claims()), 0));
    assert!(token_login.enter(&changed("aud", json!(["other", "overlay"])), 0));
    assert!(
        token_login.enter(&changed("nbf", json!(NOW + 10)), 0),
        "the clock of a signer may be a little ahead"
    );
    let refused = [
        ("exp", json!(NOW)),
        ("exp", json!("never")),
        ("exp", Json::Null),
        ("nbf", json!(NOW + 11)),
        ("nbf", json!(true)),
        ("aud", json!("other")),
        ("aud", json!(["Overlay"])),
        ("aud", Json::Null),
        ("iss", json!("https://idp.test/")),
        ("iss", json!("")),
        ("sub", json!("")),
        ("sub", json!("bob")),
        ("sub", json!(["ann"])),
    ];
    for (name, value) in refused {
        assert!(
            !token_login.enter(&changed(name, value.clone()), 0),
            "{name}: {value}"
        );
    }
    let mut endless = claims();
    endless.as_object_mut().unwrap().remove("exp");
    assert!(
        !token_login.enter(&idp.token(&endless), 0),
        "a token without `exp` was accepted"
    );
    let good = idp.token(&claims());
    for broken in [
        "",
        ".",
        "..",
        "a.b.c",
        good.rsplit_once('.').unwrap().0,
        &"x".repeat(100_000),
    ] {
        assert!(!token_login.enter(broken, 0), "{broken:.40}");
    }
}

#[test]
fn token_limits_are_configurable() {
    let idp = signer();
    let keys = endpoint(AnswerMode::Keys(idp.keys().to_string()));
    let token_login = token_login_with(&keys.url, |config| {
        config.tokens = config::TokenConfig {
            max_bytes: 1024,
            ahead: Span::seconds(60),
        }
    });
    let with = |name: &str, value: Json| {
        let mut claims = claims();
        claims[name] = value;
        idp.token(&claims)
    };
    assert!(
        token_login.enter(&with("nbf", json!(NOW + 60)), 0)
            && !token_login.enter(&with("nbf", json!(NOW + 61)), 0)
    );
    let (fits, long) = (
        with("padding", json!("x".repeat(300))),
        with("padding", json!("x".repeat(1000))),
    );
    assert!(fits.len() < 1024 && token_login.enter(&fits, 0) && !token_login.enter(&long, 0));
}

#[test]
fn unknown_keys_are_fetched_rarely() {
    let (old, new) = (signer(), signer());
    let keys = endpoint(AnswerMode::Keys(old.keys().to_string()));
    let token_login = token_login(&keys.url);
    assert!(token_login.enter(&old.token(&claims()), 0));
    for _ in 0..10 {
        assert!(!token_login.enter(&new.token(&claims()), 0));
    }
    assert_eq!(keys.request_count(), 1);
    keys.set_mode(AnswerMode::Keys(new.keys().to_string()));
    assert!(token_login.enter(&new.token(&claims()), 1));
    assert!(
        !token_login.enter(&old.token(&claims()), 1),
        "the new set replaces the old one"
    );
    assert_eq!(keys.request_count(), 2);
}

#[test]
fn withdrawn_keys_stop_working() {
    let idp = signer();
    let keys = endpoint(AnswerMode::Keys(idp.keys().to_string()));
    let token_login = token_login(&keys.url);
    let good = idp.token(&claims());
    assert!(token_login.enter(&good, 0));
    keys.set_mode(AnswerMode::Silent);
    assert!(
        token_login.enter(&good, 30),
        "an endpoint that is briefly unavailable does no harm"
    );
    assert!(!token_login.enter(&good, 301));
    keys.set_mode(AnswerMode::Keys(idp.keys().to_string()));
    assert!(token_login.enter(&good, 310));
    keys.set_mode(AnswerMode::Silent);
    assert!(
        !token_login.enter(&good, -301),
        "a clock that is set back does not keep a withdrawn key alive"
    );
}

#[test]
fn dead_endpoint_delays_no_other() {
    let idp = signer();
    let keys = endpoint(AnswerMode::Silent);
    let token_login = token_login(&keys.url);
    let good = idp.token(&claims());
    let start = Instant::now();
    assert!(!token_login.enter(&good, 0));
    let first = start.elapsed();
    assert!(first < Duration::from_secs(6), "{first:?}");
    let start = Instant::now();
    for _ in 0..10 {
        assert!(!token_login.enter(&good, 4));
    }
    let others = start.elapsed();
    assert!(others * 3 < first, "{others:?} after {first:?}");
    assert_eq!(keys.request_count(), 1);
}

#[test]
fn key_set_answers_are_bounded() {
    let idp = signer();
    let other = endpoint(AnswerMode::Keys(idp.keys().to_string()));
    let keys = endpoint(AnswerMode::Redirect(other.url.clone()));
    let token_login = token_login(&keys.url);
    assert!(!token_login.enter(&idp.token(&claims()), 0));
    assert_eq!(other.request_count(), 0);
    keys.set_mode(AnswerMode::Keys(format!(
        "{}{}",
        idp.keys(),
        " ".repeat(1 << 20)
    )));
    assert!(!token_login.enter(&idp.token(&claims()), 10));
    keys.set_mode(AnswerMode::Keys(idp.keys().to_string()));
    assert!(token_login.enter(&idp.token(&claims()), 20));
}

#[test]
fn key_set_fetching_is_configurable() {
    let (idp, other) = (signer(), signer());
    let keys = endpoint(AnswerMode::Keys(idp.keys().to_string()));
    let (pause, lifetime) = (Span::seconds(100), Span::seconds(1000));
    let set = config::KeySetConfig {
        pause,
        lifetime,
        pause_after_failure: Span::seconds(200),
        refresh: lifetime,
        ..Config::default().key_sets
    };
    let token_login = token_login_with(&keys.url, |config| config.key_sets = set.clone());
    let (good, unknown) = (idp.token(&claims()), other.token(&claims()));
    assert!(token_login.enter(&good, 0) && !token_login.enter(&unknown, 99));
    assert_eq!(
        keys.request_count(),
        1,
        "it was fetched again within the pause"
    );
    keys.set_mode(AnswerMode::Redirect(String::new()));
    assert!(
        !token_login.enter(&unknown, 100) && token_login.enter(&good, 1000),
        "after a failed fetch the previous set stays valid"
    );
    assert!(
        !token_login.enter(&good, 1001) && !token_login.enter(&good, 1200),
        "its lifetime is over, and the pause after a failure lasts"
    );
    keys.set_mode(AnswerMode::Keys(idp.keys().to_string()));
    assert!(!token_login.enter(&good, 1200) && token_login.enter(&good, 1201));
    keys.set_mode(AnswerMode::Keys(format!(
        "{}{}",
        idp.keys(),
        " ".repeat(1024)
    )));
    let small = token_login_with(&keys.url, |config| {
        config.key_sets = config::KeySetConfig {
            max_bytes: 1024,
            ..set
        }
    });
    assert!(
        !small.enter(&good, 0),
        "a key set above the maximum size was accepted"
    );
}
