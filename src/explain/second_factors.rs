//! What a log-in needs besides a credential. The verdict takes it as given where it can be given; where it cannot, it stands in the way.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::{
    case::Case,
    obstacle::{Edit, Obstacle, What},
};
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
    /// Requests of which any one lets the identity log in completely.
    #[serde(skip)]
    pub edits: Vec<Edit>,
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

/// The factors that the identity cannot give. In a complete session no code is asked for any more, but a token with every request.
pub fn missing(case: &Case<'_>, factors: &[SecondFactor]) -> Vec<Obstacle> {
    let is_asked = |factor: &&SecondFactor| !factor.is_ready && (factor.factor == Factor::ExtJwt || case.session.is_none());
    let obstacle = |factor: &SecondFactor| Obstacle::new(What::SecondFactor, factor.text.clone(), factor.edits.clone());
    factors.iter().filter(is_asked).map(obstacle).collect()
}

/// Has the auth policy no longer ask for something.
fn waiving(policy: &Record<AuthPolicy>, secondary: Json, what: &str) -> Edit {
    Edit {
        method: "PATCH",
        path: format!("/auth-policies/{}", policy.id),
        body: json!({ "secondary": secondary }),
        text: format!("have the auth policy {} no longer ask for {what}", policy.spec.name),
    }
}

fn code(identity: &Record<Identity>, policy: &Record<AuthPolicy>, is_ready: bool) -> SecondFactor {
    let (name, asking) = (&identity.spec.name, &policy.spec.name);
    if is_ready {
        let text = format!("{name} needs a one-time code besides to log in");
        return SecondFactor { factor: Factor::Totp, is_ready, text, edits: Vec::new() };
    }
    let text =
        format!("the auth policy {asking} asks for a one-time code, but {name} has set none up; it can do so itself when it logs in");
    let edits = vec![waiving(policy, json!({ "requireTotp": false }), "a one-time code")];
    SecondFactor { factor: Factor::Totp, is_ready, text, edits }
}

fn token(identity: &Record<Identity>, policy: &Record<AuthPolicy>, signer: &Record<ExternalJwtSigner>) -> SecondFactor {
    let (name, signed_by) = (&identity.spec.name, &signer.spec.name);
    let is_nameless = signer.spec.use_external_id && identity.spec.external_id.is_none();
    let lacking = match (signer.spec.enabled, is_nameless) {
        (false, _) => format!(", but {signed_by} is disabled"),
        (true, true) => format!(", but {signed_by} knows people by external ids, and {name} has none"),
        (true, false) => String::new(),
    };
    let enabling = || Edit {
        method: "PATCH",
        path: format!("/external-jwt-signers/{}", signer.id),
        body: json!({ "enabled": true }),
        text: format!("enable {signed_by}"),
    };
    let is_ready = lacking.is_empty();
    let mut edits: Vec<Edit> = (!signer.spec.enabled && !is_nameless).then(enabling).into_iter().collect();
    // Blank: a null would leave it as it is.
    edits.extend((!is_ready).then(|| waiving(policy, json!({ "requireExtJwtSigner": "" }), &format!("a token of {signed_by}"))));
    let text = format!("the auth policy {} asks for a token of {signed_by} with every request{lacking}", policy.spec.name);
    SecondFactor { factor: Factor::ExtJwt, is_ready, text, edits }
}
