//! The services that will soon require a new one-time code of an endpoint that woke up or was
//! unlocked.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    entity::{Id, PostureCheck, PostureKind, PostureRequirement, Record, Service, TypedLookup},
    error::Result,
};
use schemars::JsonSchema;
use serde::Serialize;
use store::Read;

use super::{
    Evidence,
    evaluation::{GRACE, seconds_left},
};
use crate::access::{Access, PolicyEntityKind, PolicyKind};

/// A service that will require a new one-time code soon.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PostureResponseService")]
pub struct ServiceAwaitingCode {
    id: String,
    name: String,
    /// The type of the posture check.
    posture_query_type: PostureKind,
    /// Seconds for which a code is normally valid; -1: without limit.
    timeout: i64,
    /// Seconds for which the service can still be used.
    timeout_remaining: i64,
}

impl ServiceAwaitingCode {
    /// A service, with the seconds for which a code is normally valid.
    pub fn new(service: Record<Service>, timeout: i64) -> Self {
        let (id, name) = (service.id.into_text(), service.spec.name);
        Self {
            id,
            name,
            posture_query_type: PostureKind::Mfa,
            timeout,
            timeout_remaining: GRACE,
        }
    }
}

/// The ids of the services of an identity for which this event shortens the validity of its last
/// code, each with the seconds for which a code is normally valid.
///
/// # Errors
/// A record cannot be read.
pub fn awaited(
    tx: &Read<'_>,
    access: &Access,
    evidence: &Evidence,
    identity: &str,
    (woken, unlocked): (bool, bool),
) -> Result<BTreeMap<String, i64>> {
    let mut concerned = BTreeMap::new();
    let Some(passed) = evidence.mfa_state.passed_at.filter(|_| woken || unlocked) else {
        return Ok(concerned);
    };
    for (check, services) in by_check(access, identity) {
        let Some(check) = tx.find(&Id::<PostureCheck>::from_text(check))? else {
            continue;
        };
        let PostureRequirement::Mfa {
            timeout_seconds,
            prompt_on_wake,
            prompt_on_unlock,
            ..
        } = check.spec.demand
        else {
            continue;
        };
        let asks = (woken && prompt_on_wake) || (unlocked && prompt_on_unlock);
        if asks
            && (timeout_seconds <= 0 || seconds_left(timeout_seconds, passed, evidence.now) > GRACE)
        {
            concerned.extend(
                services
                    .into_iter()
                    .map(|service| (service, timeout_seconds)),
            );
        }
    }
    Ok(concerned)
}

/// Maps each posture check of an identity's service policies to the services of those policies.
fn by_check(access: &Access, identity: &str) -> BTreeMap<String, BTreeSet<String>> {
    access.ask(|engine| {
        let mut found = BTreeMap::<String, BTreeSet<String>>::new();
        for policy in engine
            .policies(PolicyKind::Service, PolicyEntityKind::Identity, identity)
            .ids()
        {
            let services =
                || engine.members(PolicyKind::Service, policy, PolicyEntityKind::Service);
            for check in engine
                .members(PolicyKind::Service, policy, PolicyEntityKind::PostureCheck)
                .ids()
            {
                found
                    .entry(check.to_string())
                    .or_default()
                    .extend(services().ids().map(|id| id.to_string()));
            }
        }
        found
    })
}
