//! The policies in an explanation: those that give the right, and those that nearly do.

use model::{
    entity::{Id, Record, ServicePolicy, TypedLookup},
    error::Result,
};
use schemars::JsonSchema;
use serde::Serialize;
use store::Read;

use super::case::{Case, NamedRecord};
use crate::{
    access::{GrantReason, NearMiss, PolicyEntityKind, RoleMatch},
    posture::{CheckFailure, Evidence, PostureEvaluator},
};

/// A policy that gives the right, and why it matches.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GrantingPolicy {
    /// The policy.
    pub(crate) policy: NamedRecord,
    /// The entries of the policy that match the identity: `@id`, `#all`, or role attributes.
    pub(crate) identity_by: Vec<String>,
    /// The entries of the policy that match the service.
    pub(crate) service_by: Vec<String>,
    /// The posture checks that the policy requires.
    pub(crate) posture_checks: Vec<NamedRecord>,
    /// Those that the endpoint does not pass, with what it reported and what is required.
    pub(crate) failed_checks: Vec<CheckFailure>,
}

/// A policy of the right type that matches the identity or the service, but not both.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NearGrant {
    /// The policy.
    pub(crate) policy: NamedRecord,
    /// The side that it does not match.
    pub(crate) missing: Missing,
    /// The entries that match the other side.
    pub(crate) matched_by: Vec<String>,
    /// Sets of role attributes of which any one would do; empty if only naming the id in the policy
    /// helps.
    pub(crate) lacking: Vec<Vec<String>>,
    /// Whether the endpoint passes the posture checks of the policy. If not, a match would not give
    /// the right.
    pub(crate) is_passing: bool,
}

/// A near policy, before it is converted for the answer.
pub(crate) struct PolicyCandidate {
    pub(crate) policy: Record<ServicePolicy>,
    pub(crate) near: NearMiss,
    pub(crate) is_passing: bool,
}

/// The side that is not matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "MissingSide")]
pub(crate) enum Missing {
    Identity,
    Service,
}

/// A policy that gives the right; `None` if it was deleted meanwhile.
///
/// # Errors
/// A record cannot be read.
pub(crate) fn granting(
    tx: &Read<'_>,
    case: &Case<'_>,
    grant: &GrantReason,
    evaluator: &PostureEvaluator<'_>,
    evidence: &Evidence,
) -> Result<Option<GrantingPolicy>> {
    let Some(policy) = tx.find(&Id::<ServicePolicy>::from_text(
        grant.policy_grant.policy.as_ref(),
    ))?
    else {
        return Ok(None);
    };
    let checks = evaluator.checks(&grant.policy_grant.posture_checks)?;
    let failed = checks.iter().filter(|judged| !judged.verdict.passes);
    Ok(Some(GrantingPolicy {
        policy: NamedRecord::new(&policy, &policy.spec.name),
        identity_by: by(&grant.identity, case.identity.id.as_str()),
        service_by: by(&grant.service, case.service.id.as_str()),
        posture_checks: checks
            .iter()
            .map(|judged| NamedRecord::new(&judged.check, &judged.check.spec.name))
            .collect(),
        failed_checks: failed
            .map(|judged| CheckFailure::of(&judged.check, evidence))
            .collect(),
    }))
}

/// A near policy for the answer.
pub(crate) fn nearly(
    case: &Case<'_>,
    PolicyCandidate {
        policy,
        near,
        is_passing,
    }: &PolicyCandidate,
) -> NearGrant {
    let (missing, there) = match near.missing {
        PolicyEntityKind::Service => (Missing::Service, case.identity.id.as_str()),
        _ => (Missing::Identity, case.service.id.as_str()),
    };
    NearGrant {
        policy: NamedRecord::new(policy, &policy.spec.name),
        missing,
        matched_by: by(&near.matched, there),
        lacking: near
            .lacking
            .iter()
            .map(|set| set.iter().map(ToString::to_string).collect())
            .collect(),
        is_passing: *is_passing,
    }
}

fn by(reason: &RoleMatch, id: &str) -> Vec<String> {
    match reason {
        RoleMatch::Id => vec![format!("@{id}")],
        RoleMatch::Everyone => vec!["#all".into()],
        RoleMatch::Attributes(attributes) => attributes
            .iter()
            .map(|attribute| format!("#{attribute}"))
            .collect(),
    }
}
