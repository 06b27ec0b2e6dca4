//! Codes of an authenticator and recovery codes.

use super::*;

#[test]
fn codes_count_two_steps_around() {
    let mut ann = owner();
    for step in -5..=5 {
        let code = ann.code(step * 30);
        let right = ann.enter(&code, 0).is_ok();
        let known: Vec<String> = (-2..=2).map(|near| ann.code(near * 30)).collect();
        assert_eq!(right, known.contains(&code), "{step} steps away");
    }
    for other in ["", "12345", "1234567", "abcdef", "１２３４５６"] {
        assert_eq!(ann.enter(other, 0), Err(WRONG), "{other:?}");
    }
}

#[test]
fn codes_complete_one_session() {
    use CodePurpose::{Enter, Remove, Renew, Show, Verify};
    // The uses of one code in order: purpose, session, and whether the use is allowed.
    let chains: [&[(CodePurpose, &str, bool)]; 10] = [
        &[(Enter, "a", true), (Enter, "b", false), (Enter, "a", false)],
        &[
            (Enter, "a", true),
            (Renew, "a", false),
            (Renew, "b", false),
            (Remove, "b", false),
            (Remove, "a", true),
        ],
        // The sequence of existing clients.
        &[
            (Verify, "a", true),
            (Show, "a", true),
            (Renew, "a", true),
            (Show, "a", true),
            (Show, "a", true),
        ],
        &[
            (Verify, "a", true),
            (Enter, "b", true),
            (Enter, "c", false),
            (Show, "c", true),
            (Show, "b", false),
        ],
        &[(Verify, "a", true), (Enter, "b", true), (Remove, "b", true)],
        &[
            (Verify, "a", true),
            (Enter, "a", false),
            (Renew, "b", false),
            (Verify, "b", false),
            (Renew, "a", true),
            (Renew, "a", false),
        ],
        &[
            (Show, "a", true),
            (Enter, "b", false),
            (Show, "b", false),
            (Remove, "a", false),
            (Renew, "a", true),
            (Enter, "b", false),
        ],
        &[
            (Renew, "a", true),
            (Show, "b", false),
            (Enter, "b", false),
            (Remove, "a", false),
        ],
        &[(Verify, "a", true), (Remove, "b", true)],
        &[
            (Enter, "a", true),
            (Verify, "a", false),
            (Show, "b", true),
            (Renew, "b", false),
        ],
    ];
    for (at, chain) in chains.into_iter().enumerate() {
        let mut ann = owner();
        let code = ann.code(0);
        for (step, (purpose, session, may)) in chain.iter().enumerate() {
            let shown = ann.show(*purpose, &attempt("192.0.2.1", session, &code), 0);
            assert_eq!(shown.is_ok(), *may, "chain {at}, step {step}: {shown:?}");
        }
    }
}

#[test]
fn every_code_use_is_counted() {
    let mut ann = owner();
    let (code, wrong) = (ann.code(0), ann.wrong(0));
    let again = |code: &str| attempt("192.0.2.1", "a", code);
    ann.show(CodePurpose::Verify, &again(&code), 0).unwrap();
    for _ in 0..9 {
        assert!(ann.show(CodePurpose::Show, &again(&code), 0).is_ok());
        assert_eq!(
            ann.show(CodePurpose::Show, &again(&wrong), 0),
            Err(WRONG),
            "a reused code resets the count of wrong codes"
        );
    }
    assert!(ann.show(CodePurpose::Show, &again(&code), 0).is_ok());
    assert_eq!(ann.show(CodePurpose::Enter, &again(&code), 0), Err(WRONG));
    assert_eq!(
        ann.show(CodePurpose::Show, &again(&code), 0),
        Err(Error::Busy { retry_after: 300 })
    );
}

#[test]
fn repeatable_code_uses_are_remembered() {
    let step = at(0).seconds().unsigned_abs() / 30;
    let used = [step - 3, step - 2, step + 2].map(|step| UsedCode {
        step,
        session: Id::from_text("s"),
        purpose: CodePurpose::Enter,
    });
    let remembered: Vec<u64> = recent(used.to_vec(), at(0))
        .iter()
        .map(|used| used.step)
        .collect();
    assert_eq!(remembered, [step - 2, step + 2]);
}

#[test]
fn recovery_codes_work_once() {
    let mut ann = owner();
    let all = ann.codes.recovery_codes(&ann.record.spec).unwrap();
    assert_eq!(all.len(), 20);
    assert!(
        all.iter()
            .all(|code| code.len() == 6
                && code.bytes().all(|b| matches!(b, b'A'..=b'Z' | b'2'..=b'7'))),
        "{all:?}"
    );
    let one_time = ann.show(CodePurpose::Show, &attempt("192.0.2.1", "one", &all[3]), 0);
    assert_eq!(one_time, Err(WRONG));
    assert_eq!(ann.enter(&all[3].to_lowercase(), 0), Err(WRONG));
    assert_eq!(ann.enter(&all[3], 0), Ok(AcceptedCode::Recovery(3)));
    assert_eq!(ann.enter(&all[3], 0), Err(WRONG));
    assert_eq!(
        ann.codes.recovery_codes(&ann.record.spec).unwrap().len(),
        19
    );
    ann.codes.renew(&mut ann.record.spec).unwrap();
    assert_eq!(ann.enter(&all[4], 0), Err(WRONG));
    let code = ann.code(0);
    assert!(ann.enter(&code, 0).is_ok(), "codes of the app still work");
}

#[test]
fn stored_factors_reveal_no_code() {
    let mut ann = owner();
    let codes = ann.codes.recovery_codes(&ann.record.spec).unwrap();
    let stored = String::from_utf8_lossy(&ann.record.spec.sealed).into_owned();
    assert!(!codes.iter().any(|code| stored.contains(code)));
    ann.record.spec.identity_id = Id::from_text("eve");
    assert!(matches!(
        ann.codes.recovery_codes(&ann.record.spec),
        Err(Error::Damaged { .. })
    ));
    ann.record.spec.identity_id = Id::from_text("ann");
    let last = ann.record.spec.sealed.len() - 1;
    ann.record.spec.sealed[last] ^= 1;
    assert!(matches!(ann.enter("123456", 0), Err(Error::Damaged { .. })));
}

#[test]
fn clock_setback_delays_no_code() {
    let (mut ann, earlier) = (owner(), -24 * 60 * 60);
    for (time, wrong) in [(0, ann.wrong(0)), (earlier, ann.wrong(earlier))] {
        for _ in 0..20 {
            assert_eq!(ann.enter(&wrong, time), Err(WRONG));
        }
        assert_eq!(
            ann.enter(&wrong, time),
            Err(Error::Busy { retry_after: 300 })
        );
    }
}

#[test]
fn partial_sessions_set_up_no_factor() {
    let server = shared();
    let (idp, issuer) = (signer(), format!("https://{}.test", fresh("second")));
    let more = json!({
        "certPem": idp.certificate.certificate().pem(), "kid": idp.kid(), "issuer": issuer, "audience": "overkeep",
        "jwksEndpoint": null, "useExternalId": false
    });
    let signer = external_signer(server, &fresh("second"), more);
    let policy = auth_policy(
        server,
        json!({ "secondary": { "requireTotp": false, "requireExtJwtSigner": signer } }),
    );
    let name = fresh("half");
    let (id, partial) = server.user(&name, json!({ "authPolicyId": policy }));
    let now = server.clock.now().seconds();
    let token = idp.token(
        &json!({ "iss": issuer, "aud": "overkeep", "sub": id, "iat": now, "exp": now + 600 }),
    );
    let bearer = format!("Bearer {token}");
    let path = "/current-identity/mfa";
    let with_token =
        |method: &str, path: &str| partial.ask(method, path).header("authorization", &bearer);

    partial
        .post(path, Json::Null)
        .refused(401, "UNAUTHORIZED", "");
    partial.get(path).refused(404, "NOT_FOUND", "");
    with_token("POST", path).send().expect(201);
    // The secret of a factor that is being set up is not shown either.
    partial.get(path).refused(401, "UNAUTHORIZED", "");
    partial
        .get(&format!("{path}/qr-code"))
        .refused(401, "UNAUTHORIZED", "");
    partial
        .post(&format!("{path}/verify"), json!({ "code": "123456" }))
        .refused(401, "UNAUTHORIZED", "");
    let shown = with_token("GET", path).send().expect(200);
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
    let code = json!({ "code": app.generate(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()).to_string() });
    partial
        .post(&format!("{path}/verify"), code.clone())
        .refused(401, "UNAUTHORIZED", "");
    with_token("POST", &format!("{path}/verify"))
        .json(&code)
        .send()
        .expect(200);
    // A code completes its step also before the token is presented.
    let next = server.log_in_again(&name);
    next.post("/authenticate/mfa", code).expect(200);
    next.get(path).expect(200);
    next.get("/current-identity")
        .refused(401, "UNAUTHORIZED", "");
}
