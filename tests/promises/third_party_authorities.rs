//! Certificates of third-party authorities: what is refused by name when they are created, and the
//! reasons when a certificate below them is not accepted.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, GeneralSubtree, IsCa, KeyPair,
    KeyUsagePurpose, NameConstraints,
};
use serde_json::{Value as Json, json};
use time::{Duration, OffsetDateTime};

use crate::harness::{Answer, OpensslDirectory, P256, P384, RSA, fresh, shared};

fn create(pem: &str) -> Answer {
    let body = json!({
        "name": fresh("authority"), "certPem": pem, "isAuthEnabled": true, "isAutoCaEnrollmentEnabled": false,
        "isOttCaEnrollmentEnabled": false, "identityRoles": []
    });
    shared().admin.post("/cas", body)
}

/// A self-signed authority of the `openssl` program, PEM.
fn authority(context: &OpensslDirectory, kind: &[&str], more: &[&str]) -> String {
    let key = context.key("ca.key", kind);
    let args = [
        "req",
        "-x509",
        "-new",
        "-days",
        "2",
        "-subj",
        &format!("/CN={}", fresh("root")),
        "-key",
        &key,
    ];
    context.openssl(&[&args[..], more].concat(), "")
}

#[test]
fn unusable_authorities_are_refused_by_name() {
    let context = OpensslDirectory::new();
    let curve = |name: &'static str| vec!["-algorithm", "EC", "-pkeyopt", name];
    let constrained = |constraint: &str| {
        [
            "-addext".to_owned(),
            format!("nameConstraints=critical,{constraint}"),
        ]
    };
    let section = context.put("company.cnf", "[req]\ndistinguished_name=d\n[d]\n[x]\nbasicConstraints=critical,CA:true\nnameConstraints=critical,permitted;dirName:company\n[company]\nO=Company\n");
    let cases: Vec<(Vec<&str>, Vec<String>, &str)> = vec![
        (
            curve("ec_paramgen_curve:P-521"),
            vec![],
            "a key on the curve P-521",
        ),
        (
            curve("ec_paramgen_curve:P-224"),
            vec![],
            "a key on the curve P-224",
        ),
        (
            P256.to_vec(),
            vec!["-sha224".into()],
            "a signature with ECDSA and SHA-224",
        ),
        (
            P384.to_vec(),
            vec!["-sha3-384".into()],
            "a signature with ECDSA and SHA3-384",
        ),
        (
            RSA.to_vec(),
            vec!["-sha224".into()],
            "a signature with RSA and SHA-224",
        ),
        (
            RSA.to_vec(),
            vec!["-sha3-256".into()],
            "a signature with RSA and SHA3-256",
        ),
        (
            P256.to_vec(),
            vec!["-config".into(), section, "-extensions".into(), "x".into()],
            "name constraints on directory names",
        ),
        (
            P256.to_vec(),
            constrained("permitted;email:.example.com").to_vec(),
            "name constraints on mail addresses",
        ),
        (
            P256.to_vec(),
            constrained("excluded;URI:.example.com").to_vec(),
            "name constraints on URIs",
        ),
        (
            P256.to_vec(),
            constrained("permitted;DNS:example.com,excluded;email:example.org").to_vec(),
            "name constraints on mail addresses",
        ),
    ];
    for (kind, more, named) in cases {
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        let refused = create(&authority(&context, &kind, &more)).expect(400);
        let cause = &refused.json["error"]["cause"];
        assert_eq!(
            (&cause["field"], &cause["reason"]),
            (&json!("certPem"), &json!(format!("unsupported: {named}")))
        );
    }
    let allowed: [&[&str]; 4] = [
        &["-sha1"],
        &["-sha512"],
        &[
            "-addext",
            "nameConstraints=critical,permitted;DNS:example.com,excluded;DNS:lab.example.com",
        ],
        &[
            "-addext",
            "nameConstraints=critical,permitted;IP:10.0.0.0/255.0.0.0",
        ],
    ];
    for more in allowed {
        create(&authority(&context, P256, more)).expect(201);
    }
}

/// A change to the parameters of a certificate.
type Change<'c> = &'c dyn Fn(&mut CertificateParams);
type Signer = CertifiedIssuer<'static, KeyPair>;

fn signer(name: &str, change: impl Fn(&mut CertificateParams)) -> Signer {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    (params.not_before, params.not_after) = (
        OffsetDateTime::now_utc() - Duration::DAY,
        OffsetDateTime::now_utc() + Duration::DAY,
    );
    change(&mut params);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn issue(by: &Signer, common_name: &str, change: impl Fn(&mut CertificateParams)) -> String {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    change(&mut params);
    params
        .signed_by(&KeyPair::generate().unwrap(), by)
        .unwrap()
        .pem()
}

/// Creates an authority. Returns its id and its verification token.
fn unproven(authority: &Signer) -> (String, String) {
    let id = create(&authority.as_ref().pem()).expect(201).id();
    let token = shared().admin.get(&format!("/cas/{id}")).expect(200).data()["verificationToken"]
        .as_str()
        .unwrap()
        .to_owned();
    (id, token)
}

fn prove(id: &str, proof: &str) -> Answer {
    shared()
        .admin
        .ask("POST", &format!("/cas/{id}/verify"))
        .body("text/plain", proof)
        .send()
}

fn reason(refused: &Answer) -> Json {
    assert_eq!(refused.code(), "CERTIFICATE_FAILED_VALIDATION");
    refused.json["error"]["cause"]["message"].clone()
}

#[test]
fn refused_proofs_name_the_reason() {
    let name = fresh("prover");
    let (good, stranger, namesake) = (
        signer(&name, |_| ()),
        signer(&fresh("stranger"), |_| ()),
        signer(&name, |_| ()),
    );
    let (id, token) = unproven(&good);
    let (past, future) = (
        OffsetDateTime::now_utc() - Duration::HOUR,
        OffsetDateTime::now_utc() + Duration::HOUR,
    );
    let context = OpensslDirectory::new();
    let (ca, ca_key) = (
        context.put("ca.pem", good.as_ref().pem()),
        context.put("ca.key", good.key().serialize_pem()),
    );
    let csr = context.csr(&context.key("leaf.key", P256), &format!("/CN={token}"), &[]);
    let sha224 = context.openssl(
        &[
            "x509",
            "-req",
            "-sha224",
            "-days",
            "1",
            "-CA",
            &ca,
            "-CAkey",
            &ca_key,
            "-set_serial",
            "7",
        ],
        csr,
    );
    for (proof, expected) in [
        (
            issue(&stranger, &token, |_| ()),
            "it is not signed by the certificate authority, because its issuer has another name",
        ),
        (
            issue(&namesake, &token, |_| ()),
            "it is not signed with the key of the certificate authority",
        ),
        (
            issue(&good, &token, |leaf| leaf.not_after = past),
            "it has expired",
        ),
        (
            issue(&good, &token, |leaf| leaf.not_before = future),
            "it is not valid yet",
        ),
        (sha224, "unsupported: a signature with ECDSA and SHA-224"),
    ] {
        assert_eq!(reason(&prove(&id, &proof).expect(400)), expected);
    }
    prove(&id, &issue(&good, &token, |_| ())).expect(200);

    let dns = |name: &str| vec![GeneralSubtree::DnsName(name.to_owned())];
    let host = |leaf: &mut CertificateParams| {
        leaf.subject_alt_names = vec![rcgen::SanType::DnsName("other.test".try_into().unwrap())]
    };
    let changes: [(Change<'_>, &str); 3] = [
        (
            &|ca| ca.not_after = past,
            "the certificate of the authority has expired",
        ),
        (
            &|ca| ca.key_usages = vec![KeyUsagePurpose::CrlSign],
            "the key usage of the authority does not include the signing of certificates",
        ),
        (
            &|ca| {
                ca.name_constraints = Some(NameConstraints {
                    permitted_subtrees: dns("example.com"),
                    excluded_subtrees: vec![],
                })
            },
            "the name constraints of the authority do not admit it",
        ),
    ];
    for (change, expected) in changes {
        let authority = signer(&fresh("limited"), change);
        let (id, token) = unproven(&authority);
        assert_eq!(
            reason(&prove(&id, &issue(&authority, &token, host)).expect(400)),
            expected
        );
    }
}

#[test]
fn refused_authenticators_name_the_reason() {
    let server = shared();
    let authority = signer(&fresh("issuer"), |ca| {
        ca.not_before = OffsetDateTime::now_utc() - Duration::HOUR
    });
    let (id, token) = unproven(&authority);
    prove(&id, &issue(&authority, &token, |_| ())).expect(200);
    let identity = server.identity(&fresh("holder"), json!({}));
    let add = |proof: &str| {
        let body = json!({ "method": "cert", "identityId": identity, "certPem": proof });
        server.admin.post("/authenticators", body).expect(400).json["error"]["cause"]["reason"]
            .clone()
    };
    let early =
        |leaf: &mut CertificateParams| leaf.not_before = OffsetDateTime::now_utc() - Duration::DAY;
    assert_eq!(
        add(&issue(&authority, "early", early)),
        "the certificate of the authority is not valid yet"
    );
    assert_eq!(
        add(&issue(&signer(&fresh("unknown"), |_| ()), "x", |_| ())),
        "is not signed by a trusted certificate authority"
    );
}
