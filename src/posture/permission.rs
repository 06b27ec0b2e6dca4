//! Whether an identity may use a service now: its policies, and their posture checks.
//!
//! The one answer for everybody who asks: requests for a session, and the router when a session is used.

use super::{Decision, Evidence, Judged, Posture};
use crate::{
    access::Right,
    entity::{ApiSession, Id, Identity, Record, ServicePolicy},
    error::Result,
};

/// So many policies at most are judged and named as what a session rests on, where any one is enough.
const NAMED: usize = 16;

/// The answer.
pub enum Permission {
    /// No policy gives it.
    Missing,
    /// These policies give it, or of many some, and their checks pass. None is named where the system has no checks to pass.
    Granted(Vec<Id<ServicePolicy>>),
    /// Every policy that would give it, with its checks, and what they were judged by.
    Blocked(Vec<(String, Vec<Judged>)>, Evidence),
}

impl Posture {
    /// Whether an identity may use a service in an API session of its.
    ///
    /// # Errors
    /// A check cannot be read.
    pub fn permission(&self, identity: &Record<Identity>, api_session: &Id<ApiSession>, service: &str, right: Right) -> Result<Permission> {
        let id = identity.id.as_str();
        let Some(grounds) = self.access.ask(|engine| engine.grounds(id, service, right, NAMED)) else { return Ok(Permission::Missing) };
        if grounds.is_empty() {
            return Ok(Permission::Granted(Vec::new()));
        }
        let evidence = self.evidence(id, Some(api_session.as_str())).seen_by(&identity.state.sdk_info);
        Ok(match self.rule_on(evidence.clone(), (id, service, right), &grounds)? {
            Decision::Passed(policies) => Permission::Granted(policies),
            Decision::Failed(policies) => Permission::Blocked(policies, evidence),
        })
    }
}
