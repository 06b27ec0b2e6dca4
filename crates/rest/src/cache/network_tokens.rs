//! The network token, signed once per key.

use std::sync::{Arc, Mutex, PoisonError};

use model::error::{Error, Result};
use pki::jwt::Signer;
use serde::Serialize;
use uuid::Uuid;

/// The audience of the token.
const AUDIENCE: &str = "openziti-enroller";

/// The claims of the token: those of enrollment tokens (RFC 7519), with the method `network`.
#[derive(Serialize)]
struct Claims<'c> {
    em: &'static str,
    iss: &'c str,
    sub: &'c str,
    aud: [&'static str; 1],
    jti: String,
}

/// The last signed token and its signer. Any client may request the token, so it is signed once per
/// key and not once per request.
#[derive(Default)]
pub struct NetworkTokens(Mutex<Option<(Arc<Signer>, String)>>);

impl NetworkTokens {
    /// The token of the controller at `address` (`HOST:PORT`).
    ///
    /// # Errors
    /// Signing fails.
    pub(crate) fn token(&self, signer: Arc<Signer>, address: &str) -> Result<String> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((by, token)) = kept.as_ref()
            && Arc::ptr_eq(by, &signer)
        {
            return Ok(token.clone());
        }
        let issuer = format!("https://{address}/");
        let claims = Claims {
            em: "network",
            iss: &issuer,
            sub: &issuer,
            aud: [AUDIENCE],
            jti: Uuid::new_v4().to_string(),
        };
        let token = signer
            .sign(&claims)
            .map_err(|e| Error::Internal(format!("cannot sign the network token: {e}")))?;
        *kept = Some((signer, token.clone()));
        Ok(token)
    }
}
