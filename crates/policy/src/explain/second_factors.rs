//! The second factors of a log-in. The verdict assumes that the identity gives every factor that it
//! can give; any other factor is an obstacle.

use model::{
    entity::{AuthPolicy, ExternalJwtSigner, Identity, Record, TypedLookup},
    error::Result,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value as Json, json};
use store::Read;

use super::{
    case::Case,
    obstacle::{Obstacle, ObstacleKind, SuggestedEdit},
};
use crate::authentication::mfa;

/// Something that is required besides a credential. A session without it may do nothing.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ExplainedSecondFactor")]
pub(crate) struct SecondFactor {
    /// The factor.
    pub(crate) factor: Factor,
    /// Whether the identity can give it: it has set up one-time codes; or the signer is enabled and
    /// can identify it.
    pub(crate) is_ready: bool,
    /// The requirement as text.
    pub(crate) text: String,
    /// Requests of which any one lets the identity log in completely.
    #[serde(skip)]
    pub(crate) edits: Vec<SuggestedEdit>,
}

/// The kinds of second factors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ExplainedFactor")]
pub(crate) enum Factor {
    /// A one-time code.
    Totp,
    /// A token of an external signer, with every request.
    ExtJwt,
}

/// The second factors required of an identity, by its auth policy or because it has set up one-time
/// codes.
///
/// # Errors
/// A record cannot be read.
pub(crate) fn asked_of(
    tx: &Read<'_>,
    identity: &Record<Identity>,
    policy: &Record<AuthPolicy>,
) -> Result<Vec<SecondFactor>> {
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

/// The factors that the identity cannot give. A complete session needs no code any more, but a
/// token with every request.
pub(crate) fn missing(case: &Case<'_>, factors: &[SecondFactor]) -> Vec<Obstacle> {
    let is_asked = |factor: &&SecondFactor| {
        !factor.is_ready && (factor.factor == Factor::ExtJwt || case.session.is_none())
    };
    let obstacle = |factor: &SecondFactor| {
        Obstacle::new(
            ObstacleKind::SecondFactor,
            factor.text.clone(),
            factor.edits.clone(),
        )
    };
    factors.iter().filter(is_asked).map(obstacle).collect()
}

/// The edit after which the auth policy no longer requires a factor.
fn waiving(policy: &Record<AuthPolicy>, secondary: Json, what: &str) -> SuggestedEdit {
    SuggestedEdit {
        method: "PATCH",
        path: format!("/auth-policies/{}", policy.id),
        body: json!({ "secondary": secondary }),
        text: format!(
            "change the auth policy {} to no longer require {what}",
            policy.spec.name
        ),
    }
}

fn code(identity: &Record<Identity>, policy: &Record<AuthPolicy>, is_ready: bool) -> SecondFactor {
    let (name, asking) = (&identity.spec.name, &policy.spec.name);
    if is_ready {
        let text = format!("{name} also needs a one-time code to log in");
        return SecondFactor {
            factor: Factor::Totp,
            is_ready,
            text,
            edits: Vec::new(),
        };
    }
    let text = format!(
        "the auth policy {asking} requires one-time codes, but {name} has not set them up; it can do so when it logs in"
    );
    let edits = vec![waiving(
        policy,
        json!({ "requireTotp": false }),
        "a one-time code",
    )];
    SecondFactor {
        factor: Factor::Totp,
        is_ready,
        text,
        edits,
    }
}

fn token(
    identity: &Record<Identity>,
    policy: &Record<AuthPolicy>,
    signer: &Record<ExternalJwtSigner>,
) -> SecondFactor {
    let (name, signed_by) = (&identity.spec.name, &signer.spec.name);
    let is_nameless = signer.spec.use_external_id && identity.spec.external_id.is_none();
    let lacking = match (signer.spec.enabled, is_nameless) {
        (false, _) => format!(", but {signed_by} is disabled"),
        (true, true) => {
            format!(", but {signed_by} identifies by external ids, and {name} has none")
        }
        (true, false) => String::new(),
    };
    let enabling = || SuggestedEdit {
        method: "PATCH",
        path: format!("/external-jwt-signers/{}", signer.id),
        body: json!({ "enabled": true }),
        text: format!("enable {signed_by}"),
    };
    let is_ready = lacking.is_empty();
    let mut edits: Vec<SuggestedEdit> = (!signer.spec.enabled && !is_nameless)
        .then(enabling)
        .into_iter()
        .collect();
    // An empty text, because null would leave the value unchanged.
    edits.extend((!is_ready).then(|| {
        waiving(
            policy,
            json!({ "requireExtJwtSigner": "" }),
            &format!("a token of {signed_by}"),
        )
    }));
    let text = format!(
        "the auth policy {} requires a token of {signed_by} with every request{lacking}",
        policy.spec.name
    );
    SecondFactor {
        factor: Factor::ExtJwt,
        is_ready,
        text,
        edits,
    }
}
