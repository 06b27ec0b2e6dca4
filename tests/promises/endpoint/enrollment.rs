//! A token becomes the file of an identity, and only the server that signed the token is spoken to.

use client::{
    IdentityFile, RequestError, Session, SessionError,
    enrollment::{Credential, EnrollmentError, EnrollmentToken, enroll},
};
use pki::{Certificate, ClientCertificate, KeyKind, PrivateKey};
use serde_json::json;

use super::{enrolled, now, token, written};
use crate::{
    harness::{Authority, HttpsServer, Key, TestServer, fresh},
    router::scene::run,
};

fn new_key() -> Credential {
    Credential::NewKey(KeyKind::P256)
}

#[test]
fn the_identity_of_a_one_time_token_logs_in() {
    let server = TestServer::start();
    let (_, identity) = enrolled(&server, "alice");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("alice.json");
    written(&identity, &path);
    let session = run(Session::log_in(&IdentityFile::read(&path).unwrap())).unwrap();
    assert!(session.identity().starts_with("alice"));
    run(session.log_out());
}

#[test]
fn every_kind_of_key_enrolls() {
    let server = TestServer::start();
    for kind in [KeyKind::P256, KeyKind::P384, KeyKind::Rsa] {
        let id = server.identity(&fresh("alice"), json!({ "enrollment": { "ott": true } }));
        let token = EnrollmentToken::read(&token(&server, &id)).unwrap();
        let identity = enroll(&token, Credential::NewKey(kind), None, now(&server)).unwrap();
        let key = identity.certificate().unwrap().key().public();
        assert_eq!(key.kind(), Ok(kind));
        run(Session::log_in(&identity)).unwrap();
    }
}

#[test]
fn a_used_token_is_refused_with_the_reason_of_the_controller() {
    let server = TestServer::start();
    let id = server.identity(&fresh("alice"), json!({ "enrollment": { "ott": true } }));
    let token = EnrollmentToken::read(&token(&server, &id)).unwrap();
    enroll(&token, new_key(), None, now(&server)).unwrap();
    let refused = enroll(&token, new_key(), None, now(&server)).unwrap_err();
    let EnrollmentError::Refused { code, .. } = &refused else {
        panic!("{refused}");
    };
    assert_eq!(code, "INVALID_ENROLLMENT_TOKEN");
}

#[test]
fn an_ended_token_is_not_sent() {
    let server = TestServer::start();
    let id = server.identity(&fresh("alice"), json!({ "enrollment": { "ott": true } }));
    let read = EnrollmentToken::read(&token(&server, &id)).unwrap();
    let later = now(&server) + 365 * 24 * 3600;
    let refused = enroll(&read, new_key(), None, later).unwrap_err();
    assert!(matches!(refused, EnrollmentError::Ended(_)), "{refused}");
    enroll(&read, new_key(), None, now(&server)).unwrap();
}

#[test]
fn a_server_that_did_not_sign_the_token_hears_nothing() {
    let server = TestServer::start();
    let id = server.identity(&fresh("alice"), json!({ "enrollment": { "ott": true } }));
    let text = token(&server, &id);
    // A token that somebody signed for a server at another address, which does not have the key.
    let directory = tempfile::tempdir().unwrap();
    let stranger = HttpsServer::bind(&directory.path().join("ca.pem"));
    let forged = signed_anew(&text, &stranger.url);
    let heard = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let hears = heard.clone();
    stranger.run(move |_, _| {
        hears.store(true, std::sync::atomic::Ordering::SeqCst);
        String::new()
    });
    let read = EnrollmentToken::read(&forged).unwrap();
    let refused = enroll(&read, new_key(), None, now(&server)).unwrap_err();
    assert!(
        matches!(refused, EnrollmentError::Unproven { .. }),
        "{refused}"
    );
    assert!(!heard.load(std::sync::atomic::Ordering::SeqCst));
}

/// The claims of a token with another issuer, signed with a new key.
fn signed_anew(token: &str, issuer: &str) -> String {
    pki::jwt::install();
    let mut claims: serde_json::Value = pki::jwt::claims_of(token).unwrap();
    claims["iss"] = json!(issuer);
    let header = jsonwebtoken::Header::new(jsonwebtoken::Algorithm::ES256);
    let key = jsonwebtoken::EncodingKey::from_ec_der(&Key::new().der());
    jsonwebtoken::encode(&header, &claims, &key).unwrap()
}

/// A certificate of an authority, and its key.
fn certificate(authority: &Authority, name: &str) -> ClientCertificate {
    let key = Key::new();
    let chain = Certificate::in_file(&authority.issue(name, &key)).unwrap();
    let key = pem::encode(&pem::Pem::new("PRIVATE KEY", key.der()));
    ClientCertificate::new(chain, PrivateKey::from_pem(&key).unwrap()).unwrap()
}

#[test]
fn certificates_of_known_authorities_enroll() {
    let server = TestServer::start();
    let authority = Authority::new("company");
    let ca = server.add_ca(&authority);
    let jwt = server.admin.get(&format!("/cas/{ca}/jwt")).expect(200).text;
    let token = EnrollmentToken::read(&jwt).unwrap();
    let own = certificate(&authority, &fresh("machine"));
    for _ in 0..2 {
        // The second time the identity exists already, which is what the caller wants.
        let given = Credential::Certificate(own.clone());
        let identity = enroll(&token, given, None, now(&server)).unwrap();
        run(Session::log_in(&identity)).unwrap();
    }
}

#[test]
fn a_one_time_token_for_a_certificate_of_an_authority_is_redeemed() {
    let server = TestServer::start();
    let authority = Authority::new("company");
    let ca = server.add_ca(&authority);
    let name = fresh("machine");
    let id = server.identity(
        &name,
        json!({ "externalId": name, "enrollment": { "ottca": ca } }),
    );
    let stored = server.admin.get(&format!("/identities/{id}")).expect(200);
    let jwt = stored.data()["enrollment"]["ottca"]["jwt"]
        .as_str()
        .unwrap();
    let token = EnrollmentToken::read(jwt).unwrap();
    let own = Credential::Certificate(certificate(&authority, &name));
    let identity = enroll(&token, own, None, now(&server)).unwrap();
    run(Session::log_in(&identity)).unwrap();
}

#[test]
fn a_password_is_set() {
    let server = TestServer::start();
    let name = fresh("lena");
    let id = server.identity(&name, json!({ "enrollment": { "updb": name } }));
    let stored = server.admin.get(&format!("/identities/{id}")).expect(200);
    let jwt = stored.data()["enrollment"]["updb"]["jwt"].as_str().unwrap();
    let token = EnrollmentToken::read(jwt).unwrap();
    let refused = enroll(&token, new_key(), None, now(&server)).unwrap_err();
    assert!(
        matches!(refused, EnrollmentError::Credential(..)),
        "{refused}"
    );
    let password = Credential::Password("a-long-new-password".to_owned().into());
    let identity = enroll(&token, password, None, now(&server)).unwrap();
    assert!(identity.certificate().is_none() && !identity.authorities().is_empty());
    server.anonymous().log_in(&name, "a-long-new-password");
}

#[test]
fn a_token_for_anybody_tells_the_network() {
    let server = TestServer::start();
    let tokens = server.anonymous().get("/network-jwts").expect(200);
    let token = EnrollmentToken::read(tokens.data()[0]["token"].as_str().unwrap()).unwrap();
    let identity = enroll(&token, new_key(), None, now(&server)).unwrap();
    assert!(identity.certificate().is_none() && !identity.authorities().is_empty());
    assert_eq!(
        identity.controllers(),
        [format!("https://{}/edge/client/v1", server.bound())]
    );
    let refused = run(Session::log_in(&identity)).err();
    assert_eq!(refused, Some(SessionError::NoCertificate));
}

#[test]
fn servers_of_other_authorities_are_not_spoken_to() {
    let (first, second) = (TestServer::start(), TestServer::start());
    let (_, identity) = enrolled(&first, "alice");
    let moved = IdentityFile::new(
        &format!("https://{}", second.bound()),
        identity.certificate().cloned(),
        identity.authorities().to_vec(),
    );
    let refused = run(Session::log_in(&moved.unwrap())).err().unwrap();
    let SessionError::Request(RequestError::NoAnswer { reason, .. }) = refused else {
        panic!("{refused}");
    };
    assert!(reason.contains("certificate"), "{reason}");
}

#[test]
fn texts_that_are_no_tokens_are_rejected() {
    for text in ["", "a.b.c", "{}", &"a".repeat(70_000)] {
        let refused = EnrollmentToken::read(text).unwrap_err();
        assert!(matches!(refused, EnrollmentError::Token(_)), "{refused}");
    }
}
