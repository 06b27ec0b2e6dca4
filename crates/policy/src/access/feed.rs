//! Keeps the engine in step with the store: it is filled at the start, then updated with every
//! committed change.

use std::sync::Arc;

use model::{
    clock::{Clock, Timestamp},
    entity::{self, Config, Entity, Identity, Kind, PostureCheck, Service},
    error::Result,
};
use parking_lot::{Mutex, MutexGuard};
use store::{Event, OpenStore, Phase, Reader};

use super::{
    AccessShare, Assertion, AssertionViolation, Delta, Difference, Engine, PolicyEntityKind,
    engine_roles::{EngineRole, between, engine_role},
    fill::fill,
    preview::{Preview, PreviewedChanges, Step, in_order},
    record_deltas::delta,
    shares::{AT_A_TIME, listed_objects},
};

/// How often a preview starts again if the engine changed meanwhile.
const MAX_RESTARTS: usize = 3;
/// The number of assertions that are evaluated before waiting threads get the lock.
const ASSERTIONS_PER_STEP: usize = 8;

/// The engine behind one lock. Cheap to clone.
#[derive(Clone)]
pub struct Access {
    engine: Arc<Mutex<Engine>>,
    clock: Clock,
}

impl Access {
    /// An engine filled from a store and updated with every later commit.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn following(store: &OpenStore, clock: Clock) -> Result<Self> {
        let access = Self {
            engine: Arc::default(),
            clock,
        };
        store.read(|tx| access.ask(|engine| fill(engine, tx)))?;
        let (subscriber, source) = (access.clone(), store.reader().downgrade());
        store.subscribe(Phase::Update, move |events| {
            if let Some(source) = source.upgrade() {
                subscriber.on_commit(&source, events);
            }
        });
        Ok(access)
    }

    /// Marks a change that an identity sees but that is not stored, so that polling clients read
    /// again.
    pub fn identity_changed(&self, id: &str) {
        let now = millis(self.clock.now());
        self.ask(|engine| engine.identity_changed(id, now));
    }

    /// Queries the engine. The lock is held meanwhile, so that a query should be short.
    pub fn ask<T>(&self, question: impl FnOnce(&mut Engine) -> T) -> T {
        question(&mut self.engine.lock())
    }

    /// [`Access::ask`] for one of many steps: the lock goes to a waiting thread first, which the
    /// lock of the standard library does not guarantee.
    fn ask_fairly<T>(&self, question: impl FnOnce(&mut Engine) -> T) -> T {
        let mut engine = self.engine.lock();
        let answer = question(&mut engine);
        MutexGuard::unlock_fair(engine);
        answer
    }

    /// The access that would be gained and lost by these events, with at most `limit` ids in each
    /// list. An identity that they disable loses what policies grant it, and one that they enable
    /// gains it. The lock is released between steps. If the engine changes meanwhile, the preview
    /// starts again; after `MAX_RESTARTS` attempts it runs in one step. Before each step
    /// `report_progress` gets the number of changes and subjects known to be left.
    ///
    /// # Errors
    /// The error of `report_progress`, which ends the preview.
    pub fn preview(
        &self,
        events: &[Event],
        limit: usize,
        report_progress: impl Fn(u64) -> Result<()>,
    ) -> Result<Difference> {
        self.preview_changes(events, limit, report_progress)
            .map(|(difference, _)| difference)
    }

    /// Like [`Access::preview`], with the changes, by which [`Access::shares`] finds who gains and
    /// loses what. There are none for events that only enable identities, whose preview is that of
    /// the opposite change.
    ///
    /// # Errors
    /// Those of [`Access::preview`].
    pub fn preview_changes(
        &self,
        events: &[Event],
        limit: usize,
        report_progress: impl Fn(u64) -> Result<()>,
    ) -> Result<(Difference, PreviewedChanges)> {
        let (delta, enabled) = (self.updates(events), self.identity_switches(events, false));
        // The engine holds disabled identities like others. Nothing else changes with an identity
        // that is enabled.
        if delta.is_empty() && !enabled.is_empty() {
            let opposite = self.difference(&enabled, limit, report_progress);
            return opposite
                .map(|(difference, _)| (difference.reversed(), PreviewedChanges::default()));
        }
        self.difference(&delta, limit, report_progress)
    }

    /// Who gains and who loses each of the services and routers that a preview of these changes
    /// lists, with at most `limit` ids in each list.
    pub fn shares(
        &self,
        changes: &PreviewedChanges,
        difference: &Difference,
        limit: usize,
    ) -> Vec<AccessShare> {
        if changes.len() == 0 {
            return Vec::new();
        }
        // Others are let in between: each service costs the union of all that its policies name.
        let at_a_time = AT_A_TIME.max(changes.len());
        listed_objects(difference)
            .chunks(at_a_time)
            .flat_map(|some| self.ask_fairly(|engine| engine.shares(changes, some, limit)))
            .collect()
    }

    /// The updates that events make. An identity that they disable counts as deleted.
    fn updates(&self, events: &[Event]) -> Vec<Delta> {
        events
            .iter()
            .filter_map(delta)
            .chain(self.identity_switches(events, true))
            .collect()
    }

    /// The deletions of the identities that events disable, or enable.
    fn identity_switches(&self, events: &[Event], is: bool) -> Vec<Delta> {
        let now = self.clock.now();
        events
            .iter()
            .filter(|event| becomes_disabled(event, now) == Some(is))
            .map(without_identity)
            .collect()
    }

    /// The difference that updates of the engine would make, as in [`Access::preview`].
    fn difference(
        &self,
        delta: &[Delta],
        limit: usize,
        report_progress: impl Fn(u64) -> Result<()>,
    ) -> Result<(Difference, PreviewedChanges)> {
        let delta = in_order(delta);
        for _ in 0..MAX_RESTARTS {
            let mut preview = self.ask(|engine| Preview::new(engine, &delta));
            loop {
                report_progress(preview.remaining())?;
                match self.ask_fairly(|engine| preview.step(engine, limit)) {
                    Step::Running => {}
                    Step::Done(difference) => return Ok((*difference, preview.into_changes())),
                    Step::Stale => break,
                }
            }
        }
        Ok(self.ask(|engine| engine.preview_changes(&delta, limit)))
    }

    /// The violations of each assertion with these events applied, in the order of the assertions,
    /// with at most `limit` pairs each. The lock is released between steps.
    pub fn violations(
        &self,
        events: &[Event],
        assertions: &[Assertion],
        limit: usize,
    ) -> Vec<AssertionViolation> {
        let delta: Vec<Delta> = events.iter().filter_map(delta).collect();
        let delta = in_order(&delta);
        let evaluate = |assertions: &[Assertion]| -> Vec<AssertionViolation> {
            self.ask_fairly(|engine| {
                let what_if = engine.as_if(&delta);
                assertions
                    .iter()
                    .map(|assertion| assertion.violation(what_if.engine(), limit))
                    .collect()
            })
        };
        assertions
            .chunks(ASSERTIONS_PER_STEP)
            .flat_map(evaluate)
            .collect()
    }

    fn on_commit(&self, store: &Reader, events: &[Event]) {
        let now = millis(self.clock.now());
        for event in events {
            let touched = subjects_changed_by(store, event);
            self.ask(|engine| {
                if let Some(delta) = delta(event) {
                    engine.apply(&delta, now);
                }
                for (subject, id) in touched {
                    match subject {
                        PolicyEntityKind::Service => engine.service_changed(&id, now),
                        PolicyEntityKind::PostureCheck => engine.posture_check_changed(&id, now),
                        _ => engine.identity_changed(&id, now),
                    }
                }
            });
        }
    }
}

/// Milliseconds since 1970 for the engine; no timestamp of this program is earlier.
fn millis(at: Timestamp) -> u64 {
    u64::try_from(at.millis()).unwrap_or(0)
}

/// Whether an event disables an identity (`true`) or enables it (`false`); `None` if it does
/// neither.
fn becomes_disabled(event: &Event, now: Timestamp) -> Option<bool> {
    let (Some(old), Some(new)) = event.of::<Identity>()? else {
        return None;
    };
    let [was, is] = [old, new].map(|identity| identity.state.is_disabled(now));
    (was != is).then_some(is)
}

/// The update that takes everything from the identity of an event.
fn without_identity(event: &Event) -> Delta {
    Delta::Subject {
        kind: PolicyEntityKind::Identity,
        id: event.id.clone(),
        roles: None,
    }
}

/// The subjects whose change is visible although no right changes: a service or posture check, or a
/// single identity.
fn subjects_changed_by(store: &Reader, event: &Event) -> Vec<(PolicyEntityKind, String)> {
    if let Some((Some(_), Some(new))) = event.of::<Service>() {
        return vec![(PolicyEntityKind::Service, new.id.to_string())];
    }
    if let Some((Some(_), Some(new))) = event.of::<PostureCheck>() {
        return vec![(PolicyEntityKind::PostureCheck, new.id.to_string())];
    }
    if let Some((Some(old), Some(new))) = event.of::<Identity>() {
        let has_changed = old.state.service_configs != new.state.service_configs;
        return if has_changed {
            vec![(PolicyEntityKind::Identity, new.id.to_string())]
        } else {
            Vec::new()
        };
    }
    let Some((Some(_), Some(config))) = event.of::<Config>() else {
        return Vec::new();
    };
    let configured_in = |kind, field, subject: PolicyEntityKind| {
        let ids = store
            .read(|tx| entity::Lookup::ids(tx, kind, field, config.id.as_str()))
            .unwrap_or_default();
        ids.into_iter().map(move |id| (subject, id))
    };
    let services = configured_in(Service::KIND, "configs", PolicyEntityKind::Service);
    services
        .chain(configured_in(
            Identity::KIND,
            "serviceConfigConfigs",
            PolicyEntityKind::Identity,
        ))
        .collect()
}

/// The ids of kind `to` that policies connect with a record of kind `from`, in ascending order.
pub fn related(access: &Access, from: Kind, id: &str, to: Kind) -> Vec<String> {
    let (Some(from), Some(to)) = (engine_role(from.name), engine_role(to.name)) else {
        return Vec::new();
    };
    access.ask(|engine| {
        let named = match (from, to) {
            (EngineRole::Policy(kind), EngineRole::Subject(to)) => engine.members(kind, id, to),
            (EngineRole::Subject(from), EngineRole::Policy(kind)) => {
                engine.policies(kind, from, id)
            }
            (EngineRole::Subject(from), EngineRole::Subject(to)) => match between(from, to) {
                Some(kind) => engine.related(kind, from, id, to),
                None => return Vec::new(),
            },
            (EngineRole::Policy(_), EngineRole::Policy(_)) => return Vec::new(),
        };
        named.in_order().map(|(_, id)| id.to_string()).collect()
    })
}
