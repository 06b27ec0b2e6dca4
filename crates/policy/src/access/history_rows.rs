//! Engine updates from rows of the history: the members of a row that affect access.
//!
//! A row holds only what changed; the rest is taken from the engine. So rows must be followed one
//! by one, forwards or backwards.

use model::entity::{self, Action, HistoryRow, PolicyType, Roles};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use super::{
    Delta, Engine, MatchRule, Policy, PolicyEntityKind, PolicyKind, Right,
    engine_roles::{ENGINE_ROLES, EngineRole, engine_role},
    record_deltas::texts,
};

/// The member with the role attributes of a subject.
const ROLES: &str = "roleAttributes";
const SEMANTIC: &str = "semantic";
const RIGHT: &str = "type";
/// The members with the role lists of a policy. Posture checks restrict rights and give none, so
/// that they are left out.
const LISTS: [(&str, PolicyEntityKind); 3] = [
    ("identityRoles", PolicyEntityKind::Identity),
    ("serviceRoles", PolicyEntityKind::Service),
    ("edgeRouterRoles", PolicyEntityKind::EdgeRouter),
];

/// The side of a row: its values before or after the change.
#[derive(Clone, Copy)]
pub(super) enum RowFacts {
    Before,
    After,
}

/// The names of the kinds whose rows can affect access.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    ENGINE_ROLES
        .into_iter()
        .filter(|(_, role)| !matches!(role, EngineRole::Subject(PolicyEntityKind::PostureCheck)))
        .map(|(kind, _)| kind.name)
}

/// A row reduced to the members that affect access; `None` if there are none.
pub(super) fn reduced(mut row: HistoryRow) -> Option<HistoryRow> {
    let of_policy = matches!(engine_role(&row.kind)?, EngineRole::Policy(_));
    let matters = |member: &str| match member {
        ROLES => !of_policy,
        SEMANTIC | RIGHT => of_policy,
        _ => LISTS.iter().any(|(list, _)| *list == member),
    };
    for members in [&mut row.before, &mut row.after].into_iter().flatten() {
        members.retain(|member, _| matters(member));
    }
    let is_silent = row.action == Action::Update
        && [&row.before, &row.after]
            .into_iter()
            .flatten()
            .all(Map::is_empty);
    let is_change = matches!(row.action, Action::Create | Action::Update | Action::Delete);
    (is_change && !is_silent).then_some(row)
}

/// The update for an engine that knows one side of a row to its other side.
pub(super) fn delta(engine: &Engine, row: &HistoryRow, facts: RowFacts) -> Option<Delta> {
    let members = match facts {
        RowFacts::Before => row.before.as_ref(),
        RowFacts::After => row.after.as_ref(),
    };
    let id = row.id.clone();
    match engine_role(&row.kind)? {
        EngineRole::Subject(kind) => {
            let roles = match members.map(|members| read::<Roles>(members, ROLES)) {
                // The row of a created or deleted record has only the members with a value.
                Some(None) if row.action == Action::Update => return None,
                lists => lists.map(|roles| texts(&roles.unwrap_or_default())),
            };
            Some(Delta::Subject { kind, id, roles })
        }
        EngineRole::Policy(kind) => {
            let gone = Delta::Policy {
                kind,
                id,
                policy: None,
            };
            let Some(members) = members else {
                return Some(gone);
            };
            let known = engine.current(&gone);
            let Delta::Policy { kind, id, policy } = known else {
                return None;
            };
            Some(Delta::Policy {
                kind,
                id,
                policy: Some(with_members(policy.unwrap_or_else(|| blank(kind)), members)),
            })
        }
    }
}

fn blank(kind: PolicyKind) -> Policy {
    let right = (kind == PolicyKind::Service).then_some(Right::Dial);
    Policy {
        kind,
        semantic: MatchRule::AllOf,
        right,
        lists: Vec::new(),
    }
}

/// A policy with the changed members of a row.
fn with_members(mut policy: Policy, members: &Map<String, Json>) -> Policy {
    if let Some(semantic) = read::<entity::Semantic>(members, SEMANTIC) {
        policy.semantic = semantic.into();
    }
    if let Some(right) = read::<PolicyType>(members, RIGHT) {
        policy.right = policy.right.map(|_| Right::from(right));
    }
    for (member, subject) in LISTS {
        if let Some(roles) = read::<Roles>(members, member) {
            policy.lists.retain(|(of, _)| *of != subject);
            policy.lists.push((subject, texts(&roles)));
        }
    }
    policy
}

fn read<T: DeserializeOwned>(members: &Map<String, Json>, member: &str) -> Option<T> {
    serde_json::from_value(members.get(member)?.clone()).ok()
}
