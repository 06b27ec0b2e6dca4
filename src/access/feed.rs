//! The engine kept in step with the store: filled at the start, then told of every committed change.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Engine, Policy, PolicyKind, Right, Semantic, Subject};
use crate::{
    clock::{Clock, Timestamp},
    entity::{
        self, Config, EdgeRouter, EdgeRouterPolicy, Entity, Identity, Kind, PolicyType, PostureCheck, Record, Roles, Service,
        ServiceEdgeRouterPolicy, ServicePolicy,
    },
    error::Result,
    store::{Event, Read, Store},
};

/// The engine behind its one short lock. Cheap to clone.
#[derive(Clone)]
pub struct Access {
    engine: Arc<Mutex<Engine>>,
    clock: Clock,
}

impl Access {
    /// An engine filled from a store and from then on told of what is committed there.
    ///
    /// # Errors
    /// The store cannot be read.
    ///
    /// Nothing may be written while this runs: what is committed between filling and listening would be missed.
    pub fn following(store: &Store, clock: Clock) -> Result<Self> {
        let access = Self { engine: Arc::default(), clock };
        store.read(|tx| access.ask(|engine| fill(engine, tx)))?;
        let (told, source) = (access.clone(), store.clone());
        store.subscribe(move |events| told.hear(&source, events));
        Ok(access)
    }

    /// What an identity sees changed by something that is stored nowhere: clients that poll for it read again.
    pub fn touch_identity(&self, id: &str) {
        let now = millis(self.clock.now());
        self.ask(|engine| engine.touch_identity(id, now));
    }

    /// Asks the engine. Others wait meanwhile, so that a question should be short.
    pub fn ask<T>(&self, question: impl FnOnce(&mut Engine) -> T) -> T {
        question(&mut self.engine.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn hear(&self, store: &Store, events: &[Event]) {
        let now = millis(self.clock.now());
        for event in events {
            let shown = shown_by(store, event);
            self.ask(|engine| {
                apply(engine, event, now);
                for (subject, id) in shown {
                    match subject {
                        Subject::Service => engine.touch_service(&id, now),
                        Subject::PostureCheck => engine.touch_posture_check(&id, now),
                        _ => engine.touch_identity(&id, now),
                    }
                }
            });
        }
    }
}

/// Milliseconds as the engine counts them; nothing of ours happens before 1970.
fn millis(at: Timestamp) -> u64 {
    u64::try_from(at.millis()).unwrap_or(0)
}

fn fill(engine: &mut Engine, tx: &Read<'_>) -> Result<()> {
    tx.each::<EdgeRouter>(|r| put(engine, Subject::EdgeRouter, &r, &r.spec.role_attributes, 0))?;
    tx.each::<Service>(|r| put(engine, Subject::Service, &r, &r.spec.role_attributes, 0))?;
    tx.each::<PostureCheck>(|r| put(engine, Subject::PostureCheck, &r, &r.spec.role_attributes, 0))?;
    tx.each::<Identity>(|r| put(engine, Subject::Identity, &r, &r.spec.role_attributes, 0))?;
    tx.each::<ServicePolicy>(|r| service_policy(engine, &r, 0))?;
    tx.each::<EdgeRouterPolicy>(|r| edge_router_policy(engine, &r, 0))?;
    tx.each::<ServiceEdgeRouterPolicy>(|r| service_edge_router_policy(engine, &r, 0))
}

/// What the engine learns from one change.
fn apply(engine: &mut Engine, event: &Event, now: u64) {
    tell::<EdgeRouter>(engine, event, now, Subject::EdgeRouter, |r| &r.spec.role_attributes);
    tell::<Identity>(engine, event, now, Subject::Identity, |r| &r.spec.role_attributes);
    tell::<Service>(engine, event, now, Subject::Service, |r| &r.spec.role_attributes);
    tell::<PostureCheck>(engine, event, now, Subject::PostureCheck, |r| &r.spec.role_attributes);
    policy::<ServicePolicy>(engine, event, now, PolicyKind::Service, service_policy);
    policy::<EdgeRouterPolicy>(engine, event, now, PolicyKind::EdgeRouter, edge_router_policy);
    policy::<ServiceEdgeRouterPolicy>(engine, event, now, PolicyKind::ServiceEdgeRouter, service_edge_router_policy);
}

fn put<E: Entity>(engine: &mut Engine, subject: Subject, record: &Record<E>, roles: &Roles, now: u64) -> Result<()> {
    engine.put_subject(subject, record.id.as_str(), &texts(roles), now);
    Ok(())
}

fn tell<E: Entity>(engine: &mut Engine, event: &Event, now: u64, of: Subject, roles: fn(&Record<E>) -> &Roles) {
    match event.of::<E>() {
        Some((old, Some(new))) if old.is_none_or(|old| roles(old) != roles(new)) => {
            engine.put_subject(of, new.id.as_str(), &texts(roles(new)), now);
        }
        Some((Some(old), None)) => {
            engine.remove_subject(of, old.id.as_str(), now);
        }
        _ => {}
    }
}

fn policy<E: Entity>(engine: &mut Engine, event: &Event, now: u64, kind: PolicyKind, put: fn(&mut Engine, &Record<E>, u64) -> Result<()>) {
    match event.of::<E>() {
        // Telling the engine cannot fail; the result is that of the filling loop, which shares the function.
        Some((_, Some(new))) => drop(put(engine, new, now)),
        Some((Some(old), None)) => drop(engine.remove_policy(kind, old.id.as_str(), now)),
        _ => {}
    }
}

fn texts(roles: &Roles) -> Vec<String> {
    roles.entries().iter().cloned().collect()
}

fn semantic(of: entity::Semantic) -> Semantic {
    match of {
        entity::Semantic::AllOf => Semantic::AllOf,
        entity::Semantic::AnyOf => Semantic::AnyOf,
    }
}

impl From<PolicyType> for Right {
    /// What a stored policy grants; none is `Invalid`.
    fn from(of: PolicyType) -> Self {
        if of == PolicyType::Bind { Self::Bind } else { Self::Dial }
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

fn service_policy(engine: &mut Engine, record: &Record<ServicePolicy>, now: u64) -> Result<()> {
    let spec = &record.spec;
    let right = Right::from(spec.policy_type);
    let (identities, services) = (texts(&spec.identity_roles), texts(&spec.service_roles));
    let policy = Policy::Service { right, identities: &identities, services: &services, posture_checks: &texts(&spec.posture_check_roles) };
    engine.put_policy(record.id.as_str(), semantic(spec.semantic), policy, now);
    Ok(())
}

fn edge_router_policy(engine: &mut Engine, record: &Record<EdgeRouterPolicy>, now: u64) -> Result<()> {
    let spec = &record.spec;
    let policy = Policy::EdgeRouter { identities: &texts(&spec.identity_roles), edge_routers: &texts(&spec.edge_router_roles) };
    engine.put_policy(record.id.as_str(), semantic(spec.semantic), policy, now);
    Ok(())
}

fn service_edge_router_policy(engine: &mut Engine, record: &Record<ServiceEdgeRouterPolicy>, now: u64) -> Result<()> {
    let spec = &record.spec;
    let policy = Policy::ServiceEdgeRouter { services: &texts(&spec.service_roles), edge_routers: &texts(&spec.edge_router_roles) };
    engine.put_policy(record.id.as_str(), semantic(spec.semantic), policy, now);
    Ok(())
}

/// Whose view a change alters although no right does: that of a service or a posture check that is seen, or of one identity.
fn shown_by(store: &Store, event: &Event) -> Vec<(Subject, String)> {
    if let Some((Some(_), Some(new))) = event.of::<Service>() {
        return vec![(Subject::Service, new.id.to_string())];
    }
    if let Some((Some(_), Some(new))) = event.of::<PostureCheck>() {
        return vec![(Subject::PostureCheck, new.id.to_string())];
    }
    if let Some((Some(old), Some(new))) = event.of::<Identity>() {
        let moved = old.state.service_configs != new.state.service_configs;
        return if moved { vec![(Subject::Identity, new.id.to_string())] } else { Vec::new() };
    }
    let Some((Some(_), Some(config))) = event.of::<Config>() else { return Vec::new() };
    let naming = |kind, field, subject: Subject| {
        let ids = store.read(|tx| entity::Facts::ids(tx, kind, field, config.id.as_str())).unwrap_or_default();
        ids.into_iter().map(move |id| (subject, id))
    };
    let services = naming(Service::KIND, "configs", Subject::Service);
    services.chain(naming(Identity::KIND, "serviceConfigConfigs", Subject::Identity)).collect()
}

/// Ids of one kind that policies bring together with a record of another, ascending.
pub fn related(access: &Access, from: Kind, id: &str, to: Kind) -> Vec<String> {
    let (Some(from), Some(to)) = (side(from), side(to)) else { return Vec::new() };
    access.ask(|engine| {
        let named = match (from, to) {
            (Side::Policy(kind), Side::Subject(to)) => engine.members(kind, id, to),
            (Side::Subject(from), Side::Policy(kind)) => engine.policies(kind, from, id),
            (Side::Subject(from), Side::Subject(to)) => match between(from, to) {
                Some(kind) => engine.related(kind, from, id, to),
                None => return Vec::new(),
            },
            (Side::Policy(_), Side::Policy(_)) => return Vec::new(),
        };
        named.in_order().map(|(_, id)| id.to_string()).collect()
    })
}

enum Side {
    Subject(Subject),
    Policy(PolicyKind),
}

/// What a kind is to the engine, if policies are about it.
pub fn subject(kind: Kind) -> Option<Subject> {
    let known = [
        (Identity::KIND, Subject::Identity),
        (Service::KIND, Subject::Service),
        (EdgeRouter::KIND, Subject::EdgeRouter),
        (PostureCheck::KIND, Subject::PostureCheck),
    ];
    known.into_iter().find(|(of, _)| *of == kind).map(|(_, subject)| subject)
}

fn side(kind: Kind) -> Option<Side> {
    let policy = [
        (ServicePolicy::KIND, PolicyKind::Service),
        (EdgeRouterPolicy::KIND, PolicyKind::EdgeRouter),
        (ServiceEdgeRouterPolicy::KIND, PolicyKind::ServiceEdgeRouter),
    ];
    subject(kind).map(Side::Subject).or_else(|| policy.into_iter().find(|(of, _)| *of == kind).map(|(_, policy)| Side::Policy(policy)))
}

/// The kind of policy that joins two kinds of subjects.
fn between(one: Subject, other: Subject) -> Option<PolicyKind> {
    use Subject::{EdgeRouter, Identity, Service};
    match (one, other) {
        (Identity, Service) | (Service, Identity) => Some(PolicyKind::Service),
        (Identity, EdgeRouter) | (EdgeRouter, Identity) => Some(PolicyKind::EdgeRouter),
        (Service, EdgeRouter) | (EdgeRouter, Service) => Some(PolicyKind::ServiceEdgeRouter),
        _ => None,
    }
}
