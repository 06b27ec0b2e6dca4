//! Makes the obstacles of an explanation, with the requests that remove them.

use model::{
    clock::Timestamp,
    entity::{Enrollment, Entity, Identity, IdentityKind, Record, Roles, ServicePolicy},
    error::Result,
};
use serde_json::json;
use store::Read;

use super::{
    case::{Case, MAX_LISTED},
    credentials::{CredentialProblem, ExplainedCredential},
    obstacle::{Obstacle, ObstacleKind, SuggestedEdit},
    policies::PolicyCandidate,
};
use crate::access::{NearMiss, PolicyEntityKind};

pub(crate) fn disabled(identity: &Record<Identity>) -> Obstacle {
    let until = identity
        .state
        .disabled_until
        .map_or_else(String::new, |until| format!(" until {until}"));
    let name = &identity.spec.name;
    let edit = SuggestedEdit {
        method: "POST",
        path: format!("/identities/{}/enable", identity.id),
        body: json!({}),
        text: format!("enable {name}"),
    };
    Obstacle::new(
        ObstacleKind::Disabled,
        format!("{name} is disabled{until}"),
        vec![edit],
    )
}

/// The identity has no credential.
pub(crate) fn no_credential(
    identity: &Record<Identity>,
    outstanding: Option<&Record<Enrollment>>,
    now: Timestamp,
) -> Obstacle {
    let name = &identity.spec.name;
    match outstanding {
        Some(enrollment) => not_enrolled(identity, enrollment, now),
        // No new enrollment is proposed: another client would then act as the router's tunneler.
        None if identity.state.kind == IdentityKind::Router => {
            let text = format!(
                "{name} has no credential, because it is the tunneler of the edge router {name}"
            );
            let remedy = "ask about another identity, because only the edge router uses this one";
            Obstacle::new(ObstacleKind::NoCredential, text, Vec::new()).with_remedy(remedy.into())
        }
        None => {
            let edit = SuggestedEdit {
                method: "POST",
                path: "/enrollments".into(),
                body: json!({ "identityId": identity.id, "method": "ott", "expiresAt": tomorrow(now) }),
                text: format!("give {name} an enrollment token, and have it enroll"),
            };
            Obstacle::new(
                ObstacleKind::NoCredential,
                format!("{name} has no credential and no enrollment token"),
                vec![edit],
            )
        }
    }
}

/// The identity, or the edge router whose tunneler it is, has an unused enrollment token. Only the
/// client can then enroll; no request to the management interface can do that.
fn not_enrolled(
    identity: &Record<Identity>,
    enrollment: &Record<Enrollment>,
    now: Timestamp,
) -> Obstacle {
    let (name, end) = (&identity.spec.name, enrollment.spec.expires_at);
    let of_router = enrollment.spec.edge_router_id.is_some();
    let who = if of_router {
        format!("the edge router {name}")
    } else {
        name.clone()
    };
    let obstacle = |text, edits| Obstacle::new(ObstacleKind::NoCredential, text, edits);
    if end > now {
        let client = if of_router {
            "the edge router"
        } else {
            "a client"
        };
        let text = format!("{who} has not enrolled yet; its token is valid until {end}");
        return obstacle(text, Vec::new())
            .with_remedy(format!("give the token to {client}, and have it enroll"));
    }
    let edit = SuggestedEdit {
        method: "POST",
        path: format!("/enrollments/{}/refresh", enrollment.id),
        body: json!({ "expiresAt": tomorrow(now) }),
        text: format!("give {who} a new token, and have it enroll"),
    };
    obstacle(
        format!("{who} has not enrolled, and its token expired at {end}"),
        vec![edit],
    )
}

fn tomorrow(now: Timestamp) -> Timestamp {
    now.plus_minutes(24 * 60)
}

/// None of the credentials is allowed. If some credential has a single reason with an edit, there
/// is one obstacle with all such edits. Otherwise each reason of the credential with the fewest
/// reasons is an obstacle.
pub(crate) fn not_allowed(
    identity: &Record<Identity>,
    credentials: &[ExplainedCredential],
) -> Vec<Obstacle> {
    let alone = || {
        credentials
            .iter()
            .filter_map(|means| <&[CredentialProblem; 1]>::try_from(means.lacking.as_slice()).ok())
    };
    let mut edits: Vec<SuggestedEdit> = alone().flat_map(|[lack]| &lack.edits).cloned().collect();
    // The shortest change comes first, because it changes least.
    edits.sort_by_cached_key(|edit| {
        let body = edit.body.to_string();
        (body.len(), body)
    });
    edits.dedup();
    let obstacle =
        |text: String, edits| Obstacle::new(ObstacleKind::CredentialNotAllowed, text, edits);
    let is_mendable =
        |means: &&ExplainedCredential| means.lacking.iter().all(|lack| !lack.edits.is_empty());
    let name = &identity.spec.name;
    if edits.is_empty()
        && let Some(means) = credentials
            .iter()
            .filter(is_mendable)
            .min_by_key(|means| means.lacking.len())
    {
        return means
            .lacking
            .iter()
            .map(|lack| {
                obstacle(
                    format!("{name} cannot log in: {}", lack.text),
                    lack.edits.clone(),
                )
            })
            .collect();
    }
    let has_none = edits.is_empty();
    let found = obstacle(
        format!("{name} cannot log in: {}", lacks(credentials)),
        edits,
    );
    let remedy = || {
        format!(
            "give {name} a credential that is allowed: issue an enrollment token, and have it enroll"
        )
    };
    vec![if has_none {
        found.with_remedy(remedy())
    } else {
        found
    }]
}

/// The reasons why credentials are not allowed, without duplicates.
pub(crate) fn lacks(credentials: &[ExplainedCredential]) -> String {
    let mut texts: Vec<&str> = Vec::new();
    for lack in credentials.iter().flat_map(|means| &means.lacking) {
        if !texts.contains(&lack.text.as_str()) {
            texts.push(&lack.text);
        }
    }
    texts.join("; ")
}

/// The obstacle if no policy gives the right, with the edits that complete a near policy and the
/// one that adds a policy.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn no_policy(
    tx: &Read<'_>,
    case: &Case<'_>,
    near: &[PolicyCandidate],
) -> Result<Obstacle> {
    let (identity, service) = (&case.identity, &case.service);
    // A policy whose posture checks fail would not help even if it matched.
    let passing = near.iter().filter(|candidate| candidate.is_passing);
    let mut edits: Vec<SuggestedEdit> = passing
        .flat_map(|PolicyCandidate { policy, near, .. }| completing(case, policy, near))
        .collect();
    edits.sort_by_key(|edit| edit.body.to_string().len());
    edits.truncate(MAX_LISTED);
    let verb = case.right.verb();
    edits.push(SuggestedEdit {
        method: "POST",
        path: "/service-policies".into(),
        body: json!({
            "name": free::<ServicePolicy>(tx, format!("{}-{verb}-{}", identity.spec.name, service.spec.name))?,
            "type": case.right, "semantic": "AnyOf",
            "identityRoles": [format!("@{}", identity.id)], "serviceRoles": [format!("@{}", service.id)]
        }),
        text: format!("add a policy that lets {} {verb} {}", identity.spec.name, service.spec.name),
    });
    let text = format!(
        "no service policy lets {} {verb} {}",
        identity.spec.name, service.spec.name
    );
    Ok(Obstacle::new(ObstacleKind::NoPolicy, text, edits))
}

/// A name derived from this one that no record of the kind has.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn free<E: Entity>(tx: &Read<'_>, name: String) -> Result<String> {
    let (mut free, mut number) = (name.clone(), 1);
    while tx.any::<E>("name", &free)? {
        number += 1;
        free = format!("{name}-{number}");
    }
    Ok(free)
}

/// The edits that make a policy that matches one side match the other too.
fn completing(
    case: &Case<'_>,
    policy: &Record<ServicePolicy>,
    near: &NearMiss,
) -> Vec<SuggestedEdit> {
    let (path, name, id, held) = match near.missing {
        PolicyEntityKind::Service => (
            "services",
            &case.service.spec.name,
            case.service.id.as_str(),
            &case.service.spec.role_attributes,
        ),
        _ => (
            "identities",
            &case.identity.spec.name,
            case.identity.id.as_str(),
            &case.identity.spec.role_attributes,
        ),
    };
    if near.lacking.is_empty() {
        let (member, listed) = match near.missing {
            PolicyEntityKind::Service => ("serviceRoles", &policy.spec.service_roles),
            _ => ("identityRoles", &policy.spec.identity_roles),
        };
        let edit = SuggestedEdit {
            method: "PATCH",
            path: format!("/service-policies/{}", policy.id),
            body: json!({ member: with(listed, [format!("@{id}")]) }),
            text: format!("name {name} in the policy {}", policy.spec.name),
        };
        return vec![edit];
    }
    let adding = |attributes: &Vec<std::sync::Arc<str>>| SuggestedEdit {
        method: "PATCH",
        path: format!("/{path}/{id}"),
        body: json!({ "roleAttributes": with(held, attributes.iter().map(ToString::to_string)) }),
        text: format!(
            "give {name} the role {}, for the policy {}",
            attributes.join(" and "),
            policy.spec.name
        ),
    };
    near.lacking.iter().map(adding).collect()
}

fn with(listed: &Roles, more: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = listed.entries().iter().cloned().chain(more).collect();
    all.sort_unstable();
    all.dedup();
    all
}
