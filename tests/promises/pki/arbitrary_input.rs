//! Arbitrary and damaged input never causes a panic.

use pki::{
    Certificate, CertificatePurpose, Csr, LeafDates, PrivateKey, Verification,
    jwt::{self, Verifier},
};
use proptest::prelude::*;

use super::material;
use crate::harness::{OpensslDirectory, P384};

/// Parses bytes in every way; only the absence of a panic counts.
pub fn read_every_way(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for text in [
        text.as_ref(),
        &pem::encode(&pem::Pem::new("CERTIFICATE", bytes)),
    ] {
        let _ = (
            Csr::parse(text),
            Certificate::bundle(text),
            Certificate::first(text),
            PrivateKey::from_pem(text),
        );
    }
    let _ = Csr::parse(&pem::encode(&pem::Pem::new("CERTIFICATE REQUEST", bytes)));
    if let Ok(certificate) = Certificate::from_der(bytes) {
        let renamed = certificate.subject().with_common_name("x");
        let _ = (
            certificate.subject().to_string(),
            certificate.subject().common_name(),
            renamed,
            certificate.is_signed_by(&certificate),
        );
        let _ = (
            certificate.public_key().kind(),
            Verifier::new(certificate.public_key())
                .map(|verifier| verifier.verify::<String>(&text)),
        );
        let anchors = [certificate.clone()];
        let (now, purpose, leaf_dates) = (
            certificate.not_after(),
            CertificatePurpose::Client,
            LeafDates::Ignore,
        );
        let _ = Verification {
            anchors: &anchors,
            intermediates: &anchors,
            now,
            purpose,
            leaf_dates,
        }
        .anchor_of(&anchors);
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read_every_way(&bytes);
    }

    #[test]
    fn damaged_certificates_and_requests_never_panic(at in any::<prop::sample::Index>(), to in any::<u8>(), cut in any::<prop::sample::Index>()) {
        jwt::install();
        for whole in samples() {
            let mut bytes = whole.clone();
            let at = at.index(bytes.len());
            bytes[at] = to;
            read_every_way(&bytes);
            bytes.truncate(cut.index(bytes.len()));
            read_every_way(&bytes);
        }
    }
}

pub fn samples() -> &'static [Vec<u8>] {
    static SAMPLES: std::sync::OnceLock<Vec<Vec<u8>>> = std::sync::OnceLock::new();
    SAMPLES.get_or_init(|| {
        let (context, material) = (OpensslDirectory::new(), material());
        let csr = context.csr(
            &context.key("k", P384),
            "/O=x/CN=y",
            &[
                "-sha384",
                "-addext",
                "subjectAltName=DNS:a.test,IP:127.0.0.1",
            ],
        );
        let texts = [
            csr,
            material.root.certificate,
            material.server.certificate,
            material.server.key.to_string(),
        ];
        texts
            .iter()
            .map(|text| pem::parse(text).unwrap().into_contents())
            .collect()
    })
}
