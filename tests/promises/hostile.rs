//! Hostile input is parsed or rejected, and never causes a failure.
//!
//! Here: tokens, key sets, and a body for every operation that takes one. Filters are in
//! `crates/query/tests/language/properties.rs`, certificates and requests in
//! `pki/arbitrary_input.rs`, records and files in `damage.rs`, each member of a body in
//! `crud/refusals.rs`. `OVERKEEP_BODIES` sets the number of bodies.

use std::{env, sync::LazyLock};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use pki::{
    AlternativeNames, KeyedCertificate, Material, Verifiers,
    jwt::{self, Claimed, Signer, Verifier},
};
use proptest::{collection::vec, prelude::*};
use serde_json::{Map, Value as Json, json};

use crate::{
    harness::{Base, TestServer, fresh, interface},
    simulated_disk::Rng,
};

static KEY: LazyLock<(Signer, Verifier)> = LazyLock::new(|| {
    jwt::install();
    let material =
        Material::generate(&AlternativeNames::of_hosts(["a.test"]), 1_800_000_000).unwrap();
    let key = KeyedCertificate::open(&material.server).unwrap();
    (
        Signer::new(&key).unwrap(),
        Verifier::new(key.certificate().public_key()).unwrap(),
    )
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn unsigned_tokens_are_refused(
        algorithm in prop_oneof!["(none|HS256|RS256|RS512|ES256|EdDSA)", "\\PC{0,8}"],
        header in "\\PC{0,40}", claims in prop::sample::select(vec!["{}", "{\"iss\":\"x\"}", "[1]", "\""]), text in "\\PC{0,60}",
        signature in vec(any::<u8>(), 0..300),
    ) {
        let known = json!({ "alg": algorithm, "typ": "JWT", "kid": "k", "crit": null }).to_string();
        for (header, claims) in [(known.as_str(), claims), (known.as_str(), text.as_str()), (header.as_str(), claims)] {
            let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
            let token = [part(header.as_bytes()), part(claims.as_bytes()), part(&signature)].join(".");
            for token in [token.as_str(), &token[..token.len() / 2], &text] {
                let _ = Claimed::read(token);
                let read = KEY.1.verify::<Json>(token);
                prop_assert!(read.is_err());
            }
        }
        let _ = (Verifiers::read(text.as_bytes(), 10), Verifiers::read(&signature, 10));
    }

    #[test]
    fn changed_tokens_are_refused(at in any::<prop::sample::Index>(), to in "[A-Za-z0-9_.-]", cut in any::<prop::sample::Index>()) {
        let token = KEY.0.sign(&json!({ "iss": "x", "sub": "y", "exp": 1 })).unwrap();
        let at = at.index(token.len());
        let changed = format!("{}{to}{}", &token[..at], &token[at + 1..]);
        prop_assert!(changed == token || KEY.1.verify::<Json>(&changed).is_err());
        prop_assert!(KEY.1.verify::<Json>(&token[..cut.index(token.len())]).is_err());
        prop_assert!(KEY.1.verify::<Json>(&token).is_ok());
    }

    #[test]
    fn any_key_set_is_handled(kind in prop_oneof!["(RSA|EC|OKP|oct)", "\\PC{0,4}"],
        numbers in vec("[A-Za-z0-9_=+/-]{0,90}", 6), curve in prop_oneof!["(P-256|P-384|Ed25519)", "\\PC{0,6}"]) {
        let [n, e, x, y, certificate, id] = &numbers[..] else { unreachable!() };
        let key = json!({ "kty": kind, "kid": id, "n": n, "e": e, "x": x, "y": y, "crv": curve, "k": n, "x5c": [certificate], "use": "sig" });
        for keys in [json!({ "keys": [key, {}, null] }), json!({ "keys": [key] }), json!({ "keys": key }), json!([key])] {
            if let Some(verifier) = Verifiers::read(keys.to_string().as_bytes(), 10).ok().as_ref().and_then(|keys| keys.get(id).first()) {
                let read = verifier.verify::<Json>(&KEY.0.sign(&Json::Null).unwrap());
                prop_assert!(read.is_err());
            }
        }
    }
}

/// A random value for a schema, occasionally one that violates it.
fn body(rng: &mut Rng, schema: &Json, document: &Json, depth: usize) -> Json {
    if let Some(target) = schema["$ref"].as_str() {
        return body(
            rng,
            document.pointer(&target[1..]).unwrap_or(&Json::Null),
            document,
            depth + 1,
        );
    }
    if depth > 12 || rng.percent(15) {
        return odd(rng);
    }
    for several in ["oneOf", "anyOf", "allOf", "enum"] {
        if let Some(one) = schema[several].as_array().filter(|all| !all.is_empty()) {
            let one = rng.pick(one);
            return if several == "enum" {
                one.clone()
            } else {
                body(rng, one, document, depth + 1)
            };
        }
    }
    if !schema["const"].is_null() {
        return schema["const"].clone();
    }
    let kinds = match &schema["type"] {
        Json::Array(kinds) => kinds.clone(),
        kind => vec![kind.clone()],
    };
    match rng.pick(&kinds).as_str() {
        Some("object") => {
            let mut made = Map::new();
            for (name, member) in schema["properties"].as_object().into_iter().flatten() {
                if rng.percent(80) {
                    made.insert(name.clone(), body(rng, member, document, depth + 1));
                }
            }
            if rng.percent(20) {
                made.insert(format!("{}", odd(rng)), odd(rng));
            }
            made.into()
        }
        Some("array") => (0..rng.below(4))
            .map(|_| body(rng, &schema["items"], document, depth + 1))
            .collect(),
        Some("string") => match rng.below(4) {
            0 => odd(rng),
            1 => json!("2026-11-22T00:00:00Z"),
            _ => fresh("text").into(),
        },
        Some("integer" | "number") => json!(rng.below(100)),
        Some("boolean") => json!(rng.percent(50)),
        _ => odd(rng),
    }
}

fn odd(rng: &mut Rng) -> Json {
    let all = [
        Json::Null,
        json!(true),
        json!(-1),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1e300),
        json!(""),
        json!(" \u{0}\u{202e}\u{1f9ff}"),
        json!("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"),
        json!("x".repeat(5_000)),
        json!([]),
        json!([[[[[null]]]]]),
        json!({}),
        json!({ "": { "a": [{}] } }),
    ];
    rng.pick(&all).clone()
}

#[test]
fn random_bodies_never_cause_500() {
    let bodies: u64 = env::var("OVERKEEP_BODIES").map_or(300, |bodies| bodies.parse().unwrap());
    let server = TestServer::start();
    let takers: Vec<(Base, &str, &str, &Json)> = Base::ALL
        .into_iter()
        .flat_map(|base| {
            let paths = interface(base).document["paths"]
                .as_object()
                .unwrap()
                .iter();
            let rows = paths.flat_map(|(path, row)| {
                row.as_object()
                    .unwrap()
                    .iter()
                    .map(move |(method, of)| (path, method, of))
            });
            rows.filter_map(move |(path, method, of)| {
                let schema = of.pointer("/requestBody/content/application~1json/schema")?;
                Some((base, path.as_str(), method.as_str(), schema))
            })
        })
        .collect();
    assert!(takers.len() > 50);
    let existing = server.identity(&fresh("somebody"), json!({}));
    for seed in 0..bodies {
        let mut rng = Rng(seed);
        let (base, path, method, schema) = takers[usize::try_from(seed).unwrap() % takers.len()];
        let document = &interface(base).document;
        let body = body(&mut rng, schema, document, 0).to_string();
        // A truncated body.
        let sent = if rng.percent(5) {
            &body[..body.floor_char_boundary(rng.below(body.len() + 1))]
        } else {
            &body
        };
        let id = *rng.pick(&[existing.as_str(), "nobody", "%00", "..%2f"]);
        let path = path
            .split('/')
            .map(|part| if part.starts_with('{') { id } else { part })
            .collect::<Vec<_>>()
            .join("/");
        // The check that runs on every answer rejects a 500.
        let answer = server
            .admin
            .at(base)
            .ask(&method.to_uppercase(), &path)
            .body("application/json", sent)
            .send();
        assert!(
            answer.status < 500,
            "seed {seed}: {} {sent}: {}",
            answer.request,
            answer.text
        );
    }
    server.admin.get("/current-identity").expect(200);
}
