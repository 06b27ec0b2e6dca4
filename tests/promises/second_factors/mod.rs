//! Log-ins with one-time codes and external tokens: a code counts once and only for its owner,
//! guessing is slowed down, and an external signer is trusted only for tokens that it signed
//! itself, that are valid now, and that are for this controller.

mod codes;
mod guessing;
mod tokens;

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant, SystemTime},
};

use base64::{Engine, engine::general_purpose::STANDARD, engine::general_purpose::URL_SAFE_NO_PAD};

use model::{
    clock::Timestamp,
    config::{self, Config, Span},
    entity::{
        ExternalJwtSigner, Id, Identity, LoginBasis, Mfa, Record, builtin,
        external_jwt_signer::TargetToken,
        mfa::{CodePurpose, UsedCode},
    },
    error::{Error, Refusal, Result},
};
use policy::{
    authentication::{
        Attempt, Codes, Tokens,
        codes::{AcceptedCode, recent},
    },
    change::KINDS,
};
use store::Store;

use serde_json::{Value as Json, json};

use pki::{AlternativeNames, KeyedCertificate, Material, Seal, Verifiers, jwt};
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

pub fn claims() -> Json {
    json!({ "iss": "https://idp.test", "aud": "overlay", "sub": "ann", "exp": NOW + 10_000 })
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
