//! Certificates, chains and bundles as text.

use pki::{
    Authority, Certificate, Error, Validity, bundle_pem, certificates_only,
    certificates_only_base64, chain_pem,
};

use super::{client, material, now};
use crate::harness::{OpensslDirectory, P256};

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
