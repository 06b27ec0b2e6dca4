//! Posture: what endpoints report about themselves, and how that affects their users' rights.
//!
//! Here: the state of each identity's endpoints ([`IdentityPosture`]), whether it satisfies a
//! posture check (`evaluation.rs`, pure functions), the policies of a caller with their checks
//! ([`PostureEvaluator`]), the requests that failed, and which sessions must end
//! (`session_review.rs`). Not here: the content of a posture check (`entity/`), rights apart from
//! posture (`access/`), when sessions are reviewed (`jobs.rs`). Start reading at [`Posture`].
//!
//! Everything is judged from memory. What endpoints reported is also in the data file and survives
//! a restart (`stored.rs`), because clients report a value only when it changes; failed requests
//! are lost. Invariant: nothing is kept for an identity or API session that does not exist, and
//! what is kept for each is bounded.

mod endpoint_state;
pub mod evaluation;
mod evidence;
mod expiry;
mod failure;
mod permission;
mod policies;
mod response;
mod session_review;
mod stored;
mod timeouts;
mod trigger;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

pub use endpoint_state::{ServiceAwaitingCode, awaited};
pub use evidence::{Evidence, IdentityPosture, SessionMfaState};
pub use expiry::Expiry;
pub(crate) use failure::CheckFailure;
pub use failure::{FailedRequest, PolicyFailure};
pub use permission::ServicePermission;
pub(crate) use policies::Decision;
pub use policies::{EvaluatedCheck, PostureEvaluator};
pub use response::Response;
pub use session_review::{end, sessions_to_end};
pub use stored::write_report;
use timeouts::{MfaTimeouts, TimeoutQueue};
pub use trigger::Trigger;

use model::{
    clock::{Clock, Timestamp},
    config,
    entity::{ApiSession, Entity, Id, Identity, Mfa, PostureCheck, Record, TypedLookup},
    error::Result,
};
use store::{Cache, Event, OpenStore, Phase, Reader, Restoration};

use crate::access::{Access, PolicyGrant, Right};

/// The size of the cache of posture checks.
const MAX_CHECKS: usize = 10_000;
/// Failed requests kept per identity, and their total length as JSON in bytes; then the oldest are
/// dropped.
const MAX_FAILURES: usize = 100;
const MAX_FAILURE_BYTES: usize = 256 << 10;
/// The maximum length of a failed request as JSON, in bytes; policies that do not fit are left out.
const MAX_FAILURE_LENGTH: usize = 64 << 10;

/// The failed requests of one identity, oldest first.
#[derive(Default)]
struct Failures {
    /// Each with its length as JSON, in bytes.
    requests: VecDeque<(usize, Arc<FailedRequest>)>,
    bytes: usize,
}

impl Failures {
    fn keep(&mut self, bytes: usize, request: FailedRequest) {
        self.requests.push_back((bytes, Arc::new(request)));
        self.bytes += bytes;
        while self.requests.len() > MAX_FAILURES || self.bytes > MAX_FAILURE_BYTES {
            let Some((bytes, _)) = self.requests.pop_front() else {
                return;
            };
            self.bytes -= bytes;
        }
    }
}

/// The state of all endpoints. Cheap to clone.
#[derive(Clone)]
pub struct Posture {
    memory: Arc<Mutex<Memory>>,
    access: Access,
    store: Reader,
    clock: Clock,
    limits: config::PostureConfig,
    checks: Cache<Record<PostureCheck>>,
    /// The last restore of the data file; reports from before do not count.
    restoration: Option<Restoration>,
    on_trigger: Arc<dyn Fn(Trigger) + Send + Sync>,
}

#[derive(Default)]
struct Memory {
    endpoints: HashMap<String, Arc<IdentityPosture>>,
    failures: HashMap<String, Failures>,
    timeout_queue: TimeoutQueue,
    /// The API sessions whose last reports are not in the file yet, with their identities.
    unwritten: BTreeMap<Arc<str>, String>,
    /// Whether posture checks have changed since `timeout_queue` received their terms.
    has_new_checks: bool,
}

impl Posture {
    /// Starts with the reports in the file, within `limits`. Forgets deleted identities and API
    /// sessions. Calls `on_trigger` whenever a committed change may have taken the right of
    /// sessions, now or at a later time; `access` is up to date by then.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn following(
        store: &OpenStore,
        access: Access,
        clock: Clock,
        limits: config::PostureConfig,
        on_trigger: impl Fn(Trigger) + Send + Sync + 'static,
    ) -> Result<Self> {
        let checks = Cache::following(store, |kind| kind == PostureCheck::KIND, MAX_CHECKS);
        let on_trigger: Arc<dyn Fn(Trigger) + Send + Sync> = Arc::new(on_trigger);
        let (restoration, memory) = store.read(|tx| {
            let restoration = tx.restoration()?;
            Ok((
                restoration,
                Memory::stored(tx, restoration, limits.processes, clock.calendar_now())?,
            ))
        })?;
        let posture = Self {
            memory: Arc::new(Mutex::new(memory)),
            access,
            store: store.reader().clone(),
            clock,
            limits,
            checks,
            restoration,
            on_trigger: on_trigger.clone(),
        };
        let (memory, access, clock) = (
            posture.memory.clone(),
            posture.access.clone(),
            posture.clock.clone(),
        );
        store.subscribe(Phase::Update, move |events| {
            events
                .iter()
                .for_each(|event| on_commit(&memory, &access, &clock, event))
        });
        let access = posture.access.clone();
        store.subscribe(Phase::React, move |events| {
            events
                .iter()
                .filter_map(|event| Trigger::of(event, &access))
                .for_each(&*on_trigger);
        });
        Ok(posture)
    }

    /// Stores what an endpoint answered in an API session: all answers or none.
    ///
    /// # Errors
    /// A text or a list is too long; the store cannot be read.
    pub fn take(
        &self,
        identity: &Id<Identity>,
        api_session: &Id<ApiSession>,
        responses: Vec<Response>,
    ) -> Result<()> {
        responses
            .iter()
            .try_for_each(|response| response.check(self.limits.max_text_bytes))?;
        let (now, processes) = (self.clock.calendar_now(), self.limits.processes);
        let begins_a_time = responses
            .iter()
            .any(|response| matches!(response, Response::EndpointState { .. }));
        with(&self.memory, |memory| {
            let endpoint = memory.endpoint(identity.as_str());
            let take = |response| endpoint.take(api_session.as_str(), response, now, processes);
            let changed: Vec<_> = responses.into_iter().flat_map(take).collect();
            changed
                .into_iter()
                .for_each(|session| memory.mark_unwritten(session, identity.as_str()));
            if begins_a_time {
                memory.schedule(identity.as_str(), api_session.as_str(), now.steady());
            }
        });
        self.forget_unless_there(identity, Some(api_session))?;
        self.access.identity_changed(identity.as_str());
        if begins_a_time {
            (self.on_trigger)(Trigger::Identity(identity.to_string()));
        }
        Ok(())
    }

    /// The evidence for an identity and, if given, an API session.
    pub fn evidence(&self, identity: &str, api_session: Option<&str>) -> Evidence {
        let endpoint = self.endpoint(identity);
        let mfa_state = api_session
            .and_then(|id| endpoint.sessions.get(id))
            .copied()
            .unwrap_or_default();
        Evidence {
            endpoint,
            mfa_state,
            ..Evidence::none(self.clock.calendar_now())
        }
    }

    /// When the data file was last restored, if it was. Nothing that was reported before counts.
    pub(crate) fn restored_at(&self) -> Option<Timestamp> {
        self.restoration.map(|restoration| restoration.at)
    }

    /// [`PostureEvaluator::evaluate_policies`] with this evidence.
    ///
    /// # Errors
    /// Those of [`PostureEvaluator::evaluate_policies`].
    pub(crate) fn evaluate_policies(
        &self,
        evidence: Evidence,
        of: (&str, &str, Right),
        some: &[PolicyGrant],
    ) -> Result<Decision> {
        let at = self.checks.now();
        self.store.read(|tx| {
            PostureEvaluator::new(tx, evidence)
                .with_cache(&self.checks, at)
                .evaluate_policies(&self.access, of, some)
        })
    }

    /// The state of an identity's endpoints.
    pub fn endpoint(&self, identity: &str) -> Arc<IdentityPosture> {
        with(&self.memory, |memory| {
            memory.endpoints.get(identity).cloned().unwrap_or_default()
        })
    }

    /// Keeps a failed request.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn keep_failure(&self, identity: &Id<Identity>, request: FailedRequest) -> Result<()> {
        let (bytes, request) = request.shortened(MAX_FAILURE_LENGTH)?;
        with(&self.memory, |memory| {
            memory
                .failures
                .entry(identity.to_string())
                .or_default()
                .keep(bytes, request)
        });
        self.forget_unless_there(identity, None)?;
        self.access.identity_changed(identity.as_str());
        Ok(())
    }

    /// The failed requests of an identity, oldest first.
    pub fn failures(&self, identity: &str) -> Vec<Arc<FailedRequest>> {
        let all = |failures: &Failures| {
            failures
                .requests
                .iter()
                .map(|(_, request)| request.clone())
                .collect()
        };
        with(&self.memory, |memory| {
            memory.failures.get(identity).map(all).unwrap_or_default()
        })
    }

    /// Removes what was stored for an identity or API session that was deleted meanwhile: no later
    /// event would remove it.
    fn forget_unless_there(
        &self,
        identity: &Id<Identity>,
        api_session: Option<&Id<ApiSession>>,
    ) -> Result<()> {
        let (no_identity, gone) = self.store.read(|tx| {
            let gone = api_session
                .map(|id| tx.find(id))
                .transpose()?
                .is_some_and(|session| session.is_none());
            Ok((tx.find(identity)?.is_none(), gone))
        })?;
        with(&self.memory, |memory| {
            if no_identity {
                memory.forget_identity(identity.as_str());
            } else if gone && let Some(api_session) = api_session {
                memory.forget_session(identity.as_str(), api_session.as_str());
            }
        });
        Ok(())
    }
}

impl Memory {
    /// The state of an identity's endpoints, created if missing.
    fn endpoint(&mut self, identity: &str) -> &mut IdentityPosture {
        Arc::make_mut(self.endpoints.entry(identity.to_owned()).or_default())
    }

    /// Notes that the reports of an API session are to be written.
    fn mark_unwritten(&mut self, session: Arc<str>, identity: &str) {
        self.unwritten
            .entry(session)
            .or_insert_with(|| identity.to_owned());
    }

    /// The MFA state of an API session; `None` if its endpoint has reported nothing.
    fn mfa_state(&self, identity: &str, api_session: &str) -> Option<SessionMfaState> {
        self.endpoints
            .get(identity)?
            .sessions
            .get(api_session)
            .copied()
    }

    /// Updates the time at which an API session may next lose access by time alone. Called after
    /// each report about it.
    fn schedule(&mut self, identity: &str, api_session: &str, now: Timestamp) {
        if let Some(mfa_state) = self.mfa_state(identity, api_session) {
            self.timeout_queue
                .set(identity, api_session, mfa_state, now);
        }
    }

    /// The identities with an API session that may have lost access by time, and the time at which
    /// that may next happen. New `terms`, if given, apply to later times only: access that the new
    /// terms end at once is found by the review that follows the change of a posture check.
    fn due(
        &mut self,
        terms: Option<MfaTimeouts>,
        now: Timestamp,
    ) -> (BTreeSet<Arc<str>>, Option<Timestamp>) {
        let Self {
            timeout_queue,
            endpoints,
            ..
        } = self;
        let due = timeout_queue.take(now, |identity, session| {
            endpoints.get(identity)?.sessions.get(session).copied()
        });
        if let Some(terms) = terms {
            let sessions = endpoints.iter().flat_map(|(identity, endpoint)| {
                endpoint.sessions.iter().map(move |(session, mfa_state)| {
                    (identity.as_str(), session.as_str(), *mfa_state)
                })
            });
            timeout_queue.follow(terms, sessions, now);
        }
        (due, timeout_queue.next())
    }

    fn forget_identity(&mut self, identity: &str) {
        if let Some(endpoint) = self.endpoints.remove(identity) {
            endpoint
                .sessions
                .keys()
                .for_each(|session| self.timeout_queue.forget(session));
        }
        // A session that has only reported values is not in the list above; its report is not
        // written, because the session has ended.
        self.failures.remove(identity);
    }

    fn forget_session(&mut self, identity: &str, api_session: &str) {
        if let Some(endpoint) = self
            .endpoints
            .get_mut(identity)
            .filter(|endpoint| endpoint.sessions.contains_key(api_session))
        {
            Arc::make_mut(endpoint).sessions.remove(api_session);
        }
        self.timeout_queue.forget(api_session);
        self.unwritten.remove(api_session);
    }

    /// Removing an identity's second factor also forgets its codes.
    fn forget_codes(&mut self, identity: &str) {
        if let Some(endpoint) = self.endpoints.get_mut(identity) {
            for (session, mfa_state) in &mut Arc::make_mut(endpoint).sessions {
                if mfa_state.passed_at.take().is_some() {
                    self.unwritten
                        .entry(session.as_str().into())
                        .or_insert_with(|| identity.to_owned());
                }
            }
        }
    }
}

fn on_commit(memory: &Mutex<Memory>, access: &Access, clock: &Clock, event: &Event) {
    if let Some((Some(identity), None)) = event.of::<Identity>() {
        with(memory, |memory| {
            memory.forget_identity(identity.id.as_str())
        });
    }
    match event.of::<ApiSession>() {
        Some((Some(session), None)) => {
            with(memory, |memory| {
                memory.forget_session(session.spec.identity_id.as_str(), session.id.as_str())
            });
        }
        Some((Some(old), Some(new))) if old.state.passed_at != new.state.passed_at => {
            let (identity, now) = (new.spec.identity_id.as_str(), clock.calendar_now());
            // The date is the stored one, so that a report can name it.
            let passed_at = new.state.passed_at.map(|shown| now.showing(shown));
            with(memory, |memory| {
                memory
                    .endpoint(identity)
                    .sessions
                    .entry(new.id.to_string())
                    .or_default()
                    .passed_at = passed_at;
                memory.schedule(identity, new.id.as_str(), now.steady());
                memory.mark_unwritten(new.id.as_str().into(), identity);
            });
            access.identity_changed(identity);
        }
        _ => {}
    }
    if event.kind == PostureCheck::KIND {
        with(memory, |memory| memory.has_new_checks = true);
    }
    if let Some((Some(mfa), None)) = event.of::<Mfa>() {
        with(memory, |memory| {
            memory.forget_codes(mfa.spec.identity_id.as_str())
        });
        access.identity_changed(mfa.spec.identity_id.as_str());
    }
}

fn with<T>(memory: &Mutex<Memory>, work: impl FnOnce(&mut Memory) -> T) -> T {
    work(&mut memory.lock().unwrap_or_else(PoisonError::into_inner))
}
