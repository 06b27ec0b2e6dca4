//! Posture checks that are not passed, and the smallest change of a policy that no longer requires
//! them.

use std::{collections::HashSet, sync::Arc};

use model::{
    clock::Timestamp,
    entity::{Id, PostureRequirement, Record, Semantic, ServicePolicy, TypedLookup},
    error::Result,
};
use serde_json::json;
use store::Read;

use super::{
    case::{Case, MAX_LISTED},
    obstacle::{Obstacle, ObstacleKind, SuggestedEdit},
};
use crate::{
    access::{Engine, PolicyEntityKind},
    posture::{EvaluatedCheck, Evidence, evaluation},
};

/// The obstacle if every policy that gives the right requires a posture check that the endpoint
/// does not pass. `failed` has the checks by id of the policy.
///
/// # Errors
/// A policy cannot be read.
pub(crate) fn not_passed(
    tx: &Read<'_>,
    case: &Case<'_>,
    failed: &[(String, Vec<EvaluatedCheck>)],
    evidence: &Evidence,
) -> Result<Obstacle> {
    let asked: Vec<String> = failed
        .iter()
        .map(|(_, checks)| names(failing(checks)))
        .collect();
    let mut text = format!(
        "the endpoint of {} does not pass {}",
        case.identity.spec.name,
        asked.join(", nor ")
    );
    let unreported = failed
        .iter()
        .flat_map(|(_, checks)| failing(checks))
        .filter(|judged| is_unreported(judged, evidence));
    if let Some(reason) = case
        .restored_at
        .and_then(|at| before_restore(case, at, unreported))
    {
        text += &reason;
    }
    let mut smallest: Vec<_> = failed.iter().collect();
    smallest.sort_by_key(|(_, checks)| failing(checks).count());
    let mut edits = Vec::new();
    for (policy, checks) in smallest.into_iter().take(MAX_LISTED) {
        let policy = tx.find(&Id::<ServicePolicy>::from_text(policy.as_str()))?;
        edits.extend(policy.map(|policy| waiving(case, &policy, checks)));
    }
    Ok(Obstacle::new(ObstacleKind::Posture, text, edits))
}

fn is_unreported(judged: &EvaluatedCheck, evidence: &Evidence) -> bool {
    evaluation::is_unreported(
        &judged.check.spec.demand,
        judged.check.id.as_str(),
        evidence,
    )
}

/// Why failing checks about which nothing was reported since a restore of the data file may fail
/// although the client reported; `None` if there are no such checks. Clients do not know of the
/// restore, and report a value only when it changes.
fn before_restore<'j>(
    case: &Case<'_>,
    at: Timestamp,
    unreported: impl Iterator<Item = &'j EvaluatedCheck>,
) -> Option<String> {
    let (mut codes, mut values) = (false, false);
    for judged in unreported {
        let is_code = matches!(judged.check.spec.demand, PostureRequirement::Mfa { .. });
        (codes, values) = (codes || is_code, values || !is_code);
    }
    let is_older = case
        .session
        .as_ref()
        .is_some_and(|session| session.created_at <= at);
    let reports = match is_older {
        true => format!(
            "the posture reports of this session date from before the restore of the data file at {at} and do not count"
        ),
        false => format!("nothing was reported since the data file was restored at {at}"),
    };
    let name = &case.identity.spec.name;
    let remedy = match (values, codes) {
        (true, false) => {
            format!("restart the client of {name}, which reports again when it starts")
        }
        (false, true) => format!("{name} enters a one-time code in the client again"),
        (true, true) => format!(
            "restart the client of {name}, which reports again when it starts, and enter a one-time code in it"
        ),
        (false, false) => return None,
    };
    Some(format!("; {reports}: {remedy}"))
}

/// The edit after which a policy no longer requires the failing checks, but still the passing ones.
/// An entry that matches a failing check is removed. Passing checks that no other entry matches are
/// then named by id.
fn waiving(
    case: &Case<'_>,
    policy: &Record<ServicePolicy>,
    checks: &[EvaluatedCheck],
) -> SuggestedEdit {
    let semantic = policy.spec.semantic;
    let (mut roles, mut dropped) = (Vec::new(), Vec::new());
    for part in parts(&policy.spec) {
        let matched = matched(case, semantic, &part);
        let goes = is_everything(&part)
            || failing(checks).any(|judged| matched.contains(judged.check.id.as_str()));
        if goes {
            dropped.extend(part)
        } else {
            roles.extend(part)
        }
    }
    let matched = matched(case, semantic, &roles);
    let is_named = |judged: &&EvaluatedCheck| {
        judged.verdict.passes && !matched.contains(judged.check.id.as_str())
    };
    let named: Vec<&EvaluatedCheck> = checks.iter().filter(is_named).collect();
    roles.extend(named.iter().map(|judged| format!("@{}", judged.check.id)));
    roles.sort_unstable();
    let by: Vec<String> = dropped
        .into_iter()
        .filter(|entry| entry.starts_with('#'))
        .collect();
    let others = if by.is_empty() {
        String::new()
    } else {
        format!(", nor for others by {}", by.join(" "))
    };
    let still = if named.is_empty() {
        String::new()
    } else {
        format!(", but still for {}", names(named.into_iter()))
    };
    SuggestedEdit {
        method: "PATCH",
        path: format!("/service-policies/{}", policy.id),
        body: json!({ "postureCheckRoles": roles }),
        text: format!(
            "change the policy {} to no longer require {}{others}{still}",
            policy.spec.name,
            names(failing(checks))
        ),
    }
}

/// The posture check roles of a policy, in parts that can be removed independently. Attributes that
/// are needed together are one part, because a list with fewer of them matches more checks.
fn parts(policy: &ServicePolicy) -> Vec<Vec<String>> {
    let is_together = |entry: &String| policy.semantic == Semantic::AllOf && entry.starts_with('#');
    let (together, alone): (Vec<String>, Vec<String>) = policy
        .posture_check_roles
        .entries()
        .iter()
        .cloned()
        .partition(is_together);
    alone
        .into_iter()
        .map(|entry| vec![entry])
        .chain([together])
        .collect()
}

/// The ids of the checks that entries of a policy match; `#all` is not considered.
fn matched(case: &Case<'_>, semantic: Semantic, entries: &[String]) -> HashSet<Arc<str>> {
    let ids = |engine: &mut Engine| {
        let matching = engine.matching(PolicyEntityKind::PostureCheck, semantic.into(), entries);
        matching.in_order().map(|(_, id)| id.clone()).collect()
    };
    case.access.ask(ids)
}

fn is_everything(entries: &[String]) -> bool {
    entries.iter().any(|entry| entry == "#all")
}

fn failing(checks: &[EvaluatedCheck]) -> impl Iterator<Item = &EvaluatedCheck> {
    checks.iter().filter(|judged| !judged.verdict.passes)
}

fn names<'j>(checks: impl Iterator<Item = &'j EvaluatedCheck>) -> String {
    checks
        .map(|judged| judged.check.spec.name.as_str())
        .collect::<Vec<_>>()
        .join(", ")
}
