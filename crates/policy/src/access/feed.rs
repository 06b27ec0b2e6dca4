//! Keeps the engine in step with the store: it is filled at the start, then updated with every
//! committed change.

use std::{
    mem,
    sync::{Arc, mpsc::sync_channel},
    thread,
};

use model::{
    clock::{Clock, Timestamp},
    entity::{
        self, Config, EdgeRouter, EdgeRouterPolicy, Entity, Identity, Kind, PolicyType,
        PostureCheck, Record, Roles, Service, ServiceEdgeRouterPolicy, ServicePolicy,
    },
    error::{Error, Result},
};
use parking_lot::{Mutex, MutexGuard};
use store::{Event, OpenStore, Phase, Read, Reader};

use super::{
    AccessShare, Assertion, AssertionViolation, Delta, Difference, Engine, MatchRule, Policy,
    PolicyEntityKind, PolicyKind, Right,
    preview::{Preview, PreviewedChanges, Step, in_order},
    shares::{AT_A_TIME, asked},
};

/// How often a preview starts again if the engine changed meanwhile.
const MAX_RESTARTS: usize = 3;
/// The number of assertions that are evaluated before waiting threads get the lock.
const ASSERTIONS_PER_STEP: usize = 8;

/// While an engine is filled: the number of records per batch, and the number of batches that may
/// wait.
const BATCH: usize = 1024;
const MAX_WAITING_BATCHES: usize = 4;

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
        let (delta, enabled) = (self.taken(events), self.disabled(events, false));
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
        asked(difference)
            .chunks(at_a_time)
            .flat_map(|some| self.ask_fairly(|engine| engine.shares(changes, some, limit)))
            .collect()
    }

    /// The updates that events make. An identity that they disable counts as deleted.
    fn taken(&self, events: &[Event]) -> Vec<Delta> {
        events
            .iter()
            .filter_map(delta)
            .chain(self.disabled(events, true))
            .collect()
    }

    /// The deletions of the identities that events disable, or enable.
    fn disabled(&self, events: &[Event], is: bool) -> Vec<Delta> {
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

/// Fills an engine with the stored records. One thread reads while another updates the engine.
///
/// # Errors
/// The store cannot be read, or no thread can be started.
pub(super) fn fill(engine: &mut Engine, tx: &Read<'_>) -> Result<()> {
    let (sender, batches) = sync_channel::<Vec<Delta>>(MAX_WAITING_BATCHES);
    thread::scope(move |scope| {
        let apply = move || {
            for delta in batches.into_iter().flatten() {
                engine.apply(&delta, 0);
            }
        };
        let started = thread::Builder::new()
            .name("engine-fill".into())
            .spawn_scoped(scope, apply);
        started.map_err(|e| {
            Error::Internal(format!("cannot start a thread for the access engine: {e}"))
        })?;
        let mut batch = Vec::with_capacity(BATCH);
        // The receiver is only dropped after a panic, which the scope passes on.
        each_delta(tx, |delta| {
            batch.push(delta);
            if batch.len() == BATCH {
                drop(sender.send(mem::replace(&mut batch, Vec::with_capacity(BATCH))));
            }
        })?;
        drop(sender.send(batch));
        Ok(())
    })
}

/// Passes on everything that an engine needs as updates.
fn each_delta(tx: &Read<'_>, mut pass_on: impl FnMut(Delta)) -> Result<()> {
    let mut pass_on = |delta: Delta| {
        pass_on(delta);
        Ok(())
    };
    tx.each::<EdgeRouter>(|r| {
        pass_on(of_subject(
            PolicyEntityKind::EdgeRouter,
            &r,
            &r.spec.role_attributes,
        ))
    })?;
    tx.each::<Service>(|r| {
        pass_on(of_subject(
            PolicyEntityKind::Service,
            &r,
            &r.spec.role_attributes,
        ))
    })?;
    tx.each::<PostureCheck>(|r| {
        pass_on(of_subject(
            PolicyEntityKind::PostureCheck,
            &r,
            &r.spec.role_attributes,
        ))
    })?;
    tx.each::<Identity>(|r| {
        pass_on(of_subject(
            PolicyEntityKind::Identity,
            &r,
            &r.spec.role_attributes,
        ))
    })?;
    tx.each::<ServicePolicy>(|r| pass_on(of_policy(&r, service_policy)))?;
    tx.each::<EdgeRouterPolicy>(|r| pass_on(of_policy(&r, edge_router_policy)))?;
    tx.each::<ServiceEdgeRouterPolicy>(|r| pass_on(of_policy(&r, service_edge_router_policy)))
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
    Delta::PolicyEntityKind {
        subject: PolicyEntityKind::Identity,
        id: event.id.clone(),
        roles: None,
    }
}

/// The update of the engine for one event, if there is one.
fn delta(event: &Event) -> Option<Delta> {
    subject_delta::<EdgeRouter>(event, PolicyEntityKind::EdgeRouter, |r| {
        &r.spec.role_attributes
    })
    .or_else(|| {
        subject_delta::<Identity>(event, PolicyEntityKind::Identity, |r| {
            &r.spec.role_attributes
        })
    })
    .or_else(|| {
        subject_delta::<Service>(event, PolicyEntityKind::Service, |r| {
            &r.spec.role_attributes
        })
    })
    .or_else(|| {
        subject_delta::<PostureCheck>(event, PolicyEntityKind::PostureCheck, |r| {
            &r.spec.role_attributes
        })
    })
    .or_else(|| policy_delta::<ServicePolicy>(event, PolicyKind::Service, service_policy))
    .or_else(|| policy_delta::<EdgeRouterPolicy>(event, PolicyKind::EdgeRouter, edge_router_policy))
    .or_else(|| {
        policy_delta::<ServiceEdgeRouterPolicy>(
            event,
            PolicyKind::ServiceEdgeRouter,
            service_edge_router_policy,
        )
    })
}

fn subject_delta<E: Entity>(
    event: &Event,
    subject: PolicyEntityKind,
    roles: fn(&Record<E>) -> &Roles,
) -> Option<Delta> {
    match event.of::<E>()? {
        (old, Some(new)) if old.is_none_or(|old| roles(old) != roles(new)) => {
            Some(of_subject(subject, new, roles(new)))
        }
        (Some(old), None) => Some(Delta::PolicyEntityKind {
            subject,
            id: old.id.to_string(),
            roles: None,
        }),
        _ => None,
    }
}

fn policy_delta<E: Entity>(
    event: &Event,
    kind: PolicyKind,
    policy_of: fn(&Record<E>) -> Policy,
) -> Option<Delta> {
    match event.of::<E>()? {
        (old, Some(new)) if old.is_none_or(|old| policy_of(old) != policy_of(new)) => {
            Some(of_policy(new, policy_of))
        }
        (Some(old), None) => Some(Delta::Policy {
            kind,
            id: old.id.to_string(),
            policy: None,
        }),
        _ => None,
    }
}

fn of_subject<E: Entity>(subject: PolicyEntityKind, record: &Record<E>, roles: &Roles) -> Delta {
    Delta::PolicyEntityKind {
        subject,
        id: record.id.to_string(),
        roles: Some(texts(roles)),
    }
}

fn of_policy<E: Entity>(record: &Record<E>, policy_of: fn(&Record<E>) -> Policy) -> Delta {
    let policy = policy_of(record);
    Delta::Policy {
        kind: policy.kind,
        id: record.id.to_string(),
        policy: Some(policy),
    }
}

pub(super) fn texts(roles: &Roles) -> Vec<String> {
    roles.entries().iter().cloned().collect()
}

impl From<entity::Semantic> for MatchRule {
    fn from(of: entity::Semantic) -> Self {
        match of {
            entity::Semantic::AllOf => Self::AllOf,
            entity::Semantic::AnyOf => Self::AnyOf,
        }
    }
}

impl From<PolicyType> for Right {
    /// The right that a stored policy grants; a stored policy never has type `Invalid`.
    fn from(of: PolicyType) -> Self {
        if of == PolicyType::Bind {
            Self::Bind
        } else {
            Self::Dial
        }
    }
}

impl From<Right> for PolicyType {
    fn from(right: Right) -> Self {
        match right {
            Right::Dial => Self::Dial,
            Right::Bind => Self::Bind,
        }
    }
}

fn service_policy(record: &Record<ServicePolicy>) -> Policy {
    let spec = &record.spec;
    let [identities, services, checks] = [
        &spec.identity_roles,
        &spec.service_roles,
        &spec.posture_check_roles,
    ]
    .map(texts);
    Policy::service(
        Right::from(spec.policy_type),
        spec.semantic.into(),
        identities,
        services,
        checks,
    )
}

fn edge_router_policy(record: &Record<EdgeRouterPolicy>) -> Policy {
    let spec = &record.spec;
    Policy::edge_router(
        spec.semantic.into(),
        texts(&spec.identity_roles),
        texts(&spec.edge_router_roles),
    )
}

fn service_edge_router_policy(record: &Record<ServiceEdgeRouterPolicy>) -> Policy {
    let spec = &record.spec;
    Policy::service_edge_router(
        spec.semantic.into(),
        texts(&spec.service_roles),
        texts(&spec.edge_router_roles),
    )
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
            (EngineRole::Policy(kind), EngineRole::PolicyEntityKind(to)) => {
                engine.members(kind, id, to)
            }
            (EngineRole::PolicyEntityKind(from), EngineRole::Policy(kind)) => {
                engine.policies(kind, from, id)
            }
            (EngineRole::PolicyEntityKind(from), EngineRole::PolicyEntityKind(to)) => {
                match between(from, to) {
                    Some(kind) => engine.related(kind, from, id, to),
                    None => return Vec::new(),
                }
            }
            (EngineRole::Policy(_), EngineRole::Policy(_)) => return Vec::new(),
        };
        named.in_order().map(|(_, id)| id.to_string()).collect()
    })
}

/// The role of a kind in the engine.
#[derive(Clone, Copy)]
pub(super) enum EngineRole {
    Policy(PolicyKind),
    PolicyEntityKind(PolicyEntityKind),
}

/// The kinds of subjects and of policies.
pub(super) const ENGINE_ROLES: [(Kind, EngineRole); 7] = [
    (
        Identity::KIND,
        EngineRole::PolicyEntityKind(PolicyEntityKind::Identity),
    ),
    (
        Service::KIND,
        EngineRole::PolicyEntityKind(PolicyEntityKind::Service),
    ),
    (
        EdgeRouter::KIND,
        EngineRole::PolicyEntityKind(PolicyEntityKind::EdgeRouter),
    ),
    (
        PostureCheck::KIND,
        EngineRole::PolicyEntityKind(PolicyEntityKind::PostureCheck),
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
    if let EngineRole::PolicyEntityKind(subject) = engine_role(kind)? {
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
fn between(one: PolicyEntityKind, other: PolicyEntityKind) -> Option<PolicyKind> {
    use PolicyEntityKind::{EdgeRouter, Identity, Service};
    match (one, other) {
        (Identity, Service) | (Service, Identity) => Some(PolicyKind::Service),
        (Identity, EdgeRouter) | (EdgeRouter, Identity) => Some(PolicyKind::EdgeRouter),
        (Service, EdgeRouter) | (EdgeRouter, Service) => Some(PolicyKind::ServiceEdgeRouter),
        _ => None,
    }
}
