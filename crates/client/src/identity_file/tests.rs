//! Files of identities: what is written is read, and what others write.

use super::*;
use pki::{AlternativeNames, KeyKind, Material};

fn material() -> Material {
    Material::generate(&AlternativeNames::of_hosts(["ctrl.test"]), 1_800_000_000).unwrap()
}

/// A certificate and key of any server, and the authorities above it.
fn parts() -> (ClientCertificate, Vec<Certificate>) {
    let material = material();
    let stored = |pem: &str| Certificate::first(pem).unwrap();
    let certificate = ClientCertificate::new(
        vec![stored(&material.server.certificate)],
        PrivateKey::from_pem(&material.server.key).unwrap(),
    );
    let authorities = [&material.root, &material.intermediate].map(|one| stored(&one.certificate));
    (certificate.unwrap(), authorities.to_vec())
}

#[test]
fn what_is_written_is_read() {
    let (certificate, authorities) = parts();
    let file = IdentityFile::new(
        "https://ctrl.example.com:1280/",
        Some(certificate.clone()),
        authorities.clone(),
    );
    let read = IdentityFile::parse(&file.unwrap().text().unwrap()).unwrap();
    assert_eq!(
        read.controllers(),
        ["https://ctrl.example.com:1280/edge/client/v1"]
    );
    assert_eq!(read.certificate().unwrap().chain(), certificate.chain());
    assert_eq!(read.authorities(), authorities);
}

#[test]
fn every_form_of_a_key_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let (certificate, _) = parts();
    let key = certificate.key().to_pem();
    let chain: String = certificate.chain().iter().map(Certificate::pem).collect();
    let path = directory.path().join("key.pem");
    std::fs::write(&path, key.as_bytes()).unwrap();
    let path = path.to_str().unwrap();
    let forms = [
        format!("pem:{}", *key),
        key.to_string(),
        format!("file:{path}"),
        format!("file://{path}"),
        path.to_owned(),
    ];
    for form in forms {
        let text = json!({ "ztAPI": "ctrl:1280", "id": { "key": form, "cert": chain } });
        let read = IdentityFile::parse(&text.to_string()).unwrap();
        assert_eq!(read.certificate().unwrap().chain(), certificate.chain());
    }
}

#[test]
fn addresses_get_scheme_and_path() {
    let cases = [
        ("ctrl:1280", Some("https://ctrl:1280/edge/client/v1")),
        (
            "https://ctrl:1280",
            Some("https://ctrl:1280/edge/client/v1"),
        ),
        (
            "HTTPS://ctrl:1280/",
            Some("https://ctrl:1280/edge/client/v1"),
        ),
        (
            "https://[::1]:1280/edge/client/v1/",
            Some("https://[::1]:1280/edge/client/v1"),
        ),
        ("https://ctrl/other", Some("https://ctrl/other")),
        ("http://ctrl:1280", None),
        ("https://user@ctrl:1280", None),
        ("https://", None),
        ("", None),
    ];
    for (text, expected) in cases {
        assert_eq!(address(text).as_deref(), expected, "{text}");
    }
}

#[test]
fn addresses_of_several_controllers_are_read_once_each() {
    let text = json!({ "ztAPI": "https://a:1/edge/client/v1", "ztAPIs": ["https://b:1", "a:1"] });
    let read = IdentityFile::parse(&text.to_string()).unwrap();
    assert_eq!(
        read.controllers(),
        ["https://a:1/edge/client/v1", "https://b:1/edge/client/v1"]
    );
}

#[test]
fn errors_name_the_member() {
    let (certificate, _) = parts();
    let chain: String = certificate.chain().iter().map(Certificate::pem).collect();
    let other = PrivateKey::generate(KeyKind::P256).unwrap().to_pem();
    let cases = [
        (json!({}), "ztAPI: "),
        (json!({ "ztAPI": 5 }), "ztAPI: "),
        (json!({ "ztAPI": "a", "id": { "cert": chain } }), "id.key: "),
        (
            json!({ "ztAPI": "a", "id": { "key": *other } }),
            "id.cert: ",
        ),
        (
            json!({ "ztAPI": "a", "id": { "key": *other, "cert": chain } }),
            "id.cert: ",
        ),
        (
            json!({ "ztAPI": "a", "id": { "key": "pkcs11:x", "cert": chain } }),
            "id.key: ",
        ),
        (
            json!({ "ztAPI": "a", "id": { "key": "/nowhere", "cert": chain } }),
            "id.key: /nowhere",
        ),
        (json!({ "ztAPI": "a", "id": { "ca": "pem:" } }), "id.ca: "),
    ];
    for (text, expected) in cases {
        let error = IdentityFile::parse(&text.to_string()).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}
