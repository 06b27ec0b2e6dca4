//! Verification of a client: path, dates, use, and the limits of authorities.

use pki::{
    AlternativeNames, Authority, Certificate, CertificatePurpose, Csr, Error, LeafDates, Material,
    Validity, Verification,
};

use super::{DAY, YEAR, client, material, now};
use crate::harness::{OpensslDirectory, P256, RSA};

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
