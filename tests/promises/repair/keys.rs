//! Keys that do not belong together.

use super::*;

#[test]
fn mismatched_keys_are_named() {
    let stored = Damaged(SimulatedDisk::holding(SOUND_FILE.clone(), 0)).rows(SETTINGS)
        [b"pki".as_slice()]
    .clone();
    let own: Material = serde_json::from_slice(&stored).unwrap();
    let now = Clock::system().now();
    let other =
        Material::generate(&AlternativeNames::of_hosts(["localhost"]), now.seconds()).unwrap();
    let too_long = {
        let issuer = Issuer::from_ca_cert_pem(
            &own.root.certificate,
            KeyPair::from_pem(&own.root.key).unwrap(),
        )
        .unwrap();
        let (mut params, key) = (CertificateParams::default(), KeyPair::generate().unwrap());
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.not_after = rcgen::date_time_ymd(2400, 1, 1);
        pki::CertificateAndKey {
            certificate: params.signed_by(&key, &issuer).unwrap().pem(),
            key: key.serialize_pem().into(),
        }
    };
    let with = |change: &dyn Fn(&mut Material)| {
        let mut material = own.clone();
        change(&mut material);
        serde_json::to_vec(&material).unwrap()
    };
    let cases: [(Vec<u8>, &[&str]); 9] = [
        (
            with(&|all| all.server.key = other.server.key.clone()),
            &["the key of the server does not belong to its certificate"],
        ),
        (
            with(&|all| all.root.key = other.root.key.clone()),
            &["the key of the root does not belong to its certificate"],
        ),
        (
            with(&|all| all.server = other.server.clone()),
            &["the server is not signed by the intermediate"],
        ),
        (
            with(&|all| all.root = other.root.clone()),
            &["the intermediate is not signed by the root"],
        ),
        (
            with(&|all| all.retired.push(other.intermediate.certificate.clone())),
            &["an old intermediate is not signed by the root"],
        ),
        (
            with(&|all| all.intermediate = too_long.clone()),
            &[
                "the intermediate expires later than the root",
                "the server is not signed by the intermediate",
            ],
        ),
        (
            with(&|all| all.intermediate.certificate = "no PEM".into()),
            &["key or certificate of the intermediate cannot be read: no PEM block"],
        ),
        (
            with(&|all| all.shown.push("no PEM".into())),
            &["a certificate that listeners served cannot be read: no PEM block"],
        ),
        (
            b"{}".to_vec(),
            &["the keys of the controller cannot be read"],
        ),
    ];
    for (bytes, expected) in cases {
        let damaged = Damaged::by(|tx| set(tx, SETTINGS, b"pki", &bytes));
        let report = check_of(&damaged, Clock::system());
        assert_eq!(unfixed(&report), expected.iter().copied().collect());
    }
    let damaged = Damaged::by(|tx| remove(tx, SETTINGS, b"pki"));
    assert_eq!(
        unfixed(&check_of(&damaged, Clock::system())),
        ["the keys of the controller are missing"].into()
    );

    // Expired certificates alone are no damage.
    let later = check_of(
        &Damaged::by(|_| ()),
        Clock::manual(now.plus(Duration::from_secs(40 * 365 * 24 * 3600))),
    );
    assert!(
        later.findings.is_empty()
            && later.notes.len() == 3
            && later.notes[0].contains("the root has expired"),
        "{later:?}"
    );
}
