//! Requests for certificates: which are accepted, and with which keys and signatures.

use pki::{
    Authority, Certificate, CertificatePurpose, Csr, Error, LeafDates, Material, Validity,
    Verification,
};

use super::{client, hosts, material, now};
use crate::harness::{ED25519, OpensslDirectory, P256, P384, RSA};

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
