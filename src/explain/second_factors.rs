//! What a log-in needs besides a credential. The verdict takes it as given: whoever never set it up learns it here.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    authentication::mfa,
    entity::{AuthPolicy, ExternalJwtSigner, FactsExt, Identity, Record},
    error::Result,
    store::Read,
};

/// Something that is asked for besides a credential. Without it a session may do nothing.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ExplainedSecondFactor")]
pub struct SecondFactor {
    /// What is asked for.
    pub factor: Factor,
    /// Whether the identity can give it: it has set one-time codes up; the signer is enabled, and knows it by something that it has.
    pub is_ready: bool,
    /// The same for a person.
    pub text: String,
}

/// The second factors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ExplainedFactor")]
pub enum Factor {
    /// A one-time code.
    Totp,
    /// A token of another issuer, with every request.
    ExtJwt,
}

/// What is asked of an identity besides a credential, by its auth policy or because it has set one-time codes up.
///
/// # Errors
/// A record cannot be read.
pub fn asked_of(tx: &Read<'_>, identity: &Record<Identity>, policy: &Record<AuthPolicy>) -> Result<Vec<SecondFactor>> {
    let secondary = &policy.spec.secondary;
    let has_codes = mfa::is_enrolled(tx, &identity.id)?;
    let mut factors = Vec::new();
    if secondary.require_totp || has_codes {
        factors.push(code(identity, policy, has_codes));
    }
    if let Some(signer) = &secondary.require_ext_jwt_signer {
        factors.push(token(identity, policy, &tx.get(signer)?));
    }
    Ok(factors)
}

fn code(identity: &Record<Identity>, policy: &Record<AuthPolicy>, is_ready: bool) -> SecondFactor {
    let (name, policy) = (&identity.spec.name, &policy.spec.name);
    let text = if is_ready {
        format!("{name} needs a one-time code besides to log in")
    } else {
        format!("the auth policy {policy} asks for a one-time code, but {name} has set none up")
    };
    SecondFactor { factor: Factor::Totp, is_ready, text }
}

fn token(identity: &Record<Identity>, policy: &Record<AuthPolicy>, signer: &Record<ExternalJwtSigner>) -> SecondFactor {
    let (name, signed_by) = (&identity.spec.name, &signer.spec.name);
    let is_nameless = signer.spec.use_external_id && identity.spec.external_id.is_none();
    let lacking = match (signer.spec.enabled, is_nameless) {
        (false, _) => format!(", but {signed_by} is disabled"),
        (true, true) => format!(", but {signed_by} knows people by external ids, and {name} has none"),
        (true, false) => String::new(),
    };
    let is_ready = lacking.is_empty();
    let text = format!("the auth policy {} asks for a token of {signed_by} with every request{lacking}", policy.spec.name);
    SecondFactor { factor: Factor::ExtJwt, is_ready, text }
}
