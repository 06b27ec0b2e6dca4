//! The requirements on certificates above a leaf, in every code path that verifies a chain, and
//! when a leaf is invalid regardless of its issuer.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    sync::{Arc, LazyLock, mpsc},
    thread,
    time::Duration as Wait,
};

use pki::{Certificate, CertificatePurpose, Error, LeafDates, ServerVerifier, Verification};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DnType, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    client::danger::ServerCertVerifier,
    crypto::ring,
    pki_types::{PrivateKeyDer, ServerName, UnixTime},
};
use serde_json::json;
use tempfile::TempDir;
use time::{Duration, OffsetDateTime};

use crate::{
    harness::{Authority, Key, Program, command, fresh, shared},
    second_factors::{claims, signer},
};

static NOW: LazyLock<OffsetDateTime> = LazyLock::new(OffsetDateTime::now_utc);
const KEY_USAGE: &[u64] = &[2, 5, 29, 15];
const CA: IsCa = IsCa::Ca(BasicConstraints::Unconstrained);

type Signer = CertifiedIssuer<'static, KeyPair>;

fn params(name: &str, is_ca: IsCa, change: impl Fn(&mut CertificateParams)) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = is_ca;
    params.not_before = *NOW - Duration::DAY;
    params.not_after = *NOW + Duration::DAY;
    change(&mut params);
    params
}

fn root(change: impl Fn(&mut CertificateParams)) -> Signer {
    CertifiedIssuer::self_signed(params("root", CA, change), KeyPair::generate().unwrap()).unwrap()
}

fn below(by: &Signer, name: &str, is_ca: IsCa, change: impl Fn(&mut CertificateParams)) -> Signer {
    CertifiedIssuer::signed_by(
        params(name, is_ca, change),
        KeyPair::generate().unwrap(),
        by,
    )
    .unwrap()
}

fn leaf(by: &Signer, change: impl Fn(&mut CertificateParams)) -> Certificate {
    read(&below(by, "leaf", IsCa::NoCa, change))
}

fn read(certificate: &Signer) -> Certificate {
    Certificate::from_der(certificate.as_ref().der()).unwrap()
}

fn extension(oid: &[u64], critical: bool, content: &[u8]) -> CustomExtension {
    let mut extension = CustomExtension::from_oid_content(oid, content.to_vec());
    extension.set_criticality(critical);
    extension
}

fn judged(
    anchor: &Certificate,
    presented: &[Certificate],
    known: &[Certificate],
    leaf_dates: LeafDates,
) -> Result<(), Error> {
    let (anchors, now) = (std::slice::from_ref(anchor), NOW.unix_timestamp());
    Verification {
        anchors,
        intermediates: known,
        now,
        purpose: CertificatePurpose::Any,
        leaf_dates,
    }
    .anchor_of(presented)
    .map(drop)
}

/// A change to a CA certificate, whether it may still sign, and its description.
type Change = (fn(&mut CertificateParams), bool, &'static str);

const CHANGES: [Change; 9] = [
    (|_| (), true, "no key usage"),
    (
        |ca| ca.key_usages = vec![KeyUsagePurpose::KeyCertSign],
        true,
        "keyCertSign",
    ),
    (
        |ca| ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign],
        true,
        "keyCertSign among others",
    ),
    (
        |ca| ca.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::CrlSign],
        false,
        "no keyCertSign",
    ),
    (
        |ca| {
            ca.custom_extensions
                .push(extension(KEY_USAGE, false, &[5, 0]))
        },
        false,
        "a key usage that cannot be read",
    ),
    (
        |ca| {
            ca.custom_extensions
                .push(extension(&[1, 2, 3, 4], true, &[5, 0]))
        },
        false,
        "an unknown critical extension",
    ),
    (
        |ca| {
            ca.custom_extensions
                .push(extension(&[2, 5, 29, 99], true, &[5, 0]))
        },
        false,
        "an unknown critical extension of X.509",
    ),
    (
        |ca| {
            ca.custom_extensions
                .push(extension(&[1, 2, 3, 4], false, &[5, 0]))
        },
        true,
        "an unknown extension that is not critical",
    ),
    (|ca| ca.is_ca = IsCa::ExplicitNoCa, false, "no authority"),
];

/// A change to a leaf, how its dates are judged, and its description.
type Way = (fn(&mut CertificateParams), LeafDates, &'static str);

/// The paths differ: webpki verifies an ordinary leaf, our own code an expired leaf and a leaf that
/// is itself a CA certificate.
#[test]
fn issuers_need_permission_to_sign() {
    let ways: [Way; 3] = [
        (|_| (), LeafDates::Enforce, "a leaf"),
        (
            |leaf| leaf.not_after = *NOW - Duration::HOUR,
            LeafDates::Ignore,
            "a leaf that has expired",
        ),
        (
            |leaf| leaf.is_ca = CA,
            LeafDates::Enforce,
            "an authority's certificate as the leaf",
        ),
    ];
    for (of_leaf, dates, way) in ways {
        for (change, may, what) in CHANGES {
            let expected = if may { Ok(()) } else { Err(Error::Untrusted) };
            let top = root(|_| ());
            let between = below(&top, "between", CA, change);
            let (leaf_between, between) = (leaf(&between, of_leaf), read(&between));
            let chain = [leaf_between.clone(), between.clone()];
            assert_eq!(
                judged(&read(&top), &chain, &[], dates),
                expected,
                "{way} below an intermediate with {what}"
            );
            let known = std::slice::from_ref(&between);
            assert_eq!(
                judged(&read(&top), &chain[..1], known, dates),
                expected,
                "{way} below a known one with {what}"
            );
            assert_eq!(
                judged(&between, &chain[..1], &[], dates),
                expected,
                "{way} below a trusted one with {what}"
            );
            let odd = root(change);
            assert_eq!(
                judged(&read(&odd), &[leaf(&odd, of_leaf)], &[], dates),
                expected,
                "{way} below a root with {what}"
            );
            let deep = below(&odd, "between", CA, |_| ());
            let chain = [leaf(&deep, of_leaf), read(&deep)];
            assert_eq!(
                judged(&read(&odd), &chain, &[], dates),
                expected,
                "{way} two below a root with {what}"
            );
        }
    }
}

#[test]
fn future_leaf_is_always_refused() {
    let top = root(|_| ());
    for is_ca in [IsCa::NoCa, CA] {
        let later = leaf(&top, |leaf| {
            (leaf.not_before, leaf.is_ca) = (*NOW + Duration::HOUR, is_ca)
        });
        let earlier = leaf(&top, |leaf| {
            (leaf.not_after, leaf.is_ca) = (*NOW - Duration::HOUR, is_ca)
        });
        for dates in [LeafDates::Enforce, LeafDates::Ignore] {
            assert_eq!(
                judged(&read(&top), std::slice::from_ref(&later), &[], dates),
                Err(Error::Expired),
                "{is_ca:?} {dates:?}"
            );
        }
        assert_eq!(
            judged(&read(&top), &[earlier], &[], LeafDates::Ignore),
            Ok(()),
            "{is_ca:?}"
        );
    }
}

/// The leaf is signed by an intermediate. Its certificate authority is verified and allows its
/// holder.
#[test]
fn non_signing_intermediates_admit_nobody() {
    let (server, authority) = (shared(), Authority::new("partner"));
    server.add_ca(&authority);
    for (usages, may) in [
        (vec![KeyUsagePurpose::KeyCertSign], true),
        (vec![KeyUsagePurpose::DigitalSignature], false),
    ] {
        let (between, key) = (authority.intermediate("between", usages), Key::new());
        let (name, newcomer) = (fresh("known"), fresh("newcomer"));
        server.identity(&name, json!({ "isAdmin": true, "externalId": name }));
        let chain = |name: &str| format!("{}{}", between.issue(name, &key), between.pem());
        let log_in = server
            .with_certificate(&chain(&name), &key)
            .ask("POST", "/authenticate?method=cert")
            .send();
        let enroll = server
            .with_certificate(&chain(&newcomer), &key)
            .ask("POST", "/enroll?method=ca")
            .send();
        if may {
            log_in.expect(200);
            enroll.expect(200);
        } else {
            log_in.refused(401, "INVALID_AUTH", "");
            enroll.refused(400, "CERT_FAILED_VALIDATION", "");
        }
    }
}

#[test]
fn future_certificate_admits_nobody() {
    let (server, authority, key) = (shared(), Authority::new("partner"), Key::new());
    server.add_ca(&authority);
    let name = fresh("early");
    server.identity(&name, json!({ "externalId": name }));
    let policy = server.admin.get("/auth-policies/default").expect(200);
    assert_eq!(
        policy.data()["primary"]["cert"]["allowExpiredCerts"],
        true,
        "expired certificates must be allowed, so that only the start date is tested"
    );
    server
        .with_certificate(&authority.issue_ended(&name, &key), &key)
        .log_in_by_certificate();
    let early = server.with_certificate(
        &authority.issue_from(&name, &key, *NOW + Duration::DAY),
        &key,
    );
    early
        .ask("POST", "/authenticate?method=cert")
        .send()
        .refused(401, "INVALID_AUTH", "");

    let (id, service) = (
        server.identity(&fresh("early"), json!({})),
        server.service(&fresh("service"), json!({})),
    );
    let held = authority.issue_from(" ", &key, *NOW + Duration::DAY);
    server
        .admin
        .post(
            "/authenticators",
            json!({ "method": "cert", "identityId": id, "certPem": held }),
        )
        .expect(201);
    let why = server
        .admin
        .get(&format!(
            "/overkeep/v1/explain?identity={id}&service={service}&type=Dial"
        ))
        .expect(200);
    assert!(why.text.contains("is not valid before"), "{}", why.text);
}

/// A leaf for a server on this host.
fn server(by: &Signer) -> Signer {
    let names = |leaf: &mut CertificateParams| {
        leaf.subject_alt_names
            .push(rcgen::SanType::IpAddress([127, 0, 0, 1].into()))
    };
    below(by, "server", IsCa::NoCa, names)
}

#[test]
fn servers_below_non_issuers_are_refused() {
    let names = ServerName::try_from("127.0.0.1").unwrap();
    let now = UnixTime::since_unix_epoch(Wait::from_secs(NOW.unix_timestamp().unsigned_abs()));
    for (change, may_sign, what) in CHANGES {
        let plain = root(|_| ());
        let between = below(&plain, "between", CA, change);
        let judge = |trusted: &Signer, leaf: &Signer, between: &[&Signer]| {
            let between: Vec<_> = between
                .iter()
                .map(|between| between.as_ref().der().clone())
                .collect();
            let verifier = ServerVerifier::new(&[trusted.as_ref().der().clone()]);
            verifier
                .verify_server_cert(leaf.as_ref().der(), &between, &names, &[], now)
                .is_ok()
        };
        assert_eq!(
            judge(&plain, &server(&between), &[&between]),
            may_sign,
            "below {what}"
        );
        let (own, stranger) = (root(|_| ()), below(&plain, "elsewhere", IsCa::NoCa, |_| ()));
        assert!(
            judge(&plain, &server(&plain), &[]) && !judge(&own, &server(&plain), &[]),
            "another root"
        );
        assert!(!judge(&plain, &stranger, &[]), "another name");
    }
    let silent = root(|ca| ca.key_usages = vec![KeyUsagePurpose::CrlSign]);
    let verifier = ServerVerifier::new(&[silent.as_ref().der().clone()]);
    assert!(
        verifier
            .verify_server_cert(server(&silent).as_ref().der(), &[], &names, &[], now)
            .is_err(),
        "a root that signs nothing"
    );
}

/// A JWKS endpoint below an authority. Reports for each connection whether a request arrived.
fn endpoint(between: &Signer) -> (String, mpsc::Receiver<bool>) {
    let leaf = server(between);
    let key = PrivateKeyDer::try_from(leaf.key().serialize_der()).unwrap();
    let chain = vec![leaf.as_ref().der().clone(), between.as_ref().der().clone()];
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = Arc::new(
        config
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap(),
    );
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/keys", listener.local_addr().unwrap());
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let mut stream =
                StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), socket);
            let mut asked = [0; 4096];
            let bytes = stream.read(&mut asked).unwrap_or_default();
            stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 11\r\n\r\n{\"keys\":[]}").ok();
            tell.send(asked[..bytes].starts_with(b"GET /keys")).ok();
        }
    });
    (url, told)
}

/// A change to an intermediate, and whether it may sign.
type Intermediate = (fn(&mut CertificateParams), bool);

#[test]
fn key_sets_come_from_trusted_servers() {
    let (place, plain) = (TempDir::new().unwrap(), root(|_| ()));
    fs::write(place.path().join("roots.pem"), plain.as_ref().pem()).unwrap();
    let mut command = command(place.path());
    command
        .env("SSL_CERT_FILE", place.path().join("roots.pem"))
        .env_remove("SSL_CERT_DIR");
    let program = Program::of(command.spawn().unwrap()).expect("the program reports its address");
    let admin = program.admin();
    let idp = signer();
    let ways: [Intermediate; 2] = [
        (|_| (), true),
        (
            |ca| ca.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::CrlSign],
            false,
        ),
    ];
    for (change, may_sign) in ways {
        let (url, told) = endpoint(&below(&plain, "between", CA, change));
        let issuer = fresh("https://idp");
        let body = json!({ "name": fresh("idp"), "enabled": true, "issuer": issuer, "audience": "overlay", "jwksEndpoint": url });
        admin.post("/external-jwt-signers", body).expect(201);
        let mut claims = claims();
        claims["iss"] = issuer.into();
        let bearer = format!("Bearer {}", idp.token(&claims));
        let anonymous = crate::harness::trusting(&program.url);
        anonymous
            .ask("POST", "/authenticate?method=ext-jwt")
            .header("authorization", &bearer)
            .json(&json!({}))
            .send()
            .expect(401);
        assert_eq!(
            told.recv_timeout(Wait::from_secs(20)),
            Ok(may_sign),
            "whether the key set was requested"
        );
    }
}
