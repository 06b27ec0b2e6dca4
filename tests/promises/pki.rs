//! Keys, requests, certificates, chains, tokens and TLS, compared with the `openssl` program
//! wherever a format is shared.

use pki::{
    AlternativeNames, Authority, Certificate, CertificatePurpose, Csr, Derivation, Error, KeyKind,
    KeyedCertificate, LeafDates, Material, Passphrase, PrivateKey, Validity, Verification,
    bundle_pem, certificates_only, certificates_only_base64, chain_pem,
    jwt::{self, Signer, Verifier},
    tls::{ServerLeaf, server_config},
};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::SystemTime;

use crate::harness::{ED25519, OpensslDirectory, P256, P384, RSA};

const DAY: i64 = 24 * 60 * 60;
const YEAR: i64 = 365 * DAY;

fn now() -> i64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs()
        .try_into()
        .unwrap()
}

fn hosts() -> AlternativeNames {
    AlternativeNames::of_hosts(["ctrl.test", "127.0.0.1", "[::1]"])
}

fn material() -> Material {
    Material::generate(&hosts(), now()).unwrap()
}

fn client(authority: &Authority, csr: &str, validity: Validity) -> Certificate {
    authority
        .issue_client(
            &Csr::parse(csr).unwrap(),
            &AlternativeNames::default(),
            validity,
        )
        .unwrap()
}

// -- requests
// ------------------------------------------------------------------------------------------------------------

#[test]
fn usual_requests_yield_valid_certificates() {
    let (context, material) = (OpensslDirectory::new(), material());
    let authority = Authority::open(&material).unwrap();
    let rsa_3072: &[&str] = &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:3072"];
    for (kind, digests) in [
        (P256, &["-sha256", "-sha384", "-sha512"][..]),
        (P384, &["-sha256", "-sha384", "-sha512"]),
        (RSA, &["-sha256", "-sha512"]),
    ]
    .into_iter()
    .chain([(rsa_3072, &["-sha384"][..]), (ED25519, &["-sha256"])])
    {
        let key = context.key("k", kind);
        for digest in digests {
            let made = client(
                &authority,
                &context.csr(&key, "/O=Kit/CN=one", &[digest]),
                Validity::years(1, now()),
            );
            assert!(
                context.verifies(&made, &material, "sslclient"),
                "{kind:?} {digest}"
            );
            assert_eq!(
                context.shows(&made, &["-pubkey"]),
                context
                    .openssl(&["pkey", "-in", &key, "-pubout"], "")
                    .trim(),
                "{kind:?} {digest}"
            );
        }
    }
}

#[test]
fn weak_requests_are_refused() {
    let context = OpensslDirectory::new();
    let curve = |name: &str| {
        let key = context.key(
            name,
            &[
                "-algorithm",
                "EC",
                "-pkeyopt",
                &format!("ec_paramgen_curve:{name}"),
            ],
        );
        context.csr(&key, "/CN=x", &["-sha256"])
    };
    for name in ["P-224", "P-521", "secp256k1", "brainpoolP256r1"] {
        assert_eq!(
            Csr::parse(&curve(name)).unwrap_err(),
            Error::Unsupported(format!("a key on the curve {name}").into())
        );
    }
    let other = Csr::parse(&curve("sect283k1")).unwrap_err();
    assert_eq!(
        other,
        Error::Unsupported("a key of the algorithm 1.3.132.0.16".into())
    );
    let short = context.key(
        "short",
        &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"],
    );
    for digest in ["-sha1", "-sha256"] {
        assert!(
            matches!(
                Csr::parse(&context.csr(&short, "/CN=x", &[digest])),
                Err(Error::Csr(_))
            ),
            "RSA 1024 {digest}"
        );
    }
    for (name, kind) in [("ECDSA", P256), ("RSA", RSA)] {
        for hash in [
            "SHA-1", "SHA-224", "SHA3-224", "SHA3-256", "SHA3-384", "SHA3-512",
        ] {
            let digest = format!("-{}", hash.to_lowercase().replace("sha-", "sha"));
            let csr = context.csr(&context.key(name, kind), "/CN=x", &[&digest]);
            assert_eq!(
                Csr::parse(&csr).unwrap_err(),
                Error::Unsupported(format!("a signature with {name} and {hash}").into())
            );
        }
    }
    let pss = context.csr(
        &context.key(
            "pss",
            &["-algorithm", "RSA-PSS", "-pkeyopt", "rsa_keygen_bits:2048"],
        ),
        "/CN=x",
        &[],
    );
    assert!(matches!(Csr::parse(&pss), Err(Error::Unsupported(_))));
}

#[test]
fn requests_are_one_pem_block() {
    let context = OpensslDirectory::new();
    let key = context.key("k", P256);
    let good = context.csr(&key, "/O=Kit/CN=good", &[]);
    let der = pem::parse(&good).unwrap().into_contents();
    let wrap = |der: &[u8]| pem::encode(&pem::Pem::new("CERTIFICATE REQUEST", der));
    for accepted in [
        good.clone(),
        format!("something in front of it\n{good}"),
        good.replace('\n', "\r\n"),
        format!("{good}\n \r\n\t\n"),
        good.replace("CERTIFICATE REQUEST", "CERTIFICATE"),
        good.replace("CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"),
    ] {
        assert_eq!(
            Csr::parse(&accepted)
                .unwrap()
                .subject()
                .common_name()
                .as_deref(),
            Some("good"),
            "{accepted}"
        );
    }
    let own = Material::generate(&hosts(), now()).unwrap();
    for (refused, why) in [
        (String::new(), Error::NoPem),
        ("no request at all".into(), Error::NoPem),
        (good.lines().nth(1).unwrap().into(), Error::NoPem),
        (
            "-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n".into(),
            Error::BadDer,
        ),
        (wrap(b"no DER"), Error::BadDer),
        (wrap(&der[..der.len() - 10]), Error::BadDer),
        (wrap(&[&der[..], b"trailing"].concat()), Error::BadDer),
        (format!("{good}{good}"), Error::Trailing),
        (format!("{good}something behind it"), Error::Trailing),
        (std::fs::read_to_string(&key).unwrap(), Error::BadDer),
        (own.root.certificate, Error::BadDer),
    ] {
        assert_eq!(Csr::parse(&refused).unwrap_err(), why, "{refused}");
    }
}

#[test]
fn changed_requests_are_refused() {
    let context = OpensslDirectory::new();
    for (kind, digest, step) in [
        (P256, "-sha256", 1),
        (P256, "-sha512", 7),
        (P384, "-sha512", 41),
        (RSA, "-sha256", 3),
        (ED25519, "-sha256", 1),
    ] {
        let good = pem::parse(context.csr(&context.key("k", kind), "/CN=good", &[digest]))
            .unwrap()
            .into_contents();
        for at in (0..good.len()).step_by(step) {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            let text = pem::encode(&pem::Pem::new("CERTIFICATE REQUEST", bad));
            assert!(
                Csr::parse(&text).is_err(),
                "{kind:?} {digest}: byte {at} of {}",
                good.len()
            );
        }
    }
}

/// Authorities and leaves that are signed with SHA-512 on both curves, verified by webpki and on
/// the own path.
#[test]
fn sha512_certificates_are_verified() {
    let context = OpensslDirectory::new();
    for (kind, other) in [(P256, P384), (P384, P256)] {
        let (ca_key, between_key) = (
            context.key("ca.key", kind),
            context.key("between.key", other),
        );
        let authority = |more: &[&str]| {
            let args = [
                "req",
                "-x509",
                "-new",
                "-sha512",
                "-days",
                "2",
                "-addext",
                "keyUsage=critical,keyCertSign",
            ];
            context.openssl(&[&args[..], more].concat(), "")
        };
        let root = authority(&["-key", &ca_key, "-subj", "/CN=root"]);
        let root_path = context.put("ca.pem", &root);
        let between = authority(&[
            "-key",
            &between_key,
            "-subj",
            "/CN=between",
            "-CA",
            &root_path,
            "-CAkey",
            &ca_key,
        ]);
        let between_path = context.put("between.pem", &between);
        let issued = |name: &str, version_3: bool| {
            let csr = context.csr(&context.key("leaf.key", P256), &format!("/CN={name}"), &[]);
            let extensions = context.put("extensions", "extendedKeyUsage=clientAuth");
            let mut args = vec![
                "x509",
                "-req",
                "-sha512",
                "-days",
                "1",
                "-CA",
                &between_path,
                "-CAkey",
                &between_key,
                "-set_serial",
                "7",
            ];
            if version_3 {
                args.extend(["-extfile", &extensions]);
            }
            Certificate::only(&context.openssl(&args, csr)).unwrap()
        };
        let anchors = [Certificate::only(&root).unwrap()];
        let between = Certificate::only(&between).unwrap();
        for version_3 in [true, false] {
            let verification = Verification {
                anchors: &anchors,
                intermediates: &[],
                now: now() + 60,
                purpose: CertificatePurpose::Client,
                leaf_dates: LeafDates::Enforce,
            };
            let leaf = issued("leaf", version_3);
            let verified = verification.anchor_of(&[leaf.clone(), between.clone()]);
            assert!(
                verified.is_ok(),
                "{kind:?}, version 3: {version_3}: {verified:?}"
            );
            // A signature that was changed is not accepted.
            let mut der = leaf.der().to_vec();
            let last = der.len() - 1;
            der[last] ^= 1;
            assert!(
                verification
                    .anchor_of(&[Certificate::from_der(&der).unwrap(), between.clone()])
                    .is_err()
            );
        }
    }
}

// -- issued certificates
// -------------------------------------------------------------------------------------------------

#[test]
fn identity_certificates_take_subject_and_key() {
    let (context, material) = (OpensslDirectory::new(), material());
    let authority = Authority::open(&material).unwrap();
    let wants = [
        "-addext",
        "basicConstraints=critical,CA:TRUE",
        "-addext",
        "keyUsage=critical,keyCertSign",
        "-addext",
        "extendedKeyUsage=serverAuth",
        "-addext",
        "subjectAltName=DNS:evil.test",
        "-addext",
        "subjectKeyIdentifier=hash",
    ];
    let made = client(
        &authority,
        &context.csr(&context.key("k", P256), "/CN=x", &wants),
        Validity::years(1, now()),
    );
    assert!(!made.is_ca() && made.names().is_empty());
    let expected = [
        ("basicConstraints", ""),
        ("subjectAltName", ""),
        ("subjectKeyIdentifier", ""),
        ("extendedKeyUsage", "TLS Web Client Authentication"),
        (
            "keyUsage",
            "Digital Signature, Key Encipherment, Data Encipherment",
        ),
    ];
    for (name, value) in expected {
        assert_eq!(context.extension(&made, name), value, "{name}");
    }
    let signer = context.extension(authority.certificate(), "subjectKeyIdentifier");
    assert_eq!(context.extension(&made, "authorityKeyIdentifier"), signer);
    assert!(
        context.verifies(&made, &material, "sslclient")
            && !context.verifies(&made, &material, "sslserver")
    );
}

#[test]
fn router_certificates_have_requested_names() {
    let (context, material) = (OpensslDirectory::new(), material());
    let authority = Authority::open(&material).unwrap();
    let san = "subjectAltName=DNS:router.test,DNS:localhost,IP:127.0.0.1,IP:fe80::1,URI:tls://router.test,email:ops@router.test";
    let csr = Csr::parse(&context.csr(
        &context.key("k", RSA),
        "/O=Kit/CN=router",
        &["-addext", san],
    ))
    .unwrap();
    let year = Validity::years(1, now());
    let (client, server) = (
        authority.issue_client(&csr, csr.names(), year).unwrap(),
        authority.issue_server(&csr, csr.names(), year).unwrap(),
    );
    for made in [&client, &server] {
        assert_eq!(made.names(), csr.names());
        let shown = context.extension(made, "subjectAltName");
        for part in [
            "DNS:router.test",
            "IP Address:127.0.0.1",
            "FE80:0:0:0:0:0:0:1",
            "URI:tls://router.test",
            "email:ops@router.test",
        ] {
            assert!(shown.contains(part), "{shown}");
        }
    }
    assert!(
        context.verifies(&client, &material, "sslclient")
            && context.verifies(&server, &material, "sslserver")
    );
    assert_eq!(
        context.extension(&server, "extendedKeyUsage"),
        "TLS Web Server Authentication"
    );
    assert_ne!(
        context.shows(&client, &["-serial"]),
        context.shows(&server, &["-serial"]),
        "same key, different serials"
    );

    let renamed = authority
        .issue_client(
            &csr.with_common_name("router-id").unwrap(),
            client.names(),
            year,
        )
        .unwrap();
    assert_eq!(renamed.subject().to_string(), "CN=router-id,O=Kit");
    let next = authority
        .issue_client(
            &Csr::parse(&context.csr(&context.key("k2", P256), "/CN=n", &[])).unwrap(),
            client.names(),
            year,
        )
        .unwrap();
    assert_eq!(
        next.names(),
        client.names(),
        "an extension copies the names of the certificate before"
    );
}

#[test]
fn subjects_match_openssl() {
    let (context, material) = (OpensslDirectory::new(), material());
    let authority = Authority::open(&material).unwrap();
    let key = context.key("k", P256);
    for subject in [
        "/",
        "/C=US/ST=NC/L=Charlotte/O=One/OU=Unit/OU=Other/CN=one name",
        "/O=OpenZiti/DC=https:\\/\\/ctrl.test/CN=id",
        "/O=Škoda ÄÖ/CN=日本 device",
        "/CN=a, b+c \"d\" \\\\ <e>;#f/O=#g/OU= h ",
        "/O=x/CN=first/CN=last",
        "/emailAddress=a@b.test/CN=with mail",
    ] {
        let text = context.csr(&key, subject, &["-nameopt", "utf8"]);
        let made = client(&authority, &text, Validity::years(1, now()));
        assert_eq!(made.subject(), Csr::parse(&text).unwrap().subject());
        assert!(
            subject == "/" || context.verifies(&made, &material, "sslclient"),
            "{subject}"
        );
        if !subject.contains("emailAddress") {
            let shown = context.shows(&made, &["-subject", "-nameopt", "RFC2253,-esc_msb,utf8"]);
            assert_eq!(
                format!("subject={}", made.subject()),
                shown.replace("subject= ", "subject=")
            );
        }
    }
    let last = client(
        &authority,
        &context.csr(&key, "/CN=first/CN=last", &[]),
        Validity::years(1, now()),
    );
    assert_eq!(last.subject().common_name().as_deref(), Some("last"));
    let empty =
        Csr::parse(&context.csr(&key, "/", &["-addext", "subjectAltName=DNS:x.test"])).unwrap();
    let made = authority
        .issue_client(&empty, empty.names(), Validity::years(1, now()))
        .unwrap();
    assert!(
        made.subject().is_empty()
            && context
                .shows(&made, &["-text"])
                .contains("Alternative Name: critical"),
        "RFC 5280 section 4.2.1.6"
    );
}

#[test]
fn certificate_lifetimes_are_bounded() {
    let (context, material, start) = (OpensslDirectory::new(), material(), now());
    let authority = Authority::open(&material).unwrap();
    let csr = Csr::parse(&context.csr(
        &context.key("k", P256),
        "/O=OpenZiti/OU=ziti-sdk/CN=id-1",
        &["-addext", "subjectAltName=DNS:x.test"],
    ))
    .unwrap();
    let session = authority.issue_session(&csr, start).unwrap();
    assert_eq!(
        (session.not_before(), session.not_after()),
        (start, start + 12 * 60 * 60)
    );
    assert!(
        session.names().is_empty()
            && session.subject().to_string() == "CN=id-1,OU=ziti-sdk,O=OpenZiti"
    );
    let end = authority.certificate().not_after();
    assert_eq!(
        client_until(&authority, &csr, end - DAY)
            .unwrap()
            .not_after(),
        end
    );
    assert_eq!(
        client_until(&authority, &csr, end + DAY).unwrap_err(),
        Error::Expired
    );
}

fn client_until(authority: &Authority, csr: &Csr, now: i64) -> pki::Result<Certificate> {
    authority.issue_client(csr, csr.names(), Validity::years(1, now))
}

// -- material of the
// controller-------------------------------------------------------------------------------------------

#[test]
fn stored_material_serves() {
    let (context, made) = (OpensslDirectory::new(), material());
    let back: Material = serde_json::from_str(&serde_json::to_string(&made).unwrap()).unwrap();
    assert_eq!(back, made);
    let authority = Authority::open(&back).unwrap();
    let server = KeyedCertificate::open(&back.server).unwrap();
    assert!(context.verifies(server.certificate(), &back, "sslserver"));
    assert_eq!(
        context.extension(server.certificate(), "subjectAltName"),
        "DNS:ctrl.test, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1"
    );
    let [intermediate, root] = authority.cas() else {
        panic!("two authorities")
    };
    assert_eq!(
        (root.public_key().kind(), intermediate.public_key().kind()),
        (Ok(KeyKind::P384), Ok(KeyKind::P256))
    );
    let years = |certificate: &Certificate| (certificate.not_after() - now() + DAY) / YEAR;
    assert_eq!(
        (
            years(root),
            years(intermediate),
            years(server.certificate())
        ),
        (30, 10, 1)
    );
    assert_eq!(
        context.extension(intermediate, "basicConstraints"),
        "CA:TRUE, pathlen:0"
    );
    assert_eq!(
        context.extension(root, "keyUsage"),
        "Certificate Sign, CRL Sign"
    );
    assert!(
        root.is_self_issued()
            && root.is_signed_by(root)
            && intermediate.is_signed_by(root)
            && !root.is_signed_by(intermediate)
    );
}

#[test]
fn renewed_leaf_keeps_its_key() {
    let (context, at) = (OpensslDirectory::new(), now());
    let material = Material::generate(&hosts(), at).unwrap();
    let before = KeyedCertificate::open(&material.server).unwrap();
    let material = material
        .due(&AlternativeNames::of_hosts(["new.test"]), at + DAY)
        .unwrap()
        .unwrap();
    let after = KeyedCertificate::open(&material.server).unwrap();
    assert_eq!(
        after.certificate().public_key(),
        before.certificate().public_key()
    );
    assert_eq!(after.certificate().names().dns, ["new.test"]);
    assert_eq!(
        after.certificate().not_after(),
        before.certificate().not_after() + DAY
    );
    assert_ne!(
        after.certificate().fingerprint(),
        before.certificate().fingerprint()
    );
    assert_eq!(
        context
            .shows(after.certificate(), &["-ext", "extendedKeyUsage"])
            .matches("Authentication")
            .count(),
        2
    );
    assert_eq!(
        material.due(&AlternativeNames::of_hosts(["new.test"]), at + DAY),
        Ok(None),
        "it names all of them"
    );
    assert_eq!(
        material
            .due(&AlternativeNames::of_hosts(["bücher.test"]), now())
            .unwrap_err(),
        Error::BadName
    );
    assert_eq!(
        Material::generate(&AlternativeNames::default(), now()).unwrap_err(),
        Error::BadName
    );
}

/// SHA-1 fingerprints of the intermediate and the leaf.
fn fingerprints(material: &Material) -> [String; 2] {
    [&material.intermediate, &material.server]
        .map(|held| Certificate::only(&held.certificate).unwrap().fingerprint())
}

#[test]
fn certificates_are_renewed_in_time() {
    let start = now();
    let mut material = Material::generate(&hosts(), start).unwrap();
    let root = Certificate::only(&material.root.certificate).unwrap();
    let (mut leaves, mut intermediates, mut old) = (0, 0, Vec::new());
    for day in (0..30 * 365).step_by(61) {
        let at = start + day * DAY;
        if let Some(next) = material.due(&hosts(), at).unwrap() {
            let ([signed, leaf], [signs, next_leaf]) =
                (fingerprints(&material), fingerprints(&next));
            leaves += usize::from(leaf != next_leaf);
            intermediates += usize::from(signed != signs);
            old.push(Certificate::only(&material.server.certificate).unwrap());
            material = next;
            assert_eq!(
                material.due(&hosts(), at),
                Ok(None),
                "a second renewal right after is not due"
            );
        }
        let authority = Authority::open(&material).unwrap();
        let leaf = Certificate::only(&material.server.certificate).unwrap();
        assert!(
            leaf.valid_at(at) && authority.certificate().valid_at(at),
            "day {day}"
        );
        assert!(
            authority.certificate().not_after() >= at + YEAR
                || root.not_after() == authority.certificate().not_after()
        );
        let chain = Certificate::bundle(&chain_pem(&leaf, authority.cas())).unwrap();
        assert_eq!(chain, [leaf, authority.certificate().clone()]);
        assert!(chain[0].is_signed_by(&chain[1]) && chain[1].is_signed_by(&root));
    }
    assert!(leaves >= 40, "every eight months: {leaves}");
    assert_eq!(
        intermediates, 3,
        "after 6.7, 13.3 and 20 years; the last one ends with the root"
    );
    let key = KeyedCertificate::open(&material.server)
        .unwrap()
        .certificate()
        .public_key()
        .clone();
    assert!(
        old.iter().all(|leaf| *leaf.public_key() == key),
        "every leaf has the same key"
    );
}

#[test]
fn old_intermediate_certificates_stay_valid() {
    let (context, start) = (OpensslDirectory::new(), now());
    let before = Material::generate(&hosts(), start).unwrap();
    let old = Authority::open(&before).unwrap();
    let csr = context.csr(&context.key("k", P256), "/CN=x", &[]);
    let at = start + 7 * YEAR;
    let issued = client(&old, &csr, Validity::years(1, at));
    let after = before.due(&hosts(), at).unwrap().unwrap();
    let new = Authority::open(&after).unwrap();
    assert!(!new.has_issued(&Certificate::only(&before.root.certificate).unwrap()));
    let fresh = client(&new, &csr, Validity::years(1, at));
    assert_eq!(
        (
            new.has_issued(&issued),
            new.has_issued(&fresh),
            old.has_issued(&fresh)
        ),
        (true, true, false)
    );
    for alone in [&issued, &fresh] {
        let verify = Verification {
            anchors: new.cas(),
            intermediates: new.cas(),
            now: at,
            purpose: CertificatePurpose::Client,
            leaf_dates: LeafDates::Enforce,
        };
        assert!(verify.anchor_of(std::slice::from_ref(alone)).is_ok());
    }
    let names = |now: i64| {
        new.trusted(now)
            .map(Certificate::fingerprint)
            .collect::<Vec<_>>()
    };
    let [signs, root, retired] = new.cas() else {
        panic!("three authorities")
    };
    assert_eq!((retired, names(at).len()), (old.certificate(), 3));
    assert_eq!(
        names(retired.not_after() + 1),
        [signs.fingerprint(), root.fingerprint()]
    );
    assert!(
        !after.intermediate.key.is_empty()
            && !serde_json::to_string(&after)
                .unwrap()
                .contains(before.intermediate.key.lines().nth(1).unwrap())
    );
    let stored: Material = serde_json::from_str(&serde_json::to_string(&after).unwrap()).unwrap();
    assert_eq!(stored, after);
}

#[test]
fn wrong_clock_leaves_valid_certificates() {
    let start = now();
    let made = Material::generate(&hosts(), start).unwrap();
    assert_eq!(
        made.due(&hosts(), start - YEAR),
        Ok(None),
        "a clock before the first start is wrong and renews nothing"
    );
    for ahead in [2, 7, 12, 25] {
        let wrong = made.due(&hosts(), start + ahead * YEAR).unwrap().unwrap();
        let right = wrong.due(&hosts(), start + DAY).unwrap().unwrap();
        let authority = Authority::open(&right).unwrap();
        let leaf = Certificate::only(&right.server.certificate).unwrap();
        assert!(
            leaf.valid_at(start + DAY) && authority.certificate().valid_at(start + DAY),
            "{ahead} years ahead"
        );
        let first = Authority::open(&made).unwrap();
        assert!(
            authority.cas().contains(first.certificate()),
            "what the first one issued is still good"
        );
        assert_eq!(right.due(&hosts(), start + DAY), Ok(None));
    }
    // After a renewal the clock is set back by mistake: the next leaf is valid for clients with a
    // correct clock, too.
    let renewed = made.due(&hosts(), start + 9 * YEAR / 12).unwrap().unwrap();
    let behind = renewed.due(&hosts(), start + YEAR / 12).unwrap().unwrap();
    let leaf = Certificate::only(&behind.server.certificate).unwrap();
    assert!(leaf.valid_at(start + YEAR / 12) && leaf.valid_at(start + 20 * YEAR / 12));
}

#[test]
fn mismatched_material_is_refused() {
    let (made, other) = (material(), material());
    let open = |change: &dyn Fn(&mut Material)| {
        let mut changed = made.clone();
        change(&mut changed);
        Authority::open(&changed).unwrap_err()
    };
    assert_eq!(
        open(&|m| m.intermediate.key = other.intermediate.key.clone()),
        Error::KeyMismatch
    );
    assert_eq!(open(&|m| m.intermediate = m.server.clone()), Error::NotACa);
    assert_eq!(open(&|m| m.root = other.root.clone()), Error::Untrusted);
    assert_eq!(open(&|m| m.intermediate.key.clear()), Error::NoPem);
    assert_eq!(
        open(&|m| m.intermediate.certificate = m.intermediate.key.to_string()),
        Error::WrongBlock
    );
}

#[test]
fn keys_of_all_tools_are_read() {
    let context = OpensslDirectory::new();
    for (program, kind, label) in [("ec", P256, "EC"), ("ec", P384, "EC"), ("rsa", RSA, "RSA")] {
        let file = context.key("k", kind);
        let new = PrivateKey::from_pem(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let more: &[&str] = if label == "RSA" {
            &["-traditional"]
        } else {
            &[]
        };
        let old = context.openssl(&[&[program, "-in", &file], more].concat(), "");
        assert!(old.contains(&format!("BEGIN {label} PRIVATE KEY")), "{old}");
        assert_eq!(PrivateKey::from_pem(&old).unwrap().public(), new.public());
        let locked = context.openssl(
            &[
                &[program, "-in", &file, "-aes128", "-passout", "pass:secret"],
                more,
            ]
            .concat(),
            "",
        );
        assert_eq!(
            PrivateKey::from_pem(&locked).unwrap_err(),
            Error::BadKey,
            "an encrypted key is rejected"
        );
    }
    let with_parameters = context.openssl(&["ecparam", "-name", "prime256v1", "-genkey"], "");
    assert!(with_parameters.contains("BEGIN EC PARAMETERS"));
    assert!(PrivateKey::from_pem(&with_parameters).is_ok());
    assert_eq!(
        PrivateKey::from_pem(&with_parameters.repeat(2)).unwrap_err(),
        Error::Trailing
    );
    let large = context.openssl(&["ecparam", "-name", "secp521r1", "-genkey", "-noout"], "");
    assert_eq!(
        PrivateKey::from_pem(&large).unwrap_err(),
        Error::Unsupported("a key on the curve P-521".into())
    );
}

/// Files as other tools write them: with explanations, with the key and the certificates together,
/// in any order.
#[test]
fn files_of_operators_hold_text() {
    let (context, material) = (OpensslDirectory::new(), material());
    let (leaf, between, key) = (
        &material.server.certificate,
        &material.intermediate.certificate,
        material.server.key.as_str(),
    );
    let explained = context.openssl(&["x509", "-text"], leaf);
    assert!(explained.starts_with("Certificate:"), "{explained}");
    let file = format!(
        "Bag Attributes\n    friendlyName: overlay\n{key}subject=CN=x\n{explained}\n \n# above it\n{between}end\n"
    );
    for file in [file.clone(), file.replace('\n', "\r\n")] {
        assert_eq!(
            Certificate::in_file(&file)
                .unwrap()
                .iter()
                .map(Certificate::pem)
                .collect::<Vec<_>>(),
            [leaf.as_str(), between.as_str()]
        );
        assert_eq!(
            PrivateKey::in_file(&file).unwrap().public(),
            PrivateKey::from_pem(key).unwrap().public()
        );
    }
    assert_eq!(
        PrivateKey::in_file(&format!("{file}{key}")).unwrap_err(),
        Error::Trailing,
        "two keys"
    );
    assert_eq!(
        PrivateKey::in_file(&format!("{leaf}{between}")).unwrap_err(),
        Error::NoKey
    );
    assert_eq!(Certificate::in_file(key).unwrap_err(), Error::WrongBlock);
    assert_eq!(
        Certificate::in_file("only words").unwrap_err(),
        Error::NoPem
    );
    let (cut, _) = between.rsplit_once("-----END").unwrap();
    assert_eq!(
        Certificate::in_file(&format!("{leaf}{cut}")).unwrap_err(),
        Error::NoPem,
        "a block without its end is not passed over"
    );
    // Members of the interface stay as strict as recorded.
    assert_eq!(Certificate::bundle(&file).unwrap_err(), Error::Trailing);
}

#[test]
fn nothing_secret_shows_in_debug_output() {
    let material = material();
    let (authority, server) = (
        Authority::open(&material).unwrap(),
        KeyedCertificate::open(&material.server).unwrap(),
    );
    let leaf = ServerLeaf::new(&server, authority.cas()).unwrap();
    let signer = Signer::new(&server).unwrap();
    let shown = format!(
        "{material:?} {authority:?} {server:?} {leaf:?} {signer:?} {:?} {:?}",
        authority.cas(),
        server.key()
    );
    assert!(shown.len() < 800 && !shown.contains("BEGIN"), "{shown}");
    for text in [
        &material.server.key,
        &material.server.certificate,
        &material.root.key,
    ] {
        assert!(text.lines().all(|line| !shown.contains(line)));
    }
}

// -- reading certificates, chains and bundles
// ------------------------------------------------------------------------------

#[test]
fn bundles_are_certificates_and_nothing_else() {
    let (context, material) = (OpensslDirectory::new(), material());
    let (a, b) = (&material.root.certificate, &material.server.certificate);
    assert_eq!(
        Certificate::bundle(&format!("{a}\r\n\n{}", b.replace('\n', "\r\n")))
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        Certificate::bundle(&format!("{a}x{b}")).unwrap_err(),
        Error::Trailing
    );
    assert_eq!(
        Certificate::bundle(&format!("{a}{}", material.root.key.as_str())).unwrap_err(),
        Error::WrongBlock
    );
    assert_eq!(Certificate::bundle("").unwrap_err(), Error::NoPem);
    assert_eq!(
        Certificate::only(&format!("{a}{b}")).unwrap_err(),
        Error::Trailing
    );
    let first = Certificate::first(&format!("in front\n{b}{a} behind")).unwrap();
    assert_eq!(first.pem(), *b);
    let print = context.shows(&first, &["-fingerprint", "-sha1"]);
    assert_eq!(
        first.fingerprint(),
        print
            .rsplit('=')
            .next()
            .unwrap()
            .replace(':', "")
            .to_lowercase()
    );
    assert_eq!(first.subject().common_name().as_deref(), Some("ctrl.test"));
    let mut long = first.der().to_vec();
    long.push(0);
    assert_eq!(Certificate::from_der(&long).unwrap_err(), Error::BadDer);
}

#[test]
fn chains_and_bundle_are_complete() {
    let (context, material) = (OpensslDirectory::new(), material());
    let authority = Authority::open(&material).unwrap();
    let leaf = client(
        &authority,
        &context.csr(&context.key("k", P256), "/CN=x", &[]),
        Validity::years(1, now()),
    );
    let chain = Certificate::bundle(&chain_pem(&leaf, authority.cas())).unwrap();
    assert_eq!(chain, [leaf.clone(), authority.certificate().clone()]);
    let all = [authority.cas(), &[leaf], authority.cas()].concat();
    assert_eq!(
        Certificate::bundle(&bundle_pem(&all)).unwrap(),
        authority.cas()
    );

    let body = certificates_only_base64(&all);
    let (last, lines) = body
        .split('\n')
        .collect::<Vec<_>>()
        .split_last()
        .map(|(last, lines)| (*last, lines.to_vec()))
        .unwrap();
    assert!(lines.iter().all(|line| line.len() == 64) && (1..=64).contains(&last.len()));
    let printed = context.openssl(
        &["pkcs7", "-inform", "DER", "-print_certs"],
        certificates_only(&all),
    );
    assert_eq!(printed.matches("BEGIN CERTIFICATE").count(), 2);
    let shape = context.openssl(
        &["asn1parse"],
        format!("-----BEGIN PKCS7-----\n{body}\n-----END PKCS7-----\n"),
    );
    assert!(shape.contains("pkcs7-signedData") && shape.contains("pkcs7-data"));
}

// -- verification
// --------------------------------------------------------------------------------------------------------

struct Case<'a> {
    anchors: &'a [Certificate],
    known: &'a [Certificate],
    now: i64,
    purpose: CertificatePurpose,
    leaf_dates: LeafDates,
}

impl Case<'_> {
    fn verify(&self, presented: &[&Certificate]) -> Result<String, Error> {
        let Self {
            anchors,
            known: intermediates,
            now,
            purpose,
            leaf_dates,
        } = *self;
        let presented: Vec<Certificate> = presented
            .iter()
            .map(|certificate| (*certificate).clone())
            .collect();
        Verification {
            anchors,
            intermediates,
            now,
            purpose,
            leaf_dates,
        }
        .anchor_of(&presented)
        .map(Certificate::fingerprint)
    }
}

#[test]
fn clients_need_path_dates_and_use() {
    let (context, material, other, now) = (OpensslDirectory::new(), material(), material(), now());
    let authority = Authority::open(&material).unwrap();
    let [between, root] = authority.cas() else {
        panic!("two authorities")
    };
    let csr = context.csr(&context.key("k", P256), "/CN=x", &[]);
    let leaf = client(&authority, &csr, Validity::years(1, now));
    let server = authority
        .issue_server(
            &Csr::parse(&csr).unwrap(),
            &AlternativeNames::default(),
            Validity::years(1, now),
        )
        .unwrap();
    let foreign = client(
        &Authority::open(&other).unwrap(),
        &csr,
        Validity::years(1, now),
    );
    let anchors = [
        Certificate::only(&other.root.certificate).unwrap(),
        root.clone(),
    ];
    let case = |now, purpose, leaf_dates| Case {
        anchors: &anchors,
        known: &[],
        now,
        purpose,
        leaf_dates,
    };
    let any = case(now, CertificatePurpose::Any, LeafDates::Enforce);
    assert_eq!(any.verify(&[&leaf, between]), Ok(root.fingerprint()));
    assert_eq!(
        any.verify(&[&leaf]),
        Err(Error::Untrusted),
        "the intermediate is missing"
    );
    assert_eq!(
        Case {
            known: std::slice::from_ref(between),
            ..any
        }
        .verify(&[&leaf]),
        Ok(root.fingerprint())
    );
    assert_eq!(any.verify(&[&foreign, between]), Err(Error::Untrusted));
    assert_eq!(any.verify(&[]), Err(Error::Untrusted));
    assert_eq!(
        case(now, CertificatePurpose::Any, LeafDates::Enforce).verify(&[&server, between]),
        Ok(root.fingerprint())
    );
    assert_eq!(
        case(now, CertificatePurpose::Client, LeafDates::Enforce).verify(&[&server, between]),
        Err(Error::WrongUsage)
    );
    assert_eq!(
        case(now, CertificatePurpose::Client, LeafDates::Enforce).verify(&[&leaf, between]),
        Ok(root.fingerprint())
    );

    // An intermediate alone may be an anchor; a leaf never is, even if it is listed.
    let listed = [between.clone(), server.clone()];
    let only = Case {
        anchors: &listed,
        known: &[],
        now,
        purpose: CertificatePurpose::Any,
        leaf_dates: LeafDates::Enforce,
    };
    assert_eq!(only.verify(&[&leaf]), Ok(between.fingerprint()));
    assert_eq!(
        Case {
            anchors: &listed[1..],
            ..only
        }
        .verify(&[&server]),
        Err(Error::Untrusted)
    );

    // `LeafDates` decides about the dates of the leaf; those of authorities always count.
    let later = now + 2 * YEAR;
    assert_eq!(
        case(later, CertificatePurpose::Any, LeafDates::Enforce).verify(&[&leaf, between]),
        Err(Error::Expired)
    );
    assert_eq!(
        case(later, CertificatePurpose::Client, LeafDates::Ignore).verify(&[&leaf, between]),
        Ok(root.fingerprint())
    );
    assert_eq!(
        case(later, CertificatePurpose::Client, LeafDates::Ignore).verify(&[&server, between]),
        Err(Error::WrongUsage)
    );
    assert_eq!(
        case(later, CertificatePurpose::Any, LeafDates::Ignore).verify(&[&foreign, between]),
        Err(Error::Untrusted)
    );
    assert_eq!(
        case(now - DAY, CertificatePurpose::Any, LeafDates::Enforce).verify(&[&leaf, between]),
        Err(Error::Expired),
        "not valid yet"
    );
    assert_eq!(
        case(now + 11 * YEAR, CertificatePurpose::Any, LeafDates::Ignore).verify(&[&leaf, between]),
        Err(Error::Untrusted),
        "intermediate"
    );
    assert_eq!(
        Case {
            now: now + 11 * YEAR,
            leaf_dates: LeafDates::Ignore,
            ..only
        }
        .verify(&[&leaf]),
        Err(Error::Untrusted),
        "anchor"
    );
}

#[test]
fn version_1_certificates_are_clients_only() {
    let (context, material, now) = (OpensslDirectory::new(), material(), now());
    let authority = Authority::open(&material).unwrap();
    let [between, root] = authority.cas() else {
        panic!("two authorities")
    };
    let csr = context.csr(&context.key("k", RSA), "/CN=old", &["-sha256"]);
    let old = context.version_1(&csr, &material);
    let case = Case {
        anchors: std::slice::from_ref(root),
        known: &[],
        now: now + 60,
        purpose: CertificatePurpose::Client,
        leaf_dates: LeafDates::Enforce,
    };
    assert_eq!(case.verify(&[&old, between]), Ok(root.fingerprint()));
    assert_eq!(
        case.verify(&[between]),
        Ok(root.fingerprint()),
        "an authority's certificate as a client"
    );
    assert_eq!(case.verify(&[&old]), Err(Error::Untrusted));
    let late = Case {
        now: now + 3 * DAY,
        ..case
    };
    assert_eq!(late.verify(&[&old, between]), Err(Error::Expired));
    assert_eq!(
        Case {
            leaf_dates: LeafDates::Ignore,
            ..late
        }
        .verify(&[&old, between]),
        Ok(root.fingerprint())
    );

    // The same issuer name with another key proves nothing.
    let text = |certificate: &Certificate, args: &[&str]| {
        context.shows(certificate, args).replace("subject=", "")
    };
    let name = format!("/{}", text(between, &["-subject", "-nameopt", "RFC2253"]));
    let fake_key = context.key("fake", P256);
    let fake = context.openssl(
        &[
            "req", "-x509", "-new", "-key", &fake_key, "-subj", &name, "-days", "9",
        ],
        "",
    );
    let forged = Material {
        intermediate: pki::CertificateAndKey {
            certificate: fake,
            key: std::fs::read_to_string(&fake_key).unwrap().into(),
        },
        ..material.clone()
    };
    let forgery = context.version_1(&csr, &forged);
    assert_eq!(forgery.issuer(), between.subject());
    assert_eq!(case.verify(&[&forgery, between]), Err(Error::Untrusted));
    assert_eq!(
        case.verify(&[
            &forgery,
            &Certificate::only(&forged.intermediate.certificate).unwrap()
        ]),
        Err(Error::Untrusted)
    );

    // Neither version 1 nor an ordinary leaf signs other certificates, and a path length is
    // enforced.
    let mut below = material.clone();
    below.intermediate = pki::CertificateAndKey {
        certificate: old.pem(),
        key: std::fs::read_to_string(context.0.path().join("k"))
            .unwrap()
            .into(),
    };
    assert_eq!(
        case.verify(&[&context.version_1(&csr, &below), &old, between]),
        Err(Error::Untrusted)
    );
    below.intermediate = material.server.clone();
    let server = Certificate::only(&material.server.certificate).unwrap();
    assert_eq!(
        case.verify(&[&context.version_1(&csr, &below), &server, between]),
        Err(Error::Untrusted)
    );
    let (sub_key, ca, ca_key) = (
        context.key("sub", P256),
        context.put("ca", between.pem()),
        context.put("ca.key", &material.intermediate.key),
    );
    let extensions = context.put("ext", "basicConstraints=critical,CA:TRUE\n");
    let args = [
        "x509",
        "-req",
        "-days",
        "9",
        "-CA",
        &ca,
        "-CAkey",
        &ca_key,
        "-set_serial",
        "9",
        "-extfile",
        &extensions,
    ];
    let sub = context.openssl(&args, context.csr(&sub_key, "/CN=sub", &[]));
    below.intermediate = pki::CertificateAndKey {
        certificate: sub.clone(),
        key: std::fs::read_to_string(&sub_key).unwrap().into(),
    };
    let sub = Certificate::only(&sub).unwrap();
    let deep = context.version_1(&csr, &below);
    assert_eq!(
        case.verify(&[&deep, &sub, between]),
        Err(Error::Untrusted),
        "the intermediate allows none below it"
    );
    assert_eq!(
        Case {
            anchors: std::slice::from_ref(&sub),
            ..case
        }
        .verify(&[&deep]),
        Ok(sub.fingerprint())
    );
}

#[test]
fn anchors_obey_their_own_limits() {
    let (context, now) = (OpensslDirectory::new(), now());
    let key = |name: &str| context.key(name, P256);
    let root = |extensions: &str| {
        let (key, config) = (
            key("root"),
            context.put(
                "config",
                format!("[req]\ndistinguished_name=n\nx509_extensions=x\n[n]\n[x]\n{extensions}"),
            ),
        );
        let args = [
            "req", "-x509", "-new", "-key", &key, "-subj", "/CN=root", "-days", "9", "-config",
            &config,
        ];
        let pem = context.openssl(&args, "");
        context.put("root.pem", &pem);
        Certificate::only(&pem).unwrap()
    };
    let below = |who: &str, by: &str, extensions: &str| {
        let (signer, extensions) = (format!("{by}.pem"), context.put("marks", extensions));
        let args = [
            "x509",
            "-req",
            "-days",
            "9",
            "-CA",
            &signer,
            "-CAkey",
            by,
            "-set_serial",
            "7",
            "-extfile",
            &extensions,
        ];
        let pem = context.openssl(&args, context.csr(&key(who), &format!("/CN={who}"), &[]));
        context.put(&format!("{who}.pem"), &pem);
        Certificate::only(&pem).unwrap()
    };
    let verified = |root: &Certificate, presented: &[&Certificate]| {
        let anchors = std::slice::from_ref(root);
        Case {
            anchors,
            known: &[],
            now: now + 60,
            purpose: CertificatePurpose::Client,
            leaf_dates: LeafDates::Enforce,
        }
        .verify(presented)
    };
    const CA: &str = "basicConstraints=critical,CA:TRUE\n";
    const LEAF: &str = "basicConstraints=CA:FALSE\n";

    let free = root(CA);
    let sub = below("sub", "root", CA);
    let leaf = below("leaf", "sub", LEAF);
    assert_eq!(verified(&free, &[&leaf, &sub]), Ok(free.fingerprint()));

    let short = root("basicConstraints=critical,CA:TRUE,pathlen:0\n");
    let (sub, direct) = (below("sub", "root", CA), below("direct", "root", LEAF));
    assert_eq!(
        verified(&short, &[&below("leaf", "sub", LEAF), &sub]),
        Err(Error::Untrusted),
        "path length 0 allows no authority below"
    );
    assert_eq!(verified(&short, &[&direct]), Ok(short.fingerprint()));
    let reissue = [
        "req",
        "-x509",
        "-new",
        "-key",
        "root",
        "-subj",
        "/CN=root",
        "-days",
        "9",
        "-addext",
        "keyUsage=keyCertSign",
    ];
    let free = Certificate::only(&context.openssl(&reissue, "")).unwrap();
    let both = [short.clone(), free.clone()];
    let case = Case {
        anchors: &both,
        known: &[],
        now: now + 60,
        purpose: CertificatePurpose::Client,
        leaf_dates: LeafDates::Enforce,
    };
    assert_eq!(
        case.verify(&[&below("leaf", "sub", LEAF), &sub]),
        Ok(free.fingerprint()),
        "another anchor with this name and key allows it"
    );

    let servers = root(&format!("{CA}extendedKeyUsage=serverAuth\n"));
    assert_eq!(
        verified(&servers, &[&below("direct", "root", LEAF)]),
        Err(Error::Untrusted),
        "the anchor is for server certificates only"
    );

    // Critical certificate policies are accepted anywhere in the chain; an unknown critical
    // extension is rejected.
    let policies = "certificatePolicies=critical,1.2.3.4\n";
    let strict = root(&format!("{CA}{policies}"));
    let sub = below("sub", "root", &format!("{CA}{policies}"));
    for extensions in [LEAF.to_owned(), format!("{LEAF}{policies}")] {
        assert_eq!(
            verified(&strict, &[&below("leaf", "sub", &extensions), &sub]),
            Ok(strict.fingerprint())
        );
    }
    let unknown = below(
        "leaf",
        "sub",
        &format!("{LEAF}1.2.3.4.5=critical,ASN1:NULL\n"),
    );
    assert_eq!(verified(&strict, &[&unknown, &sub]), Err(Error::Untrusted));
    let explicit = below(
        "leaf",
        "sub",
        &format!("{LEAF}policyConstraints=critical,requireExplicitPolicy:0\n"),
    );
    assert_eq!(verified(&strict, &[&explicit, &sub]), Err(Error::Untrusted));
}

// -- tokens
// --------------------------------------------------------------------------------------------------------------

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

// -- TLS
// -----------------------------------------------------------------------------------------------------------------

#[derive(Debug)]
struct PresentsCertificate(Arc<rustls::sign::CertifiedKey>);

impl rustls::client::ResolvesClientCert for PresentsCertificate {
    fn resolve(
        &self,
        _: &[&[u8]],
        _: &[rustls::SignatureScheme],
    ) -> Option<Arc<rustls::sign::CertifiedKey>> {
        Some(self.0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

type Version = &'static rustls::SupportedProtocolVersion;

/// A handshake in memory: fingerprints of the first certificate that each side received, and the
/// negotiated protocol.
fn handshake(
    server: &Arc<rustls::ServerConfig>,
    root: &str,
    version: Version,
    shown: Option<(&Certificate, &str)>,
) -> Result<[String; 3], String> {
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(Certificate::only(root).unwrap().der().clone())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match shown {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let key = rustls::pki_types::PrivatePkcs8KeyDer::from(
                pem::parse(key).unwrap().into_contents(),
            );
            let key = rustls::crypto::ring::sign::any_supported_type(&key.into()).unwrap();
            let shows = rustls::sign::CertifiedKey::new(vec![certificate.der().clone()], key);
            builder.with_client_cert_resolver(Arc::new(PresentsCertificate(Arc::new(shows))))
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let mut client =
        rustls::ClientConnection::new(Arc::new(config), "ctrl.test".try_into().unwrap()).unwrap();
    let mut server = rustls::ServerConnection::new(server.clone()).unwrap();
    for _ in 0..8 {
        let (mut up, mut down) = (Vec::new(), Vec::new());
        client.write_tls(&mut up).unwrap();
        server.read_tls(&mut up.as_slice()).unwrap();
        server
            .process_new_packets()
            .map_err(|error| error.to_string())?;
        server.write_tls(&mut down).unwrap();
        client.read_tls(&mut down.as_slice()).unwrap();
        client
            .process_new_packets()
            .map_err(|error| error.to_string())?;
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    let print = |seen: Option<&[rustls::pki_types::CertificateDer<'_>]>| {
        seen.map(|seen| Certificate::from_der(&seen[0]).unwrap().fingerprint())
            .unwrap_or_default()
    };
    let protocol = String::from_utf8_lossy(server.alpn_protocol().unwrap()).into_owned();
    Ok([
        print(server.peer_certificates()),
        print(client.peer_certificates()),
        protocol,
    ])
}

#[test]
fn handshake_admits_any_held_key() {
    let (context, material) = (OpensslDirectory::new(), material());
    let authority = Authority::open(&material).unwrap();
    let own = KeyedCertificate::open(&material.server).unwrap();
    let leaf = Arc::new(ServerLeaf::new(&own, authority.cas()).unwrap());
    let config = Arc::new(server_config(leaf.clone()).unwrap());
    let own = own.certificate().fingerprint();
    let stranger = std::fs::read_to_string(context.key("stranger", P256)).unwrap();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let connect = |shown: Option<(&Certificate, &str)>| {
            handshake(&config, &material.root.certificate, version, shown)
        };
        assert_eq!(
            connect(None),
            Ok([String::new(), own.clone(), "http/1.1".into()])
        );
        for kind in [P256, P384, RSA, ED25519] {
            let file = context.key("k", kind);
            let (csr, key) = (
                context.csr(&file, "/CN=x", &[]),
                std::fs::read_to_string(&file).unwrap(),
            );
            let expired = client(
                &authority,
                &csr,
                Validity {
                    not_before: 0,
                    not_after: 1,
                },
            );
            let self_signed = Certificate::only(&context.openssl(
                &["req", "-x509", "-new", "-key", &file, "-subj", "/CN=x"],
                "",
            ))
            .unwrap();
            for shown in [context.version_1(&csr, &material), expired, self_signed] {
                assert_eq!(
                    connect(Some((&shown, &key))),
                    Ok([shown.fingerprint(), own.clone(), "http/1.1".into()]),
                    "{kind:?} {version:?}"
                );
                assert!(
                    connect(Some((&shown, &stranger))).is_err(),
                    "{kind:?} {version:?}: the key does not belong to the certificate"
                );
            }
        }
    }
    let next = material
        .due(
            &AlternativeNames::of_hosts(["ctrl.test", "new.test"]),
            now(),
        )
        .unwrap()
        .unwrap();
    let renewed = KeyedCertificate::open(&next.server).unwrap();
    leaf.replace(&renewed, authority.cas()).unwrap();
    let seen = handshake(
        &config,
        &material.root.certificate,
        &rustls::version::TLS13,
        None,
    )
    .unwrap();
    assert_eq!(
        seen[1],
        renewed.certificate().fingerprint(),
        "the next handshake shows the new leaf"
    );
}

// -- arbitrary input
// -----------------------------------------------------------------------------------------------------

/// Parses bytes in every way; only the absence of a panic counts.
pub fn read_every_way(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for text in [
        text.as_ref(),
        &pem::encode(&pem::Pem::new("CERTIFICATE", bytes)),
    ] {
        let _ = (
            Csr::parse(text),
            Certificate::bundle(text),
            Certificate::first(text),
            PrivateKey::from_pem(text),
        );
    }
    let _ = Csr::parse(&pem::encode(&pem::Pem::new("CERTIFICATE REQUEST", bytes)));
    if let Ok(certificate) = Certificate::from_der(bytes) {
        let renamed = certificate.subject().with_common_name("x");
        let _ = (
            certificate.subject().to_string(),
            certificate.subject().common_name(),
            renamed,
            certificate.is_signed_by(&certificate),
        );
        let _ = (
            certificate.public_key().kind(),
            Verifier::new(certificate.public_key())
                .map(|verifier| verifier.verify::<String>(&text)),
        );
        let anchors = [certificate.clone()];
        let (now, purpose, leaf_dates) = (
            certificate.not_after(),
            CertificatePurpose::Client,
            LeafDates::Ignore,
        );
        let _ = Verification {
            anchors: &anchors,
            intermediates: &anchors,
            now,
            purpose,
            leaf_dates,
        }
        .anchor_of(&anchors);
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read_every_way(&bytes);
    }

    #[test]
    fn damaged_certificates_and_requests_never_panic(at in any::<prop::sample::Index>(), to in any::<u8>(), cut in any::<prop::sample::Index>()) {
        jwt::install();
        for whole in samples() {
            let mut bytes = whole.clone();
            let at = at.index(bytes.len());
            bytes[at] = to;
            read_every_way(&bytes);
            bytes.truncate(cut.index(bytes.len()));
            read_every_way(&bytes);
        }
    }
}

pub fn samples() -> &'static [Vec<u8>] {
    static SAMPLES: std::sync::OnceLock<Vec<Vec<u8>>> = std::sync::OnceLock::new();
    SAMPLES.get_or_init(|| {
        let (context, material) = (OpensslDirectory::new(), material());
        let csr = context.csr(
            &context.key("k", P384),
            "/O=x/CN=y",
            &[
                "-sha384",
                "-addext",
                "subjectAltName=DNS:a.test,IP:127.0.0.1",
            ],
        );
        let texts = [
            csr,
            material.root.certificate,
            material.server.certificate,
            material.server.key.to_string(),
        ];
        texts
            .iter()
            .map(|text| pem::parse(text).unwrap().into_contents())
            .collect()
    })
}

// What existing clients send and need.

/// A request as the C client library writes it: a NULL after the ECDSA algorithm, a Netscape
/// extension, an empty key usage.
const FROM_THE_C_LIBRARY: &str = "-----BEGIN CERTIFICATE REQUEST-----
MIIBWTCB/QIBADBrMQswCQYDVQQGEwJVUzELMAkGA1UECAwCTlkxETAPBgNVBAoM
CE9wZW5aaXRpMScwJQYKCZImiZPyLGQBGRYXaHR0cHM6Ly8xMjcuMC4wLjE6MzMx
NDUxEzARBgNVBAMMCm9seWdpNnNscHUwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AATK2tt4xNCiM20HbM459LJthyt2++ftlKKCe56TflC/hhC17Ouqqi2YeWiGvZ8l
sS+fYfvwRkHVpqh1nUXBVlIUoDAwLgYJKoZIhvcNAQkOMSEwHzAKBgNVHQ8EAwMB
ADARBglghkgBhvhCAQEEBAMCB4AwDAYIKoZIzj0EAwIFAANJADBGAiEAvfk+s5iu
vJZNq8IDUPEMpIdrAUu32R1S63UWgWC5nWECIQC4ZwKJA8d4+TkJxsAPA5D6TpWl
JI9FcU3hoUHRVvDL2w==
-----END CERTIFICATE REQUEST-----
";

#[test]
fn c_library_requests_are_accepted() {
    let csr = Csr::parse(FROM_THE_C_LIBRARY).unwrap();
    assert_eq!(csr.subject().common_name().as_deref(), Some("olygi6slpu"));
    let changed = FROM_THE_C_LIBRARY.replace("AATK2tt4", "AATK2tt5");
    assert_ne!(changed, FROM_THE_C_LIBRARY);
    assert!(Csr::parse(&changed).is_err());
}

#[test]
fn passphrase_derivation_is_deterministic() {
    let (right, wrong) = (
        Passphrase::new("correct horse battery staple"),
        Passphrase::new("correct horse battery stable"),
    );
    let (derivation, seal) = Derivation::new(&right).unwrap();
    let sealed = seal.seal("here", b"a secret").unwrap();
    let stored = serde_json::to_value(&derivation).unwrap();
    let again = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut stored = stored.clone();
        change(&mut stored);
        serde_json::from_value::<Derivation>(stored).unwrap()
    };
    let opened = again(&|_| ()).seal(&right).unwrap();
    assert_eq!(opened.open("here", &sealed).unwrap(), b"a secret");
    assert_eq!(
        opened.open("there", &sealed),
        Err(Error::BadSignature),
        "a sealed value opens only in its own place"
    );
    assert_eq!(derivation.seal(&wrong).unwrap_err(), Error::BadSignature);
    let salted = again(&|stored| {
        stored["salt"][0] = serde_json::json!(stored["salt"][0].as_u64().unwrap() ^ 1)
    });
    assert_eq!(salted.seal(&right).unwrap_err(), Error::BadSignature);
    // A crafted file must not cause a derivation that takes gigabytes or hours.
    for cost in [21, 63, 255] {
        assert!(
            matches!(
                again(&|stored| stored["cost"] = cost.into()).seal(&right),
                Err(Error::Unsupported(_))
            ),
            "{cost}"
        );
    }
    assert!(!format!("{right:?} {derivation:?} {seal:?}").contains("horse"));
}

#[test]
fn server_key_is_sound_rsa() {
    let material = Material::generate(&hosts(), now()).unwrap();
    let server = KeyedCertificate::open(&material.server).unwrap();
    assert_eq!(server.certificate().public_key().kind(), Ok(KeyKind::Rsa));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.key");
    std::fs::write(&file, &material.server.key).unwrap();
    let checked = std::process::Command::new("openssl")
        .args(["pkey", "-check", "-noout", "-in"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
}
