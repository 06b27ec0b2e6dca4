//! The TLS configuration of a client: which servers it trusts, and the certificate that it
//! presents.

use super::{Certificate, Error, PrivateKey, Result};
use rustls::ClientConfig;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring as provider;
use std::sync::Arc;

/// What a client presents to servers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ClientCertificate {
    chain: Arc<[Certificate]>,
    key: PrivateKey,
}

impl ClientCertificate {
    /// The chain, leaf first, and the key of the leaf.
    ///
    /// # Errors
    /// [`Error::WrongBlock`] for an empty chain, [`Error::KeyMismatch`] if the key belongs to
    /// another certificate than the first.
    pub fn new(chain: Vec<Certificate>, key: PrivateKey) -> Result<Self> {
        let leaf = chain.first().ok_or(Error::WrongBlock)?;
        if *leaf.public_key() != key.public() {
            return Err(Error::KeyMismatch);
        }
        let chain = chain.into();
        Ok(Self { chain, key })
    }

    /// The leaf.
    pub fn leaf(&self) -> Option<&Certificate> {
        self.chain.first()
    }

    /// The leaf, then the authorities that were given with it.
    pub fn chain(&self) -> &[Certificate] {
        &self.chain
    }

    /// The key of the leaf.
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }
}

/// A configuration for TLS 1.2 and 1.3 that trusts what `verifier` accepts and presents
/// `certificate` to servers that ask for one.
///
/// # Errors
/// [`Error::BadKey`] if rustls does not support the key; [`Error::Internal`], which would be a
/// defect of the build.
pub fn client_config(
    verifier: Arc<dyn ServerCertVerifier>,
    certificate: Option<&ClientCertificate>,
) -> Result<ClientConfig> {
    let config = ClientConfig::builder_with_provider(Arc::new(provider::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Internal(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let Some(certificate) = certificate else {
        return Ok(config.with_no_client_auth());
    };
    let chain = certificate.chain.iter();
    config
        .with_client_auth_cert(
            chain.map(|one| one.der().clone()).collect(),
            certificate.key.for_rustls().clone_key(),
        )
        .map_err(|_| Error::BadKey)
}
