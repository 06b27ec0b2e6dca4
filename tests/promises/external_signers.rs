//! External signers: the allowed locations of their keys, forbidden parts of an address, and the
//! wait for a slow one.

use std::{
    io::Write,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use model::{
    clock::Clock,
    config::Span,
    entity::{ExternalJwtSigner, Id, Record, TypedLookup},
    error::Error,
};
use serde_json::{Value as Json, json};

use crate::{
    harness::{Base, TestServer, fresh, shared},
    second_factors::{AnswerMode, TokenLogin, at, claims, endpoint, signer, token_login_with},
};

const PASSWORD: &str = "w0rd-in-an-address";

fn body(endpoint: &str) -> Json {
    json!({ "name": fresh("idp"), "enabled": true, "issuer": fresh("https://idp"), "audience": "overlay", "jwksEndpoint": endpoint })
}

const PLAIN: [&str; 5] = [
    "http://idp.test/keys",
    "http://192.0.2.1:8080/keys",
    "http://localhost.example.org/keys",
    "http://[2001:db8::1]/keys",
    "http://127.0.0.1.example.org/keys",
];
const HERE: [&str; 5] = [
    "http://127.0.0.1:8080/keys",
    "http://127.8.9.1/keys",
    "http://localhost/keys",
    "http://[::1]:80/keys",
    "http://[::ffff:127.0.0.1]/keys",
];

#[test]
fn key_sets_need_https_by_default() {
    let server = shared();
    let known = server
        .admin
        .post("/external-jwt-signers", body("https://idp.test/keys"))
        .expect(201)
        .id();
    let known = format!("/external-jwt-signers/{known}");
    for plain in PLAIN {
        for answer in [
            server.admin.post("/external-jwt-signers", body(plain)),
            server.admin.patch(&known, json!({ "jwksEndpoint": plain })),
            server.admin.put(&known, body(plain)),
        ] {
            let answer = answer.refused(400, "COULD_NOT_VALIDATE", "jwksEndpoint");
            assert!(
                answer.text.contains("key-sets.allow-http"),
                "the error must name the key that allows it: {}",
                answer.text
            );
        }
    }
    for here in HERE {
        server
            .admin
            .patch(&known, json!({ "jwksEndpoint": here }))
            .expect(200);
    }
    for no_port in [
        "https://idp.test:99999/keys",
        "https://idp.test:port/keys",
        "https://[::1]:99999/keys",
    ] {
        server
            .admin
            .post("/external-jwt-signers", body(no_port))
            .refused(400, "COULD_NOT_VALIDATE", "jwksEndpoint");
    }
    let lenient = TestServer::with(Clock::system(), |config| config.key_sets.allow_http = true);
    for plain in PLAIN {
        lenient
            .admin
            .post("/external-jwt-signers", body(plain))
            .expect(201);
    }
}

#[test]
fn addresses_with_passwords_are_refused() {
    let server = shared();
    let known = server
        .admin
        .post("/external-jwt-signers", body("https://idp.test/keys"))
        .expect(201)
        .id();
    let path = format!("/external-jwt-signers/{known}");
    let addresses = [
        "https://user:w0rd-in-an-address@idp.test/keys",
        "http://w0rd-in-an-address@127.0.0.1/keys",
        "ftp://u:w0rd-in-an-address@x",
    ];
    for address in addresses {
        for (field, answer) in [
            (
                "jwksEndpoint",
                server.admin.post("/external-jwt-signers", body(address)),
            ),
            (
                "jwksEndpoint",
                server
                    .admin
                    .patch(&path, json!({ "jwksEndpoint": address })),
            ),
            (
                "externalAuthUrl",
                server
                    .admin
                    .patch(&path, json!({ "externalAuthUrl": address })),
            ),
        ] {
            let answer = answer.refused(400, "COULD_NOT_VALIDATE", field);
            assert!(!answer.text.contains(PASSWORD), "{}", answer.text);
        }
    }
    server
        .admin
        .patch(
            &path,
            json!({ "jwksEndpoint": "https://idp.test/@keys?of=a@b" }),
        )
        .expect(200);
    let history = server
        .admin
        .at(Base::Overkeep)
        .get("/history?limit=500")
        .expect(200);
    assert!(!history.text.contains(PASSWORD));
}

/// A log that keeps its lines.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Addresses that an earlier release accepted.
#[test]
fn stored_addresses_are_checked_again() {
    let idp = signer();
    let keys = endpoint(AnswerMode::Keys(idp.keys().to_string()));
    let (token, log) = (idp.token(&claims()), Log::default());
    for bad in [
        keys.url
            .replace("http://", "http://user:w0rd-in-an-address@"),
        "http://192.0.2.1/keys".into(),
        "nowhere".into(),
    ] {
        let token_login = token_login_with(&bad, |_| ());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let to = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || to.clone())
            .finish();
        let login = token_login.tokens.login(&token_login.store, at(0), &token);
        let refused = tracing::subscriber::with_default(subscriber, || runtime.block_on(login));
        assert!(matches!(refused, Err(Error::InvalidAuth)), "{bad}");
    }
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(
        text.contains("no key set is fetched") && !text.contains(PASSWORD),
        "{text}"
    );
    assert_eq!(keys.request_count(), 0);
    assert!(token_login_with(&keys.url, |_| ()).enter(&token, 0));
}

#[test]
fn waiting_for_keys_is_bounded() {
    let idp = signer();
    let keys = endpoint(AnswerMode::Silent);
    let token_login = token_login_with(&keys.url, |config| config.key_sets.waiting = 1);
    let (token, other) = (idp.token(&claims()), token_login.tokens.clone());
    let (store, first) = (token_login.store.clone(), token.clone());
    let waiting = token_login
        .runtime
        .spawn(async move { other.login(&store, at(0), &first).await.map(drop) });
    while keys.request_count() == 0 {
        thread::yield_now();
    }
    let further =
        token_login
            .runtime
            .block_on(token_login.tokens.login(&token_login.store, at(0), &token));
    assert!(
        matches!(further, Err(Error::Busy { retry_after: 1 })),
        "a further request must be rejected at once"
    );
    assert_eq!(
        token_login.runtime.block_on(waiting).unwrap(),
        Err(Error::InvalidAuth)
    );
}

/// Fetches for slow signers take turns if few are allowed at the same time; a request waits for one
/// fetch, not for all of them.
#[test]
fn nobody_waits_beyond_one_fetch() {
    let idp = signer();
    let keys = endpoint(AnswerMode::Silent);
    let token_login = token_login_with(&keys.url, |config| {
        (config.key_sets.fetches, config.key_sets.timeout) = (1, Span::seconds(1));
    });
    let others: Vec<String> = (0..6).map(|n| another(&token_login, n)).collect();
    let log_in = |issuer: &str| {
        let (tokens, store) = (token_login.tokens.clone(), token_login.store.clone());
        let mut claims = claims();
        claims["iss"] = issuer.into();
        let token = idp.token(&claims);
        token_login.runtime.spawn(async move {
            let started = Instant::now();
            assert!(tokens.login(&store, at(0), &token).await.is_err());
            started.elapsed()
        })
    };
    let alone = token_login
        .runtime
        .block_on(log_in("https://idp.test"))
        .unwrap();
    let together: Vec<_> = others.iter().map(|issuer| log_in(issuer)).collect();
    let longest: Duration = together
        .into_iter()
        .map(|one| token_login.runtime.block_on(one).unwrap())
        .max()
        .unwrap();
    assert!(
        longest < 3 * alone,
        "{longest:?} with others, {alone:?} alone"
    );
}

/// Adds a signer at the same endpoint; returns its issuer.
fn another(token_login: &TokenLogin, n: usize) -> String {
    let issuer = format!("https://idp{n}.test");
    let signer = token_login
        .store
        .read(|tx| tx.get(&Id::<ExternalJwtSigner>::from_text("idp")))
        .unwrap();
    let spec = ExternalJwtSigner {
        issuer: issuer.clone(),
        name: format!("idp{n}"),
        ..signer.spec
    };
    token_login
        .store
        .write_blocking(move |tx| {
            tx.insert(Record::new(Id::from_text(format!("idp{n}")), at(0), spec))
        })
        .unwrap();
    issuer
}
