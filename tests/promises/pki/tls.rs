//! TLS handshakes in memory.

use std::sync::Arc;

use pki::{
    AlternativeNames, Authority, Certificate, KeyedCertificate, Validity,
    tls::{ServerLeaf, server_config},
};

use super::{client, material, now};
use crate::harness::{ED25519, OpensslDirectory, P256, P384, RSA};

#[derive(Debug)]
struct PresentsCertificate(Arc<rustls::sign::CertifiedKey>);

impl rustls::client::ResolvesClientCert for PresentsCertificate {
    fn resolve(
        &self,
        _: &[&[u8]],
        _: &[rustls::SignatureScheme],
    ) -> Option<Arc<rustls::sign::CertifiedKey>> {
        Some(self.0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

type Version = &'static rustls::SupportedProtocolVersion;

/// A handshake in memory: fingerprints of the first certificate that each side received, and the
/// negotiated protocol.
fn handshake(
    server: &Arc<rustls::ServerConfig>,
    root: &str,
    version: Version,
    shown: Option<(&Certificate, &str)>,
) -> Result<[String; 3], String> {
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(Certificate::only(root).unwrap().der().clone())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match shown {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let key = rustls::pki_types::PrivatePkcs8KeyDer::from(
                pem::parse(key).unwrap().into_contents(),
            );
            let key = rustls::crypto::ring::sign::any_supported_type(&key.into()).unwrap();
            let shows = rustls::sign::CertifiedKey::new(vec![certificate.der().clone()], key);
            builder.with_client_cert_resolver(Arc::new(PresentsCertificate(Arc::new(shows))))
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let mut client =
        rustls::ClientConnection::new(Arc::new(config), "ctrl.test".try_into().unwrap()).unwrap();
    let mut server = rustls::ServerConnection::new(server.clone()).unwrap();
    for _ in 0..8 {
        let (mut up, mut down) = (Vec::new(), Vec::new());
        client.write_tls(&mut up).unwrap();
        server.read_tls(&mut up.as_slice()).unwrap();
        server
            .process_new_packets()
            .map_err(|error| error.to_string())?;
        server.write_tls(&mut down).unwrap();
        client.read_tls(&mut down.as_slice()).unwrap();
        client
            .process_new_packets()
            .map_err(|error| error.to_string())?;
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    let print = |seen: Option<&[rustls::pki_types::CertificateDer<'_>]>| {
        seen.map(|seen| Certificate::from_der(&seen[0]).unwrap().fingerprint())
            .unwrap_or_default()
    };
    let protocol = String::from_utf8_lossy(server.alpn_protocol().unwrap()).into_owned();
    Ok([
        print(server.peer_certificates()),
        print(client.peer_certificates()),
        protocol,
    ])
}

#[test]
fn handshake_admits_any_held_key() {
    let (context, material) = (OpensslDirectory::new(), material());
    let authority = Authority::open(&material).unwrap();
    let own = KeyedCertificate::open(&material.server).unwrap();
    let leaf = Arc::new(ServerLeaf::new(&own, authority.cas()).unwrap());
    let config = Arc::new(server_config(leaf.clone()).unwrap());
    let own = own.certificate().fingerprint();
    let stranger = std::fs::read_to_string(context.key("stranger", P256)).unwrap();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let connect = |shown: Option<(&Certificate, &str)>| {
            handshake(&config, &material.root.certificate, version, shown)
        };
        assert_eq!(
            connect(None),
            Ok([String::new(), own.clone(), "http/1.1".into()])
        );
        for kind in [P256, P384, RSA, ED25519] {
            let file = context.key("k", kind);
            let (csr, key) = (
                context.csr(&file, "/CN=x", &[]),
                std::fs::read_to_string(&file).unwrap(),
            );
            let expired = client(
                &authority,
                &csr,
                Validity {
                    not_before: 0,
                    not_after: 1,
                },
            );
            let self_signed = Certificate::only(&context.openssl(
                &["req", "-x509", "-new", "-key", &file, "-subj", "/CN=x"],
                "",
            ))
            .unwrap();
            for shown in [context.version_1(&csr, &material), expired, self_signed] {
                assert_eq!(
                    connect(Some((&shown, &key))),
                    Ok([shown.fingerprint(), own.clone(), "http/1.1".into()]),
                    "{kind:?} {version:?}"
                );
                assert!(
                    connect(Some((&shown, &stranger))).is_err(),
                    "{kind:?} {version:?}: the key does not belong to the certificate"
                );
            }
        }
    }
    let next = material
        .due(
            &AlternativeNames::of_hosts(["ctrl.test", "new.test"]),
            now(),
        )
        .unwrap()
        .unwrap();
    let renewed = KeyedCertificate::open(&next.server).unwrap();
    leaf.replace(&renewed, authority.cas()).unwrap();
    let seen = handshake(
        &config,
        &material.root.certificate,
        &rustls::version::TLS13,
        None,
    )
    .unwrap();
    assert_eq!(
        seen[1],
        renewed.certificate().fingerprint(),
        "the next handshake shows the new leaf"
    );
}
