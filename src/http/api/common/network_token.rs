//! The token with which a client takes up a network by its address alone: it names the controller and is signed by its key. It holds no
//! secret and does not end. Whoever has it enrolls by other means, such as a token of an external signer.

use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use crate::{
    error::{Error, Result},
    http::{answer::Shown, call::Call},
    pki::jwt::Signer,
};

/// What clients call the only token.
const NAME: &str = "default";
/// Who the token is for.
const AUDIENCE: &str = "openziti-enroller";

/// A token of the network.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NetworkJwt")]
pub struct NetworkToken {
    name: &'static str,
    token: String,
}

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
    fn token(&self, signer: Arc<Signer>, address: &str) -> Result<String> {
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

/// GET /network-jwts
pub async fn list(call: Call) -> Result<Shown<Vec<NetworkToken>>> {
    let token = call.network_tokens.token(call.keystore.signer(), &call.address)?;
    Ok(Shown(vec![NetworkToken { name: NAME, token }]))
}
