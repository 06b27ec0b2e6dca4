//! The updates of the engine that records and their changes make, and the words of the engine for
//! those of records.

use model::entity::{
    self, EdgeRouter, EdgeRouterPolicy, Entity, Identity, PolicyType, PostureCheck, Record, Roles,
    Service, ServiceEdgeRouterPolicy, ServicePolicy,
};
use store::Event;

use super::{Delta, MatchRule, Policy, PolicyEntityKind, PolicyKind, Right};

/// The update of the engine for one event, if there is one.
pub(super) fn delta(event: &Event) -> Option<Delta> {
    subject_delta::<EdgeRouter>(event, PolicyEntityKind::EdgeRouter, |r| {
        &r.spec.role_attributes
    })
    .or_else(|| {
        subject_delta::<Identity>(event, PolicyEntityKind::Identity, |r| {
            &r.spec.role_attributes
        })
    })
    .or_else(|| {
        subject_delta::<Service>(event, PolicyEntityKind::Service, |r| {
            &r.spec.role_attributes
        })
    })
    .or_else(|| {
        subject_delta::<PostureCheck>(event, PolicyEntityKind::PostureCheck, |r| {
            &r.spec.role_attributes
        })
    })
    .or_else(|| policy_delta::<ServicePolicy>(event, PolicyKind::Service, service_policy))
    .or_else(|| policy_delta::<EdgeRouterPolicy>(event, PolicyKind::EdgeRouter, edge_router_policy))
    .or_else(|| {
        policy_delta::<ServiceEdgeRouterPolicy>(
            event,
            PolicyKind::ServiceEdgeRouter,
            service_edge_router_policy,
        )
    })
}

fn subject_delta<E: Entity>(
    event: &Event,
    kind: PolicyEntityKind,
    roles: fn(&Record<E>) -> &Roles,
) -> Option<Delta> {
    match event.of::<E>()? {
        (old, Some(new)) if old.is_none_or(|old| roles(old) != roles(new)) => {
            Some(of_subject(kind, new, roles(new)))
        }
        (Some(old), None) => Some(Delta::Subject {
            kind,
            id: old.id.to_string(),
            roles: None,
        }),
        _ => None,
    }
}

fn policy_delta<E: Entity>(
    event: &Event,
    kind: PolicyKind,
    policy_of: fn(&Record<E>) -> Policy,
) -> Option<Delta> {
    match event.of::<E>()? {
        (old, Some(new)) if old.is_none_or(|old| policy_of(old) != policy_of(new)) => {
            Some(of_policy(new, policy_of))
        }
        (Some(old), None) => Some(Delta::Policy {
            kind,
            id: old.id.to_string(),
            policy: None,
        }),
        _ => None,
    }
}

pub(super) fn of_subject<E: Entity>(
    kind: PolicyEntityKind,
    record: &Record<E>,
    roles: &Roles,
) -> Delta {
    Delta::Subject {
        kind,
        id: record.id.to_string(),
        roles: Some(texts(roles)),
    }
}

pub(super) fn of_policy<E: Entity>(
    record: &Record<E>,
    policy_of: fn(&Record<E>) -> Policy,
) -> Delta {
    let policy = policy_of(record);
    Delta::Policy {
        kind: policy.kind,
        id: record.id.to_string(),
        policy: Some(policy),
    }
}

pub(super) fn texts(roles: &Roles) -> Vec<String> {
    roles.entries().iter().cloned().collect()
}

impl From<entity::Semantic> for MatchRule {
    fn from(of: entity::Semantic) -> Self {
        match of {
            entity::Semantic::AllOf => Self::AllOf,
            entity::Semantic::AnyOf => Self::AnyOf,
        }
    }
}

impl From<PolicyType> for Right {
    /// The right that a stored policy grants; a stored policy never has type `Invalid`.
    fn from(of: PolicyType) -> Self {
        if of == PolicyType::Bind {
            Self::Bind
        } else {
            Self::Dial
        }
    }
}

impl From<Right> for PolicyType {
    fn from(right: Right) -> Self {
        match right {
            Right::Dial => Self::Dial,
            Right::Bind => Self::Bind,
        }
    }
}

pub(super) fn service_policy(record: &Record<ServicePolicy>) -> Policy {
    let spec = &record.spec;
    let [identities, services, checks] = [
        &spec.identity_roles,
        &spec.service_roles,
        &spec.posture_check_roles,
    ]
    .map(texts);
    Policy::service(
        Right::from(spec.policy_type),
        spec.semantic.into(),
        identities,
        services,
        checks,
    )
}

pub(super) fn edge_router_policy(record: &Record<EdgeRouterPolicy>) -> Policy {
    let spec = &record.spec;
    Policy::edge_router(
        spec.semantic.into(),
        texts(&spec.identity_roles),
        texts(&spec.edge_router_roles),
    )
}

pub(super) fn service_edge_router_policy(record: &Record<ServiceEdgeRouterPolicy>) -> Policy {
    let spec = &record.spec;
    Policy::service_edge_router(
        spec.semantic.into(),
        texts(&spec.service_roles),
        texts(&spec.edge_router_roles),
    )
}
