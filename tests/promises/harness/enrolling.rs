//! Keys of callers, and the way from a one-time token to a certificate.

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, SignatureAlgorithm};
use serde_json::json;
use ureq::tls::PrivateKey;

use super::{caller::Caller, fresh, house::House};

/// A private key of somebody.
pub struct Key(KeyPair);

impl Key {
    pub fn new() -> Self {
        Self::of(&PKCS_ECDSA_P256_SHA256)
    }

    pub fn of(algorithm: &'static SignatureAlgorithm) -> Self {
        Self(KeyPair::generate_for(algorithm).unwrap())
    }

    /// A certificate request, PEM.
    pub fn request(&self) -> String {
        CertificateParams::default().serialize_request(&self.0).unwrap().pem().unwrap()
    }

    /// A certificate that vouches for itself, PEM.
    pub fn self_signed(&self) -> String {
        CertificateParams::default().self_signed(&self.0).unwrap().pem()
    }

    /// PKCS#8.
    pub fn der(&self) -> Vec<u8> {
        self.0.serialize_der()
    }

    pub fn private(&self) -> PrivateKey<'static> {
        PrivateKey::from_pem(self.0.serialize_pem().as_bytes()).unwrap()
    }
}

impl House {
    /// The outstanding one-time token of an identity.
    pub fn token_of(&self, identity: &str) -> String {
        let shown = self.admin.get(&format!("/identities/{identity}")).expect(200);
        shown.data()["enrollment"]["ott"]["token"].as_str().unwrap().into()
    }

    /// A new identity that has enrolled for a certificate: its id, and a caller whose connections show it, without a session.
    pub fn enrolled(&self, what: &str) -> (String, Caller) {
        let id = self.identity(&fresh(what), json!({ "enrollment": { "ott": true } }));
        let key = Key::new();
        let path = format!("/enroll?method=ott&token={}", self.token_of(&id));
        let issued = self.nobody().ask("POST", &path).body("application/pkcs10", key.request()).send().expect(200);
        (id, self.bearer(issued.data()["cert"].as_str().unwrap(), &key))
    }
}
