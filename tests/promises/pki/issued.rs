//! Certificates that the authority issues: subject, names, use and lifetime.

use pki::{Authority, Certificate, Csr, Error, Validity};

use super::{DAY, client, material, now};
use crate::harness::{OpensslDirectory, P256, RSA};

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
