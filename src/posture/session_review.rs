//! Reviews sessions: finds those whose right is lost, or is blocked by posture checks now.

use std::collections::HashMap;

use super::{Judge, Posture};
use crate::{
    access::{Access, Right},
    change::Change,
    entity::{ApiSession, Entity, Facts, Id, Identity, Mfa, PostureCheck, Record, Service, ServicePolicy, Session},
    error::Result,
    store::{Event, Read},
};

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
    /// The sessions from which a committed change may take the right; `access` is up to date. `None` for a change that can only grant,
    /// unless it grants for a limited time.
    pub fn of(event: &Event, access: &Access) -> Option<Self> {
        if let Some((None, Some(session))) = event.of::<Session>() {
            return (!is_beyond_doubt(session, access)).then(|| Self::Session(session.id.to_string()));
        }
        if let Some((Some(old), Some(new))) = event.of::<ApiSession>() {
            // The code is valid for a limited time from now.
            return (old.state.passed_at != new.state.passed_at).then(|| Self::Identity(new.spec.identity_id.to_string()));
        }
        if let Some((Some(old), Some(new))) = event.of::<Identity>() {
            return (old.spec.role_attributes != new.spec.role_attributes).then(|| Self::Identity(new.id.to_string()));
        }
        if let Some((Some(old), Some(new))) = event.of::<Service>() {
            return (old.spec.role_attributes != new.spec.role_attributes).then(|| Self::Service(new.id.to_string()));
        }
        if let Some((Some(old), new)) = event.of::<ServicePolicy>() {
            return new.is_none_or(|new| says_other(&old.spec, &new.spec)).then_some(Self::Everything);
        }
        if let Some((old, Some(new))) = event.of::<PostureCheck>() {
            let is_same =
                |old: &Record<PostureCheck>| old.spec.demand == new.spec.demand && old.spec.role_attributes == new.spec.role_attributes;
            return (!old.is_some_and(is_same)).then_some(Self::Everything);
        }
        match event.of::<Mfa>() {
            Some((Some(mfa), None)) => Some(Self::Identity(mfa.spec.identity_id.to_string())),
            _ => None,
        }
    }
}

/// Whether a session has its right, and the first policy that grants it has no posture checks.
fn is_beyond_doubt(session: &Record<Session>, access: &Access) -> bool {
    let Session { identity_id, service_id, policy_type, .. } = &session.spec;
    let (identity, service, right) = (identity_id.as_str(), service_id.as_str(), Right::from(*policy_type));
    let first = access.ask(|engine| engine.grounds(identity, service, right, 1));
    first.is_some_and(|first| first.first().is_none_or(|ground| ground.posture_checks.is_empty()))
}

fn says_other(old: &ServicePolicy, new: &ServicePolicy) -> bool {
    (old.policy_type, old.semantic) != (new.policy_type, new.semantic)
        || old.identity_roles != new.identity_roles
        || old.service_roles != new.service_roles
        || old.posture_check_roles != new.posture_check_roles
}

/// A session to end.
#[derive(Debug, Clone)]
pub struct EndedSession {
    pub session: Id<Session>,
    pub identity: Id<Identity>,
    /// A policy still grants the right, but its posture checks fail.
    pub by_posture: bool,
}

/// Finds those sessions named by a trigger that no policy grants any more.
///
/// # Errors
/// A record cannot be read.
pub fn lapsed(tx: &Read<'_>, posture: &Posture, trigger: &Trigger) -> Result<Vec<EndedSession>> {
    let mut review = Review { tx, posture, judges: HashMap::new(), lapsed: Vec::new() };
    let ids = match trigger {
        Trigger::Everything => {
            tx.each_readable::<Session>(|session| review.look(&session))?;
            Vec::new()
        }
        Trigger::Identity(id) => Session::ids_of(id, tx)?,
        Trigger::Service(id) => tx.ids(Session::KIND, "service", id)?,
        Trigger::Session(id) => vec![id.clone()],
    };
    for id in ids {
        tx.find_readable(&Id::from_text(id))?.map_or(Ok(()), |session| review.look(&session))?;
    }
    Ok(review.lapsed)
}

/// Deletes sessions; skips those already deleted.
///
/// # Errors
/// The store fails.
pub fn end(change: &Change<'_, '_>, lapsed: &[EndedSession]) -> Result<()> {
    for EndedSession { session, .. } in lapsed {
        if change.find_readable(session)?.is_some() {
            change.delete(session)?;
        }
    }
    Ok(())
}

struct Review<'r> {
    tx: &'r Read<'r>,
    posture: &'r Posture,
    /// By API session: all its service sessions share a judge. Checks are read from the store.
    judges: HashMap<String, Judge<'r>>,
    lapsed: Vec<EndedSession>,
}

impl Review<'_> {
    fn look(&mut self, session: &Record<Session>) -> Result<()> {
        let spec = &session.spec;
        let (identity, service, right) = (spec.identity_id.as_str(), spec.service_id.as_str(), Right::from(spec.policy_type));
        // Usually the first policy grants it; only otherwise all are fetched.
        let grounds = self.posture.access.ask(|engine| engine.grounds(identity, service, right, 1));
        let by_posture = grounds.is_some();
        let stands = match grounds.as_deref() {
            None => false,
            Some([]) => true,
            Some(first) => {
                let (tx, posture, api_session) = (self.tx, self.posture, &spec.api_session_id);
                let judge = || Judge::new(tx, posture.evidence(identity, Some(api_session.as_str())));
                let judge = self.judges.entry(api_session.to_string()).or_insert_with(judge);
                judge.allows(first)? || judge.allows(&posture.access.ask(|engine| engine.all_grounds(identity, service, right)))?
            }
        };
        if !stands {
            self.lapsed.push(EndedSession { session: session.id.clone(), identity: spec.identity_id.clone(), by_posture });
        }
        Ok(())
    }
}
