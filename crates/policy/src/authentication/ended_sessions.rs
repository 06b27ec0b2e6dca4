//! API sessions that ended with their external signer, as long as they would have lasted: their
//! clients may still ask for their session.
//!
//! Such a session is deleted and has no rights. Established clients expect that the one operation
//! that shows it still answers after its signer was disabled or deleted, so that its record is kept
//! here, in memory and for a bounded number of sessions. A restart forgets it.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use model::{
    clock::Timestamp,
    entity::{ApiSession, ExternalJwtSigner, Id, LoginBasis, Record, TypedLookup},
    error::Result,
};
use store::{Event, Store};

use super::Caller;

/// At most this many sessions; then the one that ended first is forgotten.
const LIMIT: usize = 1000;

/// The sessions. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct EndedSessions(Arc<Mutex<VecDeque<Ended>>>);

struct Ended {
    session: Record<ApiSession>,
    /// By the steady clock.
    at: Timestamp,
}

impl EndedSessions {
    /// Notes the sessions that end with a signer in one commit; `now` is the time of the steady
    /// clock.
    pub(crate) fn on_commit(&self, events: &[Event], now: Timestamp) {
        let ended: Vec<String> = events
            .iter()
            .filter_map(ended_signer)
            .map(|id| LoginBasis::Token(id.clone()).authenticator_id())
            .collect();
        if ended.is_empty() {
            return;
        }
        let gone = events
            .iter()
            .filter_map(|event| match event.of::<ApiSession>() {
                Some((Some(gone), None)) if ended.contains(&gone.spec.authenticator_id) => {
                    Some(gone.clone())
                }
                _ => None,
            });
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(gone.map(|session| Ended { session, at: now }));
        let surplus = known.len().saturating_sub(LIMIT);
        known.drain(..surplus);
    }

    /// The caller that had a session, if it ended less than `lasting` ago and its identity exists.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn find(
        &self,
        store: &Store,
        token: &str,
        now: Timestamp,
        lasting: Duration,
    ) -> Result<Option<Arc<Caller>>> {
        let session = {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.retain(|ended| now.since(ended.at) < lasting);
            known
                .iter()
                .find(|ended| ended.session.spec.token == token)
                .map(|ended| ended.session.clone())
        };
        let Some(session) = session else {
            return Ok(None);
        };
        let identity = store.read(|tx| tx.find(&session.spec.identity_id))?;
        let caller = |identity| {
            Arc::new(Caller {
                session,
                identity,
                queries: Vec::new(),
                token: None,
                second_signer: None,
            })
        };
        Ok(identity.map(caller))
    }
}

/// The signer that an event deletes or disables.
fn ended_signer(event: &Event) -> Option<&Id<ExternalJwtSigner>> {
    let (old, new) = event.of::<ExternalJwtSigner>()?;
    let old = old.filter(|old| old.spec.enabled || new.is_none())?;
    new.is_none_or(|new| !new.spec.enabled).then_some(&old.id)
}
