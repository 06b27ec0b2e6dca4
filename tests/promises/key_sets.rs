//! Key sets of issuers as they are found in use (RFC 7517): several keys with one id, certificates
//! that cannot be used, declared algorithms, compressed answers.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use flate2::{Compression, write::GzEncoder};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use pki::{Verifiers, jwt};
use rcgen::{KeyPair, PublicKeyData};
use serde_json::{Value as Json, json};

use crate::second_factors::{AnswerMode, claims, endpoint, signer, token_login_with};

/// A key on P-256 that signs tokens under any id.
struct EcKey(KeyPair);

impl EcKey {
    fn new() -> Self {
        jwt::install();
        Self(KeyPair::generate().unwrap())
    }

    fn jwk(&self, id: &str) -> Json {
        let (x, y) = self.0.der_bytes()[1..].split_at(32);
        json!({ "kty": "EC", "crv": "P-256", "use": "sig", "kid": id, "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y) })
    }

    fn token(&self, id: &str, claims: &Json) -> String {
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(id.to_owned());
        jsonwebtoken::encode(
            &header,
            claims,
            &EncodingKey::from_ec_der(self.0.serialized_der()),
        )
        .unwrap()
    }
}

fn set(keys: &[Json]) -> Verifiers {
    Verifiers::read(json!({ "keys": keys }).to_string().as_bytes(), 100).unwrap()
}

fn verifies(set: &Verifiers, id: &str, token: &str) -> bool {
    set.get(id)
        .iter()
        .any(|key| key.verify::<Json>(token).is_ok())
}

/// The parameters of the RSA key of a signer, without its certificate.
fn bare(idp: &crate::second_factors::Signer) -> Json {
    let signer = jwt::Signer::new(&idp.certificate).unwrap();
    let mut key = serde_json::to_value(signer.public_keys().next().unwrap()).unwrap();
    key.as_object_mut()
        .unwrap()
        .retain(|name, _| ["kty", "kid", "use", "n", "e"].contains(&name.as_str()));
    key
}

#[test]
fn keys_of_one_id_are_tried() {
    let (idp, one, other) = (signer(), EcKey::new(), EcKey::new());
    let id = idp.kid();
    let keys = [bare(&idp), one.jwk(&id), other.jwk(&id)];
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let served = endpoint(AnswerMode::Keys(
            json!({ "keys": order.map(|at| keys[at].clone()) }).to_string(),
        ));
        let login = token_login_with(&served.url, |_| ());
        for token in [
            idp.token(&claims()),
            one.token(&id, &claims()),
            other.token(&id, &claims()),
        ] {
            assert!(login.enter(&token, 0), "{order:?}");
        }
        assert!(!login.enter(&EcKey::new().token(&id, &claims()), 0));
    }
    // What one token can cost is bounded.
    let many = set(&(0..9).map(|_| EcKey::new().jwk("k")).collect::<Vec<_>>());
    assert_eq!((many.get("k").len(), many.skipped().len()), (4, 5));
}

#[test]
fn unusable_certificates_fall_back() {
    let (idp, ec) = (signer(), EcKey::new());
    for x5c in [
        json!([]),
        json!(["%"]),
        json!(["AAAA"]),
        json!([7]),
        json!("text"),
        json!({}),
        json!(null),
    ] {
        let (mut rsa, mut point) = (bare(&idp), ec.jwk("ec"));
        rsa["x5c"] = x5c.clone();
        point["x5c"] = x5c.clone();
        let set = set(&[rsa, point]);
        assert!(verifies(&set, &idp.kid(), &idp.token(&claims())), "{x5c}");
        assert!(verifies(&set, "ec", &ec.token("ec", &claims())), "{x5c}");
        assert!(set.skipped().is_empty());
    }
}

#[test]
fn declared_algorithms_bind_keys() {
    let (idp, ec) = (signer(), EcKey::new());
    let declared = |key: Json, alg: Json| {
        let mut key = key;
        key["alg"] = alg;
        set(&[key])
    };
    let (rs256, es256) = (idp.token(&claims()), ec.token("ec", &claims()));
    assert!(verifies(
        &declared(bare(&idp), json!("RS256")),
        &idp.kid(),
        &rs256
    ));
    assert!(verifies(
        &declared(bare(&idp), json!(null)),
        &idp.kid(),
        &rs256
    ));
    assert!(verifies(
        &declared(ec.jwk("ec"), json!("ES256")),
        "ec",
        &es256
    ));
    for alg in [
        "RS384", "RS512", "PS256", "ES256", "HS256", "RSA-OAEP", "none", "",
    ] {
        assert!(
            !verifies(&declared(bare(&idp), json!(alg)), &idp.kid(), &rs256),
            "{alg}"
        );
        assert!(
            !verifies(
                &declared(idp.keys()["keys"][0].clone(), json!(alg)),
                &idp.kid(),
                &rs256
            ),
            "{alg}, with a certificate"
        );
    }
    for alg in [json!("ES384"), json!("RS256"), json!(7)] {
        assert!(
            !verifies(&declared(ec.jwk("ec"), alg.clone()), "ec", &es256),
            "{alg}"
        );
    }
}

#[test]
fn null_members_of_keys_are_absent() {
    let ec = EcKey::new();
    let mut key = ec.jwk("ec");
    for member in ["use", "alg", "x5c"] {
        key[member] = Json::Null;
    }
    assert!(verifies(&set(&[key]), "ec", &ec.token("ec", &claims())));
}

#[test]
fn skipped_keys_are_named() {
    let mut unfit = EcKey::new().jwk("unfit");
    unfit["alg"] = "RS256".into();
    let mut nameless = EcKey::new().jwk("");
    nameless.as_object_mut().unwrap().remove("kid");
    let mut encrypts = EcKey::new().jwk("encrypts");
    encrypts["use"] = "enc".into();
    let p521 = json!({ "kty": "EC", "crv": "P-521", "x": "AA", "y": "AA", "kid": "long\u{1b}]0;x\u{202e}" });
    let found = set(&[
        EcKey::new().jwk("good"),
        unfit,
        nameless,
        encrypts,
        p521,
        json!(7),
    ]);
    let skipped = found.skipped();
    assert_eq!(skipped.len(), 4, "{skipped:?}");
    for (skipped, words) in skipped.iter().zip([
        ["unfit", "alg"],
        ["key 3", "no kid"],
        ["long", "unsupported"],
        ["key 6", "not an object"],
    ]) {
        assert!(words.iter().all(|word| skipped.contains(word)), "{skipped}");
        assert!(!skipped.contains(['\u{1b}', '\u{202e}']), "{skipped}");
    }
    let few = Verifiers::read(
        json!({ "keys": [EcKey::new().jwk("a"), EcKey::new().jwk("b")] })
            .to_string()
            .as_bytes(),
        1,
    )
    .unwrap();
    assert_eq!((few.get("b").len(), few.skipped().len()), (0, 1));
}

/// An endpoint that answers with gzip, and the lines of the heads that it reads. Its scheme is in
/// upper case, which has no meaning (RFC 3986 section 3.1).
fn gzip_endpoint(text: &[u8]) -> (String, Arc<Mutex<Vec<String>>>) {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(text).unwrap();
    let packed = packed.finish().unwrap();
    assert!(packed.len() < 8 << 10, "{}", packed.len());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("HTTP://{}/keys", listener.local_addr().unwrap());
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = heads.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap())
                .lines()
                .map_while(Result::ok);
            seen.lock()
                .unwrap()
                .extend(lines.take_while(|line| !line.is_empty()));
            let head = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
                packed.len()
            );
            stream
                .write_all(head.as_bytes())
                .and_then(|()| stream.write_all(&packed))
                .ok();
        }
    });
    (url, heads)
}

#[test]
fn key_sets_may_be_compressed() {
    let idp = signer();
    let (url, heads) = gzip_endpoint(idp.keys().to_string().as_bytes());
    assert!(token_login_with(&url, |_| ()).enter(&idp.token(&claims()), 0));
    let heads = heads.lock().unwrap();
    assert!(
        heads
            .iter()
            .any(|line| line.eq_ignore_ascii_case("accept-encoding: identity")),
        "{heads:?}"
    );
}

/// The bound is that of the text: what compresses well does not fill the memory.
#[test]
fn compressed_key_sets_are_bounded() {
    let idp = signer();
    let mut text = idp.keys().to_string();
    text.push_str(&" ".repeat(1 << 20));
    let (url, _) = gzip_endpoint(text.as_bytes());
    assert!(!token_login_with(&url, |_| ()).enter(&idp.token(&claims()), 0));
}
