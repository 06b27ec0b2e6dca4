//! Which sessions a committed change may affect.

use model::entity::{
    ApiSession, Identity, Mfa, PostureCheck, Record, Service, ServicePolicy, Session,
};
use store::Event;

use crate::access::{Access, Right};

/// The sessions that a change may affect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trigger {
    /// Every session.
    Everything,
    /// The sessions of an identity.
    Identity(String),
    /// The sessions for a service.
    Service(String),
    /// One new session that depends on posture checks, or lost its right while it was opened.
    Session(String),
}

impl Trigger {
    /// The sessions from which a committed change may take the right; `access` is up to date.
    /// `None` for a change that can only grant, unless it grants for a limited time.
    pub(crate) fn of(event: &Event, access: &Access) -> Option<Self> {
        if let Some((None, Some(session))) = event.of::<Session>() {
            return (!is_granted_without_checks(session, access))
                .then(|| Self::Session(session.id.to_string()));
        }
        if let Some((Some(old), Some(new))) = event.of::<ApiSession>() {
            // The code is valid for a limited time from now.
            return (old.state.passed_at != new.state.passed_at)
                .then(|| Self::Identity(new.spec.identity_id.to_string()));
        }
        if let Some((Some(old), Some(new))) = event.of::<Identity>() {
            return (old.spec.role_attributes != new.spec.role_attributes)
                .then(|| Self::Identity(new.id.to_string()));
        }
        if let Some((Some(old), Some(new))) = event.of::<Service>() {
            return (old.spec.role_attributes != new.spec.role_attributes)
                .then(|| Self::Service(new.id.to_string()));
        }
        if let Some((Some(old), new)) = event.of::<ServicePolicy>() {
            return new
                .is_none_or(|new| is_changed(&old.spec, &new.spec))
                .then_some(Self::Everything);
        }
        if let Some((old, Some(new))) = event.of::<PostureCheck>() {
            let is_same = |old: &Record<PostureCheck>| {
                old.spec.demand == new.spec.demand
                    && old.spec.role_attributes == new.spec.role_attributes
            };
            return (!old.is_some_and(is_same)).then_some(Self::Everything);
        }
        match event.of::<Mfa>() {
            Some((Some(mfa), None)) => Some(Self::Identity(mfa.spec.identity_id.to_string())),
            _ => None,
        }
    }
}

/// Whether a session has its right, and the first policy that grants it has no posture checks.
fn is_granted_without_checks(session: &Record<Session>, access: &Access) -> bool {
    let Session {
        identity_id,
        service_id,
        policy_type,
        ..
    } = &session.spec;
    let (identity, service, right) = (
        identity_id.as_str(),
        service_id.as_str(),
        Right::from(*policy_type),
    );
    let first = access.ask(|engine| engine.grants(identity, service, right, 1));
    first.is_some_and(|first| {
        first
            .first()
            .is_none_or(|grant| grant.posture_checks.is_empty())
    })
}

fn is_changed(old: &ServicePolicy, new: &ServicePolicy) -> bool {
    (old.policy_type, old.semantic) != (new.policy_type, new.semantic)
        || old.identity_roles != new.identity_roles
        || old.service_roles != new.service_roles
        || old.posture_check_roles != new.posture_check_roles
}
