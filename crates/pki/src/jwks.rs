//! Key sets (RFC 7517): the public keys of an issuer of tokens, by key id.

use super::jwt::Verifier;
use super::{Certificate, Error, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::Algorithm;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The greatest number of keys that one key id may have. Each is tried on a token that names the
/// id.
const MAX_OF_ONE_ID: usize = 4;
/// The greatest number of skipped keys that are named, and of characters of their ids.
const MAX_SKIPPED: usize = 10;
const MAX_SHOWN_ID: usize = 60;

/// Verifiers by key id. Several keys may have the same id (RFC 7517 section 4.5).
#[derive(Debug, Default)]
pub struct Verifiers {
    by_id: BTreeMap<String, Vec<Verifier>>,
    skipped: Vec<String>,
}

impl Verifiers {
    /// Reads at most `limit` keys of a key set. Keys that are not for signatures are left out. Keys
    /// that have no id, are of an unsupported kind or are declared for an algorithm that does not
    /// fit are skipped; [`Verifiers::skipped`] names them.
    ///
    /// # Errors
    /// [`Error::Token`] if the JSON is not a key set.
    pub fn read(json: &[u8], limit: usize) -> Result<Self> {
        #[derive(Deserialize)]
        struct Keys {
            keys: Vec<Value>,
        }
        let read: Keys =
            serde_json::from_slice(json).map_err(|_| Error::Token("not a key set".into()))?;
        let (mut set, rest) = (Self::default(), read.keys.len().saturating_sub(limit));
        for (index, key) in read.keys.into_iter().take(limit).enumerate() {
            set.add(index, key);
        }
        if rest > 0 {
            set.skip(format!("{rest} keys behind the first {limit}"));
        }
        Ok(set)
    }

    /// The verifiers for tokens with this key id, in the order of the set.
    pub fn get(&self, id: &str) -> &[Verifier] {
        self.by_id.get(id).map_or(&[], Vec::as_slice)
    }

    /// Whether no key can be used.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The skipped keys, each with the reason; at most ten. Their ids are quoted and escaped.
    pub fn skipped(&self) -> &[String] {
        &self.skipped
    }

    fn add(&mut self, index: usize, key: Value) {
        let Value::Object(mut key) = key else {
            return self.skip(format!("key {}: not an object", index + 1));
        };
        // RFC 7517 section 4.2: for encryption.
        if key
            .get("use")
            .is_some_and(|purpose| !purpose.is_null() && purpose != "sig")
        {
            return;
        }
        let Some(Value::String(id)) = key.remove("kid") else {
            return self.skip(format!("key {}: it has no kid", index + 1));
        };
        let named = |reason: &dyn std::fmt::Display| {
            let shown: String = id.chars().take(MAX_SHOWN_ID).collect();
            format!("key {shown:?}: {reason}")
        };
        if self.get(&id).len() >= MAX_OF_ONE_ID {
            return self.skip(named(&format_args!(
                "more than {MAX_OF_ONE_ID} keys have this kid"
            )));
        }
        match verifier(key) {
            Ok(verifier) => self.by_id.entry(id).or_default().push(verifier),
            Err(reason) => self.skip(named(&reason)),
        }
    }

    fn skip(&mut self, reason: String) {
        if self.skipped.len() < MAX_SKIPPED {
            self.skipped.push(reason);
        }
    }
}

/// The verifier of a key: that of its first certificate, or of its parameters if it has no
/// certificate that can be used.
fn verifier(mut key: Map<String, Value>) -> Result<Verifier> {
    let declared = match key.remove("alg") {
        None | Some(Value::Null) => None,
        Some(alg) => Some(
            alg.as_str()
                .and_then(|alg| alg.parse::<Algorithm>().ok())
                .ok_or(Error::Unsupported("its alg".into()))?,
        ),
    };
    let of_certificate = key.remove("x5c").and_then(|chain| certified(&chain));
    let verifier = match of_certificate {
        Some(verifier) => verifier,
        None => {
            let key = serde_json::from_value(Value::Object(key))
                .map_err(|_| Error::Unsupported("this kind of key".into()))?;
            Verifier::of_jwk(&key)?
        }
    };
    match declared {
        // RFC 8725 section 3.1: a key is used with its algorithm only.
        Some(algorithm) => verifier.only(algorithm),
        None => Ok(verifier),
    }
}

/// The verifier of the first certificate of a chain, if it can be used.
fn certified(chain: &Value) -> Option<Verifier> {
    let der = STANDARD.decode(chain.get(0)?.as_str()?).ok()?;
    Verifier::new(Certificate::from_der(&der).ok()?.public_key()).ok()
}
