//! Verification of the certificate of a server that the controller connects to, such as the
//! endpoint of a key set.
//!
//! webpki verifies everything except two points: a certificate above the leaf must have
//! `keyCertSign` if it has a key usage extension (RFC 5280 section 4.2.1.3), and it must have no
//! critical extension that is not processed here. Those between the leaf and the anchor are checked
//! again for that, as in `verification.rs`. An anchor that may not sign certificates is not
//! trusted.

use rustls::{
    CertificateError, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime},
};
use webpki::{EndEntityCert, KeyUsage, VerifiedPath};

use super::{Certificate, signature::ALGORITHMS};

/// Trusts servers below some anchors.
#[derive(Debug)]
pub struct ServerVerifier {
    anchors: Vec<TrustAnchor<'static>>,
    /// Those of the handshake.
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerVerifier {
    /// Trusts these. Those that cannot be read, or may not sign, are left out.
    pub fn new(trusted: &[CertificateDer<'_>]) -> Self {
        let signs = |der: &&CertificateDer<'_>| {
            Certificate::from_der(der).is_ok_and(|anchor| anchor.may_sign())
        };
        let anchor =
            |der: &CertificateDer<'_>| Some(webpki::anchor_from_trusted_cert(der).ok()?.to_owned());
        let anchors = trusted.iter().filter(signs).filter_map(anchor).collect();
        Self {
            anchors,
            algorithms: ring::default_provider().signature_verification_algorithms,
        }
    }

    fn judge(
        &self,
        leaf: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), webpki::Error> {
        let leaf = EndEntityCert::try_from(leaf)?;
        let signs = |der: CertificateDer<'_>| {
            Certificate::from_der(&der).is_ok_and(|between| between.may_anchor(0))
        };
        let bound = |path: &VerifiedPath<'_>| {
            let may_sign = path
                .intermediate_certificates()
                .all(|between| signs(between.der()));
            may_sign.then_some(()).ok_or(webpki::Error::UnknownIssuer)
        };
        leaf.verify_for_usage(
            &ALGORITHMS,
            &self.anchors,
            between,
            now,
            KeyUsage::server_auth(),
            None,
            Some(&bound),
        )?;
        leaf.verify_is_valid_for_subject_name(name)
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.judge(leaf, between, name, now)
            .map_err(|refused| Error::InvalidCertificate(refusal(refused)))?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, leaf, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, leaf, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn refusal(refused: webpki::Error) -> CertificateError {
    match refused {
        webpki::Error::UnknownIssuer => CertificateError::UnknownIssuer,
        webpki::Error::BadDer => CertificateError::BadEncoding,
        webpki::Error::CertExpired { .. } => CertificateError::Expired,
        webpki::Error::CertNotValidYet { .. } => CertificateError::NotValidYet,
        webpki::Error::CertNotValidForName(_) => CertificateError::NotValidForName,
        other => CertificateError::Other(rustls::OtherError(std::sync::Arc::new(other))),
    }
}
