//! The network token, with which a client that knows only the address of the controller can join
//! the network. The token names the controller and is signed with the controller's key. The token
//! is not secret and does not expire. To enroll, a client needs a further proof, such as a token of
//! an external signer.

use model::error::Result;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{answer::Data, call::Call};

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
pub(crate) async fn list(call: Call) -> Result<Data<Vec<NetworkToken>>> {
    let token = call
        .state
        .caches
        .network_tokens
        .token(call.state.keystore.signer(), &call.state.instance.address)?;
    Ok(Data(vec![NetworkToken { name: NAME, token }]))
}
