//! The token with which a client takes up a network by its address alone: it names the controller and is signed by its key. It holds no
//! secret and does not end. Whoever has it enrolls by other means, such as a token of an external signer.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    error::Result,
    http::{answer::Shown, call::Call},
};

/// What clients call the only token.
const NAME: &str = "default";
/// A token of the network.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NetworkJwt")]
pub struct NetworkToken {
    name: &'static str,
    token: String,
}

/// GET /network-jwts
pub async fn list(call: Call) -> Result<Shown<Vec<NetworkToken>>> {
    let token = call.network_tokens.token(call.keystore.signer(), &call.address)?;
    Ok(Shown(vec![NetworkToken { name: NAME, token }]))
}
