//! Rejected enrollments: the code gives the reason, and the token stays valid. Also rejected proofs
//! of an authority's key.

use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::{
    harness::{Answer, Authority, Caller, Key, TestServer, fresh, shared},
    refusals::{Differences, Expected},
};

const UNKNOWN: &str = "7a3d1a44-0000-4000-8000-000000000003";
const TEXT: &str = "text/plain";
const JSON: &str = "application/json";

fn code(code: &str) -> Expected<'_> {
    Expected::Code(400, code)
}

/// A token of a new identity for a method: `ott`, `updb` or `ottca`, with its parameters.
fn token(server: &TestServer, method: &str, of: Json) -> String {
    let id = server.identity(&fresh("enrolling"), json!({ "enrollment": { method: of } }));
    let shown = server.admin.get(&format!("/identities/{id}")).expect(200);
    shown.data()["enrollment"][method]["token"]
        .as_str()
        .unwrap()
        .into()
}

fn redeem(who: &Caller, token: &str, media: &str, body: &str) -> Answer {
    let asking = who.ask("POST", &format!("/enroll?token={token}"));
    if media.is_empty() {
        asking.untyped(body).send()
    } else {
        asking.body(media, body).send()
    }
}

#[test]
fn invalid_enrollment_tokens_are_refused() {
    let server = shared();
    let (anonymous, csr) = (server.anonymous(), Key::new().request());
    let ott = token(server, "ott", json!(true));
    let mut all = Differences::default();
    for (token, media, body, expected) in [
        ("no-uuid", TEXT, csr.as_str(), Expected::Field("token")),
        (UNKNOWN, TEXT, &csr, code("INVALID_ENROLLMENT_TOKEN")),
        ("", TEXT, &csr, code("INVALID_ENROLLMENT_TOKEN")),
        (
            &ott.to_uppercase(),
            TEXT,
            &csr,
            code("INVALID_ENROLLMENT_TOKEN"),
        ),
        (
            &ott,
            "application/pkcs7-mime",
            &csr,
            Expected::Field("Content-Type"),
        ),
        (&ott, "", &csr, Expected::Field("Content-Type")),
        (&ott, "application/xml", "", code("INVALID_CONTENT_TYPE")),
        // Rejected before the token is checked.
        (UNKNOWN, JSON, "{", Expected::Unread),
        (UNKNOWN, JSON, "[]", Expected::Unread),
        (UNKNOWN, JSON, "\"text\"", Expected::Unread),
        (
            &ott,
            JSON,
            "{\"clientCsr\":\"\"}",
            code("COULD_NOT_PROCESS_CSR"),
        ),
        (&ott, TEXT, "no request", code("COULD_NOT_PROCESS_CSR")),
        (&ott, TEXT, "", code("COULD_NOT_PROCESS_CSR")),
    ] {
        all.check(media, &redeem(&anonymous, token, media, body), expected);
    }
    redeem(&anonymous, &ott, TEXT, &csr).expect(200);
    all.check(
        "used up",
        &redeem(&anonymous, &ott, TEXT, &csr),
        code("INVALID_ENROLLMENT_TOKEN"),
    );

    let updb = token(server, "updb", json!(fresh("user-name")));
    for body in [
        "",
        "{}",
        "{\"password\":null}",
        "{\"password\":12345678}",
        "{\"password\":\"\"}",
    ] {
        all.check(
            body,
            &redeem(&anonymous, &updb, JSON, body),
            Expected::Field("password"),
        );
    }
    all.check(
        "text",
        &redeem(&anonymous, &updb, TEXT, "{\"password\":\"a good one\"}"),
        Expected::Field("password"),
    );
    redeem(&anonymous, &updb, JSON, "{\"password\":\"a good one\"}").expect(200);
}

#[test]
fn each_enroll_path_refuses() {
    let anonymous = shared().anonymous();
    let csr = Key::new().request();
    let mut all = Differences::default();
    for path in ["ott", "ottca", "erott"] {
        for (token, expected) in [
            ("no-uuid", Expected::Field("token")),
            (UNKNOWN, code("INVALID_ENROLLMENT_TOKEN")),
        ] {
            let body = json!({ "token": token, "clientCsr": csr, "serverCsr": csr });
            all.check(
                token,
                &anonymous.post(&format!("/enroll/{path}"), body),
                expected,
            );
        }
        all.check(
            "no token",
            &anonymous.post(&format!("/enroll/{path}"), json!({})),
            code("INVALID_ENROLLMENT_TOKEN"),
        );
    }
    let password = json!({ "username": "somebody", "password": "a good one" });
    all.check(
        "unknown",
        &anonymous.post(&format!("/enroll/updb?token={UNKNOWN}"), password.clone()),
        code("INVALID_ENROLLMENT_TOKEN"),
    );
    all.check(
        "no token",
        &anonymous.post("/enroll/updb", password),
        Expected::Field("token"),
    );
    // A token of another method.
    let ott = token(shared(), "ott", json!(true));
    all.check(
        "of ott",
        &anonymous.post("/enroll/ottca", json!({ "token": ott })),
        code("INVALID_ENROLLMENT_TOKEN"),
    );
    let uuid = json!({ "keyId": "none", "nonce": "no-uuid" });
    all.check(
        "no uuid",
        &anonymous.post("/enroll/challenge", uuid),
        Expected::Field("nonce"),
    );
    all.check(
        "no key",
        &anonymous.post(
            "/enroll/challenge",
            json!({ "keyId": "none", "nonce": UNKNOWN }),
        ),
        Expected::Field("keyId"),
    );
}

#[test]
fn router_requests_must_name_the_router() {
    let server = shared();
    let anonymous = server.anonymous();
    let (key, mut all) = (Key::new(), Differences::default());
    for (kind, method) in [("edge-routers", "erott"), ("transit-routers", "trott")] {
        let id = server
            .admin
            .post(&format!("/{kind}"), json!({ "name": fresh("router") }))
            .expect(201)
            .id();
        let shown = server.admin.get(&format!("/{kind}/{id}")).expect(200);
        let token = shown.data()["enrollmentToken"].as_str().unwrap();
        let (own, other) = (key.request_as(&id), key.request_as("another"));
        let pair = |client: &Json, server: &Json| {
            json!({ "certCsr": client, "serverCertCsr": server }).to_string()
        };
        let (good, blank) = (json!(own), json!(""));
        for (media, body, expected) in [
            (JSON, "{}".to_owned(), code("MISSING_OR_INVALID_CSR")),
            (
                JSON,
                json!({ "certCsr": own }).to_string(),
                code("MISSING_OR_INVALID_CSR"),
            ),
            (JSON, pair(&json!(5), &good), code("MISSING_OR_INVALID_CSR")),
            (TEXT, own.clone(), code("MISSING_OR_INVALID_CSR")),
            (JSON, pair(&blank, &good), code("COULD_NOT_PROCESS_CSR")),
            (
                JSON,
                pair(&good, &json!("no request")),
                code("COULD_NOT_PROCESS_CSR"),
            ),
        ] {
            all.check(&body, &redeem(&anonymous, token, media, &body), expected);
        }
        if method == "erott" {
            all.check(
                "another's",
                &redeem(&anonymous, token, JSON, &pair(&json!(other), &good)),
                code("COULD_NOT_PROCESS_CSR"),
            );
        }
        let issued = redeem(&anonymous, token, JSON, &pair(&good, &good)).expect(200);
        let router = server.with_certificate(issued.data()["cert"].as_str().unwrap(), &key);
        let extend = |who: &Caller, client: &str| {
            who.post(
                "/enroll/extend/router",
                json!({ "certCsr": client, "serverCertCsr": own }),
            )
        };
        all.check(
            "nobody",
            &anonymous.post("/enroll/extend/router", json!({ "certCsr": own })),
            Expected::Field("serverCertCsr"),
        );
        assert_eq!(
            (
                extend(&anonymous, &own).status,
                extend(&anonymous, &own).code()
            ),
            (401, "UNAUTHORIZED")
        );
        if method == "erott" {
            let refused = extend(&router, &other).refused(400, "COULD_NOT_PROCESS_CSR", "");
            assert_eq!(
                refused.json["error"]["cause"]["code"], "EDGE_ROUTER_ENROLL_COMMON_NAME_INVALID",
                "{}",
                refused.text
            );
        }
        let refused = extend(&router, "no request").refused(400, "COULD_NOT_PROCESS_CSR", "");
        assert_eq!(
            refused.json["error"]["cause"]["code"], "COULD_NOT_PROCESS_CSR",
            "{}",
            refused.text
        );
        extend(&router, &own).expect(200);
    }
}

#[test]
fn foreign_certificates_are_refused_with_reason() {
    let server = TestServer::with_manual_clock();
    let anonymous = server.anonymous();
    let key = Key::new();
    let mut all = Differences::default();
    let auto = |who: &Caller| who.ask("POST", "/enroll?method=ca").send();
    all.check(
        "no authority",
        &auto(&anonymous),
        code("ENROLLMENT_NO_VALID_CAS"),
    );

    let (authority, stranger) = (Authority::new("ours"), Authority::new("stranger"));
    let ca = server.add_ca(&authority);
    let with = |by: &Authority, name: &str| server.with_certificate(&by.issue(name, &key), &key);
    all.check(
        "no certificate",
        &auto(&anonymous),
        code("CERT_FAILED_VALIDATION"),
    );
    all.check(
        "a stranger's",
        &auto(&with(&stranger, "ann")),
        code("CERT_FAILED_VALIDATION"),
    );
    let waiting = token(&server, "ottca", json!(ca));
    let ottca = |who: &Caller| redeem(who, &waiting, JSON, "");
    all.check(
        "no certificate",
        &ottca(&anonymous),
        code("CERT_FAILED_VALIDATION"),
    );
    all.check(
        "a stranger's",
        &ottca(&with(&stranger, "ann")),
        code("CERT_FAILED_VALIDATION"),
    );

    let claim = |location: &str| json!({ "location": location, "matcher": "ALL", "matcherCriteria": "", "parser": "NONE", "parserCriteria": "", "index": 0 });
    server
        .admin
        .patch(
            &format!("/cas/{ca}"),
            json!({ "externalIdClaim": claim("SAN_EMAIL") }),
        )
        .expect(200);
    all.check(
        "no address in it",
        &auto(&with(&authority, "ann")),
        code("MISSING_CERT_CLAIM"),
    );
    server
        .admin
        .patch(
            &format!("/cas/{ca}"),
            json!({ "isOttCaEnrollmentEnabled": false }),
        )
        .expect(200);
    all.check(
        "not by this authority",
        &ottca(&with(&authority, "ann")),
        code("ENROLLMENT_CA_NOT_VALID"),
    );
    server
        .admin
        .patch(
            &format!("/cas/{ca}"),
            json!({ "isOttCaEnrollmentEnabled": true, "isAutoCaEnrollmentEnabled": false }),
        )
        .expect(200);
    all.check(
        "not by itself",
        &auto(&with(&authority, "ann")),
        code("CERT_FAILED_VALIDATION"),
    );

    let ann = with(&authority, "ann");
    ottca(&ann).expect(200);
    let again =
        redeem(&ann, &token(&server, "ottca", json!(ca)), JSON, "").refused(409, "CERT_IN_USE", "");
    let cause = &again.json["error"]["cause"];
    assert!(
        cause["data"]["fingerprint"]
            .as_str()
            .is_some_and(|print| print.len() == 40),
        "{}",
        again.text
    );

    let late = token(&server, "ott", json!(true));
    server.clock.advance(Duration::from_secs(3 * 60 * 60 + 1));
    all.check(
        "too late",
        &redeem(&anonymous, &late, TEXT, &key.request()),
        code("ENROLLMENT_EXPIRED"),
    );
}

#[test]
fn equal_names_become_distinct_identities() {
    let (server, authority) = (TestServer::start(), Authority::new("fleet"));
    let ca = server.add_ca(&authority);
    let by_name = json!({
        "name": "fleet", "isAuthEnabled": true, "isAutoCaEnrollmentEnabled": true, "isOttCaEnrollmentEnabled": true, "identityRoles": [],
        "identityNameFormat": "[commonName]"
    });
    server.admin.put(&format!("/cas/{ca}"), by_name).expect(200);
    let enroll = || {
        let key = Key::new();
        server
            .with_certificate(&authority.issue("truck", &key), &key)
            .ask("POST", "/enroll?method=ca")
            .send()
            .expect(200);
    };
    (0..9).for_each(|_| enroll());
    // A number is appended to a name that exists, as clients expect, up to a maximum length.
    let numbers = ["", "000001", "000002", "000003", "000004", "000005"];
    let longest = format!("truck{}", numbers.concat());
    let mut expected: Vec<String> = (0..6)
        .map(|many| format!("truck{}", numbers[..=many].concat()))
        .collect();
    expected.extend([1, 2, 3].map(|number| format!("{longest}{number:06}")));
    let found = server
        .admin
        .list("/identities", "name contains \"truck\" sort by name", "")
        .expect(200);
    assert_eq!(found.each("name"), expected);
}

#[test]
fn authority_proof_needs_its_key() {
    let server = shared();
    let (authority, stranger) = (Authority::new("proven"), Authority::new("stranger"));
    let body = json!({
        "name": fresh("authority"), "certPem": authority.pem(), "isAuthEnabled": true, "isAutoCaEnrollmentEnabled": true,
        "isOttCaEnrollmentEnabled": true, "identityRoles": []
    });
    let ca = server.admin.post("/cas", body).expect(201).id();
    let shown = server.admin.get(&format!("/cas/{ca}")).expect(200);
    let name = shown.data()["verificationToken"].as_str().unwrap();
    let prove = |text: &str| {
        server
            .admin
            .ask("POST", &format!("/cas/{ca}/verify"))
            .body(TEXT, text)
            .send()
    };
    let block = |label: &str, inside: &str| {
        format!("-----BEGIN {label}-----\n{inside}\n-----END {label}-----\n")
    };
    let key = Key::new();
    let mut all = Differences::default();
    for (proof, expected) in [
        ("no certificate".to_owned(), Expected::Unread),
        (block("CERTIFICATE", "!"), Expected::Unread),
        (key.request(), code("EXPECTED_PEM_CERTIFICATE")),
        (
            block("CERTIFICATE", "bm8gREVSIGF0IGFsbA=="),
            code("COULD_NOT_PARSE_DER_BLOCK"),
        ),
        (authority.pem(), code("INVALID_COMMON_NAME")),
        (
            authority.issue(&format!("{name}x"), &key),
            code("INVALID_COMMON_NAME"),
        ),
        (
            stranger.issue(name, &key),
            code("CERTIFICATE_FAILED_VALIDATION"),
        ),
    ] {
        all.check(&proof, &prove(&proof), expected);
    }
    let proof = format!(
        "words in front are passed over\n{}",
        authority.issue(name, &key)
    );
    let preview = server
        .admin
        .ask("POST", &format!("/cas/{ca}/verify?preview=true"))
        .body(TEXT, proof.as_str())
        .send()
        .expect(200);
    assert_eq!(preview.data()["dial"]["gained"]["pairs"], 0);
    assert_eq!(
        server.admin.get(&format!("/cas/{ca}")).expect(200).data()["isVerified"],
        false
    );
    prove(&proof).expect(200);
}
