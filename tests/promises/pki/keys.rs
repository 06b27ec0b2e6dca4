//! Private keys and passphrases: files of other tools, sealed values, and nothing secret in debug
//! output.

use pki::{
    Authority, Certificate, Derivation, Error, KeyedCertificate, Passphrase, PrivateKey,
    jwt::Signer, tls::ServerLeaf,
};

use super::material;
use crate::harness::{OpensslDirectory, P256, P384, RSA};

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
