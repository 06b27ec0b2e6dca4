//! Public operations before an enrollment: they prove that this controller holds the key that signs
//! its tokens.

use model::error::{Error, Result};
use pki::PublicJwk;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{answer::BareJson, call::Call, extractor::Body};

/// The text that is put before a nonce, so that both are signed together. Tokens are signed with
/// the same key, but contain no blanks: therefore the signed text can never be taken for a token.
const DOMAIN: &str = "overkeep enrollment challenge: ";

/// The public key that verifies tokens, once per certificate that it has had: a token names the
/// certificate of its time.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Jwks")]
pub(crate) struct KeySet {
    keys: Vec<PublicJwk>,
}

/// GET /enroll/jwks
pub(crate) async fn keys(call: Call) -> Result<BareJson<KeySet>> {
    Ok(BareJson(KeySet {
        keys: call
            .state
            .keystore
            .signer()
            .public_keys()
            .cloned()
            .collect(),
    }))
}

/// A challenge to sign.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NonceChallenge {
    /// The id of the key to sign with.
    key_id: String,
    /// A UUID.
    #[schemars(extend("format" = "uuid"))]
    nonce: String,
}

/// The proof that this controller holds a private key.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NonceSignature {
    /// The signature of `overkeep enrollment challenge: ` followed by the nonce as sent, in UTF-8;
    /// base64url without padding.
    signature: String,
    /// The algorithm, as in the key set.
    algorithm: String,
    kid: String,
    /// The trusted certificate authorities, PEM.
    ca_pool: String,
}

/// POST /enroll/challenge
pub(crate) async fn challenge(
    call: Call,
    Body(asked): Body<NonceChallenge>,
) -> Result<BareJson<NonceSignature>> {
    if Uuid::try_parse(&asked.nonce).is_err() {
        return Err(Error::invalid("nonce", "must be a UUID", asked.nonce));
    }
    let signer = call.state.keystore.signer();
    let Some(key) = signer
        .public_keys()
        .find(|key| key.kid == asked.key_id)
        .cloned()
    else {
        return Err(Error::invalid(
            "keyId",
            "is not the key of this controller",
            asked.key_id,
        ));
    };
    let message = format!("{DOMAIN}{}", asked.nonce);
    let signature = signer
        .sign_bytes(message.as_bytes())
        .map_err(|e| Error::Internal(format!("cannot sign a nonce: {e}")))?;
    Ok(BareJson(NonceSignature {
        signature,
        algorithm: key.alg,
        kid: key.kid,
        ca_pool: call.state.keystore.bundle_pem(call.now.seconds()),
    }))
}
