//! Public keys as JSON Web Keys (RFC 7517, RFC 7518 section 6), without private members.

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use ring::digest;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::json;

use super::der::{self, INTEGER, SEQUENCE};
use super::{Certificate, Error, KeyKind, Result};

/// The public key of a certificate, for verifying signatures.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[schemars(rename = "Jwk", transform = without_private_members)]
pub struct PublicJwk {
    /// `RSA` or `EC`.
    kty: String,
    /// The algorithm of its signatures.
    pub alg: String,
    /// `sig`: for verifying signatures.
    r#use: String,
    /// The fingerprint of the certificate.
    pub kid: String,
    key_ops: Vec<&'static str>,
    /// The certificate, base64 of its DER.
    x5c: Vec<String>,
    /// SHA-1 of the certificate.
    x5t: String,
    /// SHA-256 of the certificate.
    #[serde(rename = "x5t#S256")]
    x5t_sha256: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    crv: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    y: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    e: Option<String>,
}

impl PublicJwk {
    /// The key of a certificate for signatures with the algorithm `alg`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for Ed25519, [`Error::BadDer`].
    pub fn of(certificate: &Certificate, alg: &str) -> Result<Self> {
        let key = certificate.public_key();
        let (_, bytes) = key.parts()?;
        let der = certificate.der();
        let hash = |algorithm| URL_SAFE_NO_PAD.encode(digest::digest(algorithm, der));
        let known = Self {
            alg: alg.into(),
            r#use: "sig".into(),
            kid: certificate.fingerprint(),
            key_ops: vec!["verify"],
            x5c: vec![STANDARD.encode(der)],
            x5t: hash(&digest::SHA1_FOR_LEGACY_USE_ONLY),
            x5t_sha256: hash(&digest::SHA256),
            ..Self::default()
        };
        match key.kind()? {
            KeyKind::Rsa => {
                let parts = der::inside(SEQUENCE, bytes)?;
                let [modulus, exponent] = parts.as_slice() else {
                    return Err(Error::BadDer);
                };
                Ok(Self {
                    kty: "RSA".into(),
                    n: Some(number(modulus)?),
                    e: Some(number(exponent)?),
                    ..known
                })
            }
            KeyKind::P256 => known.with_point("P-256", bytes),
            KeyKind::P384 => known.with_point("P-384", bytes),
            KeyKind::Ed25519 => Err(Error::Unsupported("a key set with Ed25519".into())),
        }
    }

    /// `point` is uncompressed: a 4 and both coordinates (SEC 1 section 2.3.3).
    fn with_point(self, curve: &str, point: &[u8]) -> Result<Self> {
        let [4, coordinates @ ..] = point else {
            return Err(Error::BadDer);
        };
        let (x, y) = coordinates
            .split_at_checked(coordinates.len() / 2)
            .ok_or(Error::BadDer)?;
        let text = |bytes| Some(URL_SAFE_NO_PAD.encode(bytes));
        Ok(Self {
            kty: "EC".into(),
            crv: Some(curve.into()),
            x: text(x),
            y: text(y),
            ..self
        })
    }
}

/// Adds to the schema that members of private keys (RFC 7518 section 6.3.2) and URLs of
/// certificates never appear.
fn without_private_members(schema: &mut Schema) {
    let Some(properties) = schema
        .get_mut("properties")
        .and_then(|properties| properties.as_object_mut())
    else {
        return;
    };
    let never = "Never present.";
    for name in ["d", "p", "q", "dp", "dq", "qi", "x5u"] {
        properties.insert(
            name.into(),
            json!({ "description": never, "type": "string", "not": {} }),
        );
    }
    let part = json!({ "description": never, "type": "string" });
    let prime = json!({ "type": "object", "properties": { "d": part, "r": part, "t": part } });
    let primes = json!({ "description": never, "type": "array", "not": {}, "items": prime });
    properties.insert("oth".into(), primes);
}

/// A positive integer, without the zero that DER puts before a high first bit.
fn number(element: &[u8]) -> Result<String> {
    let bytes = der::content_of(INTEGER, element)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes.strip_prefix(&[0]).unwrap_or(bytes)))
}
