//! Which kinds of records are subjects or policies of the engine.

use model::entity::{
    EdgeRouter, EdgeRouterPolicy, Entity, Identity, Kind, PostureCheck, Service,
    ServiceEdgeRouterPolicy, ServicePolicy,
};

use super::{PolicyEntityKind, PolicyKind};

/// The role of a kind in the engine.
#[derive(Clone, Copy)]
pub(super) enum EngineRole {
    Policy(PolicyKind),
    Subject(PolicyEntityKind),
}

/// The kinds of subjects and of policies.
pub(super) const ENGINE_ROLES: [(Kind, EngineRole); 7] = [
    (
        Identity::KIND,
        EngineRole::Subject(PolicyEntityKind::Identity),
    ),
    (
        Service::KIND,
        EngineRole::Subject(PolicyEntityKind::Service),
    ),
    (
        EdgeRouter::KIND,
        EngineRole::Subject(PolicyEntityKind::EdgeRouter),
    ),
    (
        PostureCheck::KIND,
        EngineRole::Subject(PolicyEntityKind::PostureCheck),
    ),
    (ServicePolicy::KIND, EngineRole::Policy(PolicyKind::Service)),
    (
        EdgeRouterPolicy::KIND,
        EngineRole::Policy(PolicyKind::EdgeRouter),
    ),
    (
        ServiceEdgeRouterPolicy::KIND,
        EngineRole::Policy(PolicyKind::ServiceEdgeRouter),
    ),
];

/// The kind of subject with this name, if it is one.
pub fn subject(kind: &str) -> Option<PolicyEntityKind> {
    if let EngineRole::Subject(subject) = engine_role(kind)? {
        Some(subject)
    } else {
        None
    }
}

/// The role in the engine of the kind with this name.
pub(super) fn engine_role(kind: &str) -> Option<EngineRole> {
    ENGINE_ROLES
        .into_iter()
        .find(|(of, _)| of.name == kind)
        .map(|(_, engine_role)| engine_role)
}

/// The kind of policy that connects two kinds of subjects.
pub(super) fn between(one: PolicyEntityKind, other: PolicyEntityKind) -> Option<PolicyKind> {
    use PolicyEntityKind::{EdgeRouter, Identity, Service};
    match (one, other) {
        (Identity, Service) | (Service, Identity) => Some(PolicyKind::Service),
        (Identity, EdgeRouter) | (EdgeRouter, Identity) => Some(PolicyKind::EdgeRouter),
        (Service, EdgeRouter) | (EdgeRouter, Service) => Some(PolicyKind::ServiceEdgeRouter),
        _ => None,
    }
}
