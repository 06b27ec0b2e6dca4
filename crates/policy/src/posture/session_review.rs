//! Reviews sessions: finds those whose right is lost, or is blocked by posture checks now.

use std::collections::HashMap;

use model::{
    entity::{Entity, Id, Identity, Lookup, Record, Session},
    error::Result,
};
use store::Read;

use super::{Posture, PostureEvaluator, trigger::Trigger};
use crate::{access::Right, change::Change};

/// A session to end.
#[derive(Debug, Clone)]
pub struct EndedSession {
    pub(crate) session: Id<Session>,
    pub identity: Id<Identity>,
    /// A policy still grants the right, but its posture checks fail.
    pub by_posture: bool,
}

/// Finds the sessions, among those that a trigger selects, to which no policy with passing posture
/// checks grants the right any more.
///
/// # Errors
/// A record cannot be read.
pub fn sessions_to_end(
    tx: &Read<'_>,
    posture: &Posture,
    trigger: &Trigger,
) -> Result<Vec<EndedSession>> {
    let mut review = Review {
        tx,
        posture,
        evaluators: HashMap::new(),
        sessions_to_end: Vec::new(),
    };
    let ids = match trigger {
        Trigger::Everything => {
            tx.each_readable::<Session>(|session| review.review(&session))?;
            Vec::new()
        }
        Trigger::Identity(id) => Session::ids_of(id, tx)?,
        Trigger::Service(id) => tx.ids(Session::KIND, "service", id)?,
        Trigger::Session(id) => vec![id.clone()],
    };
    for id in ids {
        tx.find_readable(&Id::from_text(id))?
            .map_or(Ok(()), |session| review.review(&session))?;
    }
    Ok(review.sessions_to_end)
}

/// Deletes sessions; skips those already deleted.
///
/// # Errors
/// The store fails.
pub fn end(change: &Change<'_, '_>, sessions_to_end: &[EndedSession]) -> Result<()> {
    for EndedSession { session, .. } in sessions_to_end {
        change
            .read()
            .find_readable(session)?
            .map_or(Ok(()), |session| change.delete_record(session))?;
    }
    Ok(())
}

struct Review<'r> {
    tx: &'r Read<'r>,
    posture: &'r Posture,
    /// By API session: all its service sessions share an evaluator. Checks are read from the store.
    evaluators: HashMap<String, PostureEvaluator<'r>>,
    sessions_to_end: Vec<EndedSession>,
}

impl Review<'_> {
    fn review(&mut self, session: &Record<Session>) -> Result<()> {
        let spec = &session.spec;
        let (identity, service, right) = (
            spec.identity_id.as_str(),
            spec.service_id.as_str(),
            Right::from(spec.policy_type),
        );
        // Usually the first policy grants it; only otherwise all are fetched.
        let grants = self
            .posture
            .access
            .ask(|engine| engine.grants(identity, service, right, 1));
        let by_posture = grants.is_some();
        let stands = match grants.as_deref() {
            None => false,
            Some([]) => true,
            Some(first) => {
                let (tx, posture, api_session) = (self.tx, self.posture, &spec.api_session_id);
                let evaluator = || {
                    PostureEvaluator::new(
                        tx,
                        posture.evidence(identity, Some(api_session.as_str())),
                    )
                };
                let evaluator = self
                    .evaluators
                    .entry(api_session.to_string())
                    .or_insert_with(evaluator);
                evaluator.allows(first)?
                    || evaluator.allows(
                        &posture
                            .access
                            .ask(|engine| engine.all_grants(identity, service, right)),
                    )?
            }
        };
        if !stands {
            self.sessions_to_end.push(EndedSession {
                session: session.id.clone(),
                identity: spec.identity_id.clone(),
                by_posture,
            });
        }
        Ok(())
    }
}
