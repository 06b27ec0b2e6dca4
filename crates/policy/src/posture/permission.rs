//! Whether an identity may use a service now, by its policies and their posture checks.
//!
//! Requests for a session and the router's checks of a session in use share this code.

use model::{
    entity::{ApiSession, Id, Identity, Record, ServicePolicy},
    error::Result,
};

use super::{Decision, EvaluatedCheck, Evidence, Posture};
use crate::access::Right;

/// At most this many policies are judged and named as the basis of a session; one is enough to
/// grant it.
const MAX_POLICIES: usize = 16;

/// Whether an identity may use a service, with the reason.
pub enum ServicePermission {
    /// No policy grants the right.
    Missing,
    /// These policies grant it and their checks pass; of many only some are listed. Empty if the
    /// system has no posture checks.
    Granted(Vec<Id<ServicePolicy>>),
    /// Every policy that would grant it, with its checks, and the evidence.
    Blocked(Vec<(String, Vec<EvaluatedCheck>)>, Evidence),
}

impl Posture {
    /// Whether an identity may use a service in one of its API sessions.
    ///
    /// # Errors
    /// A check cannot be read.
    pub fn permission(
        &self,
        identity: &Record<Identity>,
        api_session: &Id<ApiSession>,
        service: &str,
        right: Right,
    ) -> Result<ServicePermission> {
        let id = identity.id.as_str();
        let Some(grants) = self
            .access
            .ask(|engine| engine.grants(id, service, right, MAX_POLICIES))
        else {
            return Ok(ServicePermission::Missing);
        };
        if grants.is_empty() {
            return Ok(ServicePermission::Granted(Vec::new()));
        }
        let evidence = self
            .evidence(id, Some(api_session.as_str()))
            .seen_by(&identity.state.sdk_info);
        Ok(
            match self.evaluate_policies(evidence.clone(), (id, service, right), &grants)? {
                Decision::Passed(policies) => ServicePermission::Granted(policies),
                Decision::Failed(policies) => ServicePermission::Blocked(policies, evidence),
            },
        )
    }
}
