//! Tokens signed with the key of a certificate.

use pki::{
    Certificate, Error, KeyKind, KeyedCertificate, PrivateKey,
    jwt::{self, Signer, Verifier},
};

use super::material;
use crate::harness::{OpensslDirectory, P256, P384, RSA};

#[test]
fn tokens_verify_with_the_leaf() {
    jwt::install();
    jwt::install();
    let (context, material) = (OpensslDirectory::new(), material());
    let claims = serde_json::json!({"iss": "https://ctrl.test:1280", "jti": "token", "exp": 1, "aud": [""], "ctrls": null});
    let stranger = Verifier::new(&PrivateKey::generate(KeyKind::P256).unwrap().public()).unwrap();
    for (kind, algorithm) in [(P256, "ES256"), (P384, "ES384"), (RSA, "RS256")] {
        let key = context.key("k", kind);
        let certificate = context.openssl(
            &[
                "req", "-x509", "-new", "-key", &key, "-subj", "/CN=x", "-days", "2",
            ],
            "",
        );
        let key = PrivateKey::from_pem(&std::fs::read_to_string(key).unwrap()).unwrap();
        let signing = KeyedCertificate::new(Certificate::only(&certificate).unwrap(), key).unwrap();
        let token = Signer::new(&signing).unwrap().sign(&claims).unwrap();
        let header = jsonwebtoken::decode_header(&token).unwrap();
        assert_eq!(format!("{:?}", header.alg), algorithm);
        assert_eq!(
            (header.kid, header.typ),
            (
                Some(signing.certificate().fingerprint()),
                Some("JWT".into())
            )
        );
        let verifier = Verifier::new(signing.certificate().public_key()).unwrap();
        assert_eq!(
            verifier.verify::<serde_json::Value>(&token).unwrap(),
            claims
        );
        assert!(stranger.verify::<serde_json::Value>(&token).is_err());
        let [head, body, signature] = token.split('.').collect::<Vec<_>>()[..] else {
            panic!("three parts")
        };
        let other = body.replacen(
            &body[10..11],
            if &body[10..11] == "A" { "B" } else { "A" },
            1,
        );
        let cut = &signature[..signature.len() - 4];
        for bad in [
            format!("{head}.{other}.{signature}"),
            format!("{head}.{body}.{cut}"),
            format!("{head}.{body}."),
            String::new(),
        ] {
            assert!(
                matches!(
                    verifier.verify::<serde_json::Value>(&bad),
                    Err(Error::Token(_))
                ),
                "{bad}"
            );
        }
        // {"alg":"HS256"} and {"alg":"none"}: a public key is not a shared secret, and a missing
        // signature is not a signature.
        for head in ["eyJhbGciOiJIUzI1NiJ9", "eyJhbGciOiJub25lIn0"] {
            assert!(
                verifier
                    .verify::<serde_json::Value>(&format!("{head}.{body}.{signature}"))
                    .is_err()
            );
        }
    }
    assert!(
        jsonwebtoken::encode(
            &jsonwebtoken::Header::default(),
            &claims,
            &jsonwebtoken::EncodingKey::from_secret(b"x")
        )
        .is_err()
    );
    let other = KeyedCertificate::new(
        Certificate::only(&material.root.certificate).unwrap(),
        PrivateKey::generate(KeyKind::P384).unwrap(),
    );
    assert_eq!(other.unwrap_err(), Error::KeyMismatch);
}
