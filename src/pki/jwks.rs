//! Key sets (RFC 7517): the public keys of an issuer of tokens, by key id.

use super::jwt::Verifier;
use super::{Certificate, Error, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Verifiers by key id.
#[derive(Debug, Default)]
pub struct Verifiers(BTreeMap<String, Verifier>);

impl Verifiers {
    /// Reads at most `limit` keys of a key set. Keys that are not for signatures, have no id or are of an unsupported
    /// kind are skipped.
    ///
    /// # Errors
    /// [`Error::Token`] if the JSON is not a key set.
    pub fn read(json: &[u8], limit: usize) -> Result<Self> {
        #[derive(Deserialize)]
        struct Keys {
            keys: Vec<serde_json::Value>,
        }
        let read: Keys = serde_json::from_slice(json).map_err(|_| Error::Token("not a key set".into()))?;
        let keys = read.keys.into_iter().take(limit).filter_map(|key| {
            let key: Jwk = serde_json::from_value(key).ok()?;
            let for_signatures = key.common.public_key_use.as_ref().is_none_or(|of| *of == PublicKeyUse::Signature);
            let id = key.common.key_id.clone().filter(|_| for_signatures)?;
            verifier(&key).ok().map(|verifier| (id, verifier))
        });
        Ok(Self(keys.collect()))
    }

    /// The verifier for tokens with this key id.
    pub fn get(&self, id: &str) -> Option<&Verifier> {
        self.0.get(id)
    }
}

/// The verifier of a key; if the key has certificates, that of the first one.
fn verifier(key: &Jwk) -> Result<Verifier> {
    match key.common.x509_chain.as_ref().and_then(|chain| chain.first()) {
        Some(text) => {
            let der = STANDARD.decode(text).map_err(|_| Error::BadDer)?;
            Verifier::new(Certificate::from_der(&der)?.public_key())
        }
        None => Verifier::of_jwk(key),
    }
}
