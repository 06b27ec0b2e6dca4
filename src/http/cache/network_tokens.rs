//! The token of the network, signed once for each key.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use uuid::Uuid;

use crate::{
    error::{Error, Result},
    pki::jwt::Signer,
};

/// Who the token is for.
const AUDIENCE: &str = "openziti-enroller";

/// What the token says. The members are those of enrollment tokens (RFC 7519), with a method of its own.
#[derive(Serialize)]
struct Claims<'c> {
    em: &'static str,
    iss: &'c str,
    sub: &'c str,
    aud: [&'static str; 1],
    jti: String,
}

/// The token as it was signed last. Anybody may ask for it, so it is signed once for each key and not for each request.
#[derive(Default)]
pub struct NetworkTokens(Mutex<Option<(Arc<Signer>, String)>>);

impl NetworkTokens {
    /// The token of the controller at `address`, `HOST:PORT`.
    ///
    /// # Errors
    /// The key does not sign.
    pub fn token(&self, signer: Arc<Signer>, address: &str) -> Result<String> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((by, token)) = kept.as_ref()
            && Arc::ptr_eq(by, &signer)
        {
            return Ok(token.clone());
        }
        let issuer = format!("https://{address}/");
        let claims = Claims { em: "network", iss: &issuer, sub: &issuer, aud: [AUDIENCE], jti: Uuid::new_v4().to_string() };
        let token = signer.sign(&claims).map_err(|e| Error::Internal(format!("signing the token of the network: {e}")))?;
        *kept = Some((signer, token.clone()));
        Ok(token)
    }
}
