//! Credentials: the external id in a certificate, the rules for passwords, and the content of a key
//! set.

use model::entity::{
    Ca, ExternalIdClaim, Id, Roles,
    auth_policy::Updb,
    external_id_claim::{ClaimLocation, ClaimMatcher, ClaimParser},
};
use pki::{
    AlternativeNames, Authority, Certificate, KeyKind, Keystore, Material, PrivateKey, PublicJwk,
    Validity, jwt,
};
use proptest::prelude::*;
use std::time::SystemTime;

fn now() -> i64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs()
        .try_into()
        .unwrap()
}

fn material() -> Material {
    Material::generate(&AlternativeNames::of_hosts(["ctrl.test"]), now()).unwrap()
}

/// A certificate with a common name, mail addresses and URIs, in this order.
fn certificate(common_name: &str, emails: &[&str], uris: &[&str]) -> Certificate {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let names = AlternativeNames {
        dns: vec![common_name.into()],
        emails: texts(emails),
        uris: texts(uris),
        ..AlternativeNames::default()
    };
    let key = PrivateKey::generate(KeyKind::P256).unwrap();
    let issued = Authority::open(&material())
        .unwrap()
        .issue_own(&key, &names, Validity::years(1, now()))
        .unwrap();
    issued.certificate().clone()
}

fn claim(
    location: ClaimLocation,
    matcher: (ClaimMatcher, &str),
    parser: (ClaimParser, &str),
    index: i64,
) -> ExternalIdClaim {
    let (matcher_criteria, parser_criteria) = (matcher.1.to_owned(), parser.1.to_owned());
    ExternalIdClaim {
        location,
        matcher: matcher.0,
        matcher_criteria,
        parser: parser.0,
        parser_criteria,
        index,
    }
}

#[test]
fn claims_match_all_their_parts() {
    use ClaimLocation::{CommonName, SanEmail, SanUri};
    use ClaimMatcher::{All, Prefix, Scheme, Suffix};
    let (none, split) = (|| (ClaimParser::None, ""), |by| (ClaimParser::Split, by));
    let shown = certificate(
        "dev-a|k|c",
        &["one@two", "k@plant.test"],
        &["https://x/y", "SPIFFE://plant.test/a/k"],
    );
    for (location, matcher, parser, index, found) in [
        (CommonName, (All, "ignored"), none(), 0, Some("dev-a|k|c")),
        (CommonName, (All, ""), none(), 1, None),
        (CommonName, (All, ""), none(), -1, None),
        (CommonName, (All, ""), split("|"), 1, Some("k")),
        (CommonName, (All, ""), split(""), 0, None),
        (CommonName, (Prefix, "dev-"), none(), 0, Some("a|k|c")),
        (CommonName, (Prefix, "DEV-"), none(), 0, None),
        (CommonName, (Prefix, ""), none(), 0, None),
        (CommonName, (Prefix, "dev-"), split("|"), 0, Some("a")),
        (CommonName, (Suffix, "|c"), none(), 0, Some("dev-a|k")),
        (CommonName, (Suffix, ""), none(), 0, None),
        (CommonName, (Scheme, "dev"), none(), 0, None),
        (SanEmail, (All, ""), none(), 1, Some("k@plant.test")),
        (SanEmail, (Suffix, "@plant.test"), none(), 0, Some("k")),
        (SanEmail, (All, ""), split("@"), 2, Some("k")),
        (SanEmail, (Suffix, "@other.test"), none(), 0, None),
        (
            SanUri,
            (All, ""),
            none(),
            1,
            Some("spiffe://plant.test/a/k"),
        ),
        (
            SanUri,
            (Scheme, "Spiffe"),
            none(),
            0,
            Some("spiffe://plant.test/a/k"),
        ),
        (SanUri, (Scheme, "spiffe"), split("/"), 4, Some("k")),
        (SanUri, (Scheme, "spif"), none(), 0, None),
        (SanUri, (Prefix, "https://"), none(), 0, None),
        (SanUri, (Suffix, "k"), none(), 0, None),
    ] {
        let wanted = claim(location, matcher, parser, index);
        assert_eq!(wanted.value_in(&shown).as_deref(), found, "{wanted:?}");
    }
    let bare = certificate("only a name", &[], &[]);
    assert_eq!(claim(SanEmail, (All, ""), none(), 0).value_in(&bare), None);
    assert_eq!(claim(SanUri, (All, ""), none(), 0).value_in(&bare), None);
}

#[test]
fn self_enrolled_names_follow_the_authority() {
    let shown = certificate("truck 1", &[], &[]);
    for (format, requested, name) in [
        ("[caName]-[commonName]", None, "fleet-truck 1"),
        (
            "<[caId]> [requestedName] [nothing]",
            Some("asked"),
            "<ca-1> asked [nothing]",
        ),
        ("[requestedName]", None, "id-1"),
        ("id [identityId]", Some("asked"), "id id-1"),
        (" ", Some("asked"), "id-1"),
    ] {
        let ca = Ca {
            name: "fleet".into(),
            cert_pem: String::new(),
            is_auth_enabled: true,
            is_auto_ca_enrollment_enabled: true,
            is_ott_ca_enrollment_enabled: true,
            identity_roles: Roles::default(),
            identity_name_format: format.into(),
            external_id_claim: None,
        };
        assert_eq!(
            ca.name_for(&Id::from_text("ca-1"), "id-1", &shown, requested),
            name,
            "{format}"
        );
    }
}

fn rules(min_password_length: i64, mixed: bool, number: bool, special: bool) -> Updb {
    Updb {
        allowed: true,
        min_password_length,
        require_special_char: special,
        require_number_char: number,
        require_mixed_case: mixed,
        max_attempts: 0,
        lockout_duration_minutes: 0,
    }
}

#[test]
fn passwords_need_the_policys_permission() {
    let (free, strict) = (rules(5, false, false, false), rules(8, true, true, true));
    for (rules, password, allowed) in [
        (&free, "12345", true),
        (&free, "1234", false),
        (&rules(0, false, false, false), "1234", false),
        (&free, "\u{e9}t\u{e9}s\u{df}", true),
        (&strict, "aB3-5678", true),
        (&strict, "aB3-567", false),
        (&strict, "ab3-5678", false),
        (&strict, "AB3-5678", false),
        (&strict, "aBc-defg", false),
        (&strict, "aB345678", false),
        (&strict, "aB3 5678", false),
    ] {
        assert_eq!(
            rules.check_password(password).is_ok(),
            allowed,
            "{password}"
        );
    }
    assert!(free.check_password(&"x".repeat(100)).is_ok());
    assert!(free.check_password(&"x".repeat(101)).is_err());
}

proptest! {
    #[test]
    fn a_refused_password_is_not_repeated(password in "[a-z]{9,40}") {
        let refusal = rules(8, true, true, true).check_password(&password).unwrap_err();
        let told = format!("{refusal} {refusal:?}");
        prop_assert!(!told.contains(&password));
    }
}

#[test]
fn key_set_verifies_signed_tokens() {
    jwt::install();
    let keystore = Keystore::open(material()).unwrap();
    let shown = serde_json::to_value(keystore.signer().public_keys().next()).unwrap();
    let private = ["d", "p", "q", "dp", "dq", "qi", "oth"];
    assert!(
        shown
            .as_object()
            .unwrap()
            .keys()
            .all(|member| !private.contains(&member.as_str())),
        "{shown}"
    );
    let key: jsonwebtoken::jwk::Jwk = serde_json::from_value(shown).unwrap();
    let token = keystore
        .signer()
        .sign(&serde_json::json!({ "sub": "somebody" }))
        .unwrap();
    let mut rules = jsonwebtoken::Validation::new(jsonwebtoken::decode_header(&token).unwrap().alg);
    rules.required_spec_claims.clear();
    let verify = jsonwebtoken::DecodingKey::from_jwk(&key).unwrap();
    let told: serde_json::Value = jsonwebtoken::decode(&token, &verify, &rules)
        .unwrap()
        .claims;
    assert_eq!(told["sub"], "somebody");
}

#[test]
fn both_curves_appear_in_key_sets() {
    for (kind, curve, length) in [(KeyKind::P256, "P-256", 43), (KeyKind::P384, "P-384", 64)] {
        let authority = Authority::open(&material()).unwrap();
        let names = AlternativeNames::of_hosts(["ctrl.test"]);
        let issued = authority
            .issue_own(
                &PrivateKey::generate(kind).unwrap(),
                &names,
                Validity::years(1, now()),
            )
            .unwrap();
        let shown =
            serde_json::to_value(PublicJwk::of(issued.certificate(), "ES").unwrap()).unwrap();
        assert_eq!(
            (&shown["kty"], &shown["crv"]),
            (&"EC".into(), &curve.into())
        );
        assert_eq!(
            (
                shown["x"].as_str().unwrap().len(),
                shown["y"].as_str().unwrap().len()
            ),
            (length, length)
        );
    }
}
