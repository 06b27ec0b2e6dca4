//! API sessions in use: maps tokens to callers and tracks the last activity of each session.
//!
//! A caller is cached as long as the records it is made of do not change, so that a polling client
//! causes no read of the store. The last activity is kept in memory and written back in batches
//! (`jobs.rs`). A session is over as soon as it has idled longer than the timeout, whether or not
//! its record still exists.
//!
//! Idle time is measured by the steady clock: setting the host's clock forward ends no session, and
//! setting it back keeps none open. For the time before this process started, only the dates in the
//! records are known, which are dates of the host's clock.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use model::{
    clock::{Clock, Timestamp},
    config,
    entity::{
        ApiSession, AuthPolicy, Authenticator, Entity, ExternalJwtSigner, Id, Identity, Kind,
        Lookup, Record, Session, TypedLookup,
    },
    error::Result,
};
use store::{Cache, DependencyRecorder, Event, OpenStore, Phase, Store, Tombstone};

use super::{Caller, SessionSlot, ended_sessions::EndedSessions, session_quota::SessionQuota};

/// The state of sessions besides their records. Cheap to clone.
#[derive(Clone)]
pub struct Sessions {
    clock: Clock,
    /// When this started, by the steady clock.
    began: Timestamp,
    timeout: Duration,
    active: Arc<Mutex<Active>>,
    quota: SessionQuota,
    /// Service sessions by identity. They count until they are deleted, even after they ended.
    service_quota: SessionQuota,
    /// Cached callers by token.
    callers: Cache<Caller>,
    ended: EndedSessions,
}

/// The size of the cache of callers, of about 2 KB each.
const CALLERS: usize = 20_000;
/// The kinds of which a caller is made.
const MADE_OF: &[Kind] = &[
    ApiSession::KIND,
    Identity::KIND,
    Authenticator::KIND,
    AuthPolicy::KIND,
    ExternalJwtSigner::KIND,
];

/// The last activity of each session.
struct Active {
    by_id: HashMap<String, Activity>,
    /// A lower bound of all activities, by the steady clock.
    since: Timestamp,
}

#[derive(Clone, Copy)]
struct Activity {
    /// By the steady clock.
    at: Timestamp,
    written: bool,
}

impl Sessions {
    /// Tracks the sessions of a store with the timeout and limits of `settings`. Deleted sessions
    /// are forgotten, however they ended.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn following(
        store: &OpenStore,
        clock: Clock,
        settings: &config::SessionConfig,
    ) -> Result<Self> {
        let callers = Cache::following(store, |kind| MADE_OF.contains(&kind), CALLERS);
        let began = clock.steady();
        let active = Arc::new(Mutex::new(Active {
            by_id: HashMap::new(),
            since: began,
        }));
        let (quota, service_quota) = (
            SessionQuota::new(settings.per_identity),
            SessionQuota::new(settings.services_per_identity),
        );
        let ended = EndedSessions::default();
        let sessions = Self {
            began,
            clock,
            timeout: settings.timeout.duration(),
            active,
            quota,
            service_quota,
            callers,
            ended,
        };
        let subscriber = sessions.clone();
        store.subscribe(Phase::Update, move |events| {
            events.iter().for_each(|event| subscriber.on_commit(event));
            subscriber
                .ended
                .on_commit(events, subscriber.clock.steady());
        });
        store.read(|tx| {
            tx.each_readable::<ApiSession>(|session| {
                let identity = &session.spec.identity_id;
                sessions.quota.count_found(
                    identity,
                    session.state.epoch,
                    tx.ended_before(ApiSession::KIND, "identity", identity.as_str())?,
                );
                sessions.restore_activity(&session);
                Ok(())
            })?;
            tx.each_readable::<Session>(|session| {
                sessions
                    .service_quota
                    .count_opened(&session.spec.identity_id, 0);
                Ok(())
            })
        })?;
        Ok(sessions)
    }

    fn on_commit(&self, event: &Event) {
        match event.of::<ApiSession>() {
            Some((None, Some(opened))) => {
                self.set_active(opened.id.as_str(), true);
                self.quota
                    .count_opened(&opened.spec.identity_id, opened.state.epoch);
            }
            Some((Some(gone), None)) => {
                self.forget(gone.id.as_str());
                self.quota
                    .count_deleted(&gone.spec.identity_id, gone.state.epoch);
            }
            Some((None, None)) => {
                if let Some(Tombstone { value, epoch, .. }) = event
                    .tombstone
                    .as_ref()
                    .filter(|tombstone| tombstone.field == "identity")
                {
                    self.quota
                        .release_before(&Id::from_text(value.as_str()), *epoch);
                }
            }
            _ => {}
        }
        match event.of::<Session>() {
            Some((None, Some(opened))) => {
                self.service_quota.count_opened(&opened.spec.identity_id, 0)
            }
            Some((Some(gone), None)) => self.service_quota.count_deleted(&gone.spec.identity_id, 0),
            _ => {}
        }
    }

    /// Reserves a slot for a session that an identity is about to open.
    ///
    /// # Errors
    /// [`Error::Busy`](model::error::Error::Busy): open and reserved sessions have reached the
    /// limit.
    pub fn admit(&self, identity: &Id<Identity>) -> Result<SessionSlot> {
        self.quota.admit(identity)
    }

    /// Like [`Sessions::admit`], for a service session.
    ///
    /// # Errors
    /// As in [`Sessions::admit`].
    pub fn admit_service(&self, identity: &Id<Identity>) -> Result<SessionSlot> {
        self.service_quota.admit(identity)
    }

    /// How long a session may idle.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The caller of a session token, if the session is not over and its identity is not disabled.
    /// Counts as activity.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn resolve(
        &self,
        store: &Store,
        token: &str,
        now: Timestamp,
    ) -> Result<Option<Arc<Caller>>> {
        if token.len() != 36 {
            return Ok(None);
        }
        let known = self.callers.find(token);
        let known = if known.is_some() {
            known
        } else {
            self.look_up(store, token)?
        };
        let good =
            |Caller {
                 session, identity, ..
             }: &Caller| !self.is_over(session) && !identity.state.is_disabled(now);
        let caller = known.filter(|caller| good(caller));
        if let Some(caller) = &caller {
            self.set_active(caller.session.id.as_str(), false);
        }
        Ok(caller)
    }

    /// The caller that had a session token until its session ended with the external signer that
    /// had opened it. The caller has no rights.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn ended_with_signer(&self, store: &Store, token: &str) -> Result<Option<Arc<Caller>>> {
        self.ended
            .find(store, token, self.clock.steady(), self.timeout)
    }

    fn look_up(&self, store: &Store, token: &str) -> Result<Option<Arc<Caller>>> {
        let at = self.callers.now();
        store.read(|tx| {
            let lookup = DependencyRecorder::new(tx);
            let Some(session) = lookup.linked::<ApiSession>("token", token)?.pop() else {
                return Ok(None);
            };
            let Some(identity) = lookup.find(&session.spec.identity_id)? else {
                return Ok(None);
            };
            let policy = lookup.get(identity.spec.auth_policy())?;
            let caller = Arc::new(Caller::of(session, identity, &policy.spec, &lookup)?);
            if let Some(dependencies) = lookup.dependencies() {
                self.callers.insert(token, caller.clone(), dependencies, at);
            }
            Ok(Some(caller))
        })
    }

    /// The last activity of a session, converted to the host's clock.
    pub fn last_activity(&self, session: &Record<ApiSession>) -> Timestamp {
        self.clock.now().minus(self.idle_time(session))
    }

    /// Whether a session has idled too long.
    pub(crate) fn is_over(&self, session: &Record<ApiSession>) -> bool {
        self.idle_time(session) > self.timeout
    }

    /// How long a session has been idle. A session not seen since the start has idled at least
    /// since then, even if a wrong clock gave it a later date.
    fn idle_time(&self, session: &Record<ApiSession>) -> Duration {
        let seen = self.with(|active| {
            active
                .by_id
                .get(session.id.as_str())
                .map(|activity| activity.at)
        });
        self.clock
            .steady()
            .since(seen.unwrap_or_else(|| self.recorded_activity(session)))
    }

    fn recorded_activity(&self, session: &Record<ApiSession>) -> Timestamp {
        session.spec.last_activity_at.min(self.began)
    }

    /// Takes the last activity of a session from its record.
    fn restore_activity(&self, session: &Record<ApiSession>) {
        let at = self.recorded_activity(session);
        self.with(|active| {
            active.since = active.since.min(at);
            active
                .by_id
                .insert(session.id.to_string(), Activity { at, written: true });
        });
    }

    /// The sessions that idled too long. Costs nothing while there can be none.
    pub fn over(&self) -> Vec<Id<ApiSession>> {
        let now = self.clock.steady();
        self.with(|active| {
            if now.since(active.since) <= self.timeout {
                return Vec::new();
            }
            active.since = active
                .by_id
                .values()
                .map(|activity| activity.at)
                .min()
                .unwrap_or(now);
            let over = active
                .by_id
                .iter()
                .filter(|(_, activity)| now.since(activity.at) > self.timeout);
            over.map(|(id, _)| Id::from_text(id.as_str())).collect()
        })
    }

    /// Marks a session as active, for uses without a request.
    pub fn mark_active(&self, session: &Id<ApiSession>) {
        self.with(|active| {
            let at = self.clock.steady();
            if let Some(activity) = active.by_id.get_mut(session.as_str()) {
                *activity = Activity { at, written: false };
            }
        });
    }

    /// Marks a session as active; `written` if its record says so already.
    fn set_active(&self, id: &str, written: bool) {
        let at = self.clock.steady();
        self.with(|active| match active.by_id.get_mut(id) {
            Some(activity) => *activity = Activity { at, written },
            None => {
                active.by_id.insert(id.to_owned(), Activity { at, written });
            }
        });
    }

    /// Forgets a session that ended.
    pub fn forget(&self, id: &str) {
        self.with(|active| active.by_id.remove(id));
    }

    /// The activities not written yet, converted to the host's clock; marks them as written.
    pub fn take_unwritten(&self) -> Vec<(Id<ApiSession>, Timestamp)> {
        let (now, steady) = (self.clock.now(), self.clock.steady());
        self.with(|active| {
            let unwritten = active
                .by_id
                .iter_mut()
                .filter(|(_, activity)| !activity.written);
            unwritten
                .map(|(id, activity)| {
                    activity.written = true;
                    (
                        Id::from_text(id.clone()),
                        now.minus(steady.since(activity.at)),
                    )
                })
                .collect()
        })
    }

    /// Marks activities as unwritten again after their write has failed.
    pub fn mark_unwritten<'a>(&self, taken: impl Iterator<Item = &'a Id<ApiSession>>) {
        self.with(|active| {
            for id in taken {
                if let Some(activity) = active.by_id.get_mut(id.as_str()) {
                    activity.written = false;
                }
            }
        });
    }

    fn with<T>(&self, work: impl FnOnce(&mut Active) -> T) -> T {
        work(&mut self.active.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
