//! Verification of a server by a token that it signed: the key of its certificate is the one that
//! verifies the token. It is for the first connection of a client, which knows nothing but a token
//! that it got in another way.

use super::{Certificate, ServerVerifier, jwt};
use rustls::{
    CertificateError, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use serde::de::IgnoredAny;
use std::fmt;

/// Accepts a server whose key signed a token. The name, the issuer and the dates of its certificate
/// have no meaning, because the handshake proves that the server holds the key.
pub struct TokenVerifier {
    token: String,
    /// Verifies the handshake. It trusts nobody.
    handshake: ServerVerifier,
}

impl TokenVerifier {
    /// Accepts the server that signed this token, in its compact form.
    pub fn new(token: &str) -> Self {
        jwt::install();
        Self {
            token: token.to_owned(),
            handshake: ServerVerifier::new(&[]),
        }
    }

    fn is_signed_by(&self, leaf: &CertificateDer<'_>) -> super::Result<IgnoredAny> {
        let leaf = Certificate::from_der(leaf)?;
        jwt::Verifier::new(leaf.public_key())?.verify(&self.token)
    }
}

impl fmt::Debug for TokenVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenVerifier(..)")
    }
}

impl ServerCertVerifier for TokenVerifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.is_signed_by(leaf).map_err(|_| {
            Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)
        })?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.handshake.verify_tls12_signature(message, leaf, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.handshake.verify_tls13_signature(message, leaf, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.handshake.supported_verify_schemes()
    }
}
