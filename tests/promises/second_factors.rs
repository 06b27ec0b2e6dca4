//! Log-ins with one-time codes and external tokens: a code counts once and only for its owner,
//! guessing is slowed down, and an external signer is trusted only for tokens that it signed
//! itself, that are valid now, and that are for this controller.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant, SystemTime},
};

use base64::{Engine, engine::general_purpose::STANDARD, engine::general_purpose::URL_SAFE_NO_PAD};
use overkeep::testing::{
    authentication::{
        Attempt, Codes, Tokens,
        codes::{AcceptedCode, recent},
    },
    change::KINDS,
    clock::Timestamp,
    config::{self, Config, Span},
    entity::{
        ExternalJwtSigner, Id, Identity, LoginBasis, Mfa, Record, builtin,
        external_jwt_signer::TargetToken,
        mfa::{CodePurpose, UsedCode},
    },
    error::{Error, Refusal, Result},
    pki::{AlternativeNames, KeyedCertificate, Material, Seal, Verifiers, jwt},
    store::Store,
};
use serde_json::{Value as Json, json};
use totp_rs::{Builder, Secret, Totp};

use crate::{
    explain::{auth_policy, external_signer},
    harness::{Answer, PASSWORD, TestServer, fresh, shared, stores},
};

const NOW: i64 = 1_800_000_015;

pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_seconds(NOW + seconds)
}

pub fn attempt(address: &str, session: &str, code: &str) -> Attempt {
    Attempt {
        code: code.into(),
        session: Id::from_text(session),
        credential: "password".into(),
        address: Some(address.parse().unwrap()),
    }
}

/// An identity with one-time codes, and the app that generates them.
pub struct Owner {
    pub codes: Codes,
    pub record: Record<Mfa>,
    app: Totp,
}

pub fn owner() -> Owner {
    owner_within(&Config::default().codes)
}

pub fn owner_within(limits: &config::CodeConfig) -> Owner {
    let codes = Codes::new(Seal::new(&Seal::new_key().unwrap()).unwrap(), limits);
    let mfa = codes.create(&Id::from_text("ann")).unwrap();
    let url = codes.provisioning_url(&mfa, "ann: one/two").unwrap();
    assert!(
        url.starts_with("otpauth://totp/openziti.io:ann%3A%20one%2Ftwo?issuer=openziti.io&secret="),
        "{url}"
    );
    let secret = Secret::try_from_base32(url.split("secret=").nth(1).unwrap()).unwrap();
    assert_eq!(secret.as_bytes().len(), 20);
    let app = Builder::new().with_secret(secret).build().unwrap();
    Owner {
        codes,
        record: Record::new(Id::from_text("m"), at(0), mfa),
        app,
    }
}

impl Owner {
    pub fn code(&self, seconds: i64) -> String {
        self.app
            .generate(at(seconds).seconds().unsigned_abs())
            .to_string()
    }

    /// A code that is wrong at this time.
    pub fn wrong(&self, seconds: i64) -> String {
        let right: Vec<String> = (-3..=3)
            .map(|step| self.code(seconds + step * 30))
            .collect();
        (100_000..)
            .map(|code| code.to_string())
            .find(|code| !right.contains(code))
            .unwrap()
    }

    fn enter(&mut self, code: &str, seconds: i64) -> Result<AcceptedCode> {
        self.enter_from("192.0.2.1", "one", code, seconds)
    }

    pub fn enter_from(
        &mut self,
        address: &str,
        session: &str,
        code: &str,
        seconds: i64,
    ) -> Result<AcceptedCode> {
        self.show(
            CodePurpose::Enter,
            &attempt(address, session, code),
            seconds,
        )
    }

    pub fn show(
        &mut self,
        purpose: CodePurpose,
        attempt: &Attempt,
        seconds: i64,
    ) -> Result<AcceptedCode> {
        self.codes
            .verify(&mut self.record, attempt, purpose, at(seconds))
    }
}

pub const WRONG: Error = Error::Refused(Refusal::MfaInvalidToken);

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

/// An external signer with its certificate.
pub struct Signer {
    pub certificate: KeyedCertificate,
}

pub fn signer() -> Signer {
    jwt::install();
    let material = Material::generate(&AlternativeNames::of_hosts(["idp.test"]), NOW).unwrap();
    Signer {
        certificate: KeyedCertificate::open(&material.server).unwrap(),
    }
}

impl Signer {
    pub fn kid(&self) -> String {
        self.certificate.certificate().fingerprint()
    }

    pub fn token(&self, claims: &Json) -> String {
        jwt::Signer::new(&self.certificate)
            .unwrap()
            .sign(claims)
            .unwrap()
    }

    /// The key set with this key under its id.
    pub fn keys(&self) -> Json {
        let der = STANDARD.encode(self.certificate.certificate().der());
        json!({ "keys": [{ "kty": "RSA", "n": "", "e": "", "kid": self.kid(), "x5c": [der] }] })
    }
}

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

/// How the endpoint of a key set answers.
#[derive(Clone)]
pub enum AnswerMode {
    Keys(String),
    /// Accepts the connection and does not answer.
    Silent,
    /// Redirects to another endpoint.
    Redirect(String),
}

/// An endpoint of a key set that counts requests.
pub struct Endpoint {
    pub url: String,
    answer_mode: Arc<Mutex<AnswerMode>>,
    request_count: Arc<Mutex<usize>>,
}

pub fn endpoint(answer_mode: AnswerMode) -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    let (answer_mode, request_count) = (Arc::new(Mutex::new(answer_mode)), Arc::new(Mutex::new(0)));
    let (how, count) = (answer_mode.clone(), request_count.clone());
    thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            *count.lock().unwrap() += 1;
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let _head: Vec<String> = lines
                .map_while(std::result::Result::ok)
                .take_while(|line| !line.is_empty())
                .collect();
            let answer = match how.lock().unwrap().clone() {
                AnswerMode::Silent => {
                    open.push(stream);
                    continue;
                }
                AnswerMode::Keys(keys) => format!(
                    "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{keys}",
                    keys.len()
                ),
                AnswerMode::Redirect(to) => {
                    format!(
                        "HTTP/1.1 302 Found\r\nconnection: close\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"
                    )
                }
            };
            stream.write_all(answer.as_bytes()).ok();
        }
    });
    Endpoint {
        url,
        answer_mode,
        request_count,
    }
}

impl Endpoint {
    pub fn request_count(&self) -> usize {
        *self.request_count.lock().unwrap()
    }

    fn set_mode(&self, answer_mode: AnswerMode) {
        *self.answer_mode.lock().unwrap() = answer_mode;
    }
}

/// A store with an identity `ann` and a signer that keeps its keys at an endpoint.
pub struct TokenLogin {
    pub store: Store,
    pub tokens: Tokens,
    pub runtime: tokio::runtime::Runtime,
}

fn token_login(jwks: &str) -> TokenLogin {
    token_login_with(jwks, |_| ())
}

pub fn token_login_with(jwks: &str, adapt: impl FnOnce(&mut Config)) -> TokenLogin {
    let mut config = Config::default();
    adapt(&mut config);
    let store = stores::of(KINDS).in_memory();
    let signer = ExternalJwtSigner {
        audience: "overlay".into(),
        enabled: true,
        issuer: "https://idp.test".into(),
        name: "idp".into(),
        cert_pem: None,
        jwks_endpoint: Some(jwks.into()),
        kid: None,
        claims_property: "sub".into(),
        use_external_id: false,
        external_auth_url: None,
        client_id: None,
        scopes: Vec::new(),
        target_token: TargetToken::default(),
    };
    store
        .write_blocking(|tx| {
            tx.insert(builtin::auth_policy(at(0)))?;
            tx.insert(Record::new(
                Id::from_text("ann"),
                at(0),
                Identity::named("ann"),
            ))?;
            tx.insert(Record::new(Id::from_text("idp"), at(0), signer))
        })
        .unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    TokenLogin {
        store,
        tokens: Tokens::new(&config.tokens, config.key_sets),
        runtime,
    }
}

impl TokenLogin {
    pub fn enter(&self, token: &str, seconds: i64) -> bool {
        let entered = self
            .runtime
            .block_on(self.tokens.login(&self.store, at(seconds), token));
        match entered {
            Ok(principal) => {
                principal.identity.as_str() == "ann"
                    && principal.basis == LoginBasis::Token(Id::from_text("idp"))
            }
            Err(refused) => {
                assert_eq!(refused, Error::InvalidAuth);
                false
            }
        }
    }
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

pub fn claims() -> Json {
    json!({ "iss": "https://idp.test", "aud": "overlay", "sub": "ann", "exp": NOW + 10_000 })
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

pub fn authenticate(username: &str, password: &str) -> Answer {
    shared().anonymous().post(
        "/authenticate?method=password",
        json!({ "username": username, "password": password }),
    )
}

/// An auth policy that locks out for half an hour after three wrong passwords. Returns its id.
pub fn locking() -> String {
    locking_in(shared())
}

pub fn locking_in(server: &TestServer) -> String {
    let body = json!({
        "name": fresh("locking"),
        "primary": {
            "cert": { "allowed": true, "allowExpiredCerts": false },
            "extJwt": { "allowed": false, "allowedSigners": [] },
            "updb": {
                "allowed": true, "minPasswordLength": 5, "requireSpecialChar": false, "requireNumberChar": false,
                "requireMixedCase": false, "maxAttempts": 3, "lockoutDurationMinutes": 30
            }
        },
        "secondary": { "requireTotp": false }
    });
    server.admin.post("/auth-policies", body).expect(201).id()
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
