//! What a running controller holds: its authority, its trust roots and the leaf it shows, ready for use.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use serde::Serialize;

use super::{
    AlternativeNames, Authority, Certificate, KeyedCertificate, Material, PublicJwk, Result, bundle_pem, certificates_only_base64,
    chain_pem, jwt::Signer, tls::ServerLeaf,
};

/// Keys and certificates of a controller, opened.
pub struct Holdings {
    material: Mutex<Material>,
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
        let material = Mutex::new(material.clone());
        Ok(Self { material, signer: ArcSwap::from_pointee(Signer::new(&server)?), authority, leaf, bundle, store })
    }

    /// What is to be stored, and then [adopted](Self::adopt), because the leaf that listeners show has lived two thirds of its life or
    /// does not name all of `hosts`. The new leaf keeps the key: clients verify enrollment tokens with whatever leaf is shown.
    ///
    /// # Errors
    /// The leaf cannot be issued.
    pub fn due(&self, hosts: &AlternativeNames, now: i64) -> Result<Option<Material>> {
        let material = self.material.lock().unwrap_or_else(PoisonError::into_inner);
        let leaf = Certificate::only(&material.server.certificate)?;
        let (life, lived) = (leaf.not_after() - leaf.not_before(), now - leaf.not_before());
        let young = (0..life / 3 * 2).contains(&lived);
        if young && leaf.names().cover(hosts) {
            return Ok(None);
        }
        let server = material.renew_server(hosts, now)?;
        Ok(Some(Material { server, ..material.clone() }))
    }

    /// Shows and signs with the leaf of `material` from now on. Connections that are open keep what they began with.
    ///
    /// # Errors
    /// It cannot be used; then everything stays as it was.
    pub fn adopt(&self, material: Material) -> Result<()> {
        let server = KeyedCertificate::open(&material.server)?;
        let signer = Signer::new(&server)?;
        self.leaf.replace(&server, self.authority.cas())?;
        self.signer.store(Arc::new(signer));
        *self.material.lock().unwrap_or_else(PoisonError::into_inner) = material;
        Ok(())
    }

    /// The authority that issues.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Every certificate of the controller, and what it is for.
    pub fn certificates(&self) -> Vec<(&'static str, Certificate)> {
        let material = self.material.lock().unwrap_or_else(PoisonError::into_inner);
        let held = [("root", &material.root), ("intermediate", &material.intermediate), ("server", &material.server)];
        held.into_iter().filter_map(|(role, held)| Some((role, Certificate::only(&held.certificate).ok()?))).collect()
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

    /// A signature of bytes with the same key, base64url without padding. Of bytes that could not be a token's, please.
    ///
    /// # Errors
    /// The key cannot be used.
    pub fn sign_bytes(&self, message: &[u8]) -> Result<String> {
        self.signer.load().sign_bytes(message)
    }

    /// The public half of that key.
    pub fn public_key(&self) -> PublicJwk {
        self.signer.load().public_key().clone()
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
