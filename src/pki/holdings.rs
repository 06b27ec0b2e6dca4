//! What a running controller holds: its authority, its trust roots and the leaf it shows, ready for use.

use std::sync::Arc;

use arc_swap::ArcSwap;
use serde::Serialize;

use super::{
    Authority, Certificate, KeyedCertificate, Material, Result, bundle_pem, certificates_only_base64, chain_pem, jwt::Signer,
    tls::ServerLeaf,
};

/// Keys and certificates of a controller, opened.
pub struct Holdings {
    authority: Authority,
    signer: ArcSwap<Signer>,
    leaf: Arc<ServerLeaf>,
    bundle: String,
    store: String,
}

impl Holdings {
    /// Opens what is stored.
    ///
    /// # Errors
    /// A certificate cannot be read, or its key does not fit.
    pub fn open(material: &Material) -> Result<Self> {
        let authority = Authority::open(material)?;
        let server = KeyedCertificate::open(&material.server)?;
        let leaf = Arc::new(ServerLeaf::new(&server, authority.cas())?);
        let (bundle, store) = (bundle_pem(authority.cas()), certificates_only_base64(authority.cas()));
        Ok(Self { signer: ArcSwap::from_pointee(Signer::new(&server)?), authority, leaf, bundle, store })
    }

    /// The authority that issues.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The leaf that listeners show.
    pub fn leaf(&self) -> Arc<ServerLeaf> {
        self.leaf.clone()
    }

    /// A token signed with the key of the leaf that listeners show: clients verify it with that leaf.
    ///
    /// # Errors
    /// The claims have no JSON form.
    pub fn sign(&self, claims: &impl Serialize) -> Result<String> {
        self.signer.load().sign(claims)
    }

    /// An issued certificate and the authorities between it and the root, as PEM.
    pub fn chain_pem(&self, leaf: &Certificate) -> String {
        chain_pem(leaf, self.authority.cas())
    }

    /// The authorities that clients should trust, as PEM.
    pub fn bundle_pem(&self) -> &str {
        &self.bundle
    }

    /// The same, as base64 of a PKCS#7 structure.
    pub fn bundle_pkcs7(&self) -> &str {
        &self.store
    }
}
