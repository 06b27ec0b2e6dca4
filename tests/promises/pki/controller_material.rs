//! The material of the controller: its authorities and its leaf, and when they are renewed.

use pki::{
    AlternativeNames, Authority, Certificate, CertificatePurpose, Error, KeyKind, KeyedCertificate,
    LeafDates, Material, Validity, Verification, chain_pem,
};

use super::{DAY, YEAR, client, hosts, material, now};
use crate::harness::{OpensslDirectory, P256};

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
