//! The network token: a client joins a network with it by knowing only the address. It names the controller and is signed with its key. It
//! is not secret and does not expire; enrolling requires something else, such as a token of an external signer.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    error::Result,
    http::{answer::Shown, call::Call},
};

/// The name that clients expect for the only token.
const NAME: &str = "default";
/// A token of the network.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NetworkJwt")]
pub(crate) struct NetworkToken {
    name: &'static str,
    token: String,
}

/// GET /network-jwts
pub(crate) async fn list(call: Call) -> Result<Shown<Vec<NetworkToken>>> {
    let token = call.network_tokens.token(call.keystore.signer(), &call.address)?;
    Ok(Shown(vec![NetworkToken { name: NAME, token }]))
}
