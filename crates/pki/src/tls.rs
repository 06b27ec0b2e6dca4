//! The TLS configuration of a listener (rustls on ring).
//!
//! Any client certificate is accepted, or none: the handshake proves that the client holds the key,
//! and nothing more. The certificate is judged later, per request, against what is trusted then. A
//! resumed connection carries the certificates of its first handshake, so that nothing may be
//! concluded from the connection being new.

use super::{Certificate, Error, KeyedCertificate, PublicKey, Result, chain};
use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, ring as provider};
use rustls::pki_types::{CertificateDer, SignatureVerificationAlgorithm, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, PeerMisbehaved, ServerConfig,
    SignatureScheme,
};
use std::fmt;
use std::sync::Arc;

/// Application protocols, preferred one first (RFC 7301). HTTP/1.1 is preferred because slightly
/// malformed request targets are only accepted there.
const PROTOCOLS: [&[u8]; 2] = [b"http/1.1", b"h2"];

/// The maximum length in bytes of all certificates of a client: they are kept as long as its
/// connection, and anybody may send some.
const MAX_CLIENT_CERTIFICATES: usize = 16 << 10;

/// The leaf that a listener serves, replaceable while it runs. Open connections keep the previous
/// one.
pub struct ServerLeaf(ArcSwap<CertifiedKey>);

impl ServerLeaf {
    /// The leaf, sent together with those of `cas` between it and a root.
    ///
    /// # Errors
    /// [`Error::BadKey`] if the key cannot be used for TLS.
    pub fn new(leaf: &KeyedCertificate, cas: &[Certificate]) -> Result<Self> {
        Ok(Self(ArcSwap::from_pointee(certified(leaf, cas)?)))
    }

    /// Serves another leaf from the next handshake on.
    ///
    /// # Errors
    /// As [`new`](Self::new); then the old leaf stays.
    pub fn replace(&self, leaf: &KeyedCertificate, cas: &[Certificate]) -> Result<()> {
        self.0.store(Arc::new(certified(leaf, cas)?));
        Ok(())
    }
}

fn certified(leaf: &KeyedCertificate, cas: &[Certificate]) -> Result<CertifiedKey> {
    let key =
        provider::sign::any_supported_type(&leaf.key().for_rustls()).map_err(|_| Error::BadKey)?;
    let sent = chain(leaf.certificate(), cas)
        .into_iter()
        .map(|certificate| certificate.der().clone())
        .collect();
    Ok(CertifiedKey::new(sent, key))
}

impl fmt::Debug for ServerLeaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerLeaf(..)")
    }
}

impl ResolvesServerCert for ServerLeaf {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

/// A configuration for TLS 1.2 and 1.3 that serves `leaf`, requests a client certificate, and
/// offers HTTP/2 and HTTP/1.1.
///
/// # Errors
/// [`Error::Internal`], which would be a defect of the build.
pub fn server_config(leaf: Arc<ServerLeaf>) -> Result<ServerConfig> {
    let ring = Arc::new(provider::default_provider());
    let clients = Arc::new(AnyClient(ring.signature_verification_algorithms));
    let mut config = ServerConfig::builder_with_provider(ring)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|error| Error::Internal(error.to_string()))?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(leaf);
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(config)
}

/// Accepts every client certificate whose key the client proves to hold.
///
/// The two signature functions of rustls reject certificates of version 1 and with unknown critical
/// extensions before the application sees them, so that the key is read from the certificate here.
#[derive(Debug)]
struct AnyClient(WebPkiSupportedAlgorithms);

impl AnyClient {
    fn prove<'a>(
        &self,
        candidates: impl IntoIterator<Item = &'a dyn SignatureVerificationAlgorithm>,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        proof: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let key: PublicKey = Certificate::from_der(certificate)
            .map_err(|_| CertificateError::BadEncoding)?
            .public_key()
            .clone();
        key.verify_with(candidates, message, proof.signature())
            .map_err(|_| CertificateError::BadSignature)?;
        Ok(HandshakeSignatureValid::assertion())
    }

    fn algorithms(
        &self,
        scheme: SignatureScheme,
    ) -> &'static [&'static dyn SignatureVerificationAlgorithm] {
        self.0
            .mapping
            .iter()
            .find(|(known, _)| *known == scheme)
            .map(|(_, algorithms)| *algorithms)
            .unwrap_or_default()
    }
}

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// Empty, so that clients send any certificate.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> std::result::Result<ClientCertVerified, rustls::Error> {
        let bytes = others
            .iter()
            .fold(leaf.len(), |bytes, other| bytes + other.len());
        if bytes > MAX_CLIENT_CERTIFICATES {
            return Err(rustls::Error::General(format!(
                "the client certificates have more than {} KiB",
                MAX_CLIENT_CERTIFICATES >> 10
            )));
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        proof: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.prove(
            self.algorithms(proof.scheme).iter().copied(),
            message,
            certificate,
            proof,
        )
    }

    /// RFC 8446 section 4.2.3: a scheme names one curve, the first of the list, and PKCS#1 is for
    /// certificates only.
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        proof: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        use SignatureScheme::{RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512};
        if matches!(
            proof.scheme,
            RSA_PKCS1_SHA256 | RSA_PKCS1_SHA384 | RSA_PKCS1_SHA512
        ) {
            return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
        }
        self.prove(
            self.algorithms(proof.scheme).first().copied(),
            message,
            certificate,
            proof,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
